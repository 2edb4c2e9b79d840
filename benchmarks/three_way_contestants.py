"""Who takes part in `benchmarks.three_way` on Spark: `sk.join3`, and Spark's own two joins."""

from __future__ import annotations

import statistics

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import skewless as sk
from benchmarks.contestants import CHECKPOINT
from benchmarks.measure import Json, batch_figures
from benchmarks.session import drain, read_side, start_session
from benchmarks.three_way_core import STRATEGIES

LIVE = ("shows", "purchases", "activity")


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
