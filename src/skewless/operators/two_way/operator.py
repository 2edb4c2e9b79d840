"""The two-way join as an operator: one step a batch, which every instance has its share of.

What the instances measure goes to the strategy's `Placing`, which says who works on what in the
next batch; that is part of the operator's facts.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skewless.arrays.keys import hash_of_value
from skewless.arrays.telling import bounded
from skewless.arrays.types import FAR_US, SIDES, Floats, Side
from skewless.engine.changes import Adopted, Facts
from skewless.engine.operator import (
    BUCKETS_MAX,
    Arrival,
    Batch,
    Coordinator,
    IngestContext,
    Operator,
    Outcome,
    Step,
)
from skewless.engine.operator import Work as InstanceWork
from skewless.engine.report import InstanceLoad, InstanceReport, loads_ms
from skewless.errors import ArgumentError
from skewless.operators.pair import JoinSpec, keyless
from skewless.operators.shares import shares_of
from skewless.operators.two_way.changes import EARLIER, adopt, earlier_epochs, without_past
from skewless.operators.two_way.ingest import ingest
from skewless.operators.two_way.loads import load_report
from skewless.operators.two_way.probing import probing_sides
from skewless.operators.two_way.work import JoinPlan, JoinWork
from skewless.placement.balancing.verdict import verdict
from skewless.placement.figures import Decision, LoadReport, Work
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.strategy import PlacementStrategy, Placing
from skewless.placement.units import slot_bounds, slot_of
from skewless.state.commits import OperatorState
from skewless.state.files import Folder
from skewless.state.rewriting import Layout
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SCRATCH, Rows

log = logging.getLogger("skewless")

NOTHING_MEASURED: dict[str, Any] = {"slot": [], "slots": {}, "key": [], "value": [], "keys": {}}


@dataclass(frozen=True)
class JoinOperator(Operator):
    """A join of two inputs, divided over so many instances by ranges of hashes, the slots. These
    are divided further where an instance would have less than half of `slots_each`."""

    spec: JoinSpec
    strategy: PlacementStrategy
    instances: int
    slots: int
    elastic: bool = False
    slots_each: int = 0

    kind: ClassVar[str] = "join"

    @property
    def divided_by(self) -> str:
        return repr(self.strategy)

    def ingest(
        self, name: str, batches: Iterable[pa.RecordBatch], context: IngestContext
    ) -> Iterator[Arrival]:
        return ingest(batches, self.spec, name, context)

    def exchanged(self) -> Mapping[str, Layout]:
        copies = {name: self._layout(side) for name, side in probing_sides(self.spec).items()}
        return {side: self._layout(side) for side in SIDES} | copies

    @property
    def buckets(self) -> int:
        return min(self.slots, BUCKETS_MAX)

    def store(self, name: str, side: str, rows: Rows, context: IngestContext) -> Arrival:
        if side in probing_sides(self.spec):
            return Arrival(name, scratch=(self.write(side, rows, context, SCRATCH),))
        return super().store(name, side, rows, context)

    def coordinator(self, state: OperatorState | None, folder: Folder) -> JoinCoordinator:
        return JoinCoordinator(self, state)

    def work(self, spec: JoinSpec, plan: JoinPlan) -> InstanceWork:
        """What every instance does in a batch; `spec` knows of bounds that were changed."""
        return JoinWork(spec, plan)

    @property
    def instances_least(self) -> int:
        return 1 + max((instance for _, instance in self.strategy.pinned), default=0)

    def adopt(
        self, state: OperatorState | None, before: Facts, after: Facts, *, feeds: bool
    ) -> Adopted:
        return adopt(self.spec, state, before, after, feeds=feeds)

    def layouts(self) -> dict[str, Layout]:
        found = dict(self.exchanged())
        return found | {keyless(side): self._layout(side) for side in self.spec.how.unmatched}

    def _layout(self, side: Side) -> Layout:
        this = self.spec.side(side)
        return Layout(this.schema, this.time)


class JoinCoordinator(Coordinator):
    """Plans every batch by the placement, and has the strategy judge what came of it."""

    def __init__(self, operator: JoinOperator, state: OperatorState | None) -> None:
        self._operator = operator
        self._spec = replace(operator.spec, earlier=earlier_epochs(state))
        self._slots = operator.slots
        facts: Mapping[str, Any] = {} if state is None else state.facts
        if facts and facts["slots"] != self._slots and not operator.slots_each:
            log.warning(
                "the checkpoint has %d slots, %d were asked for: %d are used",
                facts["slots"], self._slots, facts["slots"],
            )  # fmt: skip
        self._slots = facts.get("slots", self._slots)
        self._decided_us: dict[str, int] = dict(facts.get("decided_us", {}))
        stored = facts.get("placement")
        placement = None if stored is None else Placement.from_json(stored)
        before = operator.instances if placement is None else placement.instances
        instances = (
            max(before, operator.instances_least) if operator.elastic else operator.instances
        )
        self.placing: Placing = self._placed(placement, instances)

    def _placed(self, placement: Placement | None, instances: int) -> Placing:
        """So many instances, placed as they were as far as that goes; with finer slots, if there
        are too few of them."""
        each = self._operator.slots_each
        finer = -(-each * instances // (2 * self._slots)) if each else 1
        if finer > 1:
            self._slots *= finer
            placement = None if placement is None else placement.refined(finer)
        if self._operator.elastic and placement is not None:
            placement = placement.resized(instances)
        stored = None if placement is None else placement.to_json()
        pinned = self._pinned(instances)
        return self._operator.strategy.begin(self._slots, instances, stored, pinned)

    def _pinned(self, instances: int) -> dict[int, IsolatedKey]:
        pinned = {}
        for value, instance in self._operator.strategy.pinned:
            if instance >= instances:
                accepted = f"{{key: instance}}, instances from 0 to {instances - 1}"
                raise ArgumentError("pin", {value: instance}, accepted)
            key, here = hash_of_value(value, self._spec.left), (instance,)
            written = bounded(", ".join(map(str, value if isinstance(value, tuple) else (value,))))
            pinned[key] = IsolatedKey(key, written, slot_of(key, self._slots), here, here)
        return pinned

    def homes(self, buckets: int, instances: int) -> Sequence[int]:
        homes: dict[int, list[int]] = defaultdict(list)
        for instance, units in enumerate(self.placing.table.units):
            for unit in (unit for unit in units if not unit.isolated):
                homes[unit.hash_min].append(instance % instances)
        begins, found = sorted(homes), []
        for bucket in range(buckets):
            low, _ = slot_bounds(bucket, bucket, buckets)
            sharing = homes[begins[max(bisect_right(begins, low) - 1, 0)]]
            found.append(sharing[bucket % len(sharing)])
        return found

    def homes_apart(self, instances: int) -> Mapping[int, Sequence[int]]:
        homes: dict[int, list[int]] = defaultdict(list)
        for instance, units in enumerate(self.placing.table.units):
            for unit in (unit for unit in units if unit.isolated):
                homes[unit.hash_min].append(instance % instances)
        return homes

    def _keep_after_us(self, watermark_us: int) -> dict[str, int]:
        spec, decided_us = self._spec, self._decided_us
        keep = {side: spec.keep_after_us(side, watermark_us, decided_us) for side in SIDES}
        waiting = {keyless(s): decided_us.get(s, -FAR_US) for s in spec.how.unmatched}
        return keep | waiting

    def _deciding_us(self, batch: Batch) -> dict[str, tuple[int, int]]:
        """From which time to which rows of a side are decided about in a batch."""
        found: dict[str, tuple[int, int]] = {}
        for side in self._spec.looked_up:
            since = self._decided_us.get(side, -FAR_US)
            until = self._spec.decided_before_us(side, batch.next_watermark_us)
            found[side] = (since, FAR_US if batch.is_last else max(since, until))
        return found

    def plan(self, batch: Batch) -> Step:
        if batch.instances != self.placing.table.instances:
            self.placing = self._placed(self.placing.placement, batch.instances)
        keep_after_us, layouts = self._keep_after_us(batch.watermark_us), self._operator.layouts()
        table = self.placing.table
        plan = JoinPlan(
            keep_after_us,
            table,
            batch.new_runs(),
            batch.state.segments,
            self._operator.strategy.keys_told,
            self._deciding_us(batch),
            batch.new_scratch(),
        )
        return Step(
            name=self._operator.kind,
            instances=table.instances,
            work=self._operator.work(self._spec, plan),
            emits=True,
            layouts=layouts,
            compaction=batch.compaction(
                table.instances, layouts, keep_after_us, shares=partial(shares_of, table)
            ),
        )

    def conclude(self, batch: Batch) -> Outcome:
        table = self.placing.table
        reports = [
            InstanceReport(InstanceLoad(i), detail=NOTHING_MEASURED) if report is None else report
            for i, report in enumerate(batch.reports[-1])
        ]
        load = load_report(batch.batch_id, table, reports)
        judged = self._verdict(load, loads_ms([report.load for report in reports]))
        decisions = self._observe(load, reports) if batch.is_complete else ()
        placement = self.placing.placement
        self._decided_us = {s: until for s, (_, until) in self._deciding_us(batch).items()}
        alive = self._alive(batch)
        watermark_us = batch.next_watermark_us
        kept_us = self._keep_after_us(watermark_us)["left"]
        self._spec = without_past(self._spec, kept_us, watermark_us)
        return Outcome(
            segments=alive,
            facts={
                EARLIER: [asdict(epoch) for epoch in self._spec.earlier],
                "decided_us": self._decided_us,
                "strategy": table.strategy,
                "instances": table.instances,
                "slots": table.slots,
                "placement": None if placement is None else placement.to_json(),
            },
            loads=tuple(report.load for report in reports),
            decisions=tuple(decisions),
            verdict=judged,
            slots=load.slots,
            keys=load.keys,
            key_figures=load.key_figures,
        )

    def _verdict(self, load: LoadReport, work_ms: Floats) -> str:
        placement = self.placing.placement
        isolated = {} if placement is None else placement.isolated_by_hash
        return verdict(load, work_ms, isolated)

    def _observe(self, load: LoadReport, reports: Sequence[InstanceReport]) -> Sequence[Decision]:
        def each(name: str) -> Floats:
            return np.array([getattr(report.load, name) for report in reports], float)

        isolated = Work(each("isolated_rows"), each("isolated_pairs"), each("isolated_ms"))
        return self.placing.observe(load, each("rows"), each("pairs"), isolated)

    def _alive(self, batch: Batch) -> SegmentSet:
        """What can still meet a row to come."""
        keep_after_us = self._keep_after_us(batch.next_watermark_us)
        return batch.old_after(batch.state.segments).added(batch.in_time()).kept(keep_after_us)
