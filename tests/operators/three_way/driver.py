"""Three-way joins without Spark: the one loop does everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skewless.engine.batch import BatchWork
from skewless.engine.executor import InProcessExecutor
from skewless.engine.operator import Batch as EngineBatch
from skewless.engine.operator import Step
from skewless.engine.report import BatchReport
from skewless.operators.three_way.operator import ThreeWayOperator
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy
from tests.oracle import Row, multiset, rows_of
from tests.queries import OperatorRun, Ran, Streams

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


class ThreeDriver(OperatorRun):
    setup_type = Setup

    def operator(self) -> ThreeWayOperator:
        setup: Setup = self.setup
        return ThreeWayOperator(self.spec, setup.strategy, setup.instances)

    def streams(self, batch: Batch) -> Streams:
        return batch

    def begun(self, batch_id: int, batch: Batch) -> EngineBatch:
        """A batch whose rows have arrived, and nothing more."""
        node, streams = self.pipeline.root, self.streams(batch)
        arrivals = InProcessExecutor(self.pipeline, self.root, streams).arrivals()
        return self.query.begin(node, batch_id, arrivals, {})

    def steps(self, batch_id: int, batch: Batch) -> list[Step]:
        """The steps of a batch that is not committed."""
        executor = InProcessExecutor(self.pipeline, self.root, self.streams(batch))
        work = BatchWork(self.query, executor, batch_id)
        work.up_to_results()
        work.results()
        return [task.step for task in executor.ran]

    def outcome(self, ran: Ran) -> Outcome:
        rows = [row for batch in ran.results.to_batches() for row in rows_of(batch)]
        return Outcome(multiset(rows), ran.report)

    def published(self) -> Counter[Row]:
        return multiset(rows_of(self.published_table()))
