"""Random trees against an interpreter that goes from row to row, as Spark does: the same values,
and a failure if and only if one of the rows fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import ConditionError
from skewless.expressions import Condition, Expression, evaluate, matching
from skewless.expressions.apply import Apply, Fails
from skewless.expressions.logic import (
    And,
    Coalesce,
    EqualNullSafe,
    Extreme,
    If,
    In,
    IsNull,
    Or,
    all_of,
)
from skewless.expressions.tree import Column, Datum, Rows, constant, folded
from skewless.expressions.vectors import any_valid, array_of, values_of

INT, BOOL = pa.int64(), pa.bool_()


class RowError(Exception):
    pass


def inverse(value: Datum) -> Datum:
    """Minus the value; of 0 there is none."""
    x = values_of(value)
    if any_valid(np.atleast_1d(x == 0), (value,)):
        raise Fails("nothing")
    return array_of(-x, INT, (value,))


def above(left: Datum, right: Datum) -> Datum:
    return pa.compute.greater(left, right)


@dataclass(frozen=True)
class Case:
    """A tree, and what it is in a row."""

    tree: Expression
    row: Any

    def at(self, values: tuple[int | None, ...]) -> Any:
        return self.row(values)


def column(number: int) -> Case:
    return Case(Column(INT, number), lambda v: v[number])


def const(value: int | None) -> Case:
    return Case(constant(value, INT), lambda v: value)


def inverted(case: Case, is_heavy: bool) -> Case:
    def row(v: Any) -> Any:
        x = case.at(v)
        if x == 0:
            raise RowError
        return None if x is None else -x

    tree = Apply(INT, inverse, (case.tree,), fails=True, heavy=is_heavy, sql="inverse")
    return Case(tree, row)


def compared(left: Case, right: Case, right_first: bool, is_heavy: bool) -> Case:
    def row(v: Any) -> Any:
        first, second = (right, left) if right_first else (left, right)
        a = first.at(v)
        b = None if a is None else second.at(v)
        if a is None or b is None:
            return None
        return b > a if right_first else a > b

    trees = (left.tree, right.tree)
    tree = Apply(BOOL, above, trees, heavy=is_heavy, right_first=right_first)
    return Case(tree, row)


def both(left: Case, right: Case) -> Case:
    def row(v: Any) -> Any:
        a = left.at(v)
        if a is False:
            return False
        b = right.at(v)
        return False if b is False else None if a is None or b is None else True

    return Case(And(BOOL, left.tree, right.tree), row)


def either(left: Case, right: Case) -> Case:
    def row(v: Any) -> Any:
        a = left.at(v)
        if a is True:
            return True
        b = right.at(v)
        return True if b is True else None if a is None or b is None else False

    return Case(Or(BOOL, left.tree, right.tree), row)


def chosen(condition: Case, then: Case, otherwise: Case) -> Case:
    tree = If(INT, condition.tree, then.tree, otherwise.tree)
    return Case(tree, lambda v: then.at(v) if condition.at(v) else otherwise.at(v))


def first_of(cases: list[Case]) -> Case:
    def row(v: Any) -> Any:
        return next((x for case in cases if (x := case.at(v)) is not None), None)

    return Case(Coalesce(INT, tuple(case.tree for case in cases)), row)


def is_in(value: Case, items: list[Case]) -> Case:
    def row(v: Any) -> Any:
        x, has_null = value.at(v), False
        if x is None:
            return None
        for item in items:
            y = item.at(v)
            if y == x:
                return True
            has_null |= y is None
        return None if has_null else False

    return Case(In(BOOL, value.tree, tuple(item.tree for item in items)), row)


def greatest(cases: list[Case]) -> Case:
    def row(v: Any) -> Any:
        return max((x for case in cases if (x := case.at(v)) is not None), default=None)

    return Case(Extreme(INT, tuple(case.tree for case in cases), True), row)


def same(left: Case, right: Case) -> Case:
    def row(v: Any) -> bool:
        a, b = left.at(v), right.at(v)
        return bool(a == b)

    return Case(EqualNullSafe(BOOL, left.tree, right.tree), row)


def numbers(depth: int) -> st.SearchStrategy[Case]:
    leaf = st.builds(column, st.integers(0, 2)) | st.builds(const, st.sampled_from([None, 0, 1, 2]))
    if depth == 0:
        return leaf
    inner, truth = numbers(depth - 1), truths(depth - 1)
    return st.one_of(
        leaf,
        st.builds(inverted, inner, st.booleans()),
        st.builds(chosen, truth, inner, inner),
        st.builds(first_of, st.lists(inner, min_size=1, max_size=3)),
        st.builds(greatest, st.lists(inner, min_size=1, max_size=3)),
    )


def truths(depth: int) -> st.SearchStrategy[Case]:
    inner = numbers(max(depth - 1, 0))
    leaf = st.builds(compared, inner, inner, st.booleans(), st.booleans())
    if depth == 0:
        return leaf
    truth = truths(depth - 1)
    return st.one_of(
        leaf,
        st.builds(both, truth, truth),
        st.builds(either, truth, truth),
        st.builds(is_in, inner, st.lists(inner, min_size=1, max_size=3)),
        st.builds(same, inner, inner),
        st.builds(lambda case: Case(IsNull(BOOL, case.tree), lambda v: case.at(v) is None), inner),
    )


def row_by_row(case: Case, rows: list[tuple[int | None, ...]]) -> list[Any] | None:
    """The values, or None if a row fails."""
    try:
        return [case.at(row) for row in rows]
    except RowError:
        return None


VALUE = st.sampled_from([None, 0, 1, -1, 2])


@settings(deadline=None)
@given(truths(3), st.lists(st.tuples(VALUE, VALUE, VALUE), max_size=12))
def test_trees_are_as_row_by_row(case: Case, rows: list[tuple[int | None, ...]]) -> None:
    columns = {i: pa.array([row[i] for row in rows], INT) for i in range(3)}
    expected = row_by_row(case, rows)
    for tree in (case.tree, folded(case.tree)):
        if expected is None:
            with pytest.raises(ConditionError, match="nothing in `inverse`"):
                evaluate(tree, columns, len(rows))
        else:
            assert evaluate(tree, columns, len(rows)).to_pylist() == expected
            flags = matching(tree, columns, len(rows)).tolist()
            assert flags == [value is True for value in expected]


def test_columns_are_taken_once_and_only_if_asked_for() -> None:
    rows = Rows({0: pa.array([1, 2, 3])}, 3).only(pa.array([True, False, True]))
    assert rows.count == 2
    assert rows.column(0).to_pylist() == [1, 3]
    assert rows.column(0) is rows.column(0)


def test_a_null_condition_rules_a_row_out_before_a_later_one_fails() -> None:
    first = Condition("a > 1", compared(column(0), const(1), False, False).tree)
    second = Condition(
        "1 / b > 0", compared(inverted(column(1), False), const(0), False, False).tree
    )
    columns = {0: pa.array([None, 2, 2], INT), 1: pa.array([0, -1, 1], INT)}
    assert all_of([first, second]).matching(columns, 3).tolist() == [False, True, False]
    with pytest.raises(ConditionError, match="nothing in `inverse`"):
        all_of([second, first]).matching(columns, 3)
