"""Every kernel against a plain Python reference."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.counting import count_within, longest_runs
from skewless.arrays.hashing import mix_bytes, mix_words
from skewless.arrays.merging import expand_ranges, mark_matched, match_ranges
from skewless.arrays.sorting import BUCKET_BITS_MAX, INSERTION_MAX, sort_order
from skewless.arrays.types import FAR_US, HASH_MAX, Ints, UInts, frozen
from tests.strategies import examples

MASK = HASH_MAX
I64 = np.iinfo(np.int64)
HASHES = st.sampled_from([0, 1, 2, 1 << 62, 1 << 63, HASH_MAX - 1, HASH_MAX]) | st.integers(
    0, HASH_MAX
)


def uints(values: list[int]) -> UInts:
    return frozen(np.array(values, np.uint64))


def ints(values: list[int]) -> Ints:
    return frozen(np.array(values, np.int64))


def test_frozen_is_a_contiguous_view_that_cannot_be_written() -> None:
    whole = np.arange(10)
    view = frozen(whole)
    assert np.shares_memory(view, whole)
    assert whole.flags.writeable
    assert not view.flags.writeable
    assert frozen(whole[::2]).flags.c_contiguous


def mix(x: int) -> int:
    """The finaliser of splitmix64, in Python."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fold(h: int, word: int) -> int:
    return mix(((h * 0x9E3779B97F4A7C15) & MASK) ^ word)


def fold_bytes(h: int, text: bytes) -> int:
    h = mix(h ^ len(text))
    whole = len(text) // 8 * 8
    for begin in range(0, whole, 8):
        h = fold(h, int.from_bytes(text[begin : begin + 8], "little"))
    return fold(h, int.from_bytes(text[whole:], "little"))


@examples(100)
@given(st.lists(st.tuples(HASHES, HASHES), max_size=20))
def test_mix_words(rows: list[tuple[int, int]]) -> None:
    hashes = np.array([h for h, _ in rows], np.uint64)
    mix_words(hashes, uints([w for _, w in rows]))
    assert hashes.tolist() == [fold(h, w) for h, w in rows]


@examples(100)
@given(st.lists(st.tuples(HASHES, st.binary(max_size=40)), max_size=20))
def test_mix_bytes(rows: list[tuple[int, bytes]]) -> None:
    hashes = np.array([h for h, _ in rows], np.uint64)
    texts = [text for _, text in rows]
    data = b"before" + b"".join(texts)
    offsets = ints(np.cumsum([6, *map(len, texts)]).tolist())
    mix_bytes(hashes, offsets, frozen(np.frombuffer(data, np.uint8)))
    assert hashes.tolist() == [fold_bytes(h, text) for h, text in rows]


def test_hashes_stay_as_they_are_in_stored_segments() -> None:
    """They are written to checkpoints: a change would part old rows from their new partners."""
    hashes = np.zeros(3, np.uint64)
    mix_words(hashes, uints([0, 1, 2**64 - 1]))
    assert hashes.tolist() == [0, 6238072747940578789, 13029008266876403067]
    text = b"skewless"
    hashes = np.zeros(1, np.uint64)
    mix_bytes(hashes, ints([0, len(text)]), frozen(np.frombuffer(text, np.uint8)))
    assert hashes.tolist() == [fold_bytes(0, text)] == [2753869836135024633]


@pytest.mark.parametrize("before", [0, 1, HASH_MAX])
def test_mixing_one_word_is_a_bijection(before: int) -> None:
    rng = np.random.default_rng(7)
    some = rng.integers(0, HASH_MAX, 100_000, np.uint64, endpoint=True)
    words = np.unique(np.concatenate([np.arange(100_000, dtype=np.uint64), ~some, some]))
    hashes = np.full(len(words), before, np.uint64)
    mix_words(hashes, frozen(words))
    assert len(np.unique(hashes)) == len(words)


