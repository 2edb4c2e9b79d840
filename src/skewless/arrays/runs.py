"""Sorted rows that are probed or that probe, and parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skewless.arrays.columns import Columns, gathered
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import Ints, UInts, frozen

EMPTY = np.empty(0, np.int64)


SEGMENTS_MERGED_FROM = 4  # from so many new segments on, probing them one by one costs more


@dataclass(frozen=True)
class Run:
    """Sorted rows to be probed or to probe with. `rows` maps them to rows of `columns` when the
    order differs from that of the columns (merged runs, and the probes of a band join)."""

    hashes: UInts
    times: Ints
    columns: Columns
    floor_us: int
    rows: Ints | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    def slice(self, begin: int, end: int) -> Run:
        if self.rows is not None:
            columns, rows = self.columns, self.rows[begin:end]
        else:
            columns, rows = self.columns.slice(begin, end), None
        return Run(self.hashes[begin:end], self.times[begin:end], columns, self.floor_us, rows)

    def take(self, positions: Ints) -> Run:
        """Some of the rows, by ascending positions; columns stay as they are."""
        rows = positions if self.rows is None else self.rows[positions]
        hashes, times = self.hashes[positions], self.times[positions]
        return Run(hashes, times, self.columns, self.floor_us, rows)

    def keep(self, flags: npt.NDArray[np.bool_]) -> Run:
        """The rows that are flagged; without a copy where all are."""
        return self if flags.all() else self.take(np.flatnonzero(flags))

    @property
    def widest(self) -> int:
        """How many bytes a row has at most."""
        return self.columns.widest

    def row_bytes(self, positions: Ints) -> Ints:
        """How many bytes some rows have."""
        return self.columns.row_bytes(positions if self.rows is None else self.rows[positions])

    def column(self, index: int, positions: Ints) -> pa.Array:
        """A column of some rows. Positions are our own: checking them takes as long as the rest."""
        return pc.take(self.columns[index], self.indices(positions), boundscheck=False)

    def indices(self, positions: Ints) -> pa.Array:
        """Positions of the run as rows of its columns."""
        return pa.array(positions if self.rows is None else self.rows[positions])


def part_of_ranges(first: Ints, last: Ints, part: Ints, parts: Ints) -> tuple[Ints, Ints, int]:
    """A part of the partners of every probing row."""
    count = last - first
    begin, end = first + count * part // parts, first + count * (part + 1) // parts
    return begin, end, int((end - begin).sum())


def bounds(hashes: UInts, hash_min: int, hash_max: int) -> tuple[int, int]:
    """Where the rows of a range of hashes begin and end."""
    begin = int(np.searchsorted(hashes, np.uint64(hash_min), "left"))
    return begin, int(np.searchsorted(hashes, np.uint64(hash_max), "right"))


def clip(run: Run, hash_min: int, hash_max: int) -> Run:
    """The rows of a run that lie in a range of hashes."""
    begin, end = bounds(run.hashes, hash_min, hash_max)
    return run if end - begin == len(run) else run.slice(begin, end)


def select(run: Run, ranges: list[range]) -> Run:
    """Some ranges of a run, in its order; without a copy where they are one."""
    ranges = joined_ranges(ranges)
    if len(ranges) == 1 and ranges[0].step == 1:
        begin, end = ranges[0].start, ranges[0].stop
        return run if end - begin == len(run) else run.slice(begin, end)
    positions = np.concatenate(
        [EMPTY, *(np.arange(r.start, r.stop, r.step, dtype=np.int64) for r in ranges)]
    )
    rows = positions if run.rows is None else run.rows[positions]
    return Run(run.hashes[positions], run.times[positions], run.columns, run.floor_us, rows)


def joined_ranges(ranges: list[range]) -> list[range]:
    """Those that are not empty, sorted, with neighbours put together."""
    result: list[range] = []
    for one in sorted((r for r in ranges if len(r)), key=lambda r: r.start):
        before = result[-1] if result else range(0)
        if one.step == before.step == 1 and result and before.stop == one.start:
            result[-1] = range(before.start, one.stop)
        else:
            result.append(one)
    return result


def merged(runs: Sequence[Run], sizes: Sequence[int]) -> list[Run]:
    """Many short runs as one, or as few: probing costs per pair of runs, merging only per row.
    `sizes` are the bytes of the segments that runs are parts of. All instances must go by the same:
    they take turns at the partners of a row, run by run."""
    found: list[Run] = []
    parts = zip(runs, sizes, strict=True)
    for some in gathered(parts, bytes_of=lambda part: part[1]):
        together = [run for run, _ in some]
        found += together if len(together) < SEGMENTS_MERGED_FROM else [_merged(together)]
    return found


def _merged(runs: list[Run]) -> Run:
    hashes = np.concatenate([r.hashes for r in runs])
    times = np.concatenate([r.times for r in runs])
    order = sort_order(frozen(hashes), frozen(times))
    offsets = np.cumsum([0] + [len(r.columns[0]) for r in runs[:-1]])
    rows = np.concatenate(
        [
            (np.arange(len(r), dtype=np.int64) if r.rows is None else r.rows) + offset
            for r, offset in zip(runs, offsets, strict=True)
        ]
    )
    columns = Columns.concat([r.columns for r in runs])
    # Runs of one batch and side share one floor.
    return Run(hashes[order], times[order], columns, runs[0].floor_us, rows[order])
