"""Pairs of rows of two runs: by their positions, or by ranges of one of them.

Where a key is hot, thousands of stored rows that lie together meet each probing row. Their columns
are copied range by range; positions are made of the pairs that are kept. To make them of all, and
to take rows by them, takes several times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skewless.arrays.columns import PIECE_BYTES, pieces_of
from skewless.arrays.compiled import kernel
from skewless.arrays.runs import Run
from skewless.arrays.types import Flags, Ints, frozen

COPIED_BITS = (32, 64)  # of values that are copied here; Arrow takes others by their positions


class Pairs(Protocol):
    """Pairs of a probing row and a stored row."""

    def __len__(self) -> int: ...

    def probing(self, index: int) -> pa.Array:
        """A column of the probing row, for every pair."""

    def stored(self, index: int) -> pa.Array:
        """A column of the stored row, for every pair."""

    def keep(self, flags: Flags) -> PairsAt:
        """Those that are flagged."""

    def by_position(self) -> PairsAt:
        """All of them."""


@dataclass(frozen=True)
class PairsAt:
    """Pairs by their positions in two runs."""

    prober: Run
    probes: Ints
    run: Run
    partners: Ints

    def __len__(self) -> int:
        return len(self.probes)

    def probing(self, index: int) -> pa.Array:
        return self.prober.column(index, self.probes)

    def stored(self, index: int) -> pa.Array:
        return self.run.column(index, self.partners)

    def keep(self, flags: Flags) -> PairsAt:
        if flags.all():
            return self
        return PairsAt(self.prober, self.probes[flags], self.run, self.partners[flags])

    def by_position(self) -> PairsAt:
        return self

    def pieces(self) -> Iterator[PairsAt]:
        """The same, as few at a time as their columns can be taken of."""
        for piece in pieces_of((self.prober, self.probes), (self.run, self.partners)):
            yield PairsAt(self.prober, self.probes[piece], self.run, self.partners[piece])

    @staticmethod
    def concat(parts: Sequence[PairsAt]) -> PairsAt:
        """Pairs of the same two runs."""
        probes = np.concatenate([part.probes for part in parts])
        partners = np.concatenate([part.partners for part in parts])
        return PairsAt(parts[0].prober, probes, parts[0].run, partners)


@dataclass(frozen=True)
class PairsInRanges:
    """All pairs of some probing rows with the stored rows of a range each."""

    prober: Run
    rows: Ints
    run: Run
    first: Ints
    last: Ints

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def probing(self, index: int) -> pa.Array:
        column = self.prober.column(index, self.rows)
        values = plain_values(column)
        if values is not None:
            return _as_array(np.repeat(values, self._counts), column.type)
        rows = np.repeat(np.arange(len(column)), self._counts)
        return pc.take(column, pa.array(rows), boundscheck=False)

    def stored(self, index: int) -> pa.Array:
        column = self.run.columns[index]
        values = plain_values(column)
        if values is None:
            return self.run.column(index, self._partners)
        ranges = frozen(self.first), frozen(self.last), len(self)
        if self.run.rows is None:
            return _as_array(_copied(frozen(values), *ranges), column.type)
        return _as_array(_copied_by(frozen(values), frozen(self.run.rows), *ranges), column.type)

    def keep(self, flags: Flags) -> PairsAt:
        return self._at(np.flatnonzero(flags))

    def by_position(self) -> PairsAt:
        return PairsAt(self.prober, np.repeat(self.rows, self._counts), self.run, self._partners)

    def _at(self, numbers: Ints) -> PairsAt:
        """Some of the pairs, by their numbers among all."""
        at = np.searchsorted(self._ends, numbers, side="right")
        partners = numbers - (self._ends - self._counts)[at] + self.first[at]
        return PairsAt(self.prober, self.rows[at], self.run, partners)

    @cached_property
    def _counts(self) -> Ints:
        return self.last - self.first

    @cached_property
    def _ends(self) -> Ints:
        return np.cumsum(self._counts)

    @cached_property
    def _partners(self) -> Ints:
        before = np.repeat(self.first - self._ends + self._counts, self._counts)
        return before + np.arange(len(self))


def candidates(
    prober: Run, run: Run, ranges: tuple[Ints, Ints], most: int, asking: Ints | None = None
) -> Iterator[Pairs]:
    """Pairs of a probing row and one in its range of a run, some at a time: at most so many, and as
    few as their columns can be taken of. `asking` are the rows that probe; None: all."""
    first, last = ranges
    some = np.flatnonzero(last > first)
    first, last = first[some], last[some]
    rows = some if asking is None else asking[some]
    ends = np.cumsum(last - first)
    total = int(ends[-1]) if len(ends) else 0
    for done in range(0, total, most):
        upto = min(done + most, total)
        begin, end = np.searchsorted(ends, (done, upto - 1), side="right").tolist()
        mine, ending = first[begin : end + 1].copy(), last[begin : end + 1].copy()
        mine[0] = ending[0] - (ends[begin] - done)
        ending[-1] -= ends[end] - upto
        pairs = PairsInRanges(prober, rows[begin : end + 1], run, mine, ending)
        if (upto - done) * (prober.widest + run.widest) <= PIECE_BYTES:
            yield pairs
        else:
            yield from pairs.by_position().pieces()


def plain_values(column: pa.Array) -> npt.NDArray[Any] | None:
    """The bits of values of a fixed width without nulls, as integers; None: there are others."""
    kind = column.type
    if not pa.types.is_primitive(kind) or kind.bit_width not in COPIED_BITS or column.null_count:
        return None
    if not len(column):
        return None
    values = np.frombuffer(column.buffers()[1], f"u{kind.bit_width // 8}")
    return values[column.offset : column.offset + len(column)]


def _as_array(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


@kernel
def _copied(values: npt.NDArray[Any], first: Ints, last: Ints, count: int) -> npt.NDArray[Any]:
    """The values of all ranges, one after the other."""
    found, filled = np.empty(count, values.dtype), 0
    for i in range(len(first)):
        for at in range(first[i], last[i]):
            found[filled] = values[at]
            filled += 1
    return found


@kernel
def _copied_by(
    values: npt.NDArray[Any], rows: Ints, first: Ints, last: Ints, count: int
) -> npt.NDArray[Any]:
    """The same of values whose order is told by `rows`."""
    found, filled = np.empty(count, values.dtype), 0
    for i in range(len(first)):
        for at in range(first[i], last[i]):
            found[filled] = values[rows[at]]
            filled += 1
    return found
