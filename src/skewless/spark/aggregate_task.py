"""The steps of an aggregation inside Spark's tasks: what they know there, and not on the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext

from skewless.operators.aggregate.accumulate import accumulate
from skewless.operators.aggregate.finish import finish
from skewless.operators.aggregate.ingest import ingest_rows
from skewless.operators.aggregate.spec import (
    Accumulated,
    AccumulatePlan,
    AggregateSpec,
    FinishPlan,
    RowsArrived,
)
from skewless.placement.grouping import Grouping
from skewless.state.cache import CACHE


def ingest_task(
    spec: AggregateSpec,
    grouping: Grouping,
    instances: int,
    root: str,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[RowsArrived]:
    """The grouper of a task goes by its number."""
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    return ingest_rows(batches, spec, grouping, instances, task, root)


def accumulate_task(spec: AggregateSpec, plan: AccumulatePlan, instance: int) -> Accumulated:
    """With the segments that this worker has mapped before."""
    return accumulate(spec, plan, instance, CACHE)


def finish_task(spec: AggregateSpec, plan: FinishPlan, instance: int) -> Iterator[pa.RecordBatch]:
    return finish(spec, plan, instance, CACHE)
