"""Who takes part in `benchmarks.native`. Each function runs in a process of its own and takes the
parameters `folder`, `rows_per_batch`, `warmup`, `within_s`, `how`, `instances`, `unix_sockets`,
`work`, if pairs must fulfil one, `condition`, and if it is not told otherwise, `sink` is "noop" and
`files` are read by Spark.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import skewless as sk
from benchmarks.data import SIDES
from benchmarks.measure import Json, batch_figures
from benchmarks.session import CORES, SETTINGS, drain, read_columns, read_side, start_session

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ATTEMPTS = 3  # of those that are no streams: the best counts
CHECKPOINT = "checkpointLocation"


def hashed(parameters: Json) -> Json:
    """`sk.join` with every key in one place."""
    return skewless(parameters, sk.Hash())


def skewless(parameters: Json, strategy: sk.Hash | None = None) -> Json:
    """`sk.join` as it comes."""
    session = start_session(parameters)
    read = read_columns if parameters.get("files") else read_side
    left, right = (read(session, parameters["folder"], side) for side in SIDES)
    joined = sk.join(
        left,
        right,
        on="key",
        left_time="ts",
        right_time="ts",
        within=f"{parameters['within_s']} seconds",
        how=parameters["how"],
        condition=parameters.get("condition"),
        strategy=strategy,
        instances=parameters["instances"],
    )
    checkpoint = f"{parameters['work']}/checkpoint"
    writer = joined.writeStream.format(_sink(parameters)).option(CHECKPOINT, checkpoint)
    writer = writer.option("path", _output(parameters))
    progress = drain(writer.option("skewless.keepHistory", 1_000_000).start())
    reports = sk.history(checkpoint)
    state = f"{checkpoint}/skewless/segments"
    session.stop()
    measured = reports[parameters["warmup"] :]
    phases = measured[0].phases_ms
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"]) | {
        "result_rows": _written(parameters, sum(report.matches for report in reports)),
        "late_rows": sum(report.late for report in reports),
        "own_phases_median_ms": {
            phase: statistics.median(report.phases_ms[phase] for report in measured)
            for phase in phases
        },
        "busiest_over_mean": round(statistics.median(r.busiest_over_mean for r in measured), 3),
        "state_bytes": sum(file.stat().st_size for file in Path(state).iterdir()),
    }


def spark(parameters: Json) -> Json:
    """Spark's own stream-stream join with its default state store."""
    session = start_session(parameters)
    left, right = (
        read_side(session, parameters["folder"], side)
        .withColumnRenamed("ts", f"{side}_ts")
        .withColumnRenamed("key", f"{side}_key")
        .withWatermark(f"{side}_ts", "0 seconds")
        for side in SIDES
    )
    bound = F.expr(f"interval {parameters['within_s']} seconds")
    near = F.col("s_ts").between(F.col("r_ts") - bound, F.col("r_ts") + bound)
    on = (F.col("r_key") == F.col("s_key")) & near & F.expr(parameters.get("condition", "true"))
    joined = left.join(right, on, parameters["how"])
    joined = joined.drop("s_key")
    checkpoint = f"{parameters['work']}/checkpoint"
    writer = joined.writeStream.format(_sink(parameters)).option(CHECKPOINT, checkpoint)
    progress = drain(writer.option("path", _output(parameters)).start())
    session.stop()
    operators = [operator for p in progress for operator in p["stateOperators"]]
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"]) | {
        "result_rows": _written(parameters, sum(p["sink"]["numOutputRows"] for p in progress)),
        "late_rows": sum(operator["numRowsDroppedByWatermark"] for operator in operators),
    }


def _sink(parameters: Json) -> str:
    return str(parameters.get("sink", "noop"))


def _output(parameters: Json) -> str:
    return f"{parameters['work']}/output"


def _written(parameters: Json, told: int) -> int:
    """How many rows a sink has: where there are files, those that others read in them."""
    if _sink(parameters) == "noop":
        return told
    import duckdb as duck

    files = f"{_output(parameters)}/*.{_sink(parameters)}"
    return _count(duck.connect(), f"read_{_sink(parameters)}('{files}')")


