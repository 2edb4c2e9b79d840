"""Drives a three-way join without Spark, the way the streaming query does. What Spark would carry
between processes is carried through JSON and pickle here, too."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skewless.engine.report import BatchReport
from skewless.operators.three_way.ingest import ingest_stream
from skewless.operators.three_way.operator import ThreeRuntime
from skewless.operators.three_way.spec import STREAMS, StreamArrival, ThreePlan, Told
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy
from skewless.operators.three_way.work import run_pairs, run_three
from tests.oracle import Row, multiset, rows_of
from tests.queries import Query

Task = list[pa.RecordBatch]
Batch = Sequence[Sequence[Task]]  # per stream its tasks


@dataclass(frozen=True)
class Setup:
    """What may change when a query is started again."""

    strategy: ThreeStrategy = field(default_factory=AutoThree)
    instances: int = 2


@dataclass(frozen=True)
class Outcome:
    """What came of one batch: its triples, and its report (none if it was committed before)."""

    rows: Counter[Row]
    report: BatchReport | None


class ThreeDriver(Query):
    setup_type = Setup

    def _started(self) -> ThreeRuntime:
        return ThreeRuntime(
            self.root, self.spec, self.setup.strategy, self.setup.instances, **self._options
        )

    def ingest(self, batch: Batch, *, twice: bool = False) -> list[StreamArrival]:
        found: list[StreamArrival] = []
        for stream in STREAMS:
            for task in batch[stream]:
                for _ in range(2 if twice else 1):
                    spec = pickle.loads(pickle.dumps(self.spec))
                    arrived = ingest_stream(iter(task), spec, stream, self.root)
                    told = [json.dumps(a.to_json()) for a in arrived]
                found += [StreamArrival.from_json(json.loads(text)) for text in told]
        return found

    def join(self, plan: ThreePlan, *, twice: bool = False) -> list[list[pa.RecordBatch]]:
        parts = []
        for instance in range(plan.instances):
            for _ in range(2 if twice else 1):
                spec, mine, strategy = pickle.loads(
                    pickle.dumps((self.spec, plan, self.setup.strategy))
                )
                part = list(run_three(spec, mine, strategy, instance))
            parts.append(part)
        return parts

    def run(self, batch_id: int, batch: Batch, *, twice: bool = False) -> Outcome:
        if self.runtime.is_done(batch_id):
            return Outcome(Counter(), None)
        arrivals = self.ingest(batch, twice=twice)
        plan = self.runtime.plan(batch_id, arrivals)
        if self.runtime.has_first_step(plan):
            told = [
                Told.from_json(
                    json.loads(
                        json.dumps(run_pairs(self.spec, plan, self.setup.strategy, i).to_json())
                    )
                )
                for i in range(plan.instances)
            ]
            plan = self.runtime.with_pairs(plan, told)
        parts = self.join(plan, twice=twice)
        moves = self._stage(batch_id, parts)
        report = self.runtime.commit(plan, arrivals, moves)
        rows = [row for part in parts for result in part for row in rows_of(result)]
        return Outcome(multiset(rows), report)

    def published(self) -> Counter[Row]:
        return multiset(rows_of(super().published()))
