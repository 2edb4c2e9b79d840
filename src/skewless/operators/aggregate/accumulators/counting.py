"""Counts, sums, means and variances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from skewless.errors import DataError
from skewless.operators.aggregate.accumulators.base import Accumulator, Groups, State, Types
from skewless.operators.aggregate.accumulators.reduce import counts_of, fold, without_nulls

NUMBERS = "a numeric column"
LOW_BITS = 32


@dataclass(frozen=True)
class Count(Accumulator):
    """How many rows; given a column, how many of its values are not null."""

    state: ClassVar[Types] = {"rows": pa.int64()}
    result = pa.int64()

    def init(self, groups: int) -> State:
        return [pa.array(np.zeros(groups, np.int64))]

    def update(self, state: State, groups: Groups, *columns: pa.Array) -> State:
        if columns:
            groups, _ = without_nulls(groups, columns[0])
        return [_plus(state[0], counts_of(groups, len(state[0])))]

    def merge(self, state: State, groups: Groups, other: State) -> State:
        return _add_all(state, groups, other)

    def finish(self, state: State) -> pa.Array:
        return state[0]


def sum_of(types: Sequence[pa.DataType]) -> Accumulator:
    """The sum of a numeric column, null where all values are null: bigint for integers, double for
    floating point, decimal for decimals."""
    if pt.is_integer(types[0]):
        return IntegerSum()
    if pt.is_floating(types[0]):
        return FloatSum()
    if pt.is_decimal(types[0]):
        return DecimalSum(types[0].precision, types[0].scale)
    raise ValueError(NUMBERS)


@dataclass(frozen=True)
class IntegerSum(Accumulator):
    """A sum of 64-bit integers, exact at any length: the upper and lower halves of the values are
    summed apart, so that no partial sum overflows, only the outcome can."""

    state: ClassVar[Types] = {"high": pa.int64(), "low": pa.int64(), "rows": pa.int64()}
    result = pa.int64()

    def init(self, groups: int) -> State:
        return [pa.array(np.zeros(groups, np.int64)) for _ in self.state]

    def update(self, state: State, groups: Groups, *columns: pa.Array) -> State:
        groups, column = without_nulls(groups, columns[0])
        values = column.to_numpy().astype(np.int64, copy=False)
        halves = [values >> LOW_BITS, values & ((1 << LOW_BITS) - 1), np.ones_like(values)]
        return _add_all(state, groups, [pa.array(h) for h in halves])

    def merge(self, state: State, groups: Groups, other: State) -> State:
        return _add_all(state, groups, other)

    def finish(self, state: State) -> pa.Array:
        high, low, rows = (column.to_numpy() for column in state)
        high = high + (low >> LOW_BITS)
        low = low & ((1 << LOW_BITS) - 1)
        if ((high >= 1 << 31) | (high < -(1 << 31))).any():
            raise DataError(
                "a sum of integers does not fit 64 bits. Sum the column as decimal(38, 0) or double"
            )
        return pa.array((high << LOW_BITS) | low, mask=rows == 0)


@dataclass(frozen=True)
class FloatSum(Accumulator):
    """A sum of doubles. The last digits depend on the order of addition, as everywhere."""

    state: ClassVar[Types] = {"total": pa.float64(), "rows": pa.int64()}
    result = pa.float64()

    def init(self, groups: int) -> State:
        return _zeros(self.state, groups)

    def update(self, state: State, groups: Groups, *columns: pa.Array) -> State:
        groups, column = without_nulls(groups, columns[0])
        values = doubles(column)
        return _add_all(state, groups, [pa.array(values), pa.array(np.ones(len(values), np.int64))])

    def merge(self, state: State, groups: Groups, other: State) -> State:
        return _add_all(state, groups, other)

    def finish(self, state: State) -> pa.Array:
        return pa.array(state[0].to_numpy(), mask=state[1].to_numpy() == 0)


@dataclass(frozen=True)
class DecimalSum(Accumulator):
    """An exact sum of decimals, ten digits wider than the column, as Spark's. Kept in 256 bits, so
    that no partial sum overflows, only the outcome can."""

    precision: int
    scale: int

    @property
    def state(self) -> dict[str, pa.DataType]:  # type: ignore[override]
        return {"total": pa.decimal256(76, self.scale)}

    @property
    def result(self) -> pa.DataType:
        return pa.decimal128(min(38, self.precision + 10), self.scale)

    def init(self, groups: int) -> State:
        return [pa.nulls(groups, self.state["total"])]

    def update(self, state: State, groups: Groups, *columns: pa.Array) -> State:
        size = len(state[0])
        columns_of_all = [state[0], columns[0].cast(self.state["total"])]
        groups = np.concatenate([np.arange(size), groups])
        groups, column = without_nulls(groups, pa.concat_arrays(columns_of_all))
        table = pa.table({"group": groups, "value": column})
        summed = table.group_by("group").aggregate([("value", "sum")])
        totals = np.full(size, -1)
        totals[summed["group"].to_numpy()] = np.arange(len(summed))
        taken = pa.array(totals, mask=totals < 0)
        return [summed["value_sum"].combine_chunks().take(taken)]

    def merge(self, state: State, groups: Groups, other: State) -> State:
        return self.update(state, groups, other[0])

    def finish(self, state: State) -> pa.Array:
        try:
            return state[0].cast(self.result)
        except pa.ArrowInvalid as error:
            raise DataError(
                f"a sum of decimals does not fit {self.result}. Sum the column as double"
            ) from error


@dataclass(frozen=True)
class Mean(Accumulator):
    """The arithmetic mean of a numeric column, as double."""

    state: ClassVar[Types] = {"total": pa.float64(), "rows": pa.int64()}
    result = pa.float64()

    def bind(self, types: Sequence[pa.DataType]) -> Accumulator:
        return numeric(self, types)

    def init(self, groups: int) -> State:
        return _zeros(self.state, groups)

    def update(self, state: State, groups: Groups, *columns: pa.Array) -> State:
        return FloatSum().update(state, groups, *columns)

    def merge(self, state: State, groups: Groups, other: State) -> State:
        return _add_all(state, groups, other)

    def finish(self, state: State) -> pa.Array:
        total, rows = (column.to_numpy() for column in state)
        return pa.array(total / np.maximum(rows, 1), mask=rows == 0)


@dataclass(frozen=True)
class Variance(Accumulator):
    """The sample variance of a numeric column, or with `root` its square root, the standard
    deviation. Null for fewer than two values.

    Kept are rows, mean and the sum of squared distances from it, merged by the formulas of Chan,
    Golub and LeVeque: the difference of two large sums would lose all digits.
    """

    root: bool = False

    state: ClassVar[Types] = {"rows": pa.int64(), "mean": pa.float64(), "squares": pa.float64()}
    result = pa.float64()

    def bind(self, types: Sequence[pa.DataType]) -> Accumulator:
        return numeric(self, types)

    def init(self, groups: int) -> State:
        return _zeros(self.state, groups)

    def update(self, state: State, groups: Groups, *columns: pa.Array) -> State:
        groups, column = without_nulls(groups, columns[0])
        values = doubles(column)
        one, none = np.ones(len(values), np.int64), np.zeros(len(values))
        return self.merge(state, groups, [pa.array(one), pa.array(values), pa.array(none)])

    def merge(self, state: State, groups: Groups, other: State) -> State:
        size = len(state[0])
        # The state so far is one more partial of each group.
        order = np.argsort(np.concatenate([np.arange(size), groups]), kind="stable")
        groups = np.concatenate([np.arange(size), groups])[order]
        rows, means, squares = (
            np.concatenate([a.to_numpy(), b.to_numpy()])[order]
            for a, b in zip(state, other, strict=True)
        )
        total = fold(np.add, groups, rows, size)
        with np.errstate(invalid="ignore", over="ignore"):
            weighted = np.where(rows > 0, rows * means, 0.0)
            mean = fold(np.add, groups, weighted, size) / np.maximum(total, 1)
            away = np.where(rows > 0, rows * (means - mean[groups]) ** 2, 0.0)
            around = fold(np.add, groups, squares + away, size)
        return [pa.array(total), pa.array(mean), pa.array(around)]

    def finish(self, state: State) -> pa.Array:
        rows, squares = state[0].to_numpy(), state[2].to_numpy()
        variance = squares / np.maximum(rows - 1, 1)
        return pa.array(np.sqrt(variance) if self.root else variance, mask=rows < 2)


def numeric(this: Accumulator, types: Sequence[pa.DataType]) -> Accumulator:
    if not (pt.is_integer(types[0]) or pt.is_floating(types[0]) or pt.is_decimal(types[0])):
        raise ValueError(NUMBERS)
    return this


def doubles(column: pa.Array) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    return values


def _zeros(state: Any, groups: int) -> State:
    return [pa.array(np.zeros(groups, kind.to_pandas_dtype())) for kind in state.values()]


def _plus(column: pa.Array, more: npt.NDArray[Any]) -> pa.Array:
    return pa.array(column.to_numpy() + more)


def _add_all(state: State, groups: Groups, other: State) -> State:
    """The state with other columns added to it, group by group."""
    size = len(state[0])
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf is NaN here, as in Spark
        return [
            _plus(mine, fold(np.add, groups, theirs.to_numpy(), size))
            for mine, theirs in zip(state, other, strict=True)
        ]
