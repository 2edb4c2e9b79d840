"""Row groups of which nothing is wanted are not read; no row that is wanted gets lost."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.expressions import Condition, Expression, Shape, comparing
from skewless.expressions.apply import Apply
from skewless.expressions.logic import And, Or
from skewless.expressions.tree import Column, constant
from skewless.files import parquet_reading
from skewless.files.pruning import can_hold
from skewless.files.reading import FileFormat
from skewless.files.splits import Split
from skewless.state.files import Folder
from tests.strategies import examples

INT, TIME, DAY = pa.int64(), pa.timestamp("us", "UTC"), pa.date32()
KERNELS = (
    comparing.equal, comparing.less, comparing.less_equal,
    comparing.greater, comparing.greater_equal,
)  # fmt: skip


def compared(kernel: Any, number: int, value: Any, type: pa.DataType = INT) -> Expression:
    return Apply(pa.bool_(), kernel, (Column(type, number), constant(value, type)))


@st.composite
def comparisons(draw: st.DrawFn) -> Expression:
    """Of one of two columns, on either side."""
    column = Column(INT, draw(st.integers(0, 1)))
    value = constant(draw(st.none() | st.integers(-4, 4)), INT)
    pair = draw(st.permutations([column, value]))
    return Apply(pa.bool_(), draw(st.sampled_from(KERNELS)), tuple(pair))


def both(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    pairs = st.tuples(inner, inner)
    return pairs.map(lambda p: And(pa.bool_(), *p)) | pairs.map(lambda p: Or(pa.bool_(), *p))


CONDITIONS = st.recursive(comparisons(), both, max_leaves=4)
VALUES = st.none() | st.integers(-4, 4)
ROWS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6)


@examples(500)
@given(ROWS, CONDITIONS)
def test_what_is_left_out_has_no_row(rows: list[tuple[Any, Any]], condition: Expression) -> None:
    columns = {i: pa.array([row[i] for row in rows], INT) for i in range(2)}
    ranges = {}
    for i, column in columns.items():
        known = [value for value in column.to_pylist() if value is not None]
        if known:
            ranges[i] = min(known), max(known)
    if not can_hold(condition, ranges):
        assert not Condition("", condition).matching(columns, len(rows)).any()


def test_it_does_leave_out() -> None:
    less, greater = comparing.less, comparing.greater
    ranges = {0: (5, 9), 1: (0, 0)}
    assert not can_hold(compared(less, 0, 5), ranges)
    assert can_hold(compared(less, 0, 6), ranges)
    assert not can_hold(compared(greater, 1, 0), ranges)
    assert not can_hold(And(pa.bool_(), compared(less, 0, 7), compared(greater, 1, 3)), ranges)
    assert can_hold(Or(pa.bool_(), compared(less, 0, 7), compared(greater, 1, 3)), ranges)
    assert can_hold(compared(less, 2, 7), ranges), "nothing is known of that column"


def test_what_may_fail_is_asked() -> None:
    fails = Apply(pa.bool_(), comparing.less, (Column(INT, 0), constant(0, INT)), fails=True)
    assert can_hold(fails, {0: (5, 9)})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three row groups: numbers, times, days and floats, each greater than those before."""
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "k": pa.array(range(30), INT),
            "at": pa.array([start + dt.timedelta(hours=i) for i in range(30)], TIME),
            "day": pa.array([start.date() + dt.timedelta(days=i) for i in range(30)], DAY),
            "x": pa.array([float("nan") if i == 4 else float(i) for i in range(30)]),
        }
    )
    folder = tmp_path / "part=7"
    folder.mkdir()
    pq.write_table(rows, folder / "a.parquet", row_group_size=10)
    return folder / "a.parquet"


WANTED = {
    "number": (compared(comparing.greater_equal, 0, 20), [2]),
    "time": (compared(comparing.less, 1, dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC), TIME), [0]),
    "day": (compared(comparing.equal, 2, dt.date(2024, 1, 15), DAY), [1]),
    "folder": (compared(comparing.equal, 4, 8), []),
    "folder and number": (
        And(pa.bool_(), compared(comparing.equal, 4, 7), compared(comparing.less, 0, 3)), [0]
    ),
    "NaN": (compared(comparing.greater, 3, 25.0, pa.float64()), [0, 1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", WANTED)
def test_groups_that_are_read(file: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    condition, groups = WANTED[name]
    schema = pq.read_schema(file).append(pa.field("part", INT))
    format = FileFormat("parquet", schema, base=str(file.parents[1]))
    split = Split(f"file:{file}", file.stat().st_size, 0, file.stat().st_size)
    asked: list[int] = []
    batches = parquet_reading._batches

    def noted(file: Any, groups: Any, wanted: Any, *, far: bool) -> Any:
        asked.extend(groups)
        return batches(file, groups, wanted, far=far)

    monkeypatch.setattr(parquet_reading, "_batches", noted)
    keep = Shape.keeping(schema, Condition("", condition))
    found = [keep(b) for b in format.read(split, Folder("/"), range(5), condition)]
    assert asked == groups
    monkeypatch.undo()
    every = [keep(b) for b in format.read(split, Folder("/"), range(5))]
    ours, theirs = (pa.Table.from_batches(some, schema)["k"] for some in (found, every))
    assert ours.to_pylist() == theirs.to_pylist()
