"""Trees built by hand: laziness, nulls, columns that move. What the functions give is compared with
Spark's in tests/spark/test_catalyst.py."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from skewless.errors import ConditionError
from skewless.expressions import Condition, Expression, evaluate
from skewless.expressions.apply import Apply
from skewless.expressions.arithmetic import absolute, divide, subtract
from skewless.expressions.comparing import equal, greater, less
from skewless.expressions.logic import And, Coalesce, If, In, IsNull, Or
from skewless.expressions.tree import Column, Constant, constant

F64, BOOL, STRING = pa.float64(), pa.bool_(), pa.string()
A, B, KIND = Column(F64, 0), Column(F64, 1), Column(STRING, 2)
QUOTIENT = Apply(F64, divide, (A, B), (True,), fails=True, right_first=True, sql="a / b")


def compared(kernel: object, left: Expression, right: Expression) -> Apply:
    return Apply(BOOL, kernel, (left, right))  # type: ignore[arg-type]


ABOVE_ONE = compared(greater, QUOTIENT, constant(1.0, F64))
IS_ZERO = compared(equal, B, constant(0.0, F64))
COLUMNS = {
    0: pa.array([6.0, 1.0, None, 5.0]),
    1: pa.array([2.0, 0.0, 0.0, None]),
    2: pa.array(["test", "prod", None, "test"]),
}


def near(threshold: float) -> Expression:
    apart = Apply(F64, absolute, (Apply(F64, subtract, (A, B), (False,)),), (False,))
    return compared(less, apart, constant(threshold, F64))


def test_matching_counts_null_as_false() -> None:
    condition = Condition("near", Or(BOOL, near(4.5), IsNull(BOOL, KIND)))
    assert condition.columns() == {0, 1, 2}
    assert condition.matching(COLUMNS, 4).tolist() == [True, True, True, False]
    assert condition.matching({i: c[:0] for i, c in COLUMNS.items()}, 0).tolist() == []
    assert condition.matching({i: c[1:] for i, c in COLUMNS.items()}, 3).dtype == np.bool_


def test_constant_condition_holds_for_all_rows() -> None:
    assert Condition("true", constant(True, BOOL)).matching({}, 3).tolist() == [True] * 3
    assert Condition("null", constant(None, BOOL)).matching({}, 2).tolist() == [False] * 2


def test_division_by_zero_fails_and_says_where() -> None:
    with pytest.raises(ConditionError, match=r"division by zero in `a / b`"):
        evaluate(QUOTIENT, COLUMNS, 4)


@pytest.mark.parametrize(
    "guarded",
    [
        And(BOOL, Apply(BOOL, pa.compute.invert, (IS_ZERO,)), ABOVE_ONE),
        Or(BOOL, IS_ZERO, ABOVE_ONE),
        If(F64, IS_ZERO, A, QUOTIENT),
        Coalesce(BOOL, (compared(less, B, constant(1.0, F64)), ABOVE_ONE)),
        In(BOOL, B, (constant(0.0, F64), QUOTIENT)),
        compared(less, If(F64, IS_ZERO, constant(None, F64), B), QUOTIENT),
    ],
    ids=["and", "or", "if", "coalesce", "in", "null on the left"],
)
def test_what_is_ruled_out_is_not_evaluated(guarded: Expression) -> None:
    assert len(evaluate(guarded, COLUMNS, 4)) == 4


def test_columns_move_and_trees_are_values() -> None:
    condition = Condition("c", And(BOOL, near(1.0), IsNull(BOOL, KIND)))
    moved = condition.over({0: 5, 1: 3, 2: 9})
    assert moved.columns() == {3, 5, 9}
    assert moved.over({5: 0, 3: 1, 9: 2}) == condition
    assert pickle.loads(pickle.dumps(condition)) == condition
    assert hash(pickle.loads(pickle.dumps(condition))) == hash(condition)
    assert condition != Condition("c", And(BOOL, near(2.0), IsNull(BOOL, KIND)))
    columns = {5: COLUMNS[0], 3: COLUMNS[1], 9: COLUMNS[2]}
    assert moved.matching(columns, 4).tolist() == condition.matching(COLUMNS, 4).tolist()


def test_nan_is_greatest_and_equals_itself() -> None:
    nan, inf = float("nan"), float("inf")
    columns = {0: pa.array([nan, nan, inf, 0.0]), 1: pa.array([nan, inf, nan, -0.0])}
    assert evaluate(compared(equal, A, B), columns, 4).to_pylist() == [True, False, False, True]
    assert evaluate(compared(less, A, B), columns, 4).to_pylist() == [False, False, True, False]
    above = compared(greater, A, Constant(F64, pa.scalar(inf)))
    assert evaluate(above, columns, 4).to_pylist() == [True, True, False, False]
