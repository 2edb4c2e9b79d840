"""What runs inside Spark's Python workers: the two halves of a batch, as `mapInArrow` functions."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator

import pyarrow as pa

from skewless.joining.ingest import ingest
from skewless.joining.runtime import run_instance
from skewless.model import BatchPlan, JoinSpec, Side

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ARRIVAL_SCHEMA = "arrival string"


def ingest_function(spec: JoinSpec, side: Side, root: str) -> ArrowFunction:
    """Rows of one side in, one row per segment out."""
    schema = spec.side(side).schema

    def ingest_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        acknowledge_at_once()
        for arrival in ingest((_as_schema(b, schema) for b in batches), spec, side, root):
            yield pa.record_batch({"arrival": [json.dumps(arrival.to_json())]})

    return ingest_task


def join_function(spec: JoinSpec, plan: BatchPlan) -> ArrowFunction:
    """The number of an instance in, its matches out."""

    def join_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        acknowledge_at_once()
        for batch in batches:
            for instance in batch.column(0).to_pylist():
                yield from run_instance(spec, plan, instance)

    return join_task


def _as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in the types that segments are written in: the session decides on the time
    zone and on large strings, the state must not depend on it."""
    if batch.schema.types == schema.types:
        return batch.rename_columns(schema.names) if batch.schema.names != schema.names else batch
    columns = [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def acknowledge_at_once() -> None:
    """Spare each Python task a wait of 40 ms.

    Spark sends a task's code and its first rows in separate small writes over loopback TCP without
    TCP_NODELAY: the second waits for the acknowledgement of the first, which the kernel delays.
    Asking for it at once takes that wait away. It has no effect, and is not needed, with
    ``spark.python.unix.domain.socket.enabled``.
    """
    quick_ack = getattr(socket, "TCP_QUICKACK", None)
    if quick_ack is None:
        return
    for descriptor in range(3, 32):
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    connection.setsockopt(socket.IPPROTO_TCP, quick_ack, 1)
