"""The core of `sk.similarity_join`, driven without Spark, so that the work of every instance can be
told as if it had a core of its own."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from benchmarks.measure import Json
from skewless.engine.batch import run_batch
from skewless.engine.executor import InProcessExecutor, Sink
from skewless.engine.lifecycle import Query
from skewless.engine.pipeline import Pipeline
from skewless.engine.report import BatchReport
from skewless.operators.pair import OutputColumn
from skewless.operators.similarity.metrics import METRICS
from skewless.operators.similarity.operator import SimilarityOperator
from skewless.operators.similarity.spec import SimilaritySpec, VectorSide
from skewless.operators.similarity.strategies import (
    S3J,
    AutoSimilarity,
    BruteForce,
    ClusterJoin,
    SimilarityStrategy,
)
from skewless.state.publish import Moves
from skewless.workloads import Vectors
from skewless.workloads.zipf import EPOCH

WINDOW_S = 60
FIRST_S = -EPOCH.timestamp() % WINDOW_S  # where the first whole window begins
NEVER = 1e9  # a tolerance that no imbalance exceeds
STRATEGIES: dict[str, SimilarityStrategy] = {
    "S3J, no moves": S3J(tolerance=NEVER),
    "S3J": S3J(),
    "auto": AutoSimilarity(),
    "ClusterJoin": ClusterJoin(500),
    "BruteForce": BruteForce(),
}
SAMPLED = 1000  # rows of either stream, which tell the threshold
CENTERS = ("space_distances", "workset_distances")  # what distances from them are counted as
STEPS = 4  # of a unit of length, where elements have to be equal


@dataclass(frozen=True)
class Case:
    """Two streams, of which about `selectivity` of all pairs in a window of a minute are alike.
    `rows` is per stream and minute, which comes in `batches` of equal length, each stream's rows in
    so many `tasks`. With `within_s`, times need only be so close. Rows are kept for `late_s` more,
    though none is late."""

    data: Vectors
    selectivity: float
    instances: int
    rows: int
    windows: int = 4
    batches: int = 4
    metric: str = "angular"
    tasks: int = 1
    within_s: float | None = None
    late_s: int = 0

    @cached_property
    def threshold(self) -> float:
        """What that share of the pairs of a sample is within."""
        metric = METRICS[self.metric]
        left, right = (
            metric.points([self._table(stream, SAMPLED, 0, WINDOW_S, 2**31)["vector"].chunk(0)])
            for stream in (0, 1)
        )
        return float(np.quantile(metric.cross(left, right), self.selectivity))

    def spec(self) -> SimilaritySpec:
        """What `sk.similarity_join` makes of it."""
        schema, in_windows = self._table(0, 0, 0, 1, 0).schema, self.within_s is None
        side = VectorSide(schema, vector=(1,), time=2, late_us=self.late_s * 1_000_000)
        output = (OutputColumn("left", 0, "left_id"), OutputColumn("right", 0, "right_id"))
        reach_us = round((self.within_s or WINDOW_S) * 1_000_000)
        return SimilaritySpec(side, side, METRICS[self.metric], self.threshold, -reach_us, reach_us,
                              reach_us if in_windows else None, output)  # fmt: skip

    def stretches(self) -> Iterator[list[pa.Table]]:
        """The batches: a table of each stream."""
        seconds = WINDOW_S / self.batches
        for number in range(self.windows * self.batches):
            begin, rows = FIRST_S + number * seconds, self.rows // self.batches
            yield [self._table(stream, rows, begin, seconds, number) for stream in (0, 1)]

    def _table(self, stream: int, rows: int, begin_s: float, seconds: float, at: int) -> pa.Table:
        """Vectors as the metric compares them: by equal elements, they are rounded; sets have an
        element for each, which says which it is and where it lies."""
        table = self.data.table(stream, rows, begin_s, seconds, at)
        if self.metric not in ("hamming", "jaccard"):
            return table
        numbers = table["vector"].combine_chunks()
        steps = np.rint(numbers.flatten().to_numpy() * STEPS)
        if self.metric == "jaccard":
            steps = (steps + 100 * (np.arange(len(steps)) % self.data.dimension)).astype(np.int64)
        vectors = pa.ListArray.from_arrays(numbers.offsets, pa.array(steps))
        return table.set_column(1, "vector", vectors)


def core_case(parameters: Json) -> Json:
    """The figures of some strategies in a case, given as `case` and by name in `strategies`: they
    run by turns, and the fastest of their `turns` counts. Matrix products must have one thread, or
    an instance's work is done on cores that are not its own."""
    given = dict(parameters["case"])
    case = Case(Vectors(**given.pop("data")), **given)
    names = parameters["strategies"]
    small = replace(case, rows=40, windows=1, batches=1)
    for name in names:
        core(small, STRATEGIES[name])  # loops are compiled, files read
    gc.freeze()  # as in Spark's workers: loaded libraries are not to be searched
    results: dict[str, Json] = {}
    for _ in range(parameters["turns"]):
        for name in names:
            ran = core(case, STRATEGIES[name])
            if name not in results or ran["rows_per_s"] > results[name]["rows_per_s"]:
                results[name] = ran
    return {"threshold": case.threshold, "strategies": results}


