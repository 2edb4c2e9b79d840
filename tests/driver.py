"""Two-way joins without Spark: tables are cut into tasks, and the one loop does the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skewless.engine.report import BatchReport
from skewless.operators.two_way.operator import JoinOperator
from skewless.placement.routing import Hash
from skewless.placement.strategy import PlacementStrategy
from tests.oracle import Answer, Row, Tables, multiset, rows_of
from tests.queries import OperatorRun, Ran, Streams

Task = list[pa.RecordBatch]


@dataclass(frozen=True)
class Setup:
    """What may change when a query is started again."""

    routing: PlacementStrategy = field(default_factory=Hash)
    instances: int = 2
    slots: int = 4


@dataclass(frozen=True)
class Batch:
    """The rows of one micro-batch, cut into tasks, and these into record batches."""

    left: tuple[Task, ...]
    right: tuple[Task, ...]

    def tables(self) -> Tables:
        return tuple(pa.Table.from_batches([b for task in tasks for b in task])
                     for tasks in (self.left, self.right))  # fmt: skip


def cut(rows: pa.RecordBatch, at: Sequence[int]) -> list[pa.RecordBatch]:
    """Rows cut at the given positions. A position that comes twice makes an empty piece."""
    ends = sorted(min(position, rows.num_rows) for position in at)
    begins = [0, *ends]
    return [
        rows.slice(begin, end - begin)
        for begin, end in zip(begins, [*ends, rows.num_rows], strict=True)
    ]


@dataclass(frozen=True)
class Outcome:
    """What came of one batch: its matches, and its report (none if it was committed before)."""

    rows: Counter[Row]
    report: BatchReport | None


class Driver(OperatorRun):
    setup_type = Setup

    def operator(self) -> JoinOperator:
        setup: Setup = self.setup
        return JoinOperator(self.spec, setup.routing, setup.instances, setup.slots)

    def streams(self, batch: Batch) -> Streams:
        return batch.left, batch.right

    def outcome(self, ran: Ran) -> Outcome:
        rows = [row for batch in ran.results.to_batches() for row in rows_of(batch)]
        return Outcome(multiset(rows), ran.report)

    def published(self) -> Counter[Row]:
        return multiset(rows_of(self.published_table()))


def assert_right(outcomes: Sequence[Outcome], expected: Sequence[Answer]) -> None:
    """Batch by batch: the matches to the last row, and everything that was dropped and counted."""
    for number, (outcome, answer) in enumerate(zip(outcomes, expected, strict=True)):
        report = outcome.report
        assert report is not None
        assert outcome.rows == answer.rows, f"batch {number}"
        told = Answer(
            outcome.rows,
            report.late,
            report.null_keys,
            report.null_times,
            report.nan_bands,
            report.watermark_us,
        )
        assert told == answer, f"batch {number}"
        assert report.matches == answer.rows.total()
