"""Jobs whose tasks give the driver nothing but a few lines of JSON.

As a DataFrame such a job is analysed, optimised, planned and compiled anew in every batch, which
takes longer than many a batch's work. Where it does not matter which host a task runs on, the same
tasks are run as an RDD, which Spark starts at once.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from skewless.engine.exchange import Packet
from skewless.spark.cluster import is_one_host
from skewless.spark.interpreter import is_remote
from skewless.spark.workers import begin_task, end_task

SIMPLE_TRACEBACKS = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
TRACEBACK_VARIABLE = "SPARK_SIMPLIFIED_TRACEBACK"

_telling_spark = threading.Lock()  # queries of one application share its context


class Reported(Protocol):
    """What a task finds, as plain values for the driver."""

    def to_json(self) -> dict[str, Any]: ...


# What the task of a number finds, for the driver and for other tasks.
Work = Callable[[int], Iterable[Reported | Packet]]


def is_plain(session: SparkSession) -> bool:
    """Whether the session can run such jobs, and any place is as good. Connect has no RDDs."""
    return not is_remote(session) and is_one_host(session)


def reported(session: SparkSession, count: int, work: Work) -> list[dict[str, Any]]:
    """What so many tasks report, which have nothing for others."""

    def task(numbers: Iterable[int]) -> Iterator[str]:
        begin_task()
        for number in numbers:
            for found in work(number):
                assert not isinstance(found, Packet)
                yield json.dumps(found.to_json())
        end_task()

    context = session.sparkContext
    job = context.parallelize(range(count), count).mapPartitions(task)
    with _workers_of_dataframes(session, context):
        job._jrdd  # noqa: B018  now it is told which workers it wants
    return [json.loads(text) for text in job.collect()]


@contextlib.contextmanager
def _workers_of_dataframes(session: SparkSession, context: SparkContext) -> Iterator[None]:
    """Have tasks run by the workers that those of DataFrames have: they have loaded everything.
    Spark keeps workers apart by their environment, of which one variable is of DataFrames only."""
    asked = session.conf.get(SIMPLE_TRACEBACKS, "true") == "true"
    with _telling_spark:
        before = context.environment
        if not asked or TRACEBACK_VARIABLE in before:
            yield
            return
        # Another dictionary: threads of other queries may be going through this one.
        context.environment = {**before, TRACEBACK_VARIABLE: "1"}
        try:
            yield
        finally:
            context.environment = before
