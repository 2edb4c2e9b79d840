"""A micro-batch on Spark: two jobs and a commit.

Job 1 is the streaming plan itself, whose tasks have sorted and stored the new rows; its result is a
few rows that tell where. Job 2 has one task per instance, which joins. Then comes the commit.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skewless import failpoints
from skewless.engine.lifecycle import StateRuntime
from skewless.engine.operator import Arrival
from skewless.operators.pair import JoinSpec
from skewless.operators.two_way.operator import BatchPlan, JoinRuntime, run_instance
from skewless.spark.exchange import ArrowFunction, instances_task
from skewless.spark.result import Steps, with_steps
from skewless.spark.sinks import Moves, Sink
from skewless.state.owner import CheckpointLock

Json = dict[str, Any]

ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_ROWS_DEFAULT = "10000"
ARROW_ROWS_WANTED = "20000"  # fewer, larger hand-overs between Spark and Python


class BatchDriver(ABC):
    """Called by `foreachBatch` with the result of job 1. Spark Connect sends it to the server: it
    is pickled by its fields, before any batch is at work."""

    def __init__(self, runtime: StateRuntime, sink: Sink) -> None:
        self.runtime, self._sink = runtime, sink
        self._at_work = threading.Lock()
        self._closed = False

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_at_work"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _at_work=threading.Lock())

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
        failpoints.hit("batch.begun", batch_id)
        if not self.runtime.is_open:
            CheckpointLock(self.runtime.folder).acquire()  # held as long as this process lives
            self.runtime.open()
        if self.runtime.is_done(batch_id):
            return
        clock = Clock()
        session = arrived.sparkSession
        told = [json.loads(row[0]) for row in arrived.collect()]
        clock.lap("ingest")
        self._work(session, told, batch_id, clock)
        if session.conf.get(ARROW_ROWS, None) == ARROW_ROWS_DEFAULT:
            # This is the query's own copy of the session, and it plans the batches to come.
            session.conf.set(ARROW_ROWS, ARROW_ROWS_WANTED)

    @abstractmethod
    def _work(self, session: SparkSession, told: list[Json], batch_id: int, clock: Clock) -> None:
        """Do all of a batch that comes after the rows have arrived, up to its commit."""

    def _write(self, result: DataFrame, batch_id: int) -> Moves:
        failpoints.hit("sink.begun", batch_id)
        moves = self._sink.write(result, batch_id)
        failpoints.hit("sink.staged", batch_id)
        return moves


class JoinDriver(BatchDriver):
    """A batch of a two-way join: plan, join and write, commit."""

    runtime: JoinRuntime

    def __init__(
        self, runtime: JoinRuntime, sink: Sink, match_schema: StructType, steps: Steps
    ) -> None:
        super().__init__(runtime, sink)
        self._match_schema, self._steps = match_schema, steps

    def _work(self, session: SparkSession, told: list[Json], batch_id: int, clock: Clock) -> None:
        arrivals = [Arrival.from_json(t) for t in told]
        plan = self.runtime.plan(batch_id, arrivals)
        clock.lap("plan")
        matches = matches_of(session, self.runtime.spec, plan, self._match_schema)
        moves = self._write(with_steps(matches, self._steps), batch_id)
        clock.lap("join and write")
        self.runtime.commit(plan, arrivals, moves, clock.laps)


def matches_of(
    session: SparkSession, spec: JoinSpec, plan: BatchPlan, schema: StructType
) -> DataFrame:
    """The matches of a planned batch, as a DataFrame of one task per instance."""
    count = plan.routing.instances
    work = instances_task(partial(run_instance, spec, plan))
    return per_instance(session, count, work, schema)


def per_instance(
    session: SparkSession, count: int, function: ArrowFunction, schema: StructType | str
) -> DataFrame:
    """One task per instance, which gets the instance's number."""
    return session.range(0, count, 1, count).mapInArrow(function, schema)


class Clock:
    """Splits the time of a batch into phases."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase] = (now - self._last) * 1000
        self._last = now
