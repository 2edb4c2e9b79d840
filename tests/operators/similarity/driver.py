"""Drives a similarity join without Spark, the way the streaming query does. What Spark would carry
between processes is carried through JSON and pickle here, too."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skewless.engine.report import BatchReport
from skewless.operators.similarity.ingest import ingest_vectors
from skewless.operators.similarity.operator import SimilarityRuntime
from skewless.operators.similarity.spec import SimilarityPlan, VectorArrival
from skewless.operators.similarity.strategies import S3J, SimilarityStrategy
from skewless.operators.similarity.work import run_similarity
from tests.oracle import Row, multiset, rows_of
from tests.queries import Query

Task = list[pa.RecordBatch]
Batch = dict[str, Sequence[Task]]  # per side its tasks


@dataclass(frozen=True)
class Setup:
    """What may change when a query is started again."""

    strategy: SimilarityStrategy = field(default_factory=S3J)
    instances: int = 2


@dataclass(frozen=True)
class Outcome:
    """What came of one batch: its pairs, and its report (none if it was committed before)."""

    rows: Counter[Row]
    report: BatchReport | None
    table: pa.Table | None = None


class SimilarityDriver(Query):
    setup_type = Setup

    def _started(self) -> SimilarityRuntime:
        return SimilarityRuntime(
            self.root, self.spec, self.setup.strategy, self.setup.instances, **self._options
        )

    def ingest(self, batch: Batch, *, twice: bool = False) -> list[VectorArrival]:
        found: list[VectorArrival] = []
        for side in self.spec.sides:
            for task in batch.get(side, ()):
                for _ in range(2 if twice else 1):
                    spec, strategy = pickle.loads(pickle.dumps((self.spec, self.setup.strategy)))
                    arrived = ingest_vectors(iter(task), spec, strategy, side, self.root)
                    told = [json.dumps(a.to_json()) for a in arrived]
                found += [VectorArrival.from_json(json.loads(text)) for text in told]
        return found

    def join(self, plan: SimilarityPlan, *, twice: bool = False) -> list[list[pa.RecordBatch]]:
        parts = []
        for instance in range(plan.instances):
            for _ in range(2 if twice else 1):
                spec, mine, strategy = pickle.loads(
                    pickle.dumps((self.spec, plan, self.setup.strategy))
                )
                part = list(run_similarity(spec, mine, strategy, instance))
            parts.append(part)
        return parts

    def run(self, batch_id: int, batch: Batch, *, twice: bool = False) -> Outcome:
        if self.runtime.is_done(batch_id):
            return Outcome(Counter(), None)
        arrivals = self.ingest(batch, twice=twice)
        plan = self.runtime.plan(batch_id, arrivals)
        parts = self.join(plan, twice=twice)
        moves = self._stage(batch_id, parts)
        report = self.runtime.commit(plan, arrivals, moves)
        found = [result for part in parts for result in part]
        table = pa.Table.from_batches(found, self.spec.output_schema())
        return Outcome(multiset(rows_of(table)), report, table)
