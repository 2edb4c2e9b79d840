"""Who takes part in `benchmarks.similarity` on Spark: `sk.similarity_join`, Spark's own cross join,
and one product of matrices."""

from __future__ import annotations

import math
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import skewless as sk
from benchmarks.contestants import CHECKPOINT
from benchmarks.data import SIDES
from benchmarks.measure import Json, batch_figures
from benchmarks.session import CORES, drain, read_side, start_session
from benchmarks.similarity_core import WINDOW_S

ATTEMPTS = 5  # of those that are no streams: the best counts
TILE = 4096  # rows of a product of matrices: all pairs at once would not fit into memory


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
