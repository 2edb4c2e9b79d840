"""Functions of values that are null if one of their arguments is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skewless.errors import ConditionError

from .tree import Datum, Expression, Rows, lazily


class Fails(Exception):  # noqa: N818  (says what a kernel does on a row)
    """Raised by a kernel for a value on which Spark stops the query."""


@dataclass(frozen=True)
class Apply(Expression):
    """A kernel over the values of the arguments. It sees no null scalar, and what it makes of a
    null in an array must be null.

    Later arguments are evaluated where the earlier ones are not null, as Spark does it.
    """

    kernel: Callable[..., Datum]
    arguments: tuple[Expression, ...]
    options: tuple[Any, ...] = ()
    fails: bool = False
    heavy: bool = False
    right_first: bool = False
    sql: str = ""

    def evaluate(self, rows: Rows) -> Datum:
        data = self._evaluated(rows)
        if any(isinstance(d, pa.Scalar) and not d.is_valid for d in data):
            return pa.scalar(None, self.type)
        is_constant = all(isinstance(d, pa.Scalar) for d in data)
        if is_constant:
            data = [pa.repeat(d, 1) for d in data]
        try:
            made = self.kernel(*data, *self.options)
        except (Fails, pa.ArrowInvalid) as error:
            if not self.fails:
                raise
            raise ConditionError(f"{error} in `{self.sql}`") from error
        return made[0] if is_constant else made

    def _evaluated(self, rows: Rows) -> list[Datum]:
        """The arguments' values, in their order."""
        done: list[Datum] = []
        in_turn = self.arguments[::-1] if self.right_first else self.arguments
        for argument in in_turn:
            done.append(
                lazily(argument, rows, all_valid(done))
                if argument.can_fail and any(map(has_nulls, done))
                else argument.evaluate(rows)
            )
        return done[::-1] if self.right_first else done


def has_nulls(datum: Datum) -> bool:
    return bool(datum.null_count) if isinstance(datum, pa.Array) else not datum.is_valid


def all_valid(data: list[Datum]) -> Datum:
    return reduce(pc.and_, (pc.is_valid(d) for d in data))
