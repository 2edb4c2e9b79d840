"""Who takes part in `benchmarks.kafka`: JSON from two topics, joined, JSON to a topic.

Each function runs in a process of its own and takes the parameters `servers`, `topics` (of both
sides), `out`, `rows_per_batch`, `warmup`, `within_s`, `unix_sockets` and `work`.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from benchmarks.data import SIDES
from benchmarks.measure import Json, batch_figures
from benchmarks.session import drain, start_session
from tests.kafka.jars import connector_jars

CHECKPOINT = "checkpointLocation"
VALUE = ("cast(key as string) as key", "to_json(struct(*)) as value")


def exactly_once(parameters: Json) -> Json:
    """`sk.join`, delivered exactly once."""
    return _skewless(parameters, "exactly-once")


def at_least_once(parameters: Json) -> Json:
    """`sk.join`, written by Spark's sink."""
    return _skewless(parameters, "at-least-once")


def _skewless(parameters: Json, delivery: str) -> Json:
    session = _session(parameters)
    left, right = (
        sk.from_json(_values(session, parameters, side), "value", _columns(side)) for side in SIDES
    )
    within = f"{parameters['within_s']} seconds"
    joined = sk.join(left, right, on="key", left_time="ts", right_time="ts", within=within)
    writer = joined.selectExpr(*VALUE).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", parameters["servers"])
    writer = writer.option("topic", parameters["out"]).option("skewless.delivery", delivery)
    checkpoint = f"{parameters['work']}/checkpoint"
    progress = drain(writer.option(CHECKPOINT, checkpoint).start())
    session.stop()
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"])


def spark(parameters: Json) -> Json:
    """Spark's own stream-stream join, and its own sink: at least once."""
    session = _session(parameters)
    left, right = (
        _side(session, parameters, side)
        .withColumnRenamed("ts", f"{side}_ts")
        .withColumnRenamed("key", f"{side}_key")
        .withWatermark(f"{side}_ts", "0 seconds")
        for side in SIDES
    )
    bound = F.expr(f"interval {parameters['within_s']} seconds")
    near = F.col("s_ts").between(F.col("r_ts") - bound, F.col("r_ts") + bound)
    joined = left.join(right, (F.col("r_key") == F.col("s_key")) & near).drop("s_key")
    named = joined.withColumnRenamed("r_key", "key").selectExpr(*VALUE)
    writer = named.writeStream.format("kafka").option(
        "kafka.bootstrap.servers", parameters["servers"]
    )
    writer = writer.option("topic", parameters["out"])
    progress = drain(writer.option(CHECKPOINT, f"{parameters['work']}/checkpoint").start())
    session.stop()
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"])


def _session(parameters: Json) -> SparkSession:
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(connector_jars())} pyspark-shell"
    return start_session(parameters)


def _side(session: SparkSession, parameters: Json, side: str) -> DataFrame:
    parsed = F.from_json(F.col("value").cast("string"), _columns(side))
    return _values(session, parameters, side).select(parsed.alias("v")).select("v.*")


def _columns(side: str) -> str:
    return f"key long, ts timestamp, {side}_id long, {side}_v double"


def _values(session: SparkSession, parameters: Json, side: str) -> DataFrame:
    records = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", parameters["servers"])
        .option("subscribe", parameters["topics"][side])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", parameters["rows_per_batch"] // 2)
        .load()
    )
    return records.select("value")
