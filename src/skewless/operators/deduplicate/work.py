"""The work of one instance: which rows of its range of hashes are the first of their key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from skewless.arrays.firsts import TimedRun, first_rows
from skewless.arrays.runs import bounds
from skewless.arrays.types import SideSpec, UInts
from skewless.engine.instance import Instance
from skewless.engine.report import InstanceLoad
from skewless.operators.groups import number_keys
from skewless.placement.units import slot_bounds
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import Rows, SegmentInfo

KEPT, PENDING = "kept", "input"  # what was emitted and is remembered; what is yet to be decided


@dataclass(frozen=True)
class DeduplicateWork:
    """Decides about rows up to `until_us`; those up to the watermark are decided already. With
    `collides`, keys have been seen to share a hash."""

    side: SideSpec
    within_us: int
    watermark_us: int
    until_us: int
    new: tuple[SegmentInfo, ...]
    old: SegmentSet
    collides: bool

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        mine = slot_bounds(instance.number, instance.number, instance.instances)
        instance.reads = {KEPT: [mine], PENDING: [mine]}
        old = sorted(self.old, key=lambda s: s.side == KEPT)
        parts = [self._mine(s, instance) for s in (*self.new, *old)]
        instance.clock.reset()
        count = sum(s.side == PENDING for s in (*self.new, *old))
        places = [np.arange(len(rows)) for rows in parts]
        runs = [self._run(n, rows, pending=n < count) for n, rows in enumerate(parts)]
        heads = [run.heads() for run in runs]
        some = [rows.take(at) for rows, at in zip(parts, heads, strict=True)]
        collides = self.collides or _disagree(some, self._numbers(some, count))
        if collides:
            numbers = self._numbers(parts, count)
            places = [np.lexsort([run.times, n]) for run, n in zip(runs, numbers, strict=True)]
            runs = [
                replace(run, codes=n[at], times=run.times[at], order=run.order[at])
                for run, n, at in zip(runs, numbers, places, strict=True)
            ]
        found = first_rows(runs[:count], runs[count:], self.within_us, self.until_us)
        for rows, at, where in zip(parts, found, places, strict=False):
            if len(at):
                yield self._emit(rows.take(np.sort(where[at])), instance)
        new = parts[: len(self.new)]
        for rows in new:
            instance.note_late(rows.times, self.watermark_us)
        instance.load = InstanceLoad(instance.number, rows=sum(map(len, new)))
        instance.detail = {"collides": collides}

    def _mine(self, segment: SegmentInfo, instance: Instance) -> Rows:
        rows = instance.rows(segment)
        mine = slot_bounds(instance.number, instance.number, instance.instances)
        return rows.slice(*bounds(rows.hashes, *mine))

    def _run(self, number: int, rows: Rows, *, pending: bool) -> TimedRun:
        floor_us = self.watermark_us + (number >= len(self.new))
        order = rows.columns[-1].to_numpy() if pending else rows.times
        return TimedRun(rows.hashes, rows.times, order, floor_us)

    def _numbers(self, parts: list[Rows], count: int) -> list[UInts]:
        """A number per row, equal where the values of keys are."""
        indices = [key.index for key in self.side.keys]
        columns = [
            [rows.columns[i if n < count else k] for n, rows in enumerate(parts)]
            for k, i in enumerate(indices)
        ]
        hashes = np.concatenate([np.empty(0, np.uint64), *(rows.hashes for rows in parts)])
        numbers = number_keys(hashes, [pa.concat_arrays(c) for c in columns if c], self.side)
        return np.split(numbers, np.cumsum([len(rows) for rows in parts])[:-1])

    def _emit(self, rows: Rows, instance: Instance) -> pa.RecordBatch:
        """Emit first rows, and remember them."""
        memory = [*(rows.columns[key.index] for key in self.side.keys), pa.array(rows.times)]
        instance.write(KEPT, Rows(rows.hashes, rows.times, memory), kind=KEPT)
        return pa.RecordBatch.from_arrays(rows.columns[:-1], schema=self.side.schema)


def _disagree(some: list[Rows], numbers: list[UInts]) -> bool:
    """Whether several keys share a hash, by one row per hash and segment: those within one segment
    were compared when they arrived."""
    if not some:
        return False
    hashes, found = np.concatenate([rows.hashes for rows in some]), np.concatenate(numbers)
    return len(np.unique(hashes)) != len(np.unique(found))
