"""The aggregation as an operator: two steps a batch.

In the first, every instance makes partial results of its rows; they are the state. In the second,
which is left out where nothing is due, every instance merges the partial results of its range of
hashes and emits what has become final or, in update mode, what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skewless.arrays.types import FAR_US
from skewless.engine.operator import (
    Arrival,
    Batch,
    Coordinator,
    IngestContext,
    Operator,
    Outcome,
    Step,
)
from skewless.engine.report import InstanceLoad
from skewless.operators.aggregate.accumulate import AccumulateWork, merge_partials
from skewless.operators.aggregate.arrived import row_files
from skewless.operators.aggregate.finish import FinishWork
from skewless.operators.aggregate.groupers import (
    DRIVER,
    facts_of,
    newest_groupers,
    resume_grouper,
    write_grouper,
)
from skewless.operators.aggregate.ingest import ingest
from skewless.operators.aggregate.row_shares import (
    Shares,
    fixed_shares,
    planned_shares,
    put_together,
)
from skewless.operators.aggregate.spec import PARTIALS, AggregateSpec, Mode
from skewless.operators.shares import equal_shares
from skewless.placement.figures import Decision
from skewless.placement.grouping import Grouper, Grouping
from skewless.state.blobs import BlobInfo
from skewless.state.commits import OperatorState
from skewless.state.files import Folder


@dataclass(frozen=True)
class AggregateOperator(Operator):
    """An aggregation, whose rows a grouping divides over so many instances. In "append" mode a
    group is emitted once, when its window closes, in "update" mode whenever it changes. If it is
    `elastic`, input tasks divide rows by the cores that there were in the batch before; of that,
    an instance takes several parts where a batch needs fewer instances."""

    spec: AggregateSpec
    grouping: Grouping
    instances: int
    mode: Mode = "append"
    elastic: bool = False

    kind: ClassVar[str] = "aggregate"

    @property
    def divided_by(self) -> str:
        return repr(self.grouping)

    def ingest(
        self, name: str, batches: Iterable[pa.RecordBatch], context: IngestContext
    ) -> Iterator[Arrival]:
        instances = self.parts(context.state())
        return ingest(batches, self.spec, self.grouping, instances, context)

    def parts(self, state: OperatorState | None) -> int:
        """Into how many parts the rows of a batch are divided, after the `state` before it."""
        begun = self.instances
        return begun if state is None or not self.elastic else state.facts.get("instances", begun)

    def coordinator(self, state: OperatorState | None, folder: Folder) -> AggregateCoordinator:
        return AggregateCoordinator(self)


class AggregateCoordinator(Coordinator):
    """Divides the rows of every batch, and says which results are due."""

    def __init__(self, operator: AggregateOperator) -> None:
        self._operator, self._spec = operator, operator.spec
        self._grouper: Grouper | None = None
        self._decisions: tuple[Decision, ...] = ()

    def plan(self, batch: Batch) -> Step:
        closed_to_us, layouts = self._closed_before(batch), self._spec.layouts()
        return Step(
            name="accumulate",
            instances=batch.instances,
            work=AccumulateWork(self._spec, self._shares(batch), closed_to_us),
            emits=False,
            layouts=layouts,
            compaction=batch.compaction(
                batch.instances,
                layouts,
                {PARTIALS: closed_to_us + 1},
                merge=partial(merge_partials, self._spec),
                shares=partial(equal_shares, batch.instances),
            ),
        )

    def _shares(self, batch: Batch) -> Shares:
        """Which rows every instance is to work on."""
        files, grouping = row_files(batch.arrivals), self._operator.grouping
        parts = self._operator.parts(batch.state)
        if not grouping.planned_by_driver:
            return put_together(fixed_shares(files, parts), batch.instances)
        self._grouper = resume_grouper(batch.folder, batch.state, grouping, parts, DRIVER)
        shares, self._decisions = planned_shares(files, self._grouper)
        return put_together(shares, batch.instances)

    def next(self, batch: Batch) -> Step | None:
        old, new = batch.old_after(batch.state.segments), tuple(batch.written())
        closed_to_us, touched = self._closed_after(batch), self._operator.mode == "update"
        is_due = new if touched else any(s.time_min_us <= closed_to_us for s in (*old, *new))
        if not is_due:
            return None
        return Step(
            name="finish",
            instances=batch.instances,
            work=FinishWork(
                self._spec, old, new, self._closed_before(batch), closed_to_us, touched
            ),
            emits=True,
            layouts=self._spec.layouts(),
        )

    def conclude(self, batch: Batch) -> Outcome:
        alive = batch.old_after(batch.state.segments).added(batch.written())
        closed_to_us = self._closed_after(batch)
        loads = tuple(report.load for report in batch.received(0))
        return Outcome(
            segments=alive.kept({PARTIALS: closed_to_us + 1}),
            blobs=self._groupers(batch),
            facts=facts_of(self._operator.grouping, self._parts_next(batch)),
            loads=loads,
            decisions=self._decisions,
            verdict=_verdict(loads),
        )

    def _parts_next(self, batch: Batch) -> int:
        parts = self._operator.parts(batch.state)
        return parts if batch.cores is None or not self._operator.elastic else batch.cores

    def _groupers(self, batch: Batch) -> tuple[BlobInfo, ...]:
        """What is known of a division; of another one, nothing yet."""
        parts = self._operator.parts(batch.state)
        if parts != self._parts_next(batch):
            return ()
        if self._grouper is not None:
            return (write_grouper(batch.folder, self._grouper, DRIVER),)
        return newest_groupers(
            batch.state, batch.arrivals, facts_of(self._operator.grouping, parts)
        )

    def _closed_before(self, batch: Batch) -> int:
        """Windows that began up to here are closed: rows for them are late."""
        return self._spec.closed_to_us(batch.watermark_us)

    def _closed_after(self, batch: Batch) -> int:
        """The same when the batch is done. Windows close by the watermark that it leads to: waiting
        for the next batch would hold results back while a stream pauses. Rows of the batch itself
        are late only by the watermark before it, so how a stream is cut into batches makes nothing
        late. The last batch closes everything."""
        return FAR_US if batch.is_last else self._spec.closed_to_us(batch.next_watermark_us)


def _verdict(loads: Sequence[InstanceLoad]) -> str:
    """How even the work of a batch was, in one line."""
    rows = np.array([load.rows for load in loads], float)
    if len(rows) < 2 or not rows.sum():
        return ""
    over = rows.max() / rows.mean()
    busiest = loads[int(rows.argmax())].instance
    if over <= 1.1:
        return f"even: the busiest instance has {over:.2f} times the mean of rows"
    return f"instance {busiest} is the busiest, with {over:.2f} times the mean of rows"
