"""Who takes part in `benchmarks.from_json`. Each function runs in a process of its own and takes
the parameters `folder`, `rows_per_batch`, `warmup`, `within_s`, `unix_sockets` and `work`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import skewless as sk
from benchmarks.data import SIDES
from benchmarks.measure import Json, batch_figures
from benchmarks.session import drain, read_side, start_session
from skewless.files.json_values import JsonColumns
from skewless.spark.plans import arrow_schema

FIELDS = "key long, ts timestamp, user string, price double, items int, paid boolean"
CHECKPOINT = "checkpointLocation"
ATTEMPTS = 3  # at parsing alone: the best counts


def skewless(parameters: Json) -> Json:
    """`sk.join` of streams that `sk.from_json` parses."""
    return _joined(parameters, lambda frame: sk.from_json(frame, "value", FIELDS))


def in_front(parameters: Json) -> Json:
    """`sk.join` with Spark's `from_json` in front."""
    return _joined(parameters, by_spark)


def by_spark(frame: DataFrame) -> DataFrame:
    text = F.col("value").cast("string")
    return frame.select(F.from_json(text, FIELDS).alias("parsed")).select("parsed.*")


def _sides(session: SparkSession, parameters: Json) -> list[DataFrame]:
    return [read_side(session, parameters["folder"], side) for side in SIDES]


def _joined(parameters: Json, parsed: Callable[[DataFrame], DataFrame]) -> Json:
    session = start_session(parameters)
    left, right = (parsed(frame) for frame in _sides(session, parameters))
    right = right.select("key", F.col("ts").alias("s_ts"), F.col("user").alias("s_user"))
    within = f"{parameters['within_s']} seconds"
    joined = sk.join(left, right, on="key", left_time="ts", right_time="s_ts", within=within)
    checkpoint = f"{parameters['work']}/checkpoint"
    progress = drain(joined.writeStream.format("noop").option(CHECKPOINT, checkpoint).start())
    found = sum(report.matches for report in sk.history(checkpoint))
    session.stop()
    figures = batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"])
    return figures | {"result_rows": found}


def spark(parameters: Json) -> Json:
    """Spark's own join, with its `from_json` in front."""
    session = start_session(parameters)
    left, right = (by_spark(frame) for frame in _sides(session, parameters))
    left = left.withWatermark("ts", "0 seconds")
    right = right.select(
        F.col("key").alias("s_key"), F.col("ts").alias("s_ts"), F.col("user").alias("s_user")
    ).withWatermark("s_ts", "0 seconds")
    bound = F.expr(f"interval {parameters['within_s']} seconds")
    near = F.col("s_ts").between(F.col("ts") - bound, F.col("ts") + bound)
    joined = left.join(right, (F.col("key") == F.col("s_key")) & near).drop("s_key")
    checkpoint = f"{parameters['work']}/checkpoint"
    progress = drain(joined.writeStream.format("noop").option(CHECKPOINT, checkpoint).start())
    session.stop()
    figures = batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"])
    return figures | {"result_rows": sum(p["sink"]["numOutputRows"] for p in progress)}


def parsing(parameters: Json) -> Json:
    """Parsing alone, up to columns in Python: by Spark, which hands its columns over, and here,
    where the texts are handed over; by turns."""
    session = start_session(parameters)
    texts = session.read.parquet(f"{parameters['folder']}/{SIDES[0]}")
    rows = texts.count()
    ways = {
        "spark": by_spark(texts).mapInArrow(_counted, "rows long"),
        "skewless": texts.mapInArrow(_parsed(), "rows long"),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ATTEMPTS):
        for name, frame in ways.items():
            begun = time.perf_counter()
            assert sum(row.rows for row in frame.collect()) == rows
            best[name] = min(best[name], time.perf_counter() - begun)
    session.stop()
    return {
        "rows": rows,
        "s_per_million": {name: round(s / rows * 1e6, 3) for name, s in best.items()},
        "spark_over_skewless": round(best["spark"] / best["skewless"], 2),
    }


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"rows": pa.array([batch.num_rows])})


def _parsed() -> Any:
    schema = StructType.fromDDL(FIELDS)
    assert isinstance(schema, StructType)
    columns = JsonColumns(arrow_schema(schema))

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found, bad = columns.read(batch.column(0))
            assert not bad.any()
            yield pa.record_batch({"rows": pa.array([len(found[0])])})

    return function
