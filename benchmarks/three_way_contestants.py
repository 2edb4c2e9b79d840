"""Who takes part in `benchmarks.three_way`: the core of `sk.join3`, driven without Spark, so that
the work of every instance can be told as if it had a core of its own; then `sk.join3` and Spark's
own two joins, on Spark.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import skewless as sk
from benchmarks.contestants import CHECKPOINT
from benchmarks.measure import Json, batch_figures
from benchmarks.session import drain, read_side, start_session
from skewless.arrays.types import BandColumn, SideSpec
from skewless.engine.batch import run_batch
from skewless.engine.executor import InProcessExecutor, Moves
from skewless.engine.instance import StepTask
from skewless.engine.lifecycle import Query
from skewless.engine.pipeline import Pipeline
from skewless.engine.report import InstanceReport
from skewless.operators.pair import JoinSpec
from skewless.operators.three_way.operator import ThreeWayOperator
from skewless.operators.three_way.packs import PACKS
from skewless.operators.three_way.spec import STREAMS, Edge, OutputColumn, Stream, ThreeSpec
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy, Tree, TriJoin
from skewless.workloads import SixFields

STRATEGIES: dict[str, ThreeStrategy] = {
    "Tree": Tree(),
    "TriJoin, pairs": TriJoin(packing=False),
    "TriJoin": TriJoin(),
    "auto": AutoThree(),
}
CYCLE, CHAIN = "cycle", "chain"
# Which two streams, and by which of their ints: |r_I - s_I|, |s_Int - t_Int|, |r_Int - t_I|.
CONDITIONS = {
    CYCLE: ((0, 1, "I", "I"), (1, 2, "Int", "Int"), (0, 2, "Int", "I")),
    CHAIN: ((0, 1, "I", "I"), (1, 2, "Int", "Int")),
}
LIVE = ("shows", "purchases", "activity")


@dataclass(frozen=True)
class Case:
    """A join and the streams it is measured on. A stream has `window` rows within the bound of a
    condition's times, and `eps` is the bound of its values. The state is filled first, by a few
    large batches; then `batches` of `batch_rows` each, of all streams together, are measured."""

    shape: str
    window: int
    instances: int
    batch_rows: int
    values: int
    eps: int
    batches: int
    rows_per_s: int = 1000  # of event time, per stream
    fill: int = 4
    warmup: int = 5

    def spec(self) -> ThreeSpec:
        """What `sk.join3` makes of it."""
        data = SixFields(self.values)
        schemas = [data.table(x, 0, 0, 1).schema for x in STREAMS]
        time_index = len(schemas[0]) - 1
        within_us = self.window * 1_000_000 // self.rows_per_s

        def side(x: int, name: str) -> SideSpec:
            index = schemas[x].get_field_index(f"{'rst'[x]}_{name}")
            band = BandColumn(index, schemas[x].field(index).type, self.eps)
            return SideSpec(schemas[x], (), (band,), time_index, 0)

        edges = sorted(
            (
                Edge(a, b, JoinSpec(side(a, of_a), side(b, of_b), -within_us, within_us, ()))
                for a, b, of_a, of_b in CONDITIONS[self.shape]
            ),
            key=lambda edge: (edge.a, edge.b),
        )
        output = tuple(
            OutputColumn(x, i, f.name if f.name != "at" else f"at_{'rst'[x]}")
            for x in STREAMS
            for i, f in enumerate(schemas[x])
        )
        r, s, t = (Stream(schema, time_index, 0) for schema in schemas)
        return ThreeSpec((r, s, t), tuple(edges), output)

    def stretches(self) -> Iterable[list[pa.Table]]:
        """The batches: those that fill the state, to be followed by those that are measured."""
        data, begin = SixFields(self.values), 0.0
        reach = self.window * (2 if self.shape == CHAIN else 1)
        sizes = [-(-reach // self.fill)] * self.fill
        sizes += [self.batch_rows // 3] * (self.warmup + self.batches)
        for number, rows in enumerate(sizes):
            seconds = rows / self.rows_per_s
            yield [data.table(x, rows, begin, seconds, number) for x in STREAMS]
            begin += seconds


@dataclass
class Measured:
    """What is noted of each batch, in lists."""

    latency_ms: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    joining_s: list[float] = field(default_factory=list)
    busiest: list[float] = field(default_factory=list)
    shipped: list[int] = field(default_factory=list)
    comparisons: list[int] = field(default_factory=list)
    on_the_way: list[int] = field(default_factory=list)
    last_ms: list[float] = field(default_factory=list)
    intermediates: list[int] = field(default_factory=list)
    intermediate_bytes: list[int] = field(default_factory=list)
    state_bytes: list[int] = field(default_factory=list)


class MeasuringExecutor(InProcessExecutor):
    """Notes what the instances report of every step, and when each has its last triple. Triples are
    counted and let go, as by a sink that takes them one by one."""

    def __init__(self, pipeline: Pipeline, root: str, tables: list[pa.Table]) -> None:
        super().__init__(pipeline, root, [[table.to_batches()] for table in tables])
        self.steps: list[list[InstanceReport]] = []
        self.triples, self.last_ms = 0, 0.0

    def reports(self, task: StepTask) -> list[InstanceReport]:
        self.steps.append(super().reports(task))
        return self.steps[-1]

    def _rows_of(self, task: StepTask, number: int) -> list[pa.RecordBatch]:
        begun_s = time.thread_time()
        last_s = 0.0
        for found in task.rows_of(number):
            self.triples += found.num_rows
            last_s = time.thread_time() - begun_s
        self.last_ms = max(self.last_ms, last_s * 1000)
        return []


class CountingSink:
    """Takes no rows, as the executor has counted them, but the reports of the last step, which are
    gone after the commit."""

    shows_empty = True

    def __init__(self, query: Query, executor: MeasuringExecutor) -> None:
        self._query, self._executor = query, executor

    def write(self, result: list[list[pa.RecordBatch]], batch_id: int) -> Moves:
        found = self._query.reports(self._executor.ran[-1])
        self._executor.steps.append([report for report in found if report is not None])
        return []


class CoreRun:
    """A three-way join in this process, one instance after the other."""

    def __init__(self, root: str, case: Case, strategy: ThreeStrategy) -> None:
        operator = ThreeWayOperator(case.spec(), strategy, case.instances)
        self.query = Query(root, Pipeline.of(operator), keep_history=1)
        self.query.open()
        self.measured, self.triples = Measured(), 0

    def batch(self, number: int, tables: list[pa.Table], *, noted: bool) -> None:
        """One batch, from arriving rows to the commit."""
        begun_s = time.process_time()
        executor = MeasuringExecutor(self.query.pipeline, self.query.root, tables)
        report = run_batch(self.query, executor, CountingSink(self.query, executor), number)
        total_s = time.process_time() - begun_s
        assert report is not None
        self.triples += executor.triples
        if noted:
            self._note(executor, total_s, report)

    def _note(self, executor: MeasuringExecutor, total_s: float, report: sk.BatchReport) -> None:
        measured, last, steps = self.measured, self.query.last, executor.steps
        assert last is not None
        every = [r for step in steps for r in step]
        first = [r.load.time_ms for step in steps[:-1] for r in step]
        # A step begins when every instance has ended the one before.
        measured.latency_ms.append(sum(max(r.load.time_ms for r in step) for step in steps))
        measured.last_ms.append(max(first, default=0.0) + executor.last_ms)
        measured.total_s.append(total_s)
        measured.joining_s.append(sum(r.load.time_ms for r in every) / 1000)
        measured.busiest.append(report.busiest_over_mean)
        measured.shipped.append(report.counters["shipped"])
        measured.comparisons.append(sum(r.load.pairs for r in every))
        measured.on_the_way.append(sum(max(r.load.pairs for r in step) for step in steps))
        measured.intermediates.append(report.intermediates)
        measured.intermediate_bytes.append(sum(s.bytes for s in last.segments if s.kind == PACKS))
        measured.state_bytes.append(report.state_bytes)


def core(case: Case, strategy: ThreeStrategy) -> Json:
    """The figures of a strategy in a case."""
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as root:
        run = CoreRun(root, case, strategy)
        first = case.fill + case.warmup
        for number, tables in enumerate(case.stretches()):
            if number == first:
                run.triples = 0
                gc.freeze()  # as in Spark's workers: loaded libraries are not to be searched
            run.batch(number, tables, noted=number >= first)
    m, rows = run.measured, case.batch_rows // 3 * 3
    return {
        "latency_mean_ms": round(statistics.mean(m.latency_ms), 3),
        "latency_median_ms": round(statistics.median(m.latency_ms), 3),
        "latency_p99_ms": round(float(np.percentile(m.latency_ms, 99)), 3),
        "last_triple_mean_ms": round(statistics.mean(m.last_ms), 3),
        "rows_per_s": round(rows * len(m.total_s) / sum(m.total_s)),
        "joined_rows_per_s": round(rows * len(m.total_s) / sum(m.joining_s)),
        "busiest_over_mean": round(statistics.median(m.busiest), 3),
        "shipped_per_row": round(statistics.mean(m.shipped) / rows, 3),
        "comparisons_per_row": round(statistics.mean(m.comparisons) / rows, 3),
        "comparisons_on_the_way": round(statistics.mean(m.on_the_way), 1),
        "intermediates": round(statistics.mean(m.intermediates)),
        "intermediate_bytes": round(statistics.mean(m.intermediate_bytes)),
        "state_bytes": round(statistics.mean(m.state_bytes)),
        "triples": run.triples,
    }


def skewless(parameters: Json) -> Json:
    """`sk.join3` by one of its strategies: shows with purchases with activity."""
    session = start_session(parameters)
    shows, purchases, activity = (
        read_side(session, parameters["folder"], x, parameters["files_per_batch"]) for x in LIVE
    )
    joined = sk.join3(
        shows,
        purchases,
        activity,
        on=[sk.equal("r.streamer", "s.streamer"), sk.equal("s.user", "t.user")],
        times=("shown_at", "bought_at", "seen_at"),
        within=f"{parameters['within_s']} seconds",
        strategy=STRATEGIES[parameters["strategy"]],
        instances=parameters["instances"],
    )
    checkpoint = f"{parameters['work']}/checkpoint"
    writer = joined.writeStream.format("noop").option(CHECKPOINT, checkpoint)
    progress = drain(writer.option("skewless.keepHistory", 1_000_000).start())
    reports = sk.history(checkpoint)
    session.stop()
    measured = reports[parameters["warmup"] :]
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"]) | {
        "result_rows": sum(report.matches for report in reports),
        "late_rows": sum(report.late for report in reports),
        "own_phases_median_ms": {
            phase: statistics.median(report.phases_ms[phase] for report in measured)
            for phase in measured[0].phases_ms
        },
        "state_bytes": max(report.state_bytes for report in measured),
        "intermediates": max(report.intermediates for report in measured),
    }


def spark(parameters: Json) -> Json:
    """Spark's own stream-stream join, twice, with its default state store."""
    session = start_session(parameters)
    bound = F.expr(f"interval {parameters['within_s']} seconds")

    def stream(name: str, time_column: str) -> DataFrame:
        rows = read_side(session, parameters["folder"], name, parameters["files_per_batch"])
        return rows.withWatermark(time_column, "0 seconds")

    def near(one: str, other: str) -> Column:
        return F.col(other).between(F.col(one) - bound, F.col(one) + bound)

    shows = stream("shows", "shown_at").withColumnRenamed("streamer", "of")
    purchases = stream("purchases", "bought_at")
    activity = stream("activity", "seen_at").withColumnRenamed("user", "who")
    pairs = shows.join(purchases, F.expr("of = streamer") & near("shown_at", "bought_at"))
    # Spark refuses rows with two event times in a further join: one of them must become a number.
    pairs = pairs.withColumn("shown_at", F.unix_micros("shown_at"))
    joined = pairs.join(activity, F.expr("user = who") & near("bought_at", "seen_at"))
    writer = joined.drop("of", "who").writeStream.format("noop")
    progress = drain(writer.option(CHECKPOINT, f"{parameters['work']}/checkpoint").start())
    session.stop()
    operators = [operator for p in progress for operator in p["stateOperators"]]
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"]) | {
        "result_rows": sum(p["sink"]["numOutputRows"] for p in progress),
        "late_rows": sum(operator["numRowsDroppedByWatermark"] for operator in operators),
    }
