"""Expressions over the columns of a batch, as trees of frozen values that go to every task.

They mean what Spark's mean, to the letter: nulls, NaN, overflow, and which rows a part is evaluated
for at all, since a part may fail on a row (division by zero) that another part has ruled out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# A scalar stands for as many equal values as there are rows.
Datum: TypeAlias = pa.Array | pa.Scalar

FEW = 4  # A heavy part is evaluated for some rows only if at most every so-manieth needs it.


class Rows:
    """Columns by number, all with the same count of rows."""

    def __init__(self, columns: Mapping[int, pa.Array], count: int) -> None:
        self._columns = columns
        self.count = count

    def column(self, number: int) -> pa.Array:
        return self._columns[number]

    def only(self, needed: pa.BooleanArray) -> Rows:
        return _TakenRows(self, pa.array(np.flatnonzero(flags_of(needed))))


class _TakenRows(Rows):
    """Some rows of others; a column is taken when it is asked for."""

    def __init__(self, rows: Rows, indices: pa.Int64Array) -> None:
        super().__init__({}, len(indices))
        self._rows, self._indices = rows, indices
        self._taken: dict[int, pa.Array] = {}

    def column(self, number: int) -> pa.Array:
        if number not in self._taken:
            self._taken[number] = self._rows.column(number).take(self._indices)
        return self._taken[number]


@dataclass(frozen=True)
class Expression:
    """A part of a tree. What kinds there are is a matter of `evaluate` alone."""

    type: pa.DataType

    fails = False  # may raise an error of its own
    heavy = False  # costs so much that sorting out the rows that need it pays

    def evaluate(self, rows: Rows) -> Datum:
        raise AssertionError(f"{type(self).__name__} has no evaluate")

    @cached_property
    def parts(self) -> tuple[Expression, ...]:
        """The expressions right below this one."""
        found: list[Expression] = []
        for field in fields(self):
            value = getattr(self, field.name)
            values = value if isinstance(value, tuple) else (value,)
            found += [v for v in values if isinstance(v, Expression)]
        return tuple(found)

    @cached_property
    def can_fail(self) -> bool:
        return self.fails or any(part.can_fail for part in self.parts)

    @cached_property
    def is_heavy(self) -> bool:
        return self.heavy or any(part.is_heavy for part in self.parts)

    def columns(self) -> frozenset[int]:
        """The numbers of the columns that are used."""
        return frozenset().union(*(part.columns() for part in self.parts))

    def over(self, numbers: Mapping[int, int]) -> Self:
        """The same with columns that have other numbers."""
        changed: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Expression):
                changed[field.name] = value.over(numbers)
            elif isinstance(value, tuple) and any(isinstance(v, Expression) for v in value):
                changed[field.name] = tuple(v.over(numbers) for v in value)
        return replace(self, **changed)


@dataclass(frozen=True)
class Column(Expression):
    number: int

    def evaluate(self, rows: Rows) -> Datum:
        array = rows.column(self.number)
        return array if array.type == self.type else array.cast(self.type)

    def columns(self) -> frozenset[int]:
        return frozenset([self.number])

    def over(self, numbers: Mapping[int, int]) -> Self:
        return replace(self, number=numbers[self.number])


@dataclass(frozen=True)
class Constant(Expression):
    """One value for all rows."""

    value: pa.Scalar

    def evaluate(self, rows: Rows) -> Datum:
        return self.value

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrow pickles a scalar as a value of Python's, which has no year 10000.
        return _only_value, (pa.array([self.value], self.type),)


def _only_value(array: pa.Array) -> Constant:
    return Constant(array.type, array[0])


def constant(value: Any, type: pa.DataType) -> Constant:
    return Constant(type, pa.scalar(value, type))


def folded(expression: Expression) -> Expression:
    """A constant, if it is one; what fails on every row is left to fail when there is a row."""
    if expression.columns() or expression.can_fail or isinstance(expression, Constant):
        return expression
    value = evaluate(expression, {}, 1)
    return Constant(expression.type, value[0])


def flags_of(array: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Booleans without nulls, a byte each: several times as fast as Arrow does it."""
    bits = np.frombuffer(array.buffers()[1], np.uint8) if len(array) else np.empty(0, np.uint8)
    end = array.offset + len(array)
    return np.unpackbits(bits, bitorder="little", count=end)[array.offset :].view(np.bool_)


def as_array(datum: Datum, count: int) -> pa.Array:
    return datum if isinstance(datum, pa.Array) else pa.repeat(datum, count)


def lazily(expression: Expression, rows: Rows, needed: Datum) -> Datum:
    """The values of an expression in the rows that need them; in others there is any value.

    What can fail is evaluated there only. What is heavy is so if that saves something.
    """
    if not (expression.can_fail or expression.is_heavy):
        return expression.evaluate(rows)
    needed = as_array(needed, rows.count)
    count = needed.true_count
    if count == rows.count or (not expression.can_fail and count * FEW > rows.count):
        return expression.evaluate(rows)
    if count == 0:
        return pa.scalar(None, expression.type)
    part = expression.evaluate(rows.only(needed))
    if isinstance(part, pa.Scalar):
        return part
    return pc.replace_with_mask(pa.nulls(rows.count, expression.type), needed, part)


def evaluate(expression: Expression, columns: Mapping[int, pa.Array], rows: int) -> pa.Array:
    """The value of an expression in every row."""
    if rows == 0:  # A part that fails on every row has none to fail on.
        return pa.nulls(0, expression.type)
    return as_array(expression.evaluate(Rows(columns, rows)), rows)


def matching(
    expression: Expression, columns: Mapping[int, pa.Array], rows: int
) -> npt.NDArray[np.bool_]:
    """The rows in which a condition holds; null is not true."""
    met = evaluate(expression, columns, rows)
    if met.null_count:
        met = met.fill_null(False)
    return flags_of(met)


@dataclass(frozen=True)
class Condition:
    """A boolean expression over columns by number, and how Spark writes it."""

    sql: str
    root: Expression

    def columns(self) -> frozenset[int]:
        return self.root.columns()

    def over(self, numbers: Mapping[int, int]) -> Condition:
        """The same over columns that have moved: their new numbers by their old ones."""
        return Condition(self.sql, self.root.over(numbers))

    def matching(self, columns: Mapping[int, pa.Array], rows: int) -> npt.NDArray[np.bool_]:
        return matching(self.root, columns, rows)
