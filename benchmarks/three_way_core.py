"""The core of `sk.join3` on a virtual cluster: all instances run in this process, one after the
other, and the processor time of each is what it would take on a core of its own.

The clock: a step begins when every instance has ended the one before; an instance's triples are out
when it yields them. A task is run several times, and the fastest counts: the first in a process to
read a file maps it for all others, and other processes disturb. So nothing is in these times that
does not come from the work itself: no network, no scheduling, no waiting for a batch to fill. What
such waiting adds can be told from the figures (`BatchFigures.waited_ms`, `handed_over`).
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.arrays.types import BandColumn, SideSpec
from skewless.engine.batch import run_batch
from skewless.engine.executor import InProcessExecutor, Sink
from skewless.engine.instance import StepTask
from skewless.engine.lifecycle import Query
from skewless.engine.pipeline import Pipeline
from skewless.engine.report import BatchReport, InstanceReport
from skewless.operators.pair import JoinSpec
from skewless.operators.three_way.operator import ThreeWayOperator
from skewless.operators.three_way.packs import PACKS
from skewless.operators.three_way.spec import STREAMS, Edge, OutputColumn, Stream, ThreeSpec
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy, Tree, TriJoin
from skewless.state.publish import Moves

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
TIMES = ("at_r", "at_s", "at_t")

Floats = npt.NDArray[np.float64]
Done = TypeVar("Done")


class Tuples(Protocol):
    """Three streams of the paper's six fields and an event time `at`, as `SixFields` has them."""

    def table(
        self, stream: int, rows: int, begin_s: float, seconds: float, stretch: int = 0
    ) -> pa.Table: ...


