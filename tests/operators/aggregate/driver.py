"""Drives an aggregation without Spark, the way the streaming query does. What Spark would carry
between processes is carried through JSON and pickle here, too."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skewless.engine.report import BatchReport
from skewless.operators.aggregate.accumulate import accumulate
from skewless.operators.aggregate.finish import finish
from skewless.operators.aggregate.ingest import ingest_rows
from skewless.operators.aggregate.operator import AggregateRuntime
from skewless.operators.aggregate.spec import (
    Accumulated,
    AccumulatePlan,
    FinishPlan,
    Mode,
    RowsArrived,
)
from skewless.placement.grouping import BatchAware, Grouping
from skewless.state.cache import SegmentCache
from tests.queries import Query

Task = list[pa.RecordBatch]
Batch = Sequence[Task]


@dataclass(frozen=True)
class Setup:
    """What may change when a query is started again."""

    grouping: Grouping = field(default_factory=BatchAware)
    instances: int = 2
    mode: Mode = "append"


@dataclass(frozen=True)
class Outcome:
    """What came of one batch: its results, and its report (none if it was committed before)."""

    results: pa.Table
    report: BatchReport | None


class AggregateDriver(Query):
    setup_type = Setup

    def _started(self) -> AggregateRuntime:
        return AggregateRuntime(
            self.root,
            self.spec,
            self.setup.grouping,
            self.setup.instances,
            self.setup.mode,
            **self._options,
        )

    def ingest(self, batch: Batch, *, twice: bool = False) -> list[RowsArrived]:
        found: list[RowsArrived] = []
        for number, task in enumerate(batch):
            for _ in range(2 if twice else 1):
                told = self._ingest_task(task, number)
            found += told
        return found

    def _ingest_task(self, task: Task, number: int) -> list[RowsArrived]:
        spec, grouping = pickle.loads(pickle.dumps((self.spec, self.setup.grouping)))
        arrived = ingest_rows(iter(task), spec, grouping, self.setup.instances, number, self.root)
        told = [json.dumps(a.to_json()) for a in arrived]
        return [RowsArrived.from_json(json.loads(text)) for text in told]

    def accumulate(self, plan: AccumulatePlan, *, twice: bool = False) -> list[Accumulated]:
        found = []
        for instance in range(plan.instances):
            for _ in range(2 if twice else 1):
                spec, mine = pickle.loads(pickle.dumps((self.spec, plan)))
                told = accumulate(spec, mine, instance, SegmentCache()).to_json()
            found.append(Accumulated.from_json(json.loads(json.dumps(told))))
        return found

    def finish(self, plan: FinishPlan | None, *, twice: bool = False) -> list[list[pa.RecordBatch]]:
        found = []
        for instance in range(0 if plan is None else plan.instances):
            for _ in range(2 if twice else 1):
                spec, mine = pickle.loads(pickle.dumps((self.spec, plan)))
                part = list(finish(spec, mine, instance, SegmentCache()))
            found.append(part)
        return found

    def run(self, batch_id: int, batch: Batch, *, twice: bool = False) -> Outcome:
        schema = self.spec.output_schema()
        if self.runtime.is_done(batch_id):
            return Outcome(schema.empty_table(), None)
        arrivals = self.ingest(batch, twice=twice)
        plan = self.runtime.plan(batch_id, arrivals)
        told = self.accumulate(plan, twice=twice)
        finishing = self.runtime.finish_plan(plan, arrivals, told)
        parts = self.finish(finishing, twice=twice)
        moves = self._stage(batch_id, parts)
        report = self.runtime.commit(plan, finishing, arrivals, told, moves)
        return Outcome(pa.Table.from_batches([b for p in parts for b in p], schema), report)
