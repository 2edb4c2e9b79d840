"""A micro-batch of a similarity join on Spark: rows arrive in worksets, pairs, commit."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skewless.operators.similarity.operator import SimilarityRuntime
from skewless.operators.similarity.spec import SimilarityPlan, SimilaritySpec, VectorArrival
from skewless.operators.similarity.strategies import SimilarityStrategy
from skewless.operators.similarity.work import run_similarity
from skewless.spark.exchange import instances_task
from skewless.spark.executor import BatchDriver, Clock, Json, per_instance
from skewless.spark.result import Steps, with_steps
from skewless.spark.sinks import Sink


class SimilarityBatchDriver(BatchDriver):
    """Called by `foreachBatch` with the result of job 1."""

    runtime: SimilarityRuntime

    def __init__(
        self, runtime: SimilarityRuntime, sink: Sink, match_schema: StructType, steps: Steps
    ) -> None:
        super().__init__(runtime, sink)
        self._match_schema, self._steps = match_schema, steps

    def _work(self, session: SparkSession, told: list[Json], batch_id: int, clock: Clock) -> None:
        runtime = self.runtime
        arrivals = [VectorArrival.from_json(t) for t in told]
        plan = runtime.plan(batch_id, arrivals)
        clock.lap("plan")
        found = pairs_of(session, runtime.spec, plan, runtime.strategy, self._match_schema)
        moves = self._write(with_steps(found, self._steps), batch_id)
        clock.lap("join and write")
        runtime.commit(plan, arrivals, moves, clock.laps)


def pairs_of(
    session: SparkSession,
    spec: SimilaritySpec,
    plan: SimilarityPlan,
    strategy: SimilarityStrategy,
    schema: StructType,
) -> DataFrame:
    """The pairs of a planned batch, as a DataFrame of one task per instance."""
    function = instances_task(partial(run_similarity, spec, plan, strategy))
    return per_instance(session, plan.instances, function, schema)