def floor(parameters: Json) -> Json:
    """What any join in PySpark has to pay: read the rows, shuffle them by key and hand them to
    Python as Arrow, which drops them. At one go over all files; and as a stream, which tells how
    much of the rest is the price of micro-batches."""
    session = start_session(parameters)
    folder, work = parameters["folder"], parameters["work"]
    static = _handed_over([session.read.parquet(f"{folder}/{side}") for side in SIDES])
    rows = sum(session.read.parquet(f"{folder}/{side}").count() for side in SIDES)
    best = _best_s(lambda: static.write.format("noop").mode("overwrite").save())
    streamed = _handed_over([read_side(session, folder, side) for side in SIDES])
    writer = streamed.writeStream.format("noop").option(CHECKPOINT, f"{work}/checkpoint")
    progress = drain(writer.start())
    session.stop()
    stream = batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"])
    return {"rows": rows, "rows_per_s": round(rows / best), "stream": stream}


def _handed_over(sides: list[DataFrame]) -> DataFrame:
    parts = int(SETTINGS["spark.sql.shuffle.partitions"])
    left, right = (
        frame.toDF("key", "ts", "id", "v").withColumn("side", F.lit(number))
        for number, frame in enumerate(sides)
    )
    part = F.pmod(F.xxhash64("key"), F.lit(parts)).cast("int")
    return left.unionAll(right).repartitionById(parts, part).mapInArrow(_drop, "key bigint")


def _drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    return iter(())


def polars(parameters: Json) -> Json:
    """Polars joining all rows at once: in memory, or from files to a file."""
    os.environ["POLARS_MAX_THREADS"] = str(CORES)  # read when it is imported
    import polars as pl

    sources = [f"{parameters['folder']}/{side}/*.parquet" for side in SIDES]
    left, right = map(pl.scan_parquet, sources)
    rows = sum(side.select(pl.len()).collect().item() for side in (left, right))
    is_noop = _sink(parameters) == "noop"
    if is_noop:
        left, right = left.collect().lazy(), right.collect().lazy()
    bound = timedelta(seconds=parameters["within_s"])
    near = pl.col("ts_right").is_between(pl.col("ts") - bound, pl.col("ts") + bound)
    query = left.join(right, on="key").filter(near)
    target = f"{_output(parameters)}.parquet"
    if is_noop:
        counts: list[int] = []
        best = _best_s(lambda: counts.append(query.collect(engine="streaming").height))
        found = counts[-1]
    else:
        best = _best_s(lambda: query.sink_parquet(target, compression="snappy"))
        found = pl.scan_parquet(target).select(pl.len()).collect().item()
    return {"rows": rows, "rows_per_s": round(rows / best), "result_rows": found}


def duckdb(parameters: Json) -> Json:
    """DuckDB joining all rows at once: in memory, or from files to a file."""
    import duckdb as duck

    connection = duck.connect()
    connection.execute(f"set threads = {CORES}")
    is_noop = _sink(parameters) == "noop"
    for side in SIDES:
        source = f"{parameters['folder']}/{side}/*.parquet"
        kind = "table" if is_noop else "view"
        connection.execute(f"create {kind} {side} as from read_parquet('{source}')")
    bound = f"interval {parameters['within_s']} seconds"
    query = (
        "select r.*, s.ts as s_ts, s.s_id, s.s_v from r join s "
        f"on r.key = s.key and s.ts between r.ts - {bound} and r.ts + {bound}"
    )
    target = f"{_output(parameters)}.parquet"
    made = f"copy ({query}) to '{target}' (format parquet, compression snappy)"
    best = _best_s(
        lambda: connection.execute(
            f"create or replace table joined as {query}" if is_noop else made
        )
    )
    found = "joined" if is_noop else f"read_parquet('{target}')"
    counts = [_count(connection, table) for table in (*SIDES, found)]
    rows = counts[0] + counts[1]
    return {"rows": rows, "rows_per_s": round(rows / best), "result_rows": counts[2]}


def _count(connection: DuckDBPyConnection, table: str) -> int:
    found = connection.execute(f"select count(*) from {table}").fetchone()
    assert found is not None
    return int(found[0])


def _best_s(attempt: Callable[[], object]) -> float:
    times = []
    for _ in range(ATTEMPTS):
        begun = time.perf_counter()
        attempt()
        times.append(time.perf_counter() - begun)
    return min(times)
