"""Who takes part in `benchmarks.aggregate`. Each function runs in a process of its own, with the
parameters `folder`, `rows_per_batch`, `warmup`, `window_s`, `instances`, `grouping`, `own`,
`unix_sockets`, `work`. With `own` the aggregate is one that Spark does not have.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import skewless as sk
from benchmarks.contestants import CHECKPOINT
from benchmarks.measure import Json, batch_figures
from benchmarks.session import drain, read_side, start_session

SIDE = "r"
NAMED = {
    "n": "count",
    "total": ("sum", "r_v"),
    "low": ("min", "r_v"),
    "high": ("max", "r_v"),
    "mean": ("mean", "r_v"),
}


class GeometricMean(sk.Accumulator):
    """The mean of logarithms, as an exponent: Spark has no such aggregate."""

    state = {"logs": pa.float64(), "rows": pa.int64()}  # noqa: RUF012
    result = pa.float64()

    def init(self, groups: int) -> list[pa.Array]:
        return [pa.array(np.zeros(groups)), pa.array(np.zeros(groups, np.int64))]

    def update(self, state: list[pa.Array], groups: Any, *columns: pa.Array) -> list[pa.Array]:
        logs = np.log1p(np.abs(columns[0].to_numpy(zero_copy_only=False)))
        return self._plus(state, groups, logs, np.ones(len(logs)))

    def merge(self, state: list[pa.Array], groups: Any, other: list[pa.Array]) -> list[pa.Array]:
        return self._plus(state, groups, other[0].to_numpy(), other[1].to_numpy())

    def finish(self, state: list[pa.Array]) -> pa.Array:
        return pa.array(np.exp(state[0].to_numpy() / np.maximum(state[1].to_numpy(), 1)))

    def _plus(self, state: list[pa.Array], groups: Any, logs: Any, rows: Any) -> list[pa.Array]:
        size = len(state[0])
        return [
            pa.array(state[0].to_numpy() + np.bincount(groups, logs, size)),
            pa.array(state[1].to_numpy() + np.bincount(groups, rows, size).astype(np.int64)),
        ]


def skewless(parameters: Json) -> Json:
    """`sk.aggregate` with one of its groupings."""
    session = start_session(parameters)
    aggregated = sk.aggregate(
        read_side(session, parameters["folder"], SIDE, parameters["files_per_batch"]),
        by="key",
        aggs={"mean": (GeometricMean(), "r_v")} if parameters["own"] else NAMED,
        time="ts",
        window=f"{parameters['window_s']} seconds",
        grouping=getattr(sk, parameters["grouping"])(),
        instances=parameters["instances"],
    )
    checkpoint = f"{parameters['work']}/checkpoint"
    writer = aggregated.writeStream.format("noop").outputMode("update")
    writer = writer.option(CHECKPOINT, checkpoint).option("skewless.keepHistory", 1_000_000)
    progress = drain(writer.start())
    reports = sk.history(checkpoint)
    session.stop()
    measured = reports[parameters["warmup"] :]
    partials = sum(load.pairs for report in measured for load in report.instances)
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"]) | {
        "result_rows": sum(report.matches for report in reports),
        "late_rows": sum(report.late for report in reports),
        "own_phases_median_ms": {
            phase: statistics.median(report.phases_ms[phase] for report in measured)
            for phase in measured[0].phases_ms
        },
        "busiest_over_mean": round(statistics.median(r.busiest_over_mean for r in measured), 3),
        "busiest_over_mean_rows": round(
            statistics.median(_busiest_by_rows(r) for r in measured), 4
        ),
        "partials_per_result": round(partials / max(1, sum(r.matches for r in measured)), 4),
    }


def _busiest_by_rows(report: sk.BatchReport) -> float:
    rows = [load.rows for load in report.instances]
    return max(rows) * len(rows) / max(1, sum(rows))


def spark(parameters: Json) -> Json:
    """Spark's own: `groupBy(window, key)`, or `applyInPandasWithState` for an aggregate it has
    not. Neither has to tell more than the groups that a batch has changed."""
    session = start_session(parameters)
    rows = read_side(
        session, parameters["folder"], SIDE, parameters["files_per_batch"]
    ).withWatermark("ts", "0 seconds")
    window = F.window("ts", f"{parameters['window_s']} seconds")
    if parameters["own"]:
        grouped = rows.withColumn("start", window.start).groupBy("start", "key")
        result = grouped.applyInPandasWithState(
            _geometric_mean,
            "start timestamp, key bigint, mean double",
            "logs double, rows bigint",
            "update",
            GroupStateTimeout.NoTimeout,
        )
    else:
        result = _named(rows.groupBy(window, "key"))
    writer = result.writeStream.format("noop").outputMode("update")
    progress = drain(writer.option(CHECKPOINT, f"{parameters['work']}/checkpoint").start())
    session.stop()
    operators = [operator for p in progress for operator in p["stateOperators"]]
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"]) | {
        "result_rows": sum(p["sink"]["numOutputRows"] for p in progress),
        "late_rows": sum(operator["numRowsDroppedByWatermark"] for operator in operators),
    }


def _named(grouped: Any) -> DataFrame:
    result: DataFrame = grouped.agg(
        F.count("*").alias("n"),
        F.sum("r_v").alias("total"),
        F.min("r_v").alias("low"),
        F.max("r_v").alias("high"),
        F.avg("r_v").alias("mean"),
    )
    return result


def _geometric_mean(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    logs, rows = state.get if state.exists else (0.0, 0)
    for frame in frames:
        logs += float(np.log1p(np.abs(frame["r_v"].to_numpy())).sum())
        rows += len(frame)
    state.update((logs, rows))
    mean = float(np.exp(logs / max(rows, 1)))
    yield pd.DataFrame({"start": [key[0]], "key": [key[1]], "mean": [mean]})
