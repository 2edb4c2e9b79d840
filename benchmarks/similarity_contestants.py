"""Who takes part in `benchmarks.similarity`: the core of `sk.similarity_join`, driven without
Spark, so that the work of every instance can be told as if it had a core of its own; then
`sk.similarity_join` on Spark, Spark's own cross join, and one product of matrices.
"""

from __future__ import annotations

import gc
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import skewless as sk
from benchmarks.contestants import CHECKPOINT
from benchmarks.data import SIDES
from benchmarks.measure import Json, batch_figures
from benchmarks.session import CORES, drain, read_side, start_session
from skewless.arrays.types import Side
from skewless.engine.batch import run_batch
from skewless.engine.executor import InProcessExecutor, Moves
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
from skewless.operators.similarity.worksets import read_all
from skewless.workloads import Vectors
from skewless.workloads.zipf import EPOCH

WINDOW_S = 60
FIRST_S = -EPOCH.timestamp() % WINDOW_S  # where the first whole window begins
NEVER = 1e9  # a tolerance that no imbalance exceeds
STRATEGIES: dict[str, SimilarityStrategy] = {
    "S3J, no moves": S3J(dealt=False, tolerance=NEVER),
    "S3J": S3J(dealt=False),
    "auto": AutoSimilarity(),
    "ClusterJoin": ClusterJoin(500),
    "BruteForce": BruteForce(),
}
ATTEMPTS = 5  # of those that are no streams: the best counts
TILE = 4096  # rows of a product of matrices: all pairs at once would not fit into memory


