"""A micro-batch on Spark: two jobs and a commit.

Job 1 is the streaming plan itself, whose tasks have sorted and stored the new rows; its result is a
few rows that tell where. Job 2 has one task per instance, which joins. Then comes the commit.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skewless import faults
from skewless.joining.runtime import JoinRuntime
from skewless.model import Arrival, BatchPlan, JoinSpec
from skewless.spark.lock import CheckpointLock
from skewless.spark.sinks import Sink
from skewless.spark.workers import join_function

ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_ROWS_DEFAULT = "10000"
ARROW_ROWS_WANTED = "20000"  # fewer, larger hand-overs between Spark and Python


@dataclass(frozen=True)
class Result:
    """The shape of the result: the columns of a match, and what is done to them in Catalyst
    afterwards, as (name of a DataFrame method, its arguments)."""

    match_schema: StructType
    steps: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def of(self, session: SparkSession, spec: JoinSpec, plan: BatchPlan) -> DataFrame:
        """The result of a planned batch, as a DataFrame of one task per instance."""
        count = plan.routing.instances
        instances = session.range(0, count, 1, count)
        return self.shaped(instances.mapInArrow(join_function(spec, plan), self.match_schema))

    def shaped(self, matches: DataFrame) -> DataFrame:
        for method, arguments in self.steps:
            matches = getattr(matches, method)(*arguments)
        return matches


class BatchDriver:
    """Called by `foreachBatch` with the result of job 1."""

    def __init__(self, runtime: JoinRuntime, result: Result, sink: Sink) -> None:
        self._runtime, self._result, self._sink = runtime, result, sink
        self._at_work = threading.Lock()
        self._closed = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark Connect sends the driver to the server, where no batch is at work yet.
        return BatchDriver, (self._runtime, self._result, self._sink)

    def close(self) -> None:
        """Wait for a batch at work, and take no other: a stopped query must not commit after its
        checkpoint was given to the next."""
        with self._at_work:
            self._closed = True

    def __call__(self, arrived: DataFrame, batch_id: int) -> None:
        with self._at_work:
            if not self._closed:
                self._process(arrived, batch_id)

    def _process(self, arrived: DataFrame, batch_id: int) -> None:
        faults.reach("batch.begun", batch_id)
        if not self._runtime.is_open:
            CheckpointLock(self._runtime.folder).acquire()  # held as long as this process lives
            self._runtime.open()
        if self._runtime.is_done(batch_id):
            return
        clock = _Clock()
        session = arrived.sparkSession
        arrivals = [Arrival.from_json(json.loads(row[0])) for row in arrived.collect()]
        clock.lap("ingest")
        plan = self._runtime.plan(batch_id, arrivals)
        clock.lap("plan")
        faults.reach("sink.begun", batch_id)
        matches = self._result.of(session, self._runtime.spec, plan)
        moves = self._sink.write(matches, batch_id)
        faults.reach("sink.staged", batch_id)
        clock.lap("join and write")
        self._runtime.commit(plan, arrivals, moves, clock.laps)
        if session.conf.get(ARROW_ROWS, None) == ARROW_ROWS_DEFAULT:
            # This is the query's own copy of the session, and it plans the batches to come.
            session.conf.set(ARROW_ROWS, ARROW_ROWS_WANTED)


class _Clock:
    """Splits the time of a batch into phases."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase] = (now - self._last) * 1000
        self._last = now
