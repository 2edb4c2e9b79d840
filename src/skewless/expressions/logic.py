"""What does not evaluate all of its parts for all rows, or gives a value for nulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from .comparing import equal, greater, less
from .tree import Condition, Datum, Expression, Rows, as_array, constant, lazily


def is_scalar(datum: Datum, value: bool) -> bool:
    return isinstance(datum, pa.Scalar) and datum.as_py() is value


@dataclass(frozen=True)
class And(Expression):
    """False if one is; the right side is evaluated where the left is not false."""

    left: Expression
    right: Expression

    def evaluate(self, rows: Rows) -> Datum:
        left = self.left.evaluate(rows)
        if is_scalar(left, False):
            return left
        right = lazily(self.right, rows, pc.fill_null(left, True))
        return pc.and_kleene(left, right)


@dataclass(frozen=True)
class Or(Expression):
    """True if one is; the right side is evaluated where the left is not true."""

    left: Expression
    right: Expression

    def evaluate(self, rows: Rows) -> Datum:
        left = self.left.evaluate(rows)
        if is_scalar(left, True):
            return left
        right = lazily(self.right, rows, pc.invert(pc.fill_null(left, False)))
        return pc.or_kleene(left, right)


@dataclass(frozen=True)
class If(Expression):
    condition: Expression
    then: Expression
    otherwise: Expression

    def evaluate(self, rows: Rows) -> Datum:
        met = pc.fill_null(self.condition.evaluate(rows), False)
        if isinstance(met, pa.Scalar):
            return (self.then if met.as_py() else self.otherwise).evaluate(rows)
        then = lazily(self.then, rows, met)
        otherwise = lazily(self.otherwise, rows, pc.invert(met))
        return pc.if_else(met, then, otherwise)


@dataclass(frozen=True)
class Coalesce(Expression):
    """The first value that is not null; the later ones are evaluated where it is not found yet."""

    values: tuple[Expression, ...]

    def evaluate(self, rows: Rows) -> Datum:
        found = self.values[0].evaluate(rows)
        for value in self.values[1:]:
            if not (isinstance(found, pa.Scalar) or found.null_count):
                break
            if isinstance(found, pa.Scalar) and found.is_valid:
                break
            found = pc.coalesce(found, lazily(value, rows, pc.is_null(found)))
        return found


@dataclass(frozen=True)
class IsNull(Expression):
    value: Expression

    def evaluate(self, rows: Rows) -> Datum:
        return pc.is_null(self.value.evaluate(rows))


@dataclass(frozen=True)
class EqualNullSafe(Expression):
    """Null equals null, and nothing else."""

    left: Expression
    right: Expression

    def evaluate(self, rows: Rows) -> Datum:
        left, right = self.left.evaluate(rows), self.right.evaluate(rows)
        both = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(pc.fill_null(equal(left, right), False), both)


@dataclass(frozen=True)
class In(Expression):
    """True if an item is equal, else null if one is null; items are looked at in their order."""

    value: Expression
    items: tuple[Expression, ...]

    def evaluate(self, rows: Rows) -> Datum:
        value = self.value.evaluate(rows)
        found: Datum = pa.scalar(False)
        for item in self.items:
            open_ = pc.invert(pc.fill_null(found, False))
            if item.can_fail:
                open_ = pc.and_(open_, pc.is_valid(value))
            found = pc.or_kleene(found, equal(value, lazily(item, rows, open_)))
        return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))


@dataclass(frozen=True)
class InSet(Expression):
    """`In` for many constants of a type whose equal values are the same bytes."""

    value: Expression
    items: pa.Array
    has_null: bool
    heavy = True

    def evaluate(self, rows: Rows) -> Datum:
        value = self.value.evaluate(rows)
        found = pc.is_in(value, value_set=self.items)
        if self.has_null:
            found = pc.if_else(found, found, pa.scalar(None, pa.bool_()))
        return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InSet):
            return NotImplemented
        return (self.value, self.has_null) == (other.value, other.has_null) and self.items.equals(
            other.items
        )

    def __hash__(self) -> int:
        return hash((self.value, self.has_null, len(self.items)))


@dataclass(frozen=True)
class Extreme(Expression):
    """The greatest or least of the values that are not null, the first of equal ones."""

    values: tuple[Expression, ...]
    is_greatest: bool

    def evaluate(self, rows: Rows) -> Datum:
        best = as_array(self.values[0].evaluate(rows), rows.count)
        beats = greater if self.is_greatest else less
        for value in self.values[1:]:
            other = as_array(value.evaluate(rows), rows.count)
            # A null one wins over nothing; where `best` is null, any other does.
            better = pc.if_else(pc.is_null(best), pc.is_valid(other), beats(other, best))
            best = pc.if_else(pc.fill_null(better, False), other, best)
        return best


@dataclass(frozen=True)
class Field(Expression):
    """A field of a struct; null where the struct is."""

    struct: Expression
    index: int

    def evaluate(self, rows: Rows) -> Datum:
        return pc.struct_field(as_array(self.struct.evaluate(rows), rows.count), [self.index])


def all_of(conditions: Sequence[Condition]) -> Condition:
    """Conditions that must all hold; a later one that may fail is asked only where those before it
    do. Unlike in `And`, null rules a row out there: as with filters one after the other."""
    found = conditions[0]
    for condition in conditions[1:]:
        before = found.root
        if condition.root.can_fail:
            before = Coalesce(pa.bool_(), (before, constant(False, pa.bool_())))
        root = And(pa.bool_(), before, condition.root)
        found = Condition(f"({found.sql}) AND ({condition.sql})", root)
    return found
