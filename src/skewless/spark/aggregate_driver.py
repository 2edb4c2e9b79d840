"""A micro-batch of an aggregation on Spark: rows arrive, partial results, results, commit.

Job 1 is the streaming plan, whose tasks have stored the rows by who works on them. Job 2 has one
task per instance, which makes partial results. Job 3 merges those that are due and writes; it runs
only if there are any.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skewless.operators.aggregate.operator import AggregateRuntime
from skewless.operators.aggregate.spec import (
    Accumulated,
    AccumulatePlan,
    AggregateSpec,
    FinishPlan,
    RowsArrived,
)
from skewless.spark.aggregate_task import accumulate_task, finish_task
from skewless.spark.exchange import ARRIVAL_SCHEMA, instances_task, telling_task
from skewless.spark.executor import BatchDriver, Clock, Json, per_instance
from skewless.spark.result import Steps, with_steps
from skewless.spark.sinks import Moves, Sink


class AggregateDriver(BatchDriver):
    """Called by `foreachBatch` with the result of job 1."""

    runtime: AggregateRuntime

    def __init__(
        self, runtime: AggregateRuntime, sink: Sink, schema: StructType, steps: Steps
    ) -> None:
        super().__init__(runtime, sink)
        self._schema, self._steps = schema, steps

    def _work(self, session: SparkSession, told: list[Json], batch_id: int, clock: Clock) -> None:
        arrivals = [RowsArrived.from_json(t) for t in told]
        plan = self.runtime.plan(batch_id, arrivals)
        clock.lap("plan")
        partials = accumulated(session, self.runtime.spec, plan)
        clock.lap("accumulate")
        finishing = self.runtime.finish_plan(plan, arrivals, partials)
        moves: Moves = []
        if finishing is not None or batch_id == 0 or self._sink.shows_empty:
            outcome = results(session, self.runtime.spec, finishing, self._schema)
            moves = self._write(with_steps(outcome, self._steps), batch_id)
        clock.lap("finish and write")
        self.runtime.commit(plan, finishing, arrivals, partials, moves, clock.laps)


def accumulated(
    session: SparkSession, spec: AggregateSpec, plan: AccumulatePlan
) -> list[Accumulated]:
    """Have every instance make its partial results."""
    function = telling_task(partial(accumulate_task, spec, plan))
    told = per_instance(session, plan.instances, function, ARRIVAL_SCHEMA).collect()
    return [Accumulated.from_json(json.loads(row[0])) for row in told]


def results(
    session: SparkSession, spec: AggregateSpec, plan: FinishPlan | None, schema: StructType
) -> DataFrame:
    """The results that are due, as a DataFrame of one task per instance."""
    if plan is None:
        nothing: list[Any] = []
        return session.createDataFrame(nothing, schema)
    function = instances_task(partial(finish_task, spec, plan))
    return per_instance(session, plan.instances, function, schema)
