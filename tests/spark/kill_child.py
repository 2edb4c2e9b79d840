"""A query in a process of its own, to be killed.

    python kill_child.py '{"folder": …, "query": "join → aggregate", "way": "Hash"}'

It works on all files there are. A file `started` says that the session runs, `done` is the last
sign of life. With `fail_once`, a folder, tasks of every kind fail once when all their work is done:
they then run a second time. `master` and `settings` are those of the session.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from skewless.engine.instance import StepTask
from skewless.spark import executor
from skewless.state import compaction
from tests.spark.query_kits import KITS

Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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


def fail_once(markers: str) -> None:
    """Have tasks of each kind fail when all their work is done. The functions are sent to the
    workers as they are here, in the main module."""

    def once(name: str) -> None:
        try:
            os.close(os.open(f"{markers}/{name}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        raise RuntimeError(f"{name} fails once")

    def failing(make: Callable[..., Function], name_of: Callable[..., str | None]) -> Any:
        def make_failing(task: Any, *more: Any) -> Function:
            work = make(task, *more)

            def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                taken = list(batches)
                yield from work(iter(taken))
                name = name_of(task, taken)
                if name is not None:
                    once(name)

            return function

        return make_failing

    def of_ingest(task: Any, _: list[pa.RecordBatch]) -> str:
        return f"{task.operator_name} takes {task.name} in"

    def of_instance(task: StepTask, numbers: list[pa.RecordBatch]) -> str | None:
        if task.step.compaction is None:
            return None
        return f"{task.operator} {numbers[0].column(0)[0].as_py()}"

    for name, name_of in (
        ("ingest_function", of_ingest),
        ("rows_function", of_instance),
        ("pass_on_function", of_instance),
    ):
        setattr(executor, name, failing(getattr(executor, name), name_of))


def main(config: dict[str, Any]) -> None:
    folder = Path(config["folder"])
    compaction.FAN_IN = 2
    if "fail_once" in config:
        fail_once(config["fail_once"])
    session = start_session(config)
    (folder / "started").touch()
    KITS[config["query"]].run_all(session, folder, config["way"])
    (folder / "done").touch()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
