"""Conditions on pairs, each said three times: to the product, in SQL and in plain Python. They are
about the last column of both sides, whole numbers and nulls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from skewless.expressions import Condition
from skewless.expressions.apply import Apply
from skewless.expressions.arithmetic import add
from skewless.expressions.comparing import equal, greater, less
from skewless.expressions.logic import And, IsNull, Or
from skewless.expressions.tree import Column, Datum, Expression, constant
from skewless.operators.pair_condition import PairCondition

Number = int | None


@dataclass(frozen=True)
class PairForm:
    """Of the numbers `x` of the left and `y` of the right row."""

    sql: str
    root: Expression
    holds: Callable[[Number, Number], bool]

    def spec(self, left: int, right: int) -> PairCondition:
        """As the product has it, where the columns are these."""
        return PairCondition(Condition(self.sql, self.root), (("left", left), ("right", right)))

    def duckdb(self, left: str, right: str) -> str:
        return self.sql.replace("x", left).replace("y", right)


X, Y = Column(pa.int64(), 0), Column(pa.int64(), 1)


def _asks(kernel: Callable[[Datum, Datum], Datum], *of: Expression) -> Expression:
    return Apply(pa.bool_(), kernel, of)


def _number(value: int) -> Expression:
    return constant(value, pa.int64())


_SUM = Apply(pa.int64(), partial(add, ansi=True), (X, Y), fails=True)

PAIR_FORMS = {
    form.sql: form
    for form in (
        PairForm(
            "x < y",
            _asks(less, X, Y),
            lambda x, y: x is not None and y is not None and x < y,
        ),
        PairForm(
            "x + y > 3",
            _asks(greater, _SUM, _number(3)),
            lambda x, y: x is not None and y is not None and x + y > 3,
        ),
        PairForm(
            "x IS NULL OR y = 2",
            Or(pa.bool_(), IsNull(pa.bool_(), X), _asks(equal, Y, _number(2))),
            lambda x, y: x is None or y == 2,
        ),
        PairForm("y = 1", _asks(equal, Y, _number(1)), lambda x, y: y == 1),
        PairForm(
            "x > 0 AND x < 0",
            And(pa.bool_(), _asks(greater, X, _number(0)), _asks(less, X, _number(0))),
            lambda x, y: False,
        ),
    )
}
