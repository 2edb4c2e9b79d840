"""Similarity joins without Spark: tables are cut into tasks, and the one loop does the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skewless.engine.report import BatchReport
from skewless.operators.similarity.operator import SimilarityOperator
from skewless.operators.similarity.strategies import S3J, SimilarityStrategy
from skewless.operators.similarity.worksets import Worksets, read_all
from tests.oracle import Row, multiset, rows_of
from tests.queries import OperatorRun, Ran, Streams

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


class SimilarityDriver(OperatorRun):
    setup_type = Setup

    def operator(self) -> SimilarityOperator:
        setup: Setup = self.setup
        return SimilarityOperator(self.spec, setup.strategy, setup.instances)

    def streams(self, batch: Batch) -> Streams:
        return [batch.get(side, ()) for side in self.spec.sides]

    def outcome(self, ran: Ran) -> Outcome:
        table = None if ran.report is None else ran.results
        return Outcome(multiset(rows_of(ran.results)), ran.report, table)

    def worksets(self) -> Worksets:
        """Those of the last commit."""
        found = read_all(self.query.folder, self.state.blobs)
        assert found is not None
        return found
