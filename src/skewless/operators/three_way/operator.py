"""The three-way join as an operator: one step a batch, and one before it where pairs must be there.

What the instances measure goes to the running strategy, which says how the next batch is joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from skewless.engine.operator import (
    Arrival,
    Batch,
    Coordinator,
    IngestContext,
    Operator,
    Outcome,
    Step,
)
from skewless.engine.report import INTERMEDIATES, InstanceLoad
from skewless.operators.three_way.ingest import ingest
from skewless.operators.three_way.layout import keep_after_us, layouts
from skewless.operators.three_way.packs import kinds_of
from skewless.operators.three_way.reader import BatchSegments
from skewless.operators.three_way.spec import NAMES, ThreeSpec
from skewless.operators.three_way.strategies import ThreeStrategy
from skewless.operators.three_way.work import ThreeWork
from skewless.state.commits import OperatorState
from skewless.state.files import Folder
from skewless.state.segment_set import SegmentSet


@dataclass(frozen=True)
class ThreeWayOperator(Operator):
    """A join of three inputs, divided over so many instances."""

    spec: ThreeSpec
    strategy: ThreeStrategy
    instances: int
    elastic: bool = False

    kind: ClassVar[str] = "join3"

    @property
    def divided_by(self) -> str:
        return repr(self.strategy)

    def fingerprint(self) -> dict[str, str]:
        intermediates = self.strategy.intermediates(self.spec)
        return self.spec.fingerprint() | {"intermediate results": intermediates}

    def copies(self, name: str) -> int:
        return len(self.spec.edges_of(NAMES.index(name)))

    def ingest(
        self, name: str, batches: Iterable[pa.RecordBatch], context: IngestContext
    ) -> Iterator[Arrival]:
        return ingest(batches, self.spec, NAMES.index(name), context.folder)

    def coordinator(self, state: OperatorState | None, folder: Folder) -> ThreeWayCoordinator:
        return ThreeWayCoordinator(self, state)


class ThreeWayCoordinator(Coordinator):
    """Has the running strategy say what to do in every batch, and judge what came of it."""

    def __init__(self, operator: ThreeWayOperator, state: OperatorState | None) -> None:
        self._spec = operator.spec
        self.running = operator.strategy.begin(operator.spec, {} if state is None else state.facts)

    def plan(self, batch: Batch) -> Step:
        segments = self._segments(batch)
        first = self.running.first_work(batch.state, segments)
        return (
            self._last_step(batch, segments) if first is None else self._step(batch, "pairs", first)
        )

    def next(self, batch: Batch) -> Step:
        made = tuple(batch.written())
        return self._last_step(batch, replace(self._segments(batch), made=made))

    def _segments(self, batch: Batch) -> BatchSegments:
        return BatchSegments(batch.new_runs(), self.running.segments(batch.state))

    def _step(self, batch: Batch, name: str, work: ThreeWork) -> Step:
        return Step(
            name=name,
            instances=batch.instances,
            work=work,
            emits=work.emits,
            layouts=layouts(self._spec),
        )

    def _last_step(self, batch: Batch, segments: BatchSegments) -> Step:
        step = self._step(batch, "join", self.running.work(segments))
        needed_us = keep_after_us(self._spec, batch.watermark_us)
        return replace(
            step,
            compaction=batch.compaction(batch.instances, step.layouts, needed_us, segments.old),
            must_finish=self.running.stores_pairs,
        )

    def conclude(self, batch: Batch) -> Outcome:
        segments, facts = self._alive(batch), self.running.facts()
        shipped = sum(r.detail["shipped"] for step in batch.reports for r in step if r is not None)
        return Outcome(
            segments=segments,
            facts=facts,
            loads=self._loads(batch),
            counters={
                INTERMEDIATES: segments.only({k.side for k in kinds_of(self._spec)}).rows,
                "shipped": shipped,
            },
            decisions=tuple(self.running.observe(batch)) if batch.is_complete else (),
        )

    def _loads(self, batch: Batch) -> tuple[InstanceLoad, ...]:
        """What the instances did in all steps of the batch."""
        loads = [InstanceLoad(i) for i in range(batch.instances)]
        for report in (r for step in batch.reports for r in step if r is not None):
            number = report.load.instance
            loads[number] = loads[number].plus(report.load)
        return tuple(loads)

    def _alive(self, batch: Batch) -> SegmentSet:
        """What can still meet a row to come."""
        needed_us = keep_after_us(self._spec, batch.next_watermark_us)
        old = batch.old_after(self.running.segments(batch.state))
        return old.added((*batch.written(), *batch.in_time())).kept(needed_us)
