"""The first row of each key within a bound of time, as an operator: one step a batch.

A row is decided about when no earlier one can come any more: when the watermark has reached it.
What was emitted is remembered as long as a row to come can be its duplicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skewless.arrays.columns import Columns
from skewless.arrays.types import FAR_US, SideSpec
from skewless.durations import format_duration_us
from skewless.engine.changes import Adopted, Facts, adopt_columns, columns_facts
from skewless.engine.operator import (
    Arrival,
    Batch,
    Coordinator,
    IngestContext,
    Input,
    Operator,
    Outcome,
    Step,
)
from skewless.engine.watermark import EventTimes
from skewless.operators.deduplicate.work import KEPT, PENDING, DeduplicateWork
from skewless.operators.groups import hash_groups, share_hashes
from skewless.operators.ingesting import heavy_keys_of, in_pieces, sort_by, usable_rows
from skewless.operators.shares import equal_shares
from skewless.state.commits import OperatorState
from skewless.state.files import Folder
from skewless.state.rewriting import Layout
from skewless.state.segments import Rows

ARRIVED = pa.field("__arrived", pa.int64(), nullable=False)  # ties go by batch, task and piece
TIME = pa.field("__time", pa.int64(), nullable=False)


@dataclass(frozen=True)
class DeduplicateSpec:
    """`side.keys` say which rows are duplicates; a null is a key, as in `dropDuplicates`."""

    side: SideSpec
    within_us: int
    drop_null_times: bool = False

    def only(self, output: Sequence[int]) -> tuple[DeduplicateSpec, list[list[int]]]:
        """The same with these columns and those that play a part; which is what it needs."""
        needed = sorted(self.side.parts | set(output))
        return replace(self, side=self.side.only(needed)), [needed]

    def inputs(self) -> tuple[Input, ...]:
        of = self.side
        only = Input(PENDING, of.schema, of.time, of.late_us, self.drop_null_times, "input")
        return (only,)

    def kept_us(self) -> dict[str, int]:
        return {PENDING: self.within_us}

    def fingerprint(self) -> dict[str, str]:
        names = self.side.schema.names
        return {
            "kind": "deduplication",
            **columns_facts("columns", self.side.schema, self.side.left_out),
            "by": ", ".join(f"{names[k.index]} as {k.type}" for k in self.side.keys),
            "time": str(self.inputs()[0].time_name),
            "within": format_duration_us(self.within_us),
        }

    def output_schema(self) -> pa.Schema:
        return self.side.schema

    def event_times(self, below: Sequence[EventTimes]) -> EventTimes:
        """Rows are emitted as they are, none before the watermark: only columns that can lie behind
        the time itself lag as far."""
        [times] = below
        at = times.columns.index(str(self.inputs()[0].time_name))
        lags = tuple(behind[at] for behind in times.behind_us)
        return EventTimes(times.columns, lags, times.behind_us)

    def layouts(self) -> dict[str, Layout]:
        keys = [pa.field(f"key.{i}", k.type) for i, k in enumerate(self.side.keys)]
        return {
            PENDING: Layout(self.side.schema.append(ARRIVED), self.side.time),
            KEPT: Layout(pa.schema([*keys, TIME]), len(keys)),
        }


@dataclass(frozen=True)
class DeduplicateOperator(Operator):
    """Every instance decides about a range of hashes."""

    spec: DeduplicateSpec
    instances: int
    elastic: bool = False

    kind: ClassVar[str] = "deduplicate"

    def adopt(
        self, state: OperatorState | None, before: Facts, after: Facts, *, feeds: bool
    ) -> Adopted:
        return adopt_columns({"columns": "the input"}, state, before, after)

    def ingest(
        self, name: str, batches: Iterable[pa.RecordBatch], context: IngestContext
    ) -> Iterator[Arrival]:
        batch = context.batch_id()
        for piece, some in enumerate(in_pieces(batches)):
            stamp = (batch << 31) + (context.task << 15) + min(piece, (1 << 15) - 1)
            yield self._ingest_some(some, stamp, context)

    def exchanged(self) -> Mapping[str, Layout]:
        return {PENDING: self.spec.layouts()[PENDING]}

    def store(self, name: str, side: str, rows: Rows, context: IngestContext) -> Arrival:
        stored = super().store(name, side, rows, context)
        return replace(stored, detail={"collides": share_hashes(rows, self.spec.side)})

    def _ingest_some(self, arrived: pa.RecordBatch, stamp: int, context: IngestContext) -> Arrival:
        count, side = arrived.num_rows, self.spec.side
        usable = usable_rows(arrived, replace(side, keys=()))  # null is a key here
        rows, dropped = usable.rows, usable.dropped
        found = Arrival(PENDING, count, dropped=dropped, time_max_us=usable.time_max_us)
        if not rows.num_rows or (dropped and not self.spec.drop_null_times):
            return found
        hashes = hash_groups([rows.column(k.index) for k in side.keys], side, rows.num_rows)
        stored, order = sort_by(hashes, rows, side)
        stamps = pa.array(np.full(len(order), stamp))
        stamped = replace(stored, columns=Columns([*stored.columns, stamps]))
        runs = self.store_or_send(PENDING, stamped, context)
        heavy, detail = heavy_keys_of(stored, side), {"collides": share_hashes(stored, side)}
        return replace(found, runs=runs, heavy_keys=heavy, detail=detail)

    def coordinator(self, state: OperatorState | None, folder: Folder) -> Coordinator:
        return DeduplicateCoordinator(self)


@dataclass(frozen=True)
class DeduplicateCoordinator(Coordinator):
    operator: DeduplicateOperator

    def _keep_after_us(self, watermark_us: int) -> dict[str, int]:
        """Decided rows are needed no more; kept ones as long as they can have duplicates."""
        kept = max(watermark_us - self.operator.spec.within_us, -FAR_US)
        return {PENDING: watermark_us + 1, KEPT: kept}

    def plan(self, batch: Batch) -> Step:
        spec, layouts, instances = self.operator.spec, self.operator.spec.layouts(), batch.instances
        new, old = tuple(run.segment for run in batch.new_runs()), batch.state.segments
        seen = (batch.state.facts, *(arrival.detail for arrival in batch.arrivals))
        collides = any(facts.get("collides") for facts in seen)
        since, until = batch.watermark_us, FAR_US if batch.is_last else batch.next_watermark_us
        work = DeduplicateWork(spec.side, spec.within_us, since, until, new, old, collides)
        kept, shares = self._keep_after_us(since), partial(equal_shares, instances)
        compaction = batch.compaction(instances, layouts, kept, shares=shares)
        step = Step("deduplicate", instances, work, emits=True, must_finish=True)
        return replace(step, layouts=layouts, compaction=compaction)

    def conclude(self, batch: Batch) -> Outcome:
        new = [run.segment for run in batch.new_runs()]
        alive = batch.old_after(batch.state.segments).added((*new, *batch.written()))
        keep_after_us = self._keep_after_us(batch.next_watermark_us)
        reports = batch.received()
        return Outcome(
            segments=alive.kept(keep_after_us),
            facts={"collides": any(report.detail["collides"] for report in reports)},
            loads=tuple(report.load for report in reports),
        )
