"""What does the driver do per batch when a window is long?

    python -m benchmarks.long_window [--batches 115000] [--json]

One hour of time and 115,000 batches in it: every 31 ms, segments arrive, are put together and
expire. There are no rows: tasks only say what they would have written. All else is the engine's:
planning a batch, pickling what its tasks get, committing, cleaning up. Two-way joins and
deduplication, where every instance does its share of compactions; and a join whose sink never reads
to the end, so that nothing is ever put together, until so many segments are alive.

Times depend on the machine and on who else works on it; counts and bytes do not. Files are written
without waiting until they would survive a loss of power, which takes as long as the disk takes.
"""

from __future__ import annotations

import json
import pickle
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Json, say
from benchmarks.tables import Target, console, count, machine, machine_line, verdict
from skewless.arrays.types import HASH_MAX, KeyColumn, SideSpec
from skewless.engine.batch import run_batch
from skewless.engine.executor import Executor, Sink
from skewless.engine.instance import StepTask
from skewless.engine.lifecycle import Query
from skewless.engine.operator import Arrival, Batch, Operator, RunRef
from skewless.engine.pipeline import Feed, IngestTask, Node, Pipeline
from skewless.engine.report import BatchReport, InstanceLoad, InstanceReport
from skewless.operators.deduplicate.operator import DeduplicateOperator, DeduplicateSpec
from skewless.operators.deduplicate.work import KEPT, PENDING
from skewless.operators.pair import JoinSpec, OutputColumn
from skewless.operators.two_way.operator import NOTHING_MEASURED, JoinOperator
from skewless.placement.routing import Hash
from skewless.state.commits import COMMITS
from skewless.state.compaction import Portion
from skewless.state.publish import Moves
from skewless.state.segments import SegmentInfo
from skewless.state.stores import local

HOUR_US = 3_600_000_000
BATCHES = 115_000
INSTANCES, SLOTS = 8, 64
ROW_BYTES = 100
ROWS_PER_TASK = 10_000
SAMPLES = 12  # lines of the table
TIMES = ("plan", "task", "commit", "p50", "p99", "cpu_p50", "cpu_p99")

MEDIAN = "plan and commit, median ms in the slowest twelfth of the batches"
P99 = "plan and commit, p99 ms of processor time"
COMMIT = "largest commit, bytes"
TASK = "largest task, bytes"
TARGETS = (
    Target(MEDIAN, "<=", 50),
    Target(P99, "<=", 50),
    Target(COMMIT, "<=", 1_000_000),
    Target(TASK, "<=", 1_000_000),
)


@dataclass(frozen=True)
class Case:
    """An operator, its inputs, and how many tasks store rows of each in a batch. `detail` is what
    an instance reports. A sink that is not `read` lets no compaction count."""

    name: str
    operator: Operator
    inputs: tuple[str, ...]
    tasks: int
    batches: int
    batch_us: int
    detail: Mapping[str, Any]
    read: bool = True
    keeps: str | None = None  # the side that instances write to


def cases(batches: int) -> Iterator[Case]:
    """All that is measured, with so many batches, or segments, in the window."""
    every_us = HOUR_US // batches
    join, unique = a_join(), a_deduplication()
    yield Case("join", join, ("left", "right"), 2, batches * 11 // 10, every_us, NOTHING_MEASURED)
    yield Case(
        "deduplicate", unique, (PENDING,), 2, batches // 5, 5 * every_us, {"collides": False},
        keeps=KEPT,
    )  # fmt: skip
    seconds = max(1, batches // 32)
    yield Case(
        "join, nothing put together", join, ("left", "right"), 16, seconds * 11 // 10,
        HOUR_US // seconds, NOTHING_MEASURED, read=False,
    )  # fmt: skip


def _side() -> SideSpec:
    schema = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])
    return SideSpec(schema, (KeyColumn(0, pa.int64(), False),), (), 1, 0)


def a_join() -> JoinOperator:
    output = tuple(
        OutputColumn(side, i, f"{side}{i}") for side in ("left", "right") for i in (0, 2)
    )
    spec = JoinSpec(_side(), _side(), -HOUR_US, HOUR_US, output)
    return JoinOperator(spec, Hash(), INSTANCES, SLOTS)


def a_deduplication() -> DeduplicateOperator:
    return DeduplicateOperator(DeduplicateSpec(_side(), HOUR_US), INSTANCES)


def a_segment(
    side: str, rows: int, hashes: tuple[int, int], times: tuple[int, int], level: int, batch_id: int
) -> SegmentInfo:
    name = f"segments/{side}-{uuid.uuid4().hex}.arrow"
    crc32 = hash(name) & 0xFFFFFFFF
    return SegmentInfo(
        name, side, rows, rows * ROW_BYTES, crc32, *hashes, *times, level=level, batch_id=batch_id
    )


