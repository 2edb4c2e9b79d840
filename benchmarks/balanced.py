"""A join of `benchmarks.skew_on_spark`, in a process of its own."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

import skewless as sk
from benchmarks.data import SIDES
from benchmarks.measure import Json, batch_figures
from benchmarks.session import drain, read_side, start_session

STRATEGIES: dict[str, sk.PlacementStrategy] = {
    "hash": sk.Hash(),
    "fastjoin": sk.FastJoin(),
    "lsstream": sk.LSStream(),
    "auto": sk.Auto(),
}


def balanced(parameters: Json) -> Json:
    """`sk.join` under one strategy: what its instances did once it had settled."""
    session = start_session(parameters)
    left, right = (read_side(session, parameters["folder"], side) for side in SIDES)
    joined = sk.join(
        left,
        right,
        on="key",
        left_time="ts",
        right_time="ts",
        within=parameters["within"],
        balance=STRATEGIES[parameters["strategy"]],
        instances=parameters["instances"],
    )
    checkpoint = f"{parameters['work']}/checkpoint"
    writer = joined.writeStream.format("noop").option("checkpointLocation", checkpoint)
    progress = drain(writer.option("skewless.keepHistory", 1_000_000).start())
    reports = sk.history(checkpoint)
    session.stop()
    return batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"]) | {
        "result_rows": sum(report.matches for report in reports),
        **work_figures(reports, parameters["warmup"]),
    }


def work_figures(reports: list[sk.BatchReport], warmup: int) -> dict[str, Any]:
    """How the work was shared out after the warm-up, by what was counted; the measured processor
    time stands beside it. `makespan_ms` is how long the batches would have taken with a core for
    every instance: the sum of the busiest ones."""
    settled = reports[warmup:]
    work = np.array([[load.work_ms for load in report.instances] for report in settled])
    times = np.array([[load.time_ms for load in report.instances] for report in settled])
    accepted = [d for report in reports for d in report.decisions if d.accepted]
    probing = sum(load.rows for report in settled for load in report.instances)
    arrived = sum(r.rows_left + r.rows_right for r in settled)
    return {
        "busiest_over_mean": round(statistics.median(r.busiest_over_mean for r in settled), 3),
        "measured_over_mean": round(statistics.median(r.measured_over_mean for r in settled), 3),
        "instance_median_ms": [round(float(t), 3) for t in np.median(work, axis=0)],
        "makespan_ms": round(float(work.max(axis=1).sum()), 1),
        "work_ms": round(float(work.sum()), 1),
        "measured_makespan_ms": round(float(times.max(axis=1).sum()), 1),
        "measured_work_ms": round(float(times.sum()), 1),
        "makespan_over_ideal": round(float(work.max(axis=1).sum() / work.mean(axis=1).sum()), 3),
        "extra_probes": round(probing / arrived - 1, 4),
        "moves": sum(d.kind == "move" for d in accepted),
        "splits": sum(d.kind == "split" for d in accepted),
        "rows_moved": sum(d.rows for d in accepted),
        "decisions": len(accepted),
        "refused": sum(not d.accepted for report in reports for d in report.decisions),
        "verdict": settled[-1].verdict,
    }