class Counting(Sink[list[list[pa.RecordBatch]]]):
    """A sink that counts what it gets, and lets it go."""

    shows_empty = True

    def __init__(self) -> None:
        self.rows = 0

    def write(self, result: list[list[pa.RecordBatch]], batch_id: int) -> Moves:
        self.rows += sum(batch.num_rows for part in result for batch in part)
        return []


def core(case: Case, strategy: SimilarityStrategy) -> Json:
    """The figures of a strategy in a case."""
    operator, tables = SimilarityOperator(case.spec(), strategy, case.instances), case.stretches()
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as root:
        query, sink = Query(root, Pipeline.of(operator), keep_history=1), Counting()
        query.open()
        made = list(tables)
        begun_s = time.process_time()
        reports = [one_batch(query, sink, n, both, case.tasks) for n, both in enumerate(made)]
        spent_s = time.process_time() - begun_s
    assert sink.rows == sum(report.matches for report in reports)
    rows = sum(report.rows_left + report.rows_right for report in reports)
    return _figures(case, reports) | {"rows_per_s": round(rows / spent_s)}


def one_batch(
    query: Query, sink: Counting, number: int, tables: Sequence[pa.Table], tasks: int = 1
) -> BatchReport:
    """One batch, from arriving rows to the commit, one task and instance after the other."""
    streams = [[part.to_batches() for part in _parts(table, tasks)] for table in tables]
    executor = InProcessExecutor(query.pipeline, query.root, streams)
    report = run_batch(query, executor, sink, number)
    assert report is not None
    return report


def _parts(table: pa.Table, tasks: int) -> list[pa.Table]:
    each = max(-(-table.num_rows // tasks), 1)
    return [table.slice(at, each) for at in range(0, table.num_rows, each)]


def counted(reports: Sequence[BatchReport]) -> dict[str, int]:
    """What all batches have counted, by name."""
    names = {name for report in reports for name in report.counters}
    return {name: sum(report.counters.get(name, 0) for report in reports) for name in names}


def _figures(case: Case, reports: list[BatchReport]) -> Json:
    totals = counted(reports)
    rows = sum(report.rows_left + report.rows_right for report in reports)
    pairs = max(sum(report.matches for report in reports), 1)
    busiest_ms = [max(load.time_ms for load in report.instances) for report in reports]
    return {
        "stored": round(totals.get("memberships", rows) / rows, 3),
        "looks": round(totals["probes"] / rows, 3),
        "compared": round(totals["compared"] / pairs, 3),
        "inner": round(totals["inner"] / pairs, 3),
        "centers": round(sum(totals.get(name, 0) for name in CENTERS) / pairs, 3),
        "busiest_p99_ms": round(float(np.percentile(busiest_ms, 99)), 2),
        "busiest_over_mean": _uneven(case, reports, "time_ms"),
        "compared_over_mean": _uneven(case, reports, "pairs"),
        "moves": sum(len(report.decisions) for report in reports),
        "pairs": sum(report.matches for report in reports),
    }


def _uneven(case: Case, reports: list[BatchReport], name: str) -> list[float]:
    """Busiest instance over the mean, for each window: batches of a window taken together, as an
    instance that waits in one batch is not made up for by the next window."""
    loads = np.array([[getattr(load, name) for load in report.instances] for report in reports])
    windows = loads.reshape(case.windows, case.batches, case.instances).sum(axis=1)
    mean = windows.mean(axis=1)
    found = np.where(mean > 0, windows.max(axis=1) / np.where(mean > 0, mean, 1), 1.0)
    return [round(float(one), 3) for one in found]
