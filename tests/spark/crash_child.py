"""A query in a process of its own, to be killed.

    python crash_child.py '{"folder": …, "master": "local[2]", …}'

It joins the files in `left/` and `right/` to the end, moves what waits in `left.later/` and
`right.later/` there, removes the marker of a fault (which was there to let the first run pass),
says so by a file `armed`, and joins again. A file `done` is its last sign of life.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from skewless.spark import executor as query
from skewless.spark.arguments import join
from skewless.state import compaction
from tests.chaos import Chaos
from tests.spark.support import FileStream, keyed_join, keyed_tables, run

# Placements change at random after every batch: kills come in the midst of decisions.
JOIN: dict[str, Any] = {
    "within": "12 seconds",
    "late": "10 seconds",
    "balance": Chaos(seed=5),
    "instances": 3,
    "slots": 8,
}
FAN_IN = 2


def start_session(config: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.master(config.get("master", "local[2]")).appName("to be killed")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "localhost",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{config['folder']}/warehouse",
    }
    for key, value in (settings | config.get("settings", {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def join_all(session: SparkSession, folder: Path) -> None:
    left, right = (
        FileStream(folder / side, keyed_tables(side, [[]])[0].schema) for side in ("left", "right")
    )
    run(keyed_join(left.read(session), right.read(session), **JOIN), folder)


def release_later_files(folder: Path) -> None:
    for side in ("left", "right"):
        for file in sorted((folder / f"{side}.later").glob("*.parquet")):
            file.rename(folder / side / file.name)


def fail_once(markers: str) -> None:
    """Have tasks of each kind fail when all their work is done: they then run a second time."""
    ingest, run_instance = join.ingest, query.run_instance

    def once(name: str) -> None:
        try:
            os.close(os.open(f"{markers}/{name}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        raise RuntimeError(f"{name} fails once")

    def ingest_then_fail(
        batches: Iterable[pa.RecordBatch], spec: Any, side: Any, root: str
    ) -> Iterator[Any]:
        yield from ingest(batches, spec, side, root)
        once(f"ingest-{side}")

    def join_then_fail(spec: Any, plan: Any, instance: int) -> Iterator[pa.RecordBatch]:
        yield from run_instance(spec, plan, instance)
        if plan.compact:
            once(f"instance-{instance}")

    join.ingest = ingest_then_fail
    query.run_instance = join_then_fail


def run_once(run_all: Callable[[SparkSession, Path, str], Path]) -> None:
    """The whole life of the other children: all the files there are, in the `way` asked for. A file
    `started` says that the session runs, `done` is the last sign of life."""
    config = json.loads(sys.argv[1])
    folder = Path(config["folder"])
    compaction.FAN_IN = FAN_IN
    session = start_session(config)
    (folder / "started").touch()
    run_all(session, folder, config["way"])
    (folder / "done").touch()


def main(config: dict[str, Any]) -> None:
    folder = Path(config["folder"])
    compaction.FAN_IN = FAN_IN
    if "fail_once" in config:
        fail_once(config["fail_once"])
    session = start_session(config)
    (folder / "started").touch()
    if config.get("twice", True):
        join_all(session, folder)
        release_later_files(folder)
        if "marker" in config:
            Path(config["marker"]).unlink()
        (folder / "armed").touch()
    join_all(session, folder)
    (folder / "done").touch()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
