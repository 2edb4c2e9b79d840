"""Pairs by ranges are the pairs by positions, whatever their columns are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.arrays import columns as columns_module
from skewless.arrays import pairs as pairs_module
from skewless.arrays.columns import Columns
from skewless.arrays.pairs import PairsAt, PairsInRanges, candidates, plain_values
from skewless.arrays.runs import Run

Pair = tuple[int, int]


def some_columns(count: int, nulls: bool) -> Columns:
    """A number, in columns of many types; each tells it."""
    values = [None if nulls and i % 3 == 0 else i for i in range(count)]
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    told = [None if v is None else str(v) for v in values]
    made = [
        pa.array(values, pa.int64()),
        pa.array(values, pa.int32()),
        pa.array(values, pa.int16()),
        pa.array(values, pa.float64()),
        pa.array(told),
        pa.array([v if v is None else v % 2 == 1 for v in values], pa.bool_()),
        pa.array([v if v is None else begin + timedelta(seconds=v) for v in values]),
        pa.array(values).cast(pa.decimal128(20, 0)),
    ]
    # Columns that begin in the midst of a buffer.
    return Columns([pa.concat_arrays([c[:0], c, c])[count:] if count else c for c in made])


@st.composite
def runs(draw: st.DrawFn) -> Run:
    count = draw(st.integers(1, 12))
    rows = None
    if draw(st.booleans()):
        rows = np.array(draw(st.permutations(range(count))), np.int64)
    zeros = np.zeros(count, np.int64)
    columns = some_columns(count, draw(st.booleans()))
    return Run(zeros.astype(np.uint64), zeros, columns, 0, rows)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Run, Run, np.ndarray, np.ndarray, np.ndarray | None]:
    prober, run = draw(runs()), draw(runs())
    asking = None
    if draw(st.booleans()):
        asking = np.array(draw(st.lists(st.integers(0, len(prober) - 1))), np.int64)
    count = len(prober) if asking is None else len(asking)
    ends = st.tuples(st.integers(0, len(run)), st.integers(0, len(run))).map(sorted)
    ranges = np.array([draw(ends) for _ in range(count)], np.int64).reshape(-1, 2)
    return prober, run, ranges[:, 0], ranges[:, 1], asking


def expected(first: np.ndarray, last: np.ndarray, asking: np.ndarray | None) -> list[Pair]:
    rows = range(len(first)) if asking is None else asking.tolist()
    return [(row, i) for row, a, b in zip(rows, first, last, strict=True) for i in range(a, b)]


@settings(deadline=None, max_examples=200)
@given(cases(), st.integers(1, 20), st.randoms())
def test_columns_and_pairs_are_those_of_the_ranges(case, most, random) -> None:
    prober, run, first, last, asking = case
    pairs = expected(first, last, asking)
    begin = 0
    for part in candidates(prober, run, (first, last), most, asking):
        mine = pairs[begin : begin + most]
        begin += len(part)
        assert 0 < len(part) == len(mine)
        at = part.by_position()
        assert list(zip(at.probes.tolist(), at.partners.tolist(), strict=True)) == mine
        for index in range(len(prober.columns)):
            assert part.probing(index).equals(at.probing(index))
            assert part.stored(index).equals(at.stored(index))
        flags = np.array([random.random() < 0.5 for _ in mine])
        kept = part.keep(flags)
        wanted = [pair for pair, yes in zip(mine, flags, strict=True) if yes]
        assert list(zip(kept.probes.tolist(), kept.partners.tolist(), strict=True)) == wanted
    assert begin == len(pairs)


def test_wide_rows_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = Columns([pa.array(["x" * 100] * 8)])
    zeros = np.zeros(8, np.int64)
    run = Run(zeros.astype(np.uint64), zeros, columns, 0)
    ranges = np.zeros(8, np.int64), np.full(8, 8)
    [whole] = candidates(run, run, ranges, 1000)
    assert isinstance(whole, PairsInRanges)
    for module in (columns_module, pairs_module):
        monkeypatch.setattr(module, "PIECE_BYTES", 1000)
    parts = list(candidates(run, run, ranges, 1000))
    assert len(parts) > 10 and sum(map(len, parts)) == 64
    joined = PairsAt.concat([part.by_position() for part in parts])
    assert joined.probes.tolist() == whole.by_position().probes.tolist()
    assert joined.partners.tolist() == whole.by_position().partners.tolist()


def test_only_values_of_a_fixed_width_without_nulls_are_plain() -> None:
    without, with_nulls = some_columns(6, False), some_columns(6, True)
    expected = [True, True, False, True, False, False, True, False]
    assert [plain_values(c) is not None for c in without] == expected
    assert all(plain_values(c) is None for c in with_nulls)