def piece_of(portion: Portion, piece: int, keep_after_us: int, batch_id: int) -> SegmentInfo | None:
    """What a piece of a compaction would be; none if all of it has expired."""
    sources = [s for s in portion.segments if s.time_max_us >= keep_after_us]
    if not sources:
        return None
    pieces = portion.rewriting.pieces
    bounds = tuple(HASH_MAX * p // pieces for p in (piece, piece + 1))
    times = (
        max(keep_after_us, min(s.time_min_us for s in sources)),
        max(s.time_max_us for s in sources),
    )
    rows = max(1, sum(s.rows for s in sources) // pieces)
    side, level = portion.rewriting.side, portion.rewriting.level + 1
    return a_segment(side, rows, (bounds[0], bounds[1]), times, level, batch_id)


@dataclass
class NoRows(Executor[None]):
    """Tasks that do nothing, but say what they would have written."""

    case: Case
    batch_id: int
    task_ms: float = 0.0
    task_bytes: int = 0
    pretending_ms: float = 0.0  # processor time of making up what tasks would report

    @property
    def times(self) -> tuple[int, int]:
        begin = self.batch_id * self.case.batch_us
        return begin, begin + self.case.batch_us - 1

    def arrivals(self) -> list[Arrival]:
        whole = (0, HASH_MAX)
        return [
            Arrival(
                name,
                ROWS_PER_TASK,
                (RunRef(a_segment(name, ROWS_PER_TASK, whole, self.times, 0, -1)),),
                time_max_us=self.times[1],
                operator=self.case.operator.kind,
            )
            for name in self.case.inputs
            for _ in range(self.case.tasks)
        ]

    def rows(self, task: StepTask, node: Node) -> None:
        begun = time.perf_counter()
        self.task_bytes = len(pickle.dumps(task))
        self.task_ms = (time.perf_counter() - begun) * 1000

    def no_rows(self, node: Node) -> None:
        return None

    def drain(self, rows: None) -> None:
        return None

    def reports(self, task: StepTask) -> list[InstanceReport]:
        begun = time.thread_time()
        found = [self.report(task, number) for number in range(task.step.instances)]
        self.pretending_ms += (time.thread_time() - begun) * 1000
        return found

    def pass_on(self, task: StepTask, node: Node, ingest: IngestTask, feed: Feed) -> list[Arrival]:
        raise NotImplementedError

    def report(self, task: StepTask, number: int) -> InstanceReport:
        compaction, made = task.step.compaction, []
        for portion in () if compaction is None else compaction.portions:
            assert compaction is not None
            keep_after_us = compaction.keep_after_us[portion.rewriting.side]
            for piece in portion.pieces:
                if piece % task.step.instances == number:
                    made.append(piece_of(portion, piece, keep_after_us, self.batch_id))
        written: tuple[SegmentInfo, ...] = ()
        if self.case.keeps is not None:
            rows = self.case.tasks * ROWS_PER_TASK // INSTANCES
            written = (
                a_segment(self.case.keeps, rows, (0, HASH_MAX), self.times, 0, self.batch_id),
            )
        compacted = tuple(segment for segment in made if segment is not None)
        return InstanceReport(InstanceLoad(number), 1, written, compacted, dict(self.case.detail))


class Timed(Query):
    """A query whose instances report what they would have done, and which is timed."""

    executor: NoRows
    commit_ms: float = 0.0

    def reports(self, task: StepTask) -> list[InstanceReport | None]:
        found: list[InstanceReport | None] = [*self.executor.reports(task)]
        return found if self.executor.case.read else [None, *found[1:]]

    def commit(
        self,
        batch_id: int,
        batches: Mapping[str, Batch],
        moves: Sequence[tuple[str, str]] = (),
        phases_ms: Mapping[str, float] | None = None,
    ) -> BatchReport:
        begun = time.perf_counter()
        report = super().commit(batch_id, batches, moves, phases_ms)
        self.commit_ms = (time.perf_counter() - begun) * 1000
        return report


class Nobody(Sink[None]):
    """A sink that takes nothing."""

    def write(self, result: None, batch_id: int) -> Moves:
        return []


@dataclass
class Figures:
    """Of every batch, what was done and what it left."""

    plan_ms: list[float] = field(default_factory=list)
    task_ms: list[float] = field(default_factory=list)
    commit_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)  # of all that is done for a batch
    task_bytes: list[int] = field(default_factory=list)
    commit_bytes: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)

    def between(self, begin: int, end: int) -> Json:
        spent = np.array(self.plan_ms) + np.array(self.task_ms) + np.array(self.commit_ms)
        return {
            "batches": end,
            "segments": max(self.segments[begin:end]),
            "plan_ms": round(statistics.median(self.plan_ms[begin:end]), 2),
            "task_ms": round(statistics.median(self.task_ms[begin:end]), 2),
            "commit_ms": round(statistics.median(self.commit_ms[begin:end]), 2),
            "p50_ms": round(float(np.percentile(spent[begin:end], 50)), 2),
            "p99_ms": round(float(np.percentile(spent[begin:end], 99)), 2),
            "cpu_p50_ms": round(float(np.percentile(self.cpu_ms[begin:end], 50)), 2),
            "cpu_p99_ms": round(float(np.percentile(self.cpu_ms[begin:end], 99)), 2),
            "task_bytes": max(self.task_bytes[begin:end]),
            "commit_bytes": max(self.commit_bytes[begin:end]),
        }


