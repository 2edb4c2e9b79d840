"""Queries in a process of their own, to be killed.

    python kill_child.py '{"folder": …, "queries": [{"folder": …, "query": "join", "way": "Hash"}]}'

They work on all files there are, at the same time. A file `started` in the folder says that the
session runs; `done` is the last sign of life, of a query in its folder and of all in the child's.
With `marker`, every query is to pause at a failpoint, and the next one begins when it does;
`paused` says that all have. With `fail_once`, a folder, tasks of every kind fail once when all
their work is done: they then run a second time. `master` and `settings` are those of the session.
With `host`, it behaves as if on a machine of that name, which shares the checkpoint's folder, but
no locks, with others.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from skewless.engine.instance import StepTask
from skewless.spark import executor
from skewless.spark.reporting import Work
from skewless.state import compaction, epochs, owner
from tests.spark import support
from tests.spark.query_kits import KITS

Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def start_session(config: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.master(config.get("master", "local[64]")).appName("to be killed")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "localhost",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",  # the other slots are for tasks that pause
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
        def make_failing(task: Any, *more: Any, **named: Any) -> Function:
            work = make(task, *more, **named)

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

    def of_instance(task: StepTask, number: int) -> str | None:
        return None if task.step.compaction is None else f"{task.operator} {number}"

    def of_rows(task: StepTask, numbers: list[pa.RecordBatch]) -> str | None:
        return of_instance(task, numbers[0].column(0)[0].as_py())

    passing_on = executor.passing_on

    def passing_on_failing(task: StepTask, *more: Any) -> Work:
        work = passing_on(task, *more)

        def function(number: int) -> Iterator[Any]:
            yield from work(number)
            name = of_instance(task, number)
            if name is not None:
                once(name)

        return function

    executor.passing_on = passing_on_failing
    for name, name_of in (("ingest_function", of_ingest), ("rows_function", of_rows)):
        setattr(executor, name, failing(getattr(executor, name), name_of))


def move_to(host: str) -> None:
    """Be on another machine, as far as other queries can tell."""
    epochs.this_machine = lambda: host  # type: ignore[assignment]
    socket.gethostname = lambda: host
    owner.fcntl.flock = lambda descriptor, how: None  # type: ignore[assignment]
    owner.BEAT_S, owner.LOOK_S = 0.5, 4.0
    support.PATIENCE_S = 3600  # it may stand still for long


def main(config: dict[str, Any]) -> None:
    folder = Path(config["folder"])
    compaction.FAN_IN = 2
    if "host" in config:
        move_to(config["host"])
    if "fail_once" in config:
        fail_once(config["fail_once"])
    session = start_session(config)
    (folder / "started").touch()
    works = [threading.Thread(target=work, args=(session, query)) for query in config["queries"]]
    for thread, query in zip(works, config["queries"], strict=True):
        thread.start()
        if "marker" in config:
            wait_until_paused(thread, Path(query["folder"], config["marker"]))
    if "marker" in config:
        (folder / "paused").touch()
    for thread in works:
        thread.join()
    if all(Path(query["folder"], "done").exists() for query in config["queries"]):
        (folder / "done").touch()


def work(session: SparkSession, query: dict[str, Any]) -> None:
    folder = Path(query["folder"])
    KITS[query["query"]].run_all(session, folder, query["way"], query["columns"])
    (folder / "done").touch()


@contextmanager
def ending_the_child() -> Iterator[None]:
    """A query that fails ends all, so that its end is not taken for one by a kill."""
    try:
        yield
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def wait_until_paused(thread: threading.Thread, marker: Path) -> None:
    while not marker.exists():
        if not thread.is_alive() and not marker.exists():
            raise RuntimeError(f"a query ended without a pause: no {marker}")
        time.sleep(0.02)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
