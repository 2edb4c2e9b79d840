"""What runs inside Spark's Python workers: the frame of every step of a batch, as `mapInArrow`
functions. What a step does comes with it, so that a worker loads only what its query needs."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ARRIVAL_SCHEMA = "arrival string"
SETTLING_TASKS = 4

_tasks_run = 0


class Telling(Protocol):
    """What a task finds, as plain values for the driver."""

    def to_json(self) -> dict[str, Any]: ...


def arrivals_task(
    schema: pa.Schema, ingest: Callable[[Iterator[pa.RecordBatch]], Iterator[Telling]]
) -> ArrowFunction:
    """Rows of an input in, what the task made of them out."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        for arrived in ingest(_as_schema(b, schema) for b in batches):
            yield _told(arrived)
        settle()

    return task


def instances_task(work: Callable[[int], Iterator[pa.RecordBatch]]) -> ArrowFunction:
    """Numbers of instances in, their results out."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        talk_at_once()
        for batch in batches:
            for instance in batch.column(0).to_pylist():
                yield from work(instance)
        settle()

    return task


def telling_task(work: Callable[[int], Telling]) -> ArrowFunction:
    """Numbers of instances in, what they tell of their work out."""

    def tell(instance: int) -> Iterator[pa.RecordBatch]:
        yield _told(work(instance))

    return instances_task(tell)


def _told(found: Telling) -> pa.RecordBatch:
    return pa.record_batch({"arrival": [json.dumps(found.to_json())]})


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
