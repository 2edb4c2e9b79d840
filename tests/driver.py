"""Drives the core without Spark, the way the streaming query does: tables are cut into tasks, every
task ingests, a plan is made, every instance joins, the batch is committed.

What Spark would carry between processes is carried through JSON and pickle here, too. With an
output folder, the matches are staged as files and published by the commit, so that what a reader
of that folder sees can be compared to the last row.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from skewless import faults
from skewless.balancing.base import Balancing
from skewless.joining.ingest import ingest
from skewless.joining.runtime import JoinRuntime, run_instance
from skewless.model import SIDES, Arrival, BatchPlan, BatchReport, JoinSpec, Side
from skewless.routing import Hash, Routing
from tests.oracle import Answer, Row, Tables, multiset, rows_of
from tests.staging import published, stage

Task = list[pa.RecordBatch]


class CrashError(Exception):
    """The process ends here, as far as the core can tell."""


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


class Driver:
    """One query, from its first start on."""

    def __init__(
        self,
        root: Path | str,
        spec: JoinSpec,
        setup: Setup | None = None,
        *,
        output: Path | None = None,
        **options: int,
    ) -> None:
        self.root, self.spec, self.setup = str(root), spec, setup or Setup()
        self._output, self._options = output, options
        self.reopen()

    def reopen(self, setup: Setup | None = None, spec: JoinSpec | None = None) -> None:
        """Start again from what is on disk; all else is forgotten."""
        self.setup, self.spec = setup or self.setup, spec or self.spec
        self.runtime = JoinRuntime(
            self.root,
            self.spec,
            self.setup.routing,
            self.setup.instances,
            self.setup.slots,
            **self._options,
        )
        self.runtime.open()

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
        """One batch from beginning to end, or nothing if it was committed before."""
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

    def _stage(self, batch_id: int, parts: list[list[pa.RecordBatch]]) -> list[tuple[str, str]]:
        if self._output is None:
            return []
        schema = self.spec.output_schema()
        return stage(self.runtime.folder, batch_id, parts, schema, self._output)

    def published(self) -> Counter[Row]:
        """What a reader of the output folder sees."""
        return multiset(rows_of(published(self._output, self.spec.output_schema())))


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


@contextmanager
def crash_at(point: str, visits: int = 1) -> Iterator[None]:
    """End the work when a point of the commit protocol is reached for the nth time."""
    left = visits

    def reach(name: str, batch_id: int = -1) -> None:
        nonlocal left
        left -= name == point
        if name == point and left == 0:
            raise CrashError(f"{point} in batch {batch_id}")

    with mock.patch.object(faults, "reach", reach):
        yield
