"""What runs inside Spark's Python workers: the steps of a batch, as `mapInArrow` functions."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from skewless.aggregating.accumulate import accumulate
from skewless.aggregating.finish import finish
from skewless.aggregating.ingest import ingest_rows
from skewless.aggregating.spec import AccumulatePlan, AggregateSpec, FinishPlan
from skewless.joining.ingest import ingest
from skewless.joining.runtime import CACHE, run_instance
from skewless.model import BatchPlan, JoinSpec, Side
from skewless.routing import Grouping
from skewless.similarity.ingest import ingest_vectors
from skewless.similarity.instance import run_similarity
from skewless.similarity.spec import SimilarityPlan, SimilaritySpec
from skewless.similarity.strategies import SimilarityStrategy
from skewless.three_way.ingest import ingest_stream
from skewless.three_way.instance import run_pairs, run_three
from skewless.three_way.spec import ThreePlan, ThreeSpec
from skewless.three_way.strategies import ThreeStrategy

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ARRIVAL_SCHEMA = "arrival string"
SETTLING_TASKS = 4

_tasks_run = 0


def ingest_function(spec: JoinSpec, side: Side, root: str) -> ArrowFunction:
    """Rows of one side in, one row per segment out."""
    schema = spec.side(side).schema

    def ingest_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        for arrival in ingest((_as_schema(b, schema) for b in batches), spec, side, root):
            yield pa.record_batch({"arrival": [json.dumps(arrival.to_json())]})
        settle()

    return ingest_task


def join_function(spec: JoinSpec, plan: BatchPlan) -> ArrowFunction:
    """The number of an instance in, its matches out."""

    def join_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        for batch in batches:
            for instance in batch.column(0).to_pylist():
                yield from run_instance(spec, plan, instance)
        settle()

    return join_task


def ingest_rows_function(
    spec: AggregateSpec, grouping: Grouping, instances: int, root: str
) -> ArrowFunction:
    """Rows of an aggregation in, one row per file out."""
    schema = spec.input.schema

    def ingest_rows_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        typed = (_as_schema(b, schema) for b in batches)
        for arrived in ingest_rows(typed, spec, grouping, instances, task, root):
            yield pa.record_batch({"arrival": [json.dumps(arrived.to_json())]})
        settle()

    return ingest_rows_task


def accumulate_function(spec: AggregateSpec, plan: AccumulatePlan) -> ArrowFunction:
    """The number of an instance in, what it tells of its partial results out."""

    def accumulate_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        for batch in batches:
            for instance in batch.column(0).to_pylist():
                told = accumulate(spec, plan, instance, CACHE).to_json()
                yield pa.record_batch({"arrival": [json.dumps(told)]})
        settle()

    return accumulate_task


def finish_function(spec: AggregateSpec, plan: FinishPlan) -> ArrowFunction:
    """The number of an instance in, its results out."""

    def finish_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        for batch in batches:
            for instance in batch.column(0).to_pylist():
                yield from finish(spec, plan, instance, CACHE)
        settle()

    return finish_task


def ingest_stream_function(spec: ThreeSpec, stream: int, root: str) -> ArrowFunction:
    """Rows of one stream of a three-way join in, one row per piece out."""
    schema = spec.streams[stream].schema

    def ingest_stream_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        typed = (_as_schema(b, schema) for b in batches)
        for arrived in ingest_stream(typed, spec, stream, root):
            yield pa.record_batch({"arrival": [json.dumps(arrived.to_json())]})
        settle()

    return ingest_stream_task


def triples_function(spec: ThreeSpec, plan: ThreePlan, strategy: ThreeStrategy) -> ArrowFunction:
    """The number of an instance in, its triples out."""

    def triples_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        for batch in batches:
            for instance in batch.column(0).to_pylist():
                yield from run_three(spec, plan, strategy, instance)
        settle()

    return triples_task


def pairs_function(spec: ThreeSpec, plan: ThreePlan, strategy: ThreeStrategy) -> ArrowFunction:
    """The number of an instance in, what it tells of the pairs it has made out."""

    def pairs_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        for batch in batches:
            for instance in batch.column(0).to_pylist():
                told = run_pairs(spec, plan, strategy, instance).to_json()
                yield pa.record_batch({"arrival": [json.dumps(told)]})
        settle()

    return pairs_task


def ingest_vectors_function(
    spec: SimilaritySpec, strategy: SimilarityStrategy, side: Side, root: str
) -> ArrowFunction:
    """Rows of one side of a similarity join in, one row per piece out."""
    schema = spec.side(side).schema

    def ingest_vectors_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        typed = (_as_schema(b, schema) for b in batches)
        for arrived in ingest_vectors(typed, spec, strategy, side, root):
            yield pa.record_batch({"arrival": [json.dumps(arrived.to_json())]})
        settle()

    return ingest_vectors_task


def similarity_function(
    spec: SimilaritySpec, plan: SimilarityPlan, strategy: SimilarityStrategy
) -> ArrowFunction:
    """The number of an instance in, its pairs out."""

    def similarity_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        for batch in batches:
            for instance in batch.column(0).to_pylist():
                yield from run_similarity(spec, plan, strategy, instance)
        settle()

    return similarity_task


def _as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in the types that segments are written in: the session decides on the time
    zone and on large strings, the state must not depend on it."""
    if batch.schema.types == schema.types:
        return batch.rename_columns(schema.names) if batch.schema.names != schema.names else batch
    columns = [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def talk_at_once() -> None:
    """Spare each Python task two waits of 40 ms.

    Spark and its Python workers talk over loopback TCP in small writes without TCP_NODELAY: each
    waits for the acknowledgement of the one before, which the kernel delays. Acknowledging what
    came, and not waiting with what goes, takes that time away. It has no effect, and is not needed,
    with ``spark.python.unix.domain.socket.enabled``.
    """
    settings = [socket.TCP_NODELAY, getattr(socket, "TCP_QUICKACK", socket.TCP_NODELAY)]
    for descriptor in range(3, 32):
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    for setting in settings:
                        connection.setsockopt(socket.IPPROTO_TCP, setting, 1)


def settle() -> None:
    """Keep a worker's libraries out of the garbage collector's sight.

    Spark collects garbage in a worker after every task, before the worker can take the next one.
    With Numba loaded that alone takes tens of milliseconds. What a worker's first tasks have loaded
    stays for its life, so it is moved to where the collector does not look.
    """
    global _tasks_run  # noqa: PLW0603  one count per process is what is meant
    _tasks_run += 1
    if _tasks_run <= SETTLING_TASKS:
        gc.freeze()
