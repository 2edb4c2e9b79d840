"""The work of one instance: which rows of its range of hashes are the first of their key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from skewless.arrays.columns import Columns
from skewless.arrays.firsts import TimedRun, first_rows
from skewless.arrays.types import SideSpec
from skewless.engine.instance import Instance
from skewless.engine.report import InstanceLoad
from skewless.operators.groups import number_parts, share_hashes_across
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import Rows, SegmentInfo
from skewless.state.turns import in_turn

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
        instance.reads = {side: [instance.own_range] for side in (KEPT, PENDING)}
        old = sorted(self.old, key=lambda s: s.side == KEPT)
        every = [instance.own_rows(s) for s in (*self.new, *old)]
        instance.clock.reset()
        count = sum(s.side == PENDING for s in (*self.new, *old))
        instance.detail = {"collides": False}
        keys = [self._keys(rows, pending=n < count) for n, rows in enumerate(every)]
        for ranges in in_turn(keys, by_hash=True):
            parts, keys_of_parts = (
                [rows.slice(at.start, at.stop) for rows, at in zip(of, ranges, strict=True)]
                for of in (every, keys)
            )
            yield from self._first(parts, keys_of_parts, count, instance)
        new = every[: len(self.new)]
        for rows in new:
            instance.note_late(rows.times, self.watermark_us)
        instance.load = InstanceLoad(instance.number, rows=sum(map(len, new)))

    def _first(
        self, parts: list[Rows], keys: list[Rows], count: int, instance: Instance
    ) -> Iterator[pa.RecordBatch]:
        """The first rows of some hashes. So many of the parts are yet to be decided about."""
        places = [np.arange(len(rows)) for rows in parts]
        runs = [self._run(n, rows, pending=n < count) for n, rows in enumerate(parts)]
        heads = [run.heads() for run in runs]
        some = [rows.take(at) for rows, at in zip(keys, heads, strict=True)]
        collides = self.collides or share_hashes_across(some, self.side)
        if collides:
            numbers = number_parts(keys, self.side)
            places = [np.lexsort([run.times, n]) for run, n in zip(runs, numbers, strict=True)]
            runs = [
                replace(run, codes=n[at], times=run.times[at], order=run.order[at])
                for run, n, at in zip(runs, numbers, places, strict=True)
            ]
        found = first_rows(runs[:count], runs[count:], self.within_us, self.until_us)
        for rows, at, where in zip(parts, found, places, strict=False):
            if len(at):
                yield self._emit(rows.take(np.sort(where[at])), instance)
        instance.detail["collides"] |= collides

    def _run(self, number: int, rows: Rows, *, pending: bool) -> TimedRun:
        floor_us = self.watermark_us + (number >= len(self.new))
        order = rows.columns[-1].to_numpy() if pending else rows.times
        return TimedRun(rows.hashes, rows.times, order, floor_us)

    def _keys(self, rows: Rows, *, pending: bool) -> Rows:
        """The rows with their keys only."""
        at = (key.index if pending else k for k, key in enumerate(self.side.keys))
        return Rows(rows.hashes, rows.times, Columns(rows.columns[i] for i in at))

    def _emit(self, rows: Rows, instance: Instance) -> pa.RecordBatch:
        """Emit first rows, and remember them."""
        keys = (rows.columns[key.index] for key in self.side.keys)
        memory = Columns([*keys, pa.array(rows.times)])
        instance.write(KEPT, Rows(rows.hashes, rows.times, memory), kind=KEPT)
        return pa.RecordBatch.from_arrays(rows.columns[:-1], schema=self.side.schema)
