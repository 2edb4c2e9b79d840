"""Aggregations without Spark: rows are cut into tasks, and the one loop does the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skewless.engine.batch import BatchWork
from skewless.engine.executor import InProcessExecutor
from skewless.operators.aggregate.groupers import resume_grouper
from skewless.operators.aggregate.operator import AggregateOperator
from skewless.operators.aggregate.spec import Mode
from skewless.placement.grouping import BatchAware, Grouper, Grouping
from tests.queries import OperatorRun, Ran, Streams

Task = list[pa.RecordBatch]
Batch = Sequence[Task]
Outcome = Ran


@dataclass(frozen=True)
class Setup:
    """What may change when a query is started again."""

    grouping: Grouping = field(default_factory=BatchAware)
    instances: int = 2
    mode: Mode = "append"


class AggregateDriver(OperatorRun):
    setup_type = Setup

    def operator(self) -> AggregateOperator:
        setup: Setup = self.setup
        return AggregateOperator(self.spec, setup.grouping, setup.instances, setup.mode)

    def streams(self, batch: Batch) -> Streams:
        return (batch,)

    def executor(
        self, batch: Batch, kind: type[InProcessExecutor] = InProcessExecutor
    ) -> InProcessExecutor:
        """What runs a batch, for tests that look at it or change it."""
        return kind(self.pipeline, self.root, self.streams(batch), faithful=True)

    def run_to_the_end(self, batch: Batch) -> Outcome:
        """A first batch that is the last one, too, as with static input; nothing is committed."""
        work = BatchWork(self.query, self.executor(batch), 0, is_last=True)
        work.up_to_results()
        rows = [rows for part in work.results() for rows in part]
        return Outcome(pa.Table.from_batches(rows, self.schema), None)

    @property
    def labels(self) -> list[str]:
        """The groupers that the last commit lists."""
        return [blob.label for blob in self.state.blobs]

    def grouper(self, label: str) -> Grouper:
        """A grouper as the last commit has it."""
        assert label in self.labels
        grouping, instances = self.setup.grouping, self.setup.instances
        return resume_grouper(self.query.folder, self.state, grouping, instances, label)
