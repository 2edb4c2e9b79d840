"""The process that `benchmarks.state_growth` measures.

Its parameters are `folder`, `rows_per_batch`, `warmup`, `fill_files`, `fill_files_per_batch`,
`within_s`, `unix_sockets`, `work`.
"""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import skewless as sk
from benchmarks.data import SIDES, stream_files
from benchmarks.measure import MARK, Json, batch_figures
from benchmarks.session import drain, read_side, start_session


def grown(parameters: Json) -> Json:
    """Fill the state, then measure the batches that meet it."""
    session = start_session(parameters)
    folder, work = Path(parameters["folder"]), Path(parameters["work"])
    fill_files = parameters["fill_files"]
    begun = time.perf_counter()
    _offer(folder, work, range(fill_files))
    drain(_start(session, parameters, parameters["fill_files_per_batch"]))
    fill_s = time.perf_counter() - begun
    filled = len(sk.history(str(work / "checkpoint")))
    _offer(folder, work, range(fill_files, len(stream_files(folder)) // 2))
    (work / MARK).touch()
    progress = drain(_start(session, parameters, 1))
    session.stop()
    reports = sk.history(str(work / "checkpoint"))[filled + parameters["warmup"] :]
    figures = batch_figures(progress, parameters["warmup"], parameters["rows_per_batch"])
    arrived = sum(report.rows_left + report.rows_right for report in reports)
    return figures | {
        "fill_s": round(fill_s, 1),
        "matches_per_arriving_row": round(sum(r.matches for r in reports) / arrived, 3),
        "late_rows": sum(report.late for report in reports),
        "state": {
            "rows_median": round(statistics.median(r.state_rows for r in reports)),
            "rows_max": max(r.state_rows for r in reports),
            "bytes_median": round(statistics.median(r.state_bytes for r in reports)),
            "segments_median": round(statistics.median(r.segments for r in reports)),
            "segments_max": max(r.segments for r in reports),
        },
        "own_phases_median_ms": {
            phase: statistics.median(report.phases_ms[phase] for report in reports)
            for phase in reports[0].phases_ms
        },
    }


def _offer(folder: Path, work: Path, numbers: range) -> None:
    """Put some files where the queries look for them, as old as they are."""
    for side in SIDES:
        (work / side).mkdir(exist_ok=True)
        for number in numbers:
            name = f"{side}/{number:04d}.parquet"
            shutil.copy2(folder / name, work / name)


def _start(session: SparkSession, parameters: Json, files: int) -> StreamingQuery:
    left, right = (read_side(session, parameters["work"], side, files) for side in SIDES)
    within = f"{parameters['within_s']} seconds"
    joined = sk.join(left, right, on="key", left_time="ts", right_time="ts", within=within)
    writer = joined.writeStream.format("noop").option("skewless.keepHistory", 1_000_000)
    return writer.option("checkpointLocation", f"{parameters['work']}/checkpoint").start()