def test_hashes_of_neighbouring_keys_spread_evenly() -> None:
    rows, slots = 64_000, 64
    hashes = np.zeros(rows, np.uint64)
    mix_words(hashes, frozen(np.arange(rows, dtype=np.uint64)))
    counts = np.bincount((hashes >> np.uint64(58)).astype(np.int64), minlength=slots)
    five_sigma = 5 * (rows / slots) ** 0.5
    assert np.abs(counts - rows / slots).max() < five_sigma


def order_by_hand(hashes: UInts, times: Ints) -> list[int]:
    rows = list(zip(hashes.tolist(), times.tolist(), strict=True))
    return sorted(range(len(rows)), key=rows.__getitem__)


@examples(100)
@given(st.lists(st.tuples(HASHES, st.integers(-3, 3) | st.integers(I64.min, I64.max)), max_size=60))
def test_sort_order(rows: list[tuple[int, int]]) -> None:
    hashes, times = uints([h for h, _ in rows]), ints([t for _, t in rows])
    assert sort_order(hashes, times).tolist() == order_by_hand(hashes, times)


SIZES = [0, 1, 2, 7, 8, INSERTION_MAX, INSERTION_MAX + 1, 31, 32, 1000, 5000]


@pytest.mark.parametrize("hot", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("arrival", ["in order", "any order", "equal times"])
@pytest.mark.parametrize("rows", SIZES)
def test_sort_order_with_a_hot_key(rows: int, arrival: str, hot: float) -> None:
    """A hot key fills one bucket, beyond what is sorted by insertion."""
    rng = np.random.default_rng(rows)
    hashes = rng.integers(0, HASH_MAX, rows, np.uint64, endpoint=True)
    hashes[rng.random(rows) < hot] = np.uint64(HASH_MAX)
    times = {
        "in order": np.arange(rows),
        "any order": rng.integers(-5, 50, rows),
        "equal times": np.zeros(rows, np.int64),
    }[arrival]
    hashes, times = frozen(hashes), frozen(times)
    assert sort_order(hashes, times).tolist() == order_by_hand(hashes, times)


def test_sort_order_where_one_bucket_holds_many_keys() -> None:
    rng = np.random.default_rng(1)
    hashes = frozen(rng.integers(0, 7, 3000).astype(np.uint64))
    times = frozen(rng.integers(0, 7, 3000))
    assert sort_order(hashes, times).tolist() == order_by_hand(hashes, times)


@pytest.mark.slow
def test_sort_order_with_all_buckets_in_use() -> None:
    rows = 5 << BUCKET_BITS_MAX
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, HASH_MAX, rows, np.uint64, endpoint=True)
    hashes[: rows // 3] = hashes[0]
    times = rng.integers(0, 100, rows)
    assert np.array_equal(sort_order(frozen(hashes), frozen(times)), np.lexsort((times, hashes)))


FEW_HASHES = st.sampled_from([0, 5, 6, 7, HASH_MAX - 1, HASH_MAX])
RUNS = st.lists(st.tuples(FEW_HASHES, st.integers(-8, 8)), max_size=40).map(sorted)
FLOORS = st.integers(-9, 9) | st.just(-FAR_US)
BOUNDS = st.tuples(st.integers(-8, 8), st.integers(-8, 8)).map(sorted) | st.just([-FAR_US, FAR_US])

Rows = list[tuple[int, int]]


def matches_by_hand(probe: Rows, probe_floor: int, run: Rows, run_floor: int, bounds: list[int]):
    return [
        (i, j)
        for i, (h, t) in enumerate(probe)
        for j, (g, s) in enumerate(run)
        if h == g and t >= probe_floor and s >= run_floor and bounds[0] <= s - t <= bounds[1]
    ]


def found_matches(probe: Rows, probe_floor: int, run: Rows, run_floor: int, bounds: list[int]):
    first, last, pairs = match_ranges(
        uints([h for h, _ in probe]),
        ints([t for _, t in probe]),
        probe_floor,
        uints([h for h, _ in run]),
        ints([t for _, t in run]),
        run_floor,
        *bounds,
    )
    found = [(i, j) for i in range(len(probe)) for j in range(first[i], last[i])]
    assert pairs == len(found)
    return found


def marked(probe: Rows, probe_floor: int, run: Rows, run_floor: int, bounds: list[int]):
    """Which rows have a match, if every third is said to have one beforehand."""
    flags = np.arange(len(probe)) % 3 == 0
    mark_matched(
        uints([h for h, _ in probe]),
        ints([t for _, t in probe]),
        probe_floor,
        uints([h for h, _ in run]),
        ints([t for _, t in run]),
        run_floor,
        *bounds,
        flags,
    )
    return np.flatnonzero(flags).tolist()


def assert_matched(*arguments: Any) -> None:
    expected = matches_by_hand(*arguments)
    assert found_matches(*arguments) == expected
    assert marked(*arguments) == sorted(
        {i for i, _ in expected} | {*range(0, len(arguments[0]), 3)}
    )


@examples(300)
@given(RUNS, FLOORS, RUNS, FLOORS, BOUNDS)
def test_match_ranges(
    probe: Rows, probe_floor: int, run: Rows, run_floor: int, bounds: list[int]
) -> None:
    arguments = probe, probe_floor, run, run_floor, bounds
    assert_matched(*arguments)


@pytest.mark.slow
@examples(20_000)
@given(RUNS, FLOORS, RUNS, FLOORS, BOUNDS)
def test_match_ranges_at_length(
    probe: Rows, probe_floor: int, run: Rows, run_floor: int, bounds: list[int]
) -> None:
    arguments = probe, probe_floor, run, run_floor, bounds
    assert_matched(*arguments)


@pytest.mark.parametrize("keys", [1, 40, 400])
@pytest.mark.parametrize("sizes", [(3, 900), (900, 3), (300, 300)])
def test_match_ranges_over_long_leaps(keys: int, sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(keys)
    probe, run = (
        sorted(zip(rng.integers(0, keys, n).tolist(), rng.integers(0, 99, n).tolist(), strict=True))
        for n in sizes
    )
    arguments = probe, 10, run, 20, [-7, 5]
    assert_matched(*arguments)


RANGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), max_size=12)


