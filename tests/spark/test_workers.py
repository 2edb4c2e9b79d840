"""What tasks do to the Python worker that runs them."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from skewless.spark import workers
from skewless.spark.exchange import JSON_SCHEMA
from skewless.spark.reporting import TRACEBACK_VARIABLE, _workers_of_dataframes, reported

# How often the kernel has to clear a page, for arrays that are made and freed again and again.
FAULTS = """
import resource
import sys

import numpy as np

from skewless.spark.workers import keep_heap

print(keep_heap() if sys.argv[1] == "kept" else None)
a = np.ones(1 << 18)
for rounds in (2, 50):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        b = a + a
        c = b - a
        del b, c
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(word: str, **environment: str) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, word],
        capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"} | environment,
    )  # fmt: skip
    said, count = done.stdout.split()
    return said, int(count)


@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc that is told")
def test_freed_arrays_are_used_again() -> None:
    said, count = faults("kept")
    assert said == "True"
    assert count < 1_000, "two arrays of 512 pages each, 50 times"
    assert faults("not")[1] > 10_000


def test_what_users_have_set_stays() -> None:
    assert faults("kept", MALLOC_TRIM_THRESHOLD_="65536")[0] == "False"


def test_only_the_first_tasks_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    kept: list[int] = []
    monkeypatch.setattr(workers, "freeze_gc", lambda: frozen.append(1))
    monkeypatch.setattr(workers, "keep_heap", lambda: kept.append(1))
    monkeypatch.setattr(workers, "_tasks_run", 0)
    monkeypatch.setattr(gc, "callbacks", [])
    for _ in range(workers.FREEZING_TASKS + 3):
        workers.begin_task()
        workers.end_task()
    assert (len(kept), len(frozen)) == (1, workers.FREEZING_TASKS)
    assert len(gc.callbacks) == 1


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux's alone")
def test_connections_do_not_wait_for_the_task_that_comes(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The kernel takes it back when something is sent: it is said when nothing more will be."""

    def said(connection: socket.socket) -> list[bool]:
        names = (socket.TCP_NODELAY, socket.TCP_QUICKACK)
        return [bool(connection.getsockopt(socket.IPPROTO_TCP, name)) for name in names]

    request.addfinalizer(lambda: gc.callbacks.remove(workers._between_tasks))
    workers.begin_task()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as ours,
        server.accept()[0],
    ):
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        monkeypatch.setattr(workers, "DESCRIPTORS", range(ours.fileno() + 1))
        gc.collect(1)
        assert said(ours) == [False, False]
        gc.collect()
        assert said(ours) == [True, True]


@dataclass(frozen=True)
class Ran:
    """In which process a task has run."""

    number: int

    def to_json(self) -> dict[str, Any]:
        time.sleep(0.3)  # so that all run at once
        return {"number": self.number, "process": os.getpid()}


def test_tasks_that_report_share_the_workers_of_dataframes(spark: SparkSession) -> None:
    """Others would have to load everything once more. A worker is free only some time after Spark
    has told what its task found: on a busy machine the next may get another."""

    def processes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(0.3)
        for _ in batches:
            yield pa.record_batch({"json": [str(os.getpid())]})

    environment = dict(spark.sparkContext.environment)
    of_frames, of_reports = set[int](), set[int]()
    for _ in range(5):
        rows = spark.range(0, 2, 1, 2).mapInArrow(processes, JSON_SCHEMA).collect()
        of_frames |= {int(row[0]) for row in rows}
        found = reported(spark, 2, lambda number: [Ran(number)])
        assert [one["number"] for one in found] == [0, 1]
        of_reports |= {one["process"] for one in found}
        if of_frames & of_reports:
            break
    assert of_frames & of_reports
    assert dict(spark.sparkContext.environment) == environment


def test_queries_at_work_at_the_same_time_do_not_disturb_each_other(spark: SparkSession) -> None:
    """Each tells Spark of its jobs; PySpark goes through the environment of workers meanwhile."""
    context = spark.sparkContext
    before, seen = context.environment, dict(context.environment)
    with _workers_of_dataframes(spark, context):
        assert TRACEBACK_VARIABLE in context.environment
        assert before == seen, "others may be going through it"
    assert context.environment is before
