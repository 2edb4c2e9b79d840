"""Drives the core without Spark, the way the streaming query does: tables are cut into tasks, every
task ingests, a plan is made, every instance joins, the batch is committed.

What Spark would carry between processes is carried through JSON and pickle here, too.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skewless.balancing.base import Balancing
from skewless.joining.ingest import ingest
from skewless.joining.runtime import JoinRuntime, run_instance
from skewless.model import SIDES, Arrival, BatchPlan, BatchReport, Side
from skewless.routing import Hash, Routing
from tests.oracle import Answer, Row, Tables, multiset, rows_of
from tests.queries import Query

Task = list[pa.RecordBatch]


@dataclass(frozen=True)
class Setup:
    """What may change when a query is started again."""

    routing: Routing | Balancing = field(default_factory=Hash)
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


class Driver(Query):
    setup_type = Setup

    def _started(self) -> JoinRuntime:
        return JoinRuntime(
            self.root,
            self.spec,
            self.setup.routing,
            self.setup.instances,
            self.setup.slots,
            **self._options,
        )

    def ingest(self, batch: Batch, *, twice: bool = False) -> list[Arrival]:
        """Have every task store its rows; `twice` as when a task is repeated, and the result of the
        first attempt gets lost."""
        found: list[Arrival] = []
        for side in SIDES:
            for task in batch.left if side == "left" else batch.right:
                for _ in range(2 if twice else 1):
                    told = self._ingest_task(task, side)
                found += told
        return found

    def _ingest_task(self, task: Task, side: Side) -> list[Arrival]:
        spec = pickle.loads(pickle.dumps(self.spec))
        told = [json.dumps(a.to_json()) for a in ingest(iter(task), spec, side, self.root)]
        return [Arrival.from_json(json.loads(text)) for text in told]

    def join(self, plan: BatchPlan, instance: int, *, twice: bool = False) -> list[pa.RecordBatch]:
        """The work of one instance; `twice` as when a task is repeated."""
        spec, plan = pickle.loads(pickle.dumps((self.spec, plan)))
        for _ in range(2 if twice else 1):
            result = list(run_instance(spec, plan, instance))
        return result

    def run(self, batch_id: int, batch: Batch, *, twice: bool = False) -> Outcome:
        if self.runtime.is_done(batch_id):
            return Outcome(Counter(), None)
        arrivals = self.ingest(batch, twice=twice)
        plan = self.runtime.plan(batch_id, arrivals)
        parts = [self.join(plan, i, twice=twice) for i in range(plan.routing.instances)]
        moves = self._stage(batch_id, parts)
        report = self.runtime.commit(plan, arrivals, moves)
        rows = [row for part in parts for result in part for row in rows_of(result)]
        return Outcome(multiset(rows), report)

    def run_all(self, batches: Sequence[Batch], **options: Any) -> list[Outcome]:
        return [self.run(number, batch, **options) for number, batch in enumerate(batches)]

    def published(self) -> Counter[Row]:
        return multiset(rows_of(super().published()))


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