@examples(200)
@given(RANGES, st.integers(1, 20))
def test_expand_ranges(ranges: list[tuple[int, int]], room: int) -> None:
    """Whatever the size of a chunk, all chunks together are all pairs, in order."""
    first, last = ints([b for b, _ in ranges]), ints([b + n for b, n in ranges])
    expected = [(row, b + k) for row, (b, n) in enumerate(ranges) for k in range(n)]
    row = skip = 0
    found: list[tuple[int, int]] = []
    while len(found) < len(expected):
        probes, runs, row, skip = expand_ranges(first, last, row, skip, room)
        assert len(probes) == len(runs) == min(room, len(expected) - len(found))
        found += zip(probes.tolist(), runs.tolist(), strict=True)
    assert found == expected


@examples(200)
@given(st.lists(st.sampled_from([0, 3, 5, HASH_MAX]), max_size=40).map(sorted), st.integers(1, 6))
def test_longest_runs(hashes: list[int], most: int) -> None:
    begins, lengths = longest_runs(uints(hashes), most)
    runs = [(value, len(list(equal))) for value, equal in groupby(hashes)]
    longest = sorted((n for _, n in runs), reverse=True)[:most]
    assert Counter(n for n in lengths.tolist() if n) == Counter(longest)
    for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True):
        if length:
            assert hashes.index(hashes[begin]) == begin
            assert hashes.count(hashes[begin]) == length


@examples(100)
@given(
    st.lists(st.floats(allow_nan=False), max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.floats(allow_nan=False))),
)
def test_count_within(values: list[float], ranges: list[tuple[int, int, float]]) -> None:
    ranges = [(min(a, len(values)), min(max(a, b), len(values)), limit) for a, b, limit in ranges]
    found = count_within(
        ints([a for a, _, _ in ranges]),
        ints([b for _, b, _ in ranges]),
        frozen(np.array(values, np.float64)),
        frozen(np.array([limit for *_, limit in ranges], np.float64)),
    )
    assert found == sum(v <= limit for a, b, limit in ranges for v in values[a:b])
