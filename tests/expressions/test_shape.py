"""Shapes: rows kept and columns made, and only what somebody needs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import ConditionError
from skewless.expressions import Condition, Shape
from skewless.expressions.apply import Apply, Fails
from skewless.expressions.shape import lean, shaped
from skewless.expressions.tree import Column, constant
from tests.strategies import examples

INT = pa.int64()
NAMES = ("a", "b", "c")
A, B, C = (Column(INT, i) for i in range(3))
Row = tuple[int | None, ...]


def plus(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.add(left, right)


def reciprocal(values: pa.Array) -> pa.Array:
    if pc.any(pc.equal(values, 0)).as_py():
        raise Fails("division by zero")
    return pc.divide(pa.scalar(1000, INT), values)


def above(column: Column, least: int) -> Condition:
    return Condition("", Apply(pa.bool_(), pc.greater, (column, constant(least, INT))))


def schema(count: int) -> pa.Schema:
    return pa.schema([(f"x{i}", INT) for i in range(count)])


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * 3
    return pa.record_batch([pa.array(list(c), INT) for c in columns], names=list(NAMES))


CHAIN = [
    Shape(schema(3), (C, Apply(INT, plus, (A, B)), A)),  # c, a + b, a
    Shape.keeping(schema(3), above(Column(INT, 1), 0)),  # where a + b > 0
    Shape(schema(2), (Column(INT, 1), Column(INT, 0)), above(Column(INT, 2), -5)),
]


def by_hand(rows: Sequence[Row]) -> list[Row]:
    """a + b and c, of the rows with a + b > 0 and a > -5."""
    kept = [(a, b, c) for a, b, c in rows if a is not None and b is not None]
    return [(a + b, c) for a, b, c in kept if a + b > 0 and a > -5]


VALUES = st.none() | st.integers(-10, 10)
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=8)


@examples(200)
@given(ROWS, st.sampled_from([(0, 1), (1, 0), (1,), (0,)]))
def test_some_columns_of_shapes_in_a_row(rows: list[Row], wanted: tuple[int, ...]) -> None:
    shapes, needed = lean(CHAIN, wanted)
    found = shaped(batch(rows).select(list(needed)), shapes)
    expected = [tuple(row[i] for i in wanted) for row in by_hand(rows)]
    assert [tuple(row.values()) for row in found.to_pylist()] == expected


def test_only_what_is_needed_is_asked_for() -> None:
    first, second = Shape.keeping(schema(3)), Shape(schema(1), (B,))
    assert lean([first, second], [0])[1] == (1,)
    assert lean(CHAIN, [1])[1] == (0, 1, 2)
    assert lean([Shape.keeping(schema(3), above(C, 0))], [0])[1] == (0, 2)
    constants = Shape(schema(1), (constant(1, INT),))
    assert lean([constants], [0])[1] == (0,), "of something the rows are counted"


def test_a_column_is_made_of_the_rows_that_are_kept() -> None:
    root = Apply(INT, reciprocal, (A,), fails=True, sql="1000 / a")
    rows = batch([(0, 1, 1), (10, 1, 1)])
    made = Shape(schema(1), (root,), above(A, 0))(rows)
    assert made.column(0).to_pylist() == [100]
    with pytest.raises(ConditionError, match="1000 / a"):
        Shape(schema(1), (root,))(rows)


def test_no_rows() -> None:
    assert shaped(batch([]), CHAIN).num_rows == 0
