"""The choice among several runs: times that are met again and again, keys that share a hash, rows
that are equal but for one column."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.columns import Columns
from skewless.arrays.runs import Run
from skewless.arrays.types import KeyColumn, SideSpec
from skewless.operators.asof import partners
from skewless.operators.asof.partners import NONE, Partners
from skewless.operators.asof.spec import DIRECTIONS, AsofSpec, Direction
from tests.strategies import examples

TIME = pa.timestamp("us")
SCHEMA = pa.schema([("k", pa.string()), ("t", TIME), ("n", pa.int64())])
SIDE = SideSpec(SCHEMA, (KeyColumn(0, pa.string()),), (), 1, 0)
HASHES = {"a": 5, "b": 5, "c": 9}  # two share one

Rows = list[tuple[str, int, int | None]]
ROWS = st.lists(
    st.tuples(st.sampled_from("aabc"), st.integers(0, 5), st.none() | st.integers(0, 2)),
    max_size=12,
)


def run_of(rows: Rows, floor: int, spread: bool) -> Run:
    """The rows as they lie in a segment, or by way of their numbers in one of another order."""
    in_order = sorted(range(len(rows)), key=lambda i: (HASHES[rows[i][0]], rows[i][1]))
    lying = range(len(rows)) if spread else in_order
    columns = Columns(pa.array([rows[i][c] for i in lying], SCHEMA.field(c).type) for c in range(3))
    hashes = np.array([HASHES[rows[i][0]] for i in in_order], np.uint64)
    times = np.array([rows[i][1] for i in in_order], np.int64)
    return Run(hashes, times, columns, floor, np.array(in_order, np.int64) if spread else None)


def row_at(run: Run, place: int) -> tuple[str, int, int | None]:
    index = run.indices(np.array([place]))
    key, time, n = (column.take(index) for column in run.columns)
    return key[0].as_py(), time.view(pa.int64())[0].as_py(), n[0].as_py()


def chosen_by_hand(
    spec: AsofSpec, tolerance: int, row: tuple[str, int, int | None], others: list[tuple[Rows, int]]
) -> tuple[str, int, int | None] | None:
    key, time, _ = row
    found = []
    for rows, floor in others:
        for other in rows:
            apart = other[1] - time
            way = {"backward": apart <= 0, "forward": apart >= 0, "nearest": True}[spec.direction]
            near = abs(apart) <= tolerance and (spec.exact or apart != 0)
            if other[0] == key and other[1] >= floor and way and near:
                found.append(other)
    return min(
        found,
        key=lambda o: (abs(o[1] - time), o[1], o[2] is None, -(o[2] or 0)),
        default=None,
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_partners(direction: Direction) -> None:
    @examples(60)
    @given(
        ROWS,
        st.lists(st.tuples(ROWS, st.integers(0, 3)), max_size=4),
        st.integers(0, 5),
        st.booleans(),
        st.booleans(),
        st.integers(1, 3),
    )
    def check(
        left: Rows, others: list[tuple[Rows, int]], tolerance: int, exact: bool, spread: bool,
        piece: int,
    ) -> None:  # fmt: skip
        spec = AsofSpec.of(SIDE, SIDE, direction, tolerance, (), exact=exact)
        rows, runs = run_of(left, 0, spread), [run_of(*other, spread) for other in others]
        with mock.patch.object(partners, "PAIRS_PER_CHUNK", piece):
            chosen = Partners(spec, runs).of(rows)
        for i, (number, place) in enumerate(zip(chosen.run, chosen.row, strict=True)):
            found = None if number == NONE else row_at(runs[number], int(place))
            assert found == chosen_by_hand(spec, tolerance, row_at(rows, i), others)

    check()