def run(case: Case, tell: Callable[[str], None] = say) -> Json:
    """Run a case; its figures over time."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as root:
        query = Timed(root, Pipeline.of(case.operator))
        query.open()
        for batch_id in range(case.batches):
            query.executor = executor = NoRows(case, batch_id)
            begun = time.thread_time()
            report = run_batch(query, executor, Nobody(), batch_id)
            assert report is not None
            figures.cpu_ms.append((time.thread_time() - begun) * 1000 - executor.pretending_ms)
            figures.plan_ms.append(report.phases_ms["plan"])
            figures.task_ms.append(executor.task_ms)
            figures.commit_ms.append(query.commit_ms)
            figures.task_bytes.append(executor.task_bytes)
            size = query.folder.size(f"{COMMITS}/{batch_id:012d}-e{query.epoch}.json")
            assert size is not None, "every batch leaves a commit"
            figures.commit_bytes.append(size)
            figures.segments.append(report.segments)
            if batch_id % 10_000 == 9_999:
                tell(f"{case.name}: {batch_id + 1} batches, {report.segments} segments")
        begun = time.perf_counter()
        Query(root, Pipeline.of(case.operator))._commits.latest()
        read_ms = (time.perf_counter() - begun) * 1000
    cuts = [case.batches * i // SAMPLES for i in range(SAMPLES + 1)]
    parts = [figures.between(a, b) for a, b in pairwise(cuts) if b > a]
    return {
        "case": case.name,
        "segments_written": case.batches * case.tasks * len(case.inputs),
        "over_time": parts,
        "all": figures.between(0, case.batches),
        "read_ms": round(read_ms, 2),
    }


def measure(batches: int) -> Json:
    with mock.patch.object(local, "SYNC", False):
        runs = [run(case) for case in cases(batches)]
    worst = {
        MEDIAN: max(part["p50_ms"] for r in runs for part in r["over_time"]),
        P99: max(r["all"]["cpu_p99_ms"] for r in runs),
        COMMIT: max(r["all"]["commit_bytes"] for r in runs),
        TASK: max(r["all"]["task_bytes"] for r in runs),
    }
    return {"runs": runs, "targets": [t.judge(worst[t.figure]) for t in TARGETS]}


def show(out: Console, report: Json) -> None:
    for told in report["runs"]:
        table = Table(title=told["case"], title_justify="left")
        headings = (
            "batches", "segments", "plan ms", "task ms", "commit ms", "p50 ms", "p99 ms",
            "cpu p50", "cpu p99",
            "task KB", "commit KB",
        )  # fmt: skip
        for heading in headings:
            table.add_column(heading, justify="right")
        for part in told["over_time"]:
            times = (part[f"{what}_ms"] for what in TIMES)
            sizes = (part[f"{what}_bytes"] / 1000 for what in ("task", "commit"))
            table.add_row(
                count(part["batches"]),
                count(part["segments"]),
                *(f"{ms:.1f}" for ms in times),
                *(f"{size:.0f}" for size in sizes),
            )
        out.print(table)
        written = count(told["segments_written"])
        out.print(f"{written} segments arrived; the last commit is read in {told['read_ms']} ms\n")
    for judged in report["targets"]:
        out.print(f"{judged['figure']}: {judged['value']:g}, {verdict(judged)}")


def main(
    batches: Annotated[int, typer.Option(help="Batches, or segments, in the window.")] = BATCHES,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure what the driver does per batch."""
    told, out = machine(), console()
    if not as_json:
        out.print(machine_line(told), "\n")
    report = {"benchmark": "long_window", "machine": told, **measure(batches)}
    if as_json:
        print(json.dumps(report))
    else:
        show(out, report)


if __name__ == "__main__":
    typer.run(main)
