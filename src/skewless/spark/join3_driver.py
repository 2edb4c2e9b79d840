"""A micro-batch of a three-way join on Spark: rows arrive, triples, commit; trees take two."""

from __future__ import annotations

import json
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skewless.operators.three_way.operator import ThreeRuntime
from skewless.operators.three_way.spec import StreamArrival, ThreePlan, ThreeSpec, Told
from skewless.operators.three_way.strategies import ThreeStrategy
from skewless.operators.three_way.work import run_pairs, run_three
from skewless.spark.exchange import ARRIVAL_SCHEMA, instances_task, telling_task
from skewless.spark.executor import BatchDriver, Clock, Json, per_instance
from skewless.spark.result import Steps, with_steps
from skewless.spark.sinks import Sink


class ThreeWayDriver(BatchDriver):
    """Called by `foreachBatch` with the result of job 1."""

    runtime: ThreeRuntime

    def __init__(
        self, runtime: ThreeRuntime, sink: Sink, match_schema: StructType, steps: Steps
    ) -> None:
        super().__init__(runtime, sink)
        self._match_schema, self._steps = match_schema, steps

    def _work(self, session: SparkSession, told: list[Json], batch_id: int, clock: Clock) -> None:
        runtime = self.runtime
        spec, strategy = runtime.spec, runtime.strategy
        arrivals = [StreamArrival.from_json(t) for t in told]
        plan = runtime.plan(batch_id, arrivals)
        clock.lap("plan")
        if runtime.has_first_step(plan):
            plan = runtime.with_pairs(plan, pairs_made(session, spec, plan, strategy))
            clock.lap("pairs")
        found = triples_of(session, spec, plan, strategy, self._match_schema)
        moves = self._write(with_steps(found, self._steps), batch_id)
        if runtime.needs_all and not runtime.is_complete(plan):
            # The sink has not read everything; but packs that are not made now would be missing.
            found.write.format("noop").mode("overwrite").save()
        clock.lap("join and write")
        runtime.commit(plan, arrivals, moves, clock.laps)


def pairs_made(
    session: SparkSession, spec: ThreeSpec, plan: ThreePlan, strategy: ThreeStrategy
) -> list[Told]:
    """Have every instance make its share of the new pairs."""
    function = telling_task(partial(run_pairs, spec, plan, strategy))
    told = per_instance(session, plan.instances, function, ARRIVAL_SCHEMA).collect()
    return [Told.from_json(json.loads(row[0])) for row in told]


def triples_of(
    session: SparkSession,
    spec: ThreeSpec,
    plan: ThreePlan,
    strategy: ThreeStrategy,
    schema: StructType,
) -> DataFrame:
    """The triples of a planned batch, as a DataFrame of one task per instance."""
    function = instances_task(partial(run_three, spec, plan, strategy))
    return per_instance(session, plan.instances, function, schema)