@dataclass(frozen=True)
class Case:
    """A join and the streams it is measured on. A stream has `window` rows within the bound of a
    condition's times, and `eps` is the bound of its values. The state is filled first, by a few
    large batches; then `batches` of `batch_rows` each, of all streams together, are measured."""

    shape: str
    data: Tuples
    window: int
    instances: int
    batch_rows: int
    batches: int
    eps: int = 1
    rows_per_s: int = 1000  # of event time, per stream
    fill: int = 4
    warmup: int = 5
    attempts: int = 2

    @property
    def period_ms(self) -> float:
        """How long a batch's rows take to arrive."""
        return 1000 * (self.batch_rows // 3) / self.rows_per_s

    def spec(self) -> ThreeSpec:
        """What `sk.join3` makes of it."""
        schemas = [self.data.table(x, 0, 0, 1).schema for x in STREAMS]
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
            OutputColumn(x, i, f.name if f.name != "at" else TIMES[x])
            for x in STREAMS
            for i, f in enumerate(schemas[x])
        )
        r, s, t = (Stream(schema, time_index, 0) for schema in schemas)
        return ThreeSpec((r, s, t), tuple(edges), output)

    def stretches(self) -> Iterable[list[pa.Table]]:
        """The batches: those that fill the state, to be followed by those that are measured."""
        begin = 0.0
        reach = self.window * (2 if self.shape == CHAIN else 1)
        sizes = [-(-reach // self.fill)] * self.fill
        sizes += [self.batch_rows // 3] * (self.warmup + self.batches)
        for number, rows in enumerate(sizes):
            seconds = rows / self.rows_per_s
            yield [self.data.table(x, rows, begin, seconds, number) for x in STREAMS]
            begin += seconds


@dataclass(frozen=True)
class Out:
    """Some triples: when they were out, after their step began, and in which instance; the times
    of their three rows."""

    instance: int
    at_ms: float
    times_us: npt.NDArray[np.int64]


@dataclass(frozen=True)
class InstanceWork:
    """What an instance did in a step: how long it worked, what it leaves for later batches written;
    how long it took with its share of compacting files, too; its triples."""

    work_ms: float
    whole_ms: float
    outs: tuple[Out, ...] = ()


@dataclass(frozen=True)
class BatchFigures:
    """What is noted of a batch, on the virtual clock: for each triple when it was out after the
    batch began (`out_ms`), in which instance, and which of its rows are new; how long each instance
    worked in each step (`work_ms`), and with compaction (`whole_ms`), which is due in every eighth
    batch. `waited_ms` is how long a triple's last row had waited for the batch."""

    out_ms: Floats
    instance: npt.NDArray[np.int64]
    is_new: npt.NDArray[np.bool_]
    waited_ms: Floats
    work_ms: Floats  # by step and instance
    whole_ms: Floats
    total_s: float
    shipped: int
    compared: npt.NDArray[np.int64]  # by step and instance
    intermediates: int
    intermediate_bytes: int
    state_bytes: int

    @property
    def done_ms(self) -> float:
        """When all is done that the next batch waits for."""
        return float(self.work_ms.max(axis=1).sum())

    @property
    def busiest_ms(self) -> float:
        """The time of the busiest instance in all steps: who works in one step only may work on
        the next batch meanwhile, so this is what bounds the rate."""
        return float(self.work_ms.sum(axis=0).max())

    @property
    def comparisons(self) -> int:
        return int(self.compared.sum())

    @property
    def on_the_way(self) -> int:
        """The comparisons of the busiest instance in each step: the paper's model of latency."""
        return int(self.compared.max(axis=1).sum())

    @property
    def busiest_compared(self) -> int:
        """The comparisons of the busiest instance in all steps: by the same model, what bounds the
        rate."""
        return int(self.compared.sum(axis=0).max())

    def handed_over(self, shape: str) -> npt.NDArray[np.bool_]:
        """Which triples the paper's TriJoin sends an intermediate result for: those that a new s of
        a chain completes (section 3.2.2)."""
        of_new_s = self.is_new[:, 1] & ~self.is_new[:, 2]
        return of_new_s if shape == CHAIN else np.zeros_like(of_new_s)


class MeasuringExecutor(InProcessExecutor):
    """Notes what every instance does in every step, and when its triples are out. Triples are let
    go, as by a sink that takes them one by one."""

    def __init__(self, pipeline: Pipeline, root: str, tables: list[pa.Table], runs: int) -> None:
        super().__init__(pipeline, root, [[table.to_batches()] for table in tables])
        self.steps: list[list[InstanceReport]] = []
        self.works: list[list[InstanceWork]] = []
        self.repeated_s = 0.0
        self._runs = runs

    def reports(self, task: StepTask) -> list[InstanceReport]:
        self.ran.append(task)
        found = []
        for number in range(task.step.instances):
            begun_s, runs = time.thread_time(), list[tuple[InstanceWork, InstanceReport]]()
            for _ in range(self._runs):
                report = task.report_of(number)
                whole_ms, begun_s = _lap_ms(begun_s)
                runs.append((InstanceWork(report.load.time_ms, whole_ms), report))
            found.append(self._fastest(runs))
        self.works.append([work for work, _ in found])
        self.steps.append([report for _, report in found])
        return self.steps[-1]

    def rows(self, task: StepTask, node: object) -> list[list[pa.RecordBatch]]:
        self.ran.append(task)
        works = []
        for number in range(task.step.instances):
            runs = [(self._drained(task, number), None) for _ in range(self._runs)]
            works.append(self._fastest(runs)[0])
        self.works.append(works)
        return [[]]

    def _drained(self, task: StepTask, number: int) -> InstanceWork:
        begun_s, outs = time.thread_time(), list[Out]()
        for found in task.rows_of(number):
            at_ms, noting_s = _lap_ms(begun_s)
            outs.append(Out(number, at_ms, _times_us(found)))
            begun_s += time.thread_time() - noting_s
        whole_ms, _ = _lap_ms(begun_s)
        reported = Path(task.root, task.report_folder, f"{number}.json").read_bytes()
        report = InstanceReport.from_json(json.loads(reported))
        return InstanceWork(report.load.time_ms, whole_ms, tuple(outs))

    def _fastest(self, runs: list[tuple[InstanceWork, Done]]) -> tuple[InstanceWork, Done]:
        fastest = min(runs, key=lambda run: run[0].work_ms)
        self.repeated_s += sum(work.whole_ms for work, _ in runs) / 1000
        self.repeated_s -= fastest[0].whole_ms / 1000
        return fastest


def _lap_ms(begun_s: float) -> tuple[float, float]:
    """Processor time since then, and now."""
    now_s = time.thread_time()
    return 1000 * (now_s - begun_s), now_s


def _times_us(found: pa.RecordBatch) -> npt.NDArray[np.int64]:
    times = [found.column(name).cast(pa.int64()).to_numpy() for name in TIMES]
    return np.stack(times, axis=1)


class CountingSink(Sink[list[list[pa.RecordBatch]]]):
    """Takes no rows, as the executor has noted them, but the reports of the last step, which are
    gone after the commit."""

    shows_empty = True

    def __init__(self, query: Query, executor: MeasuringExecutor) -> None:
        self._query, self._executor = query, executor

    def write(self, result: list[list[pa.RecordBatch]], batch_id: int) -> Moves:
        found = self._query.reports(self._executor.ran[-1])
        self._executor.steps.append([report for report in found if report is not None])
        return []


@dataclass
class CoreRun:
    """A three-way join in this process, one instance after the other."""

    root: str
    case: Case
    strategy: ThreeStrategy
    noted: list[BatchFigures] = field(default_factory=list)

    def __post_init__(self) -> None:
        operator = ThreeWayOperator(self.case.spec(), self.strategy, self.case.instances)
        self.query = Query(self.root, Pipeline.of(operator), keep_history=1)
        self.query.open()

    def batch(self, number: int, tables: list[pa.Table], *, noted: bool) -> None:
        """One batch, from arriving rows to the commit."""
        begun_s = time.process_time()
        runs = self.case.attempts if noted else 1
        executor = MeasuringExecutor(self.query.pipeline, self.query.root, tables, runs)
        report = run_batch(self.query, executor, CountingSink(self.query, executor), number)
        total_s = time.process_time() - begun_s - executor.repeated_s
        assert report is not None
        if noted:
            times = np.concatenate([t["at"].cast(pa.int64()).to_numpy() for t in tables])
            self.noted.append(self._figures(executor, total_s, report, times))

    def _figures(
        self,
        executor: MeasuringExecutor,
        total_s: float,
        report: BatchReport,
        arrived_us: npt.NDArray[np.int64],
    ) -> BatchFigures:
        last, steps = self.query.last, executor.steps
        assert last is not None
        work_ms, whole_ms = (
            np.array([[getattr(work, name) for work in step] for step in executor.works])
            for name in ("work_ms", "whole_ms")
        )
        before_ms = float(work_ms[:-1].max(axis=1, initial=0.0).sum())
        outs = [out for work in executor.works[-1] for out in work.outs if len(out.times_us)]
        each = [len(out.times_us) for out in outs]
        none = np.empty((0, 3), np.int64)
        times_us = np.concatenate([none, *(out.times_us for out in outs)])
        begun_us, closed_us = int(arrived_us.min()), int(arrived_us.max())
        return BatchFigures(
            out_ms=before_ms + np.repeat([out.at_ms for out in outs], each),
            instance=np.repeat(np.array([out.instance for out in outs], np.int64), each),
            is_new=times_us >= begun_us,
            waited_ms=(closed_us - times_us.max(axis=1, initial=begun_us)) / 1000,
            work_ms=work_ms,
            whole_ms=whole_ms,
            total_s=total_s,
            shipped=report.counters["shipped"],
            compared=np.array([[report.load.pairs for report in step] for step in steps]),
            intermediates=report.intermediates,
            intermediate_bytes=sum(s.bytes for s in last.segments if s.kind == PACKS),
            state_bytes=report.state_bytes,
        )


@dataclass(frozen=True)
class Figures:
    """What came of all batches of a case."""

    case: Case
    batches: Sequence[BatchFigures]

    def mean(self, name: str) -> float:
        return float(np.mean([getattr(batch, name) for batch in self.batches]))

    def each(self, name: str) -> Floats:
        """A figure of all triples."""
        return np.concatenate([getattr(batch, name) for batch in self.batches])

    @property
    def triples(self) -> int:
        return sum(len(batch.out_ms) for batch in self.batches)

    @property
    def latency_ms(self) -> float:
        """The mean over all triples, from when the rows of the batch are there."""
        return float(self.each("out_ms").mean()) if self.triples else float("nan")

    @property
    def latency_p99_ms(self) -> float:
        return float(np.percentile(self.each("out_ms"), 99)) if self.triples else float("nan")

    @property
    def rows(self) -> int:
        """Of a batch."""
        return self.case.batch_rows // 3 * 3

    @property
    def rows_per_s(self) -> float:
        """What a cluster with a core for every instance could keep up with."""
        return 1000 * self.rows / self.mean("busiest_ms")

    @property
    def rows_per_s_compacting(self) -> float:
        """The same, if who works also compacts files: over as many batches as it takes to do so
        once, or this says little."""
        whole_ms = np.mean([batch.whole_ms.sum(axis=0) for batch in self.batches], axis=0)
        return 1000 * self.rows / float(whole_ms.max())

    @property
    def rows_per_core_s(self) -> float:
        """By the processor time of all there is to do: sorting, compaction and commit, too."""
        return self.rows / self.mean("total_s")

    @property
    def busiest_over_mean(self) -> float:
        works = [batch.work_ms.sum(axis=0) for batch in self.batches]
        return float(np.median([work.max() / work.mean() for work in works]))

    @property
    def is_saturated(self) -> bool:
        """Whether batches come faster than they are done with: then no latency has a meaning."""
        return self.mean("done_ms") > self.case.period_ms


def measure(case: Case, strategy: ThreeStrategy) -> Figures:
    """The figures of a strategy in a case."""
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as root:
        run = CoreRun(root, case, strategy)
        first = case.fill + case.warmup
        for number, tables in enumerate(case.stretches()):
            if number == first:
                gc.freeze()  # as in Spark's workers: loaded libraries are not to be searched
            run.batch(number, tables, noted=number >= first)
    return Figures(case, run.noted)
