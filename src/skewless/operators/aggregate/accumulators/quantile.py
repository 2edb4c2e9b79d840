"""Quantiles: exact for small groups, by a KLL sketch for large ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import datasketches
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.errors import ArgumentError
from skewless.operators.aggregate.accumulators.base import Accumulator, Groups, State, Types
from skewless.operators.aggregate.accumulators.counting import doubles, numeric
from skewless.operators.aggregate.accumulators.reduce import (
    as_lists,
    counts_of,
    explode,
    without_nulls,
)

SMALL = 256
"""Groups of up to so many values keep them all: nothing is approximated, and all groups are worked
on at once. A larger group becomes a sketch of its own."""


@dataclass(frozen=True)
class Quantile(Accumulator):
    """The value below or at which the share `q` of a numeric column's values lies, as double.
    Nulls and NaN do not count.

    Exact up to 256 values per group. Beyond, a KLL sketch of size `k` answers: the rank of its
    answer differs from the asked one by at most 1.33 % for k = 200, with a probability of 99 %; the
    error falls almost as `k` rises, the state grows with it.
    """

    q: float
    k: int = 200

    state: ClassVar[Types] = {"values": pa.list_(pa.float64()), "sketch": pa.binary()}
    result = pa.float64()

    def __post_init__(self) -> None:
        if isinstance(self.q, bool) or not isinstance(self.q, int | float) or not 0 <= self.q <= 1:
            raise ArgumentError("q", self.q, "a share between 0 and 1")
        if not isinstance(self.k, int) or isinstance(self.k, bool) or not 8 <= self.k <= 65_535:
            raise ArgumentError("k", self.k, "a whole number from 8 to 65535")

    def bind(self, types: Sequence[pa.DataType]) -> Accumulator:
        return numeric(self, types)

    def init(self, groups: int) -> State:
        return [pa.nulls(groups, self.state["values"]), pa.nulls(groups, pa.binary())]

    def update(self, state: State, groups: Groups, *columns: pa.Array) -> State:
        groups, column = without_nulls(groups, columns[0])
        values = doubles(column)
        known = ~np.isnan(values)
        return self._take(state, groups[known], values[known], [])

    def merge(self, state: State, groups: Groups, other: State) -> State:
        of_values, values = explode(groups, other[0])
        held = np.flatnonzero(other[1].is_valid().to_numpy(zero_copy_only=False))
        sketches = [(int(groups[i]), other[1][i].as_py()) for i in held]
        return self._take(state, of_values, values.to_numpy(zero_copy_only=False), sketches)

    def finish(self, state: State) -> pa.Array:
        size = len(state[0])
        groups, values = _sorted_values(*explode(np.arange(size), state[0]))
        counts = counts_of(groups, size)
        ends = np.cumsum(counts)
        # The least value with at least the share q of all values at or below it.
        rank = np.clip(np.ceil(self.q * counts).astype(np.int64) - 1, 0, np.maximum(counts - 1, 0))
        answers = np.full(size, np.nan)
        has = counts > 0
        answers[has] = values[(ends - counts + rank)[has]]
        sketched = np.flatnonzero(state[1].is_valid().to_numpy(zero_copy_only=False))
        for i in sketched:
            sketch = datasketches.kll_doubles_sketch.deserialize(state[1][i].as_py())
            answers[i] = _answer(sketch, self.q)
        has[sketched] = True
        return pa.array(answers, mask=~has)

    def _take(
        self,
        state: State,
        groups: Groups,
        values: npt.NDArray[np.float64],
        sketches: Iterable[tuple[int, bytes]],
    ) -> State:
        """The state with more values, and with sketches of groups."""
        size = len(state[0])
        before, had = explode(np.arange(size), state[0])
        groups = np.concatenate([before, groups])
        order = np.argsort(groups, kind="stable")
        groups = groups[order]
        values = np.concatenate([had.to_numpy(zero_copy_only=False), values])[order]
        merged = self._sketches(state[1], sketches)
        large = counts_of(groups, size) > SMALL
        large[list(merged)] = True
        self._sketch_large(merged, large, groups, values)
        small = ~large[groups]
        serialized: list[bytes | None] = [None] * size
        for group, sketch in merged.items():
            serialized[group] = sketch.serialize()
        return [as_lists(groups[small], values[small], size), pa.array(serialized, pa.binary())]

    def _sketches(
        self, column: pa.Array, more: Iterable[tuple[int, bytes]]
    ) -> dict[int, datasketches.kll_doubles_sketch]:
        merged: dict[int, datasketches.kll_doubles_sketch] = {}
        held = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        for group, data in [*((int(i), column[int(i)].as_py()) for i in held), *more]:
            sketch = datasketches.kll_doubles_sketch.deserialize(data)
            if group in merged:
                merged[group].merge(sketch)
            else:
                merged[group] = sketch
        return merged

    def _sketch_large(
        self,
        merged: dict[int, datasketches.kll_doubles_sketch],
        large: npt.NDArray[np.bool_],
        groups: Groups,
        values: npt.NDArray[np.float64],
    ) -> None:
        """Feed each large group its values: one call per group, not per value."""
        ends = np.searchsorted(groups, np.arange(len(large)), side="right")
        begins = np.searchsorted(groups, np.arange(len(large)), side="left")
        for group in np.flatnonzero(large & (ends > begins)):
            sketch = merged.setdefault(int(group), datasketches.kll_doubles_sketch(self.k))
            sketch.update(np.ascontiguousarray(values[begins[group] : ends[group]]))


def _answer(sketch: datasketches.kll_doubles_sketch, q: float) -> float:
    """The least and the largest value are known exactly; all between is approximated."""
    if q in (0, 1):
        return float(sketch.get_max_value() if q else sketch.get_min_value())
    return float(sketch.get_quantile(q, True))


def _sorted_values(groups: Groups, values: pa.Array) -> tuple[Groups, npt.NDArray[np.float64]]:
    numbers = values.to_numpy(zero_copy_only=False)
    order = np.lexsort([numbers, groups])
    return groups[order], numbers[order]
