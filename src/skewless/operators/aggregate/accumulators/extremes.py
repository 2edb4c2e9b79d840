"""The least and the largest value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.operators.aggregate.accumulators.base import Accumulator, Groups, State
from skewless.operators.aggregate.accumulators.reduce import counts_of, fold, without_nulls

ORDERED = "a column of numbers, strings, binary, dates, times or booleans"


def least_of(types: Sequence[pa.DataType]) -> Accumulator:
    return Extreme(False, _ordered(types[0]))


def largest_of(types: Sequence[pa.DataType]) -> Accumulator:
    return Extreme(True, _ordered(types[0]))


def _ordered(kind: pa.DataType) -> pa.DataType:
    if pt.is_nested(kind) or pt.is_null(kind) or pt.is_interval(kind):
        raise ValueError(ORDERED)
    return kind


@dataclass(frozen=True)
class Extreme(Accumulator):
    """The least value of a column or, if `largest`, the largest. As in Spark, NaN is larger than
    any other number, and nulls do not count."""

    largest: bool
    kind: pa.DataType

    @property
    def state(self) -> dict[str, pa.DataType]:  # type: ignore[override]
        return {"value": self.kind}

    @property
    def result(self) -> pa.DataType:
        return self.kind

    def init(self, groups: int) -> State:
        return [pa.nulls(groups, self.kind)]

    def update(self, state: State, groups: Groups, *columns: pa.Array) -> State:
        size = len(state[0])
        of_values, values = without_nulls(groups, columns[0])
        best = _extreme(of_values, values, size, largest=self.largest)
        if state[0].null_count == size:
            return [best]
        # The value so far is one more value of its group.
        twice, both = np.repeat(np.arange(size), 2), np.arange(2 * size).reshape(2, size).T.ravel()
        values = pa.concat_arrays([state[0], best]).take(pa.array(both))
        of_values, values = without_nulls(twice, values)
        return [_extreme(of_values, values, size, largest=self.largest)]

    def merge(self, state: State, groups: Groups, other: State) -> State:
        return self.update(state, groups, other[0])

    def finish(self, state: State) -> pa.Array:
        return state[0]


def _extreme(groups: Groups, column: pa.Array, size: int, *, largest: bool) -> pa.Array:
    """Per group its least or largest value; null where it has none."""
    if not (pt.is_integer(column.type) or pt.is_floating(column.type)):
        return column.take(_extreme_rows(groups, column, size, largest=largest))
    # fmin passes over NaN where there is another number, maximum takes it.
    folded = fold(np.maximum if largest else np.fmin, groups, column.to_numpy(), size)
    return pa.array(folded, column.type, mask=counts_of(groups, size) == 0)


def _extreme_rows(groups: Groups, column: pa.Array, size: int, *, largest: bool) -> pa.Array:
    """Per group the index of such a row. Values are compared by their ranks, so this works for all
    that Arrow can sort."""
    ranks = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64)
    row_of_rank = np.zeros(len(column) + 1, np.int64)
    row_of_rank[ranks] = np.arange(len(column))
    best = fold(np.maximum if largest else np.minimum, groups, ranks, size)  # ranks begin at 1
    return pa.array(row_of_rank[best], mask=best == 0)
