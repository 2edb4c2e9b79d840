"""The first step of an aggregation in a Spark task, which has a grouper by its number."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext

from skewless.aggregating.ingest import ingest_rows
from skewless.aggregating.spec import AggregateSpec, RowsArrived
from skewless.routing import Grouping


def ingest_task(
    spec: AggregateSpec,
    grouping: Grouping,
    instances: int,
    root: str,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[RowsArrived]:
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    return ingest_rows(batches, spec, grouping, instances, task, root)
