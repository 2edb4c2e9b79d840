"""Rows as Spark's Kafka sink takes them, handed over to a producer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skewless.files.opening import opened
from skewless.state.commits import Staged
from skewless.state.files import Folder

COLUMNS = ("topic", "key", "value", "headers", "partition")
PORTION_ROWS = 50_000
ANY_PARTITION = -1  # the one that its key belongs to
WAIT_S = 0.02


def staged_rows(folder: Folder, files: Iterable[Staged]) -> Iterator[pa.RecordBatch]:
    """The rows of some files, portion by portion, always in the same order."""
    for file in files:
        with opened(folder.path(file.name), file.bytes, folder) as source:
            rows = pq.ParquetFile(source)
            wanted = [name for name in COLUMNS if name in rows.schema_arrow.names]
            yield from rows.iter_batches(PORTION_ROWS, columns=wanted)


def first_topic(rows: pa.RecordBatch, topic: str) -> str:
    """The topic of the first row; `topic` is that of all, if it is not empty."""
    return topic or str(rows.column("topic")[0].as_py())


def hand_over(producer: Any, rows: pa.RecordBatch, topic: str) -> None:
    """Give rows to a producer, one call each: that loop is C's. It waits while many that came
    before are still on their way."""
    while len(producer) > PORTION_ROWS:
        producer.poll(WAIT_S)
    arguments: list[Iterable[Any]] = [
        repeat(topic) if topic else _values(rows, "topic"),
        _values(rows, "value"),
        _values(rows, "key"),
        _partitions(rows),
    ]
    if "headers" in rows.schema.names:
        # Before them there are two names of a callback, and the time.
        arguments += [repeat(None), repeat(None), repeat(0), _headers(rows.column("headers"))]
    deque(map(producer.produce, *arguments), maxlen=0)


def _values(rows: pa.RecordBatch, name: str) -> Iterable[Any]:
    if name not in rows.schema.names:
        return repeat(None)
    column = rows.column(name)
    if name != "topic" and pa.types.is_string(column.type):
        column = column.cast(pa.binary())  # Kafka has bytes: to decode them would be for nothing
    values: list[Any] = column.to_pylist()
    return values


def _partitions(rows: pa.RecordBatch) -> Iterable[int]:
    if "partition" not in rows.schema.names:
        return repeat(ANY_PARTITION)
    numbers: list[int] = rows.column("partition").fill_null(ANY_PARTITION).to_pylist()
    return numbers


def _headers(column: pa.ListArray) -> Iterator[list[tuple[str, bytes | None]]]:
    """Of every row the names and values, none where there is no list."""
    names, values = column.values.flatten()
    pairs = list(zip(names.to_pylist(), values.to_pylist(), strict=True))
    ends = column.offsets.to_pylist()  # a file has nothing where there is no list
    return map(pairs.__getitem__, map(slice, ends, ends[1:]))
