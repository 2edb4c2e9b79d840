"""Rows stored once, looked for in one step: what tasks write, and what the driver keeps.

The worksets are a blob of the operator's state. Tasks make them side by side; the driver closes
those that there would not be, had one task seen all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from skewless.arrays.columns import Columns
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, frozen
from skewless.engine.operator import Batch, IngestContext, Outcome, RunRef, Step
from skewless.operators.similarity.looking.partners import partners_in_time
from skewless.operators.similarity.looking.work import LookingWork
from skewless.operators.similarity.points import Points
from skewless.operators.similarity.running import Begun, Running, Stored, Storing
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies.looking import LookingStrategy, TaskView
from skewless.operators.similarity.totals import counters_of, loads_of
from skewless.operators.similarity.worksets import Worksets, read_all, write_worksets
from skewless.state.blobs import BlobInfo
from skewless.state.files import Folder
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import Rows, times_of, write_segment

TURNS = 8  # tasks that make worksets by turns
MET = "met"  # rows that are near enough in time to new ones, all together
COUNTED = ("probes", "compared", "inner", "workset_distances")


@dataclass(frozen=True)
class LookingWay:
    """How strategies work that store a row once."""

    strategy: LookingStrategy

    def storing(self, begun: Begun, side: str, context: IngestContext) -> Storing:
        known = read_all(context.folder, begun.blobs)
        stored = SegmentSet() if begun.state is None else begun.state.segments
        return StoreAtHome(
            begun.spec, self.strategy, side, context.folder, known, stored, context.task
        )

    def running(self, begun: Begun) -> Running:
        return RunningLooks(begun, self.strategy)


@dataclass(frozen=True)
class StoreAtHome:
    """Stores rows in their worksets. A task knows the worksets that there are, and what is `stored`
    already."""

    spec: SimilaritySpec
    strategy: LookingStrategy
    side: str
    folder: Folder
    known: Worksets | None
    stored: SegmentSet
    task: int = 0

    @property
    def founds(self) -> bool:
        """Whether this task makes worksets: all do in the first batch, as there is nothing that
        all know; later the first, and one of the next by turns, as it may not have any rows."""
        return not self.stored.rows or self.task in (0, 1 + self.stored.rows % TURNS)

    def __call__(self, arrived: pa.RecordBatch, points: Points) -> Stored:
        spec = self.spec
        times = times_of(arrived.columns, spec.side(self.side).time, arrived.num_rows)
        partners = partners_in_time(spec, self.side, times, self.stored)
        segments = len(self.stored.of_side(spec.other(self.side)))
        task = TaskView(self.stored.rows, partners, segments, self.founds)
        ids, distances, worksets = self.strategy.assign(spec, points, self.known, task)
        order = sort_order(frozen(ids), frozen(times))
        columns = Columns([*Columns(arrived.columns).take(order), pa.array(distances[order])])
        segment = write_segment(
            self.folder, self.side, spec.stored_schema(self.side),
            Rows(ids[order], times[order], columns), floor_us=-FAR_US, level=0, batch_id=-1,
        )  # fmt: skip
        touched = worksets.with_members(ids, times, distances)
        counted = {
            "workset_distances": len(points) * worksets.bounded,
            MET: round(len(points) * 2 * partners.every),
        }
        blobs = (write_worksets(self.folder, touched),)
        return Stored(runs=(RunRef(segment),), blobs=blobs, counted=counted)


class RunningLooks(Running):
    """Keeps the worksets; one step a batch, in which new rows look for partners."""

    def __init__(self, begun: Begun, strategy: LookingStrategy) -> None:
        self._spec, self._strategy = begun.spec, strategy
        self._worksets: BlobInfo | None = None

    def plan(self, batch: Batch) -> Step:
        worksets = self._all_worksets(batch)
        self._worksets = None if worksets is None else write_worksets(batch.folder, worksets)
        keep_after_us, layouts = (
            self._spec.keep_all_after_us(batch.watermark_us),
            self._spec.layouts(),
        )
        new, old = tuple(run.segment for run in batch.new_runs()), batch.state.segments
        return Step(
            name="join",
            instances=batch.instances,
            work=LookingWork(self._spec, self._strategy, keep_after_us, new, old, self._worksets),
            emits=True,
            layouts=layouts,
            compaction=batch.compaction(batch.instances, layouts, keep_after_us),
        )

    def _all_worksets(self, batch: Batch) -> Worksets | None:
        """All worksets that hold rows, those of this batch included, and those that held some not
        long ago."""
        known = read_all(batch.folder, batch.state.blobs)
        touched = read_all(batch.folder, (b for a in batch.arrivals for b in a.blobs))
        every = Worksets.joined([known, touched])
        if every is None:
            return None
        rows = sum(a.rows for a in batch.arrivals)
        met = counters_of(batch, [MET])[MET] // max(rows, 1)
        every = self._strategy.close_redundant(self._spec, every, known, met)
        return every.needed(*self._spec.keep_sets_after_us(batch.watermark_us))

    def conclude(self, batch: Batch) -> Outcome:
        return Outcome(
            segments=self._alive(batch),
            blobs=() if self._worksets is None else (self._worksets,),
            loads=loads_of(batch),
            counters=counters_of(batch, COUNTED),
        )

    def _alive(self, batch: Batch) -> SegmentSet:
        """What can still meet a row to come."""
        keep_after_us = self._spec.keep_all_after_us(batch.next_watermark_us)
        return batch.old_after(batch.state.segments).added(batch.in_time()).kept(keep_after_us)
