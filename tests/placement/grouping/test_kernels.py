"""Every compiled grouping does, tuple by tuple, what its plain reference does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.placement.grouping import (
    PKG,
    DAGreedy,
    Dalton,
    DChoices,
    Grouping,
    KeyGrouping,
    PdStream,
    ShuffleGrouping,
    WChoices,
    choices_needed,
)
from skewless.placement.grouping.hash_table import FREE, capacity_for, place_of, remove
from skewless.placement.grouping.heavy_keys import heavy_keys
from skewless.placement.grouping.least_loaded import add_member, least_loaded, least_member
from tests.placement.grouping import references as plain
from tests.placement.grouping.streams import INSTANCES, SEEDS, STREAMS, UInts, zipf_stream
from tests.strategies import examples

SMALL = {"threshold": 0.1, "counters": 4}
PAIRS = {
    "shuffle": (ShuffleGrouping(), plain.Shuffle, {}),
    "key": (KeyGrouping(), plain.ByKey, {}),
    "pkg": (PKG(), plain.TwoChoices, {}),
    "pdstream": (PdStream(), plain.Popularity, {}),
    "pdstream 0.99": (PdStream(expected=0.99), plain.Popularity, {"expected": 0.99}),
    "pdstream short": (PdStream(length_factor=1), plain.Popularity, {"factor": 1}),
    "pdstream before": (PdStream(count_arriving=False), plain.Popularity, {"itself": False}),
    "pdstream auto": (PdStream(expected="auto"), plain.AdaptivePopularity, {}),
    "wchoices": (WChoices(), plain.Anywhere, {}),
    "wchoices small": (WChoices(**SMALL), plain.Anywhere, SMALL),
    "dchoices": (DChoices(), plain.SomeChoices, {}),
    "dchoices small": (DChoices(**SMALL), plain.SomeChoices, SMALL),
    "dagreedy": (DAGreedy(), plain.Score, {}),
    "dagreedy small": (DAGreedy(**SMALL), plain.Score, SMALL),
    "dalton": (Dalton(), plain.Bandit, {}),
    "dalton small": (Dalton(**SMALL), plain.Bandit, SMALL),
}
every_pair = pytest.mark.parametrize(
    ("grouping", "reference", "options"), PAIRS.values(), ids=PAIRS.keys()
)


@every_pair
@examples(40)
@given(hashes=STREAMS, instances=INSTANCES, seed=SEEDS)
def test_kernel_is_its_reference(
    grouping: Grouping,
    reference: type[plain.Reference],
    options: dict[str, float],
    hashes: UInts,
    instances: int,
    seed: int,
) -> None:
    expected = reference(instances, seed, **options).assign(hashes.tolist())
    assert grouping.build(instances, seed).assign(hashes).tolist() == expected


@every_pair
@pytest.mark.parametrize(("exponent", "instances"), [(1.0, 16), (2.0, 9)])
def test_kernel_is_its_reference_at_length(
    grouping: Grouping,
    reference: type[plain.Reference],
    options: dict[str, float],
    exponent: float,
    instances: int,
) -> None:
    hashes = zipf_stream(3000, exponent, keys=400)
    expected = reference(instances, 3, **options).assign(hashes.tolist())
    assert grouping.build(instances, 3).assign(hashes).tolist() == expected


def test_choices_are_found_anew_in_time() -> None:
    hashes, refresh = zipf_stream(2000, 1.3), 100
    reference = plain.SomeChoices(20)
    reference.refresh = refresh
    targets = DChoices(refresh=refresh).build(20).assign(hashes).tolist()
    assert targets == reference.assign(hashes.tolist())
    assert 2 < reference.d < 20


@examples(100)
@given(
    shares=st.lists(st.floats(0.001, 0.3), max_size=12),
    instances=st.integers(1, 60),
    epsilon=st.sampled_from([1e-4, 1e-2]),
)
def test_choices_needed_are_those_of_the_inequality(
    shares: list[float], instances: int, epsilon: float
) -> None:
    shares = [share / max(1.0, sum(shares)) for share in shares]
    assert choices_needed(shares, instances, epsilon) == plain.choices(shares, instances, epsilon)


@examples(150)
@given(steps=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=200))
def test_table_is_a_dict(steps: list[tuple[int, bool]]) -> None:
    keys, rows = np.zeros(64, np.uint64), np.full(64, FREE, np.int64)
    expected: dict[int, int] = {}
    for number, (key, added) in enumerate(steps):
        # A few first places for many keys, so that they get in one another's way.
        word = np.uint64((key % 3 + 61 << 32) * pow(plain.GOLDEN, -1, 1 << 64) % (1 << 64))
        word = word if key < 3 else np.uint64(key)
        place = place_of(keys, rows, word)
        assert (rows[place] == FREE) == (int(word) not in expected)
        if added:
            keys[place], rows[place] = word, number
            expected[int(word)] = number
        elif rows[place] != FREE:
            remove(keys, rows, place)
            del expected[int(word)]
        for held, value in expected.items():
            assert rows[place_of(keys, rows, np.uint64(held))] == value
    assert np.sum(rows != FREE) == len(expected)


def test_capacities_leave_half_free() -> None:
    for keys in range(1, 100):
        assert capacity_for(keys) >= 2 * keys
        assert capacity_for(keys).bit_count() == 1


@examples(100)
@given(st.lists(st.integers(0, 5) | st.none(), max_size=80))
def test_marks_find_the_first_of_the_least(steps: list[int | None]) -> None:
    loads, mark = np.zeros(6, np.int64), np.zeros(2, np.int64)
    members, own, size = np.zeros(6, np.int32), np.zeros(2, np.int64), 0
    for step in steps:
        if step is not None:
            loads[step] += 1
        least = least_loaded(loads, mark)
        assert least == loads.tolist().index(min(loads))
        if step is None and least not in members[:size]:
            add_member(loads, members, size, own, least)
            size += 1
        if size:
            known = members[:size].tolist()
            assert least_member(loads, members, size, own) == min(known, key=lambda m: loads[m])


@examples(100)
@given(hashes=STREAMS, least=st.integers(1, 6), most=st.integers(1, 9))
def test_heavy_keys_are_exact(hashes: UInts, least: int, most: int) -> None:
    counts = plain.Counter(hashes.tolist())
    heavy = sorted((-count, key) for key, count in counts.items() if count >= least)[:most]
    keys, found = heavy_keys(hashes, least, most)
    assert list(zip((-found).tolist(), keys.tolist(), strict=True)) == heavy


def test_heavy_keys_are_exact_where_all_keys_are_counted() -> None:
    hashes = zipf_stream(60_000, 0.3, keys=20_000)
    keys, counts = heavy_keys(hashes, 1, 1 << 30)
    expected, expected_counts = np.unique(hashes, return_counts=True)
    order = np.argsort(keys)
    assert keys[order].tolist() == expected.tolist()
    assert counts[order].tolist() == expected_counts.tolist()
    assert (np.diff(counts) <= 0).all()
