"""Who takes part in `benchmarks.hot_pairs`. Each function runs in a process of its own and takes
the parameters `folder`, `rows_per_batch`, `warmup`, `unix_sockets`, `work`.
"""

from __future__ import annotations

import statistics

from pyspark.sql import functions as F

import skewless as sk
from benchmarks.contestants import CHECKPOINT
from benchmarks.data import SIDES
from benchmarks.measure import Json, batch_figures
from benchmarks.session import drain, read_side, start_session

WITHIN_S = 10
CONDITION = "abs(r_v - s_v) < 0.001"


def auto(parameters: Json) -> Json:
    """`sk.join` as it comes."""
    return _skewless(parameters, sk.Auto())


def hashed(parameters: Json) -> Json:
    """`sk.join` with every key in one place."""
    return _skewless(parameters, sk.Hash())


def _skewless(parameters: Json, strategy: sk.Auto | sk.Hash) -> Json:
    session = start_session(parameters)
    left, right = (read_side(session, parameters["folder"], side) for side in SIDES)
    joined = sk.join(
        left,
        right,
        on="key",
        time="ts",
        within=f"{WITHIN_S} seconds",
        condition=CONDITION,
        strategy=strategy,
        instances=2,
    )
    checkpoint = f"{parameters['work']}/checkpoint"
    progress = drain(joined.writeStream.format("noop").option(CHECKPOINT, checkpoint).start())
    reports = sk.history(checkpoint)
    session.stop()
    measured = reports[parameters["warmup"] :]
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"]) | {
        "result_rows": sum(report.matches for report in reports),
        "pairs": statistics.median(sum(i.pairs for i in r.instances) for r in measured),
        "busiest_over_mean": round(statistics.median(r.busiest_over_mean for r in measured), 2),
    }


def spark(parameters: Json) -> Json:
    """Spark's own stream-stream join with the same condition."""
    session = start_session(parameters)
    left, right = (
        read_side(session, parameters["folder"], side)
        .withColumnRenamed("ts", f"{side}_ts")
        .withColumnRenamed("key", f"{side}_key")
        .withWatermark(f"{side}_ts", "0 seconds")
        for side in SIDES
    )
    bound = F.expr(f"interval {WITHIN_S} seconds")
    near = F.col("s_ts").between(F.col("r_ts") - bound, F.col("r_ts") + bound)
    equal = F.col("r_key") == F.col("s_key")
    joined = left.join(right, equal & near & F.expr(CONDITION)).drop("s_key")
    checkpoint = f"{parameters['work']}/checkpoint"
    progress = drain(joined.writeStream.format("noop").option(CHECKPOINT, checkpoint).start())
    session.stop()
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"]) | {
        "result_rows": sum(p["sink"]["numOutputRows"] for p in progress),
    }