@dataclass(frozen=True)
class Case:
    """Two streams, of which `selectivity` of all pairs in a window of a minute are alike, by the
    angle. `rows` is per stream and window, which comes in `batches` of equal length."""

    data: Vectors
    selectivity: float
    instances: int
    rows: int
    windows: int = 4
    batches: int = 4

    @cached_property
    def threshold(self) -> float:
        return self.data.threshold(self.selectivity, seconds=WINDOW_S)

    def spec(self) -> SimilaritySpec:
        """What `sk.similarity_join` makes of it."""
        window_us = WINDOW_S * 1_000_000
        side = VectorSide(self.data.table(0, 0, 0, 1).schema, vector=(1,), time=2, late_us=0)
        output = (OutputColumn("left", 0, "left_id"), OutputColumn("right", 0, "right_id"))
        return SimilaritySpec(side, side, METRICS["angular"], self.threshold, -window_us,
                              window_us, window_us, output)  # fmt: skip

    def stretches(self) -> Iterator[dict[Side, pa.Table]]:
        """The batches."""
        seconds = WINDOW_S / self.batches
        for number in range(self.windows * self.batches):
            begin = FIRST_S + number * seconds
            left, right = (
                self.data.table(stream, self.rows // self.batches, begin, seconds, number)
                for stream in (0, 1)
            )
            yield {"left": left, "right": right}


def core_case(parameters: Json) -> Json:
    """The figures of some strategies in a case, given as `case` and by name in `strategies`. Matrix
    products must have one thread, or an instance's work is done on cores that are not its own."""
    given = dict(parameters["case"])
    case = Case(Vectors(**given.pop("data")), **given)
    small = replace(case, rows=40, windows=1)
    for name in parameters["strategies"]:
        core(small, STRATEGIES[name])  # loops are compiled, files read
    gc.freeze()  # as in Spark's workers: loaded libraries are not to be searched
    results = {name: core(case, STRATEGIES[name]) for name in parameters["strategies"]}
    return {"threshold": case.threshold, "strategies": results}


class Counting:
    """A sink that counts what it gets, and lets it go."""

    shows_empty = True

    def __init__(self) -> None:
        self.rows = 0

    def write(self, result: list[list[pa.RecordBatch]], batch_id: int) -> Moves:
        self.rows += sum(batch.num_rows for part in result for batch in part)
        return []


def core(case: Case, strategy: SimilarityStrategy) -> Json:
    """The figures of a strategy in a case."""
    operator = SimilarityOperator(case.spec(), strategy, case.instances)
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as root:
        query, sink = Query(root, Pipeline.of(operator), keep_history=1), Counting()
        query.open()
        begun_s = time.process_time()
        ran = [_batch(query, sink, n, tables) for n, tables in enumerate(case.stretches())]
        spent_s = time.process_time() - begun_s
        worksets = _worksets(query)
    reports, stored = [report for report, _ in ran], sum(rows for _, rows in ran)
    assert sink.rows == sum(report.matches for report in reports)
    return _figures(case, reports, stored) | {
        "rows_per_s": round(sum(r.rows_left + r.rows_right for r in reports) / spent_s),
        "worksets": worksets,
    }


def _batch(
    query: Query, sink: Counting, number: int, tables: dict[Side, pa.Table]
) -> tuple[BatchReport, int]:
    """One batch, from arriving rows to the commit, one instance after the other; its report, and
    how many rows it has stored."""
    streams = [[table.to_batches()] for table in tables.values()]
    executor = InProcessExecutor(query.pipeline, query.root, streams)
    report = run_batch(query, executor, sink, number)
    assert report is not None
    (join,) = executor.ran
    return report, sum(s.rows for s in join.step.reads if s.batch_id == number)


def _worksets(query: Query) -> int:
    """How many there are in the end: so many centers is a new row compared with."""
    assert query.last is not None
    worksets = read_all(query.folder, query.last.operators[query.pipeline.root.name].blobs)
    return 0 if worksets is None else len(worksets)


def _figures(case: Case, reports: list[BatchReport], stored: int) -> Json:
    totals = {
        name: sum(report.comparisons[name] for report in reports)
        for name in ("probes", "compared", "inner")
    }
    rows = sum(report.rows_left + report.rows_right for report in reports)
    settled = reports[len(reports) // 2 :]
    looks = sum(report.comparisons["probes"] for report in settled) / sum(
        report.rows_left + report.rows_right for report in settled
    )
    pairs = sum(report.matches for report in reports)
    busiest_ms = [max(load.time_ms for load in report.instances) for report in reports]
    return {
        "stored": round(stored / rows, 3),
        "looks": round(looks, 3),
        "duplication": round((1 + looks) / 2, 3),
        "comparisons": round(totals["compared"] / max(pairs, 1), 3),
        "inner": round(totals["inner"] / max(pairs, 1), 3),
        "busiest_p99_ms": round(float(np.percentile(busiest_ms, 99)), 2),
        "busiest_median_ms": round(statistics.median(busiest_ms), 2),
        "busiest_over_mean": _uneven(case, reports, "time_ms"),
        "compared_over_mean": _uneven(case, reports, "pairs"),
        "moves": sum(len(report.decisions) for report in reports),
        "pairs": pairs,
    }


def _uneven(case: Case, reports: list[BatchReport], name: str) -> list[float]:
    """Busiest instance over the mean, for each window: batches of a window taken together, as an
    instance that waits in one batch is not made up for by the next window."""
    loads = np.array([[getattr(load, name) for load in report.instances] for report in reports])
    windows = loads.reshape(case.windows, case.batches, case.instances).sum(axis=1)
    mean = windows.mean(axis=1)
    found = np.where(mean > 0, windows.max(axis=1) / np.where(mean > 0, mean, 1), 1.0)
    return [round(float(one), 3) for one in found]


def skewless(parameters: Json) -> Json:
    """`sk.similarity_join` as it comes, one window per batch."""
    session = start_session(parameters)
    left, right = (read_side(session, parameters["folder"], side) for side in SIDES)
    joined = sk.similarity_join(
        left,
        right,
        on="vector",
        metric="angular",
        threshold=parameters["threshold"],
        left_time="at",
        right_time="at",
        window=f"{WINDOW_S} seconds",
        instances=parameters["instances"],
    )
    checkpoint = f"{parameters['work']}/checkpoint"
    writer = joined.writeStream.format("noop").option(CHECKPOINT, checkpoint)
    progress = drain(writer.option("skewless.keepHistory", 1_000_000).start())
    reports = sk.history(checkpoint)
    session.stop()
    figures = batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"])
    return {
        "rows_per_s": figures["rows_per_s"],
        "window_s": figures["median_ms"] / 1000,
        "pairs": reports[parameters["warmup"]].matches,
    }


def spark(parameters: Json) -> Json:
    """Spark's own way: every pair of the window to a function that works on Arrow arrays. Not as a
    stream, in which Spark has no join without an equality."""
    session = start_session(parameters)
    left, right = (
        session.read.parquet(f"{parameters['folder']}/{side}/{parameters['warmup']:04d}.parquet")
        .repartition(2 * CORES if side == SIDES[0] else CORES)
        .toDF(f"{side}_id", f"{side}_vector", f"{side}_at")
        for side in SIDES
    )

    @F.arrow_udf("double")  # type: ignore[attr-defined, untyped-decorator, unused-ignore]
    def angle(a: pa.Array, b: pa.Array) -> pa.Array:
        x, y = (v.flatten().to_numpy().reshape(len(v), -1) for v in (a, b))
        along = np.einsum("ij,ij->i", x, y)
        lengths = np.sqrt(np.einsum("ij,ij->i", x, x) * np.einsum("ij,ij->i", y, y))
        return pa.array(np.arccos(np.clip(along / lengths, -1, 1)) / np.pi)

    pairs = left.crossJoin(right).withColumn("distance", angle("r_vector", "s_vector"))
    alike = pairs.where(F.col("distance") <= parameters["threshold"])
    counts, seconds = [], []
    for _ in range(ATTEMPTS):
        begun = time.perf_counter()
        counts.append(alike.agg(F.count("distance"), F.sum("r_id")).collect()[0][0])
        seconds.append(time.perf_counter() - begun)
    session.stop()
    return _at_once(parameters, min(seconds), counts[-1])


def blas(parameters: Json) -> Json:
    """Unit vectors of one side times those of the other, and a look at every cosine: what any way
    that leaves no pair out can reach."""
    units = []
    for side in SIDES:
        path = f"{parameters['folder']}/{side}/{parameters['warmup']:04d}.parquet"
        vectors = pq.read_table(path)["vector"].combine_chunks()
        rows = vectors.flatten().to_numpy().reshape(len(vectors), -1)
        units.append(rows / np.sqrt((rows * rows).sum(axis=1, keepdims=True)))
    least = math.cos(math.pi * parameters["threshold"])
    counts, seconds = [], []
    for _ in range(ATTEMPTS):
        begun, found = time.perf_counter(), 0
        for first in range(0, len(units[0]), TILE):
            rows_found, _ = np.nonzero(units[0][first : first + TILE] @ units[1].T >= least)
            found += len(rows_found)
        counts.append(found)
        seconds.append(time.perf_counter() - begun)
    return _at_once(parameters, min(seconds), counts[-1])


def _at_once(parameters: Json, seconds: float, pairs: int) -> Json:
    return {
        "rows_per_s": round(parameters["rows_per_batch"] / seconds),
        "window_s": seconds,
        "pairs": pairs,
    }
