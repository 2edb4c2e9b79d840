"""Streams for the frame: few keys, times in disorder within the lateness, so that nothing is late
however streams are cut into batches. A last row far in the future closes everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

SECOND_US = 1_000_000
LATE_S = 5
FAR_S = 100_000
TIME = pa.timestamp("us", tz="UTC")

Rows = Counter[tuple[Any, ...]]
Row = tuple[int | None, int, float | None]  # key, seconds, value


def schema_of(name: str) -> pa.Schema:
    """The columns of a stream: its name is part of theirs."""
    return pa.schema(
        [
            (f"{name}_k", pa.int64()),
            (f"{name}_t", TIME),
            (f"{name}_x", pa.float64()),
            (f"{name}_id", pa.int64()),
        ]
    )


@dataclass(frozen=True)
class Stream:
    """Rows in the order in which they arrive."""

    name: str
    rows: tuple[Row, ...]

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.name)

    def table(self) -> pa.Table:
        columns = [
            [k for k, _, _ in self.rows],
            [t * SECOND_US for _, t, _ in self.rows],
            [x for _, _, x in self.rows],
            range(len(self.rows)),
        ]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def batch(self, begin: int, end: int) -> pa.RecordBatch:
        [whole] = self.table().combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], self.schema)
        ]
        return whole.slice(begin, end - begin)


def ended(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Rows, and one that nothing matches, which says that time has passed."""
    return (*rows, (None, FAR_S, None))


@st.composite
def rows_in_disorder(draw: st.DrawFn, most: int = 14) -> tuple[Row, ...]:
    steps = draw(st.lists(st.integers(0, 4), max_size=most))
    latest, rows = 20, []
    for step in steps:
        time = latest + step - draw(st.integers(0, LATE_S))
        latest = max(latest, time)
        key = draw(st.sampled_from([1, 1, 1, 2, 3]))
        rows.append((key, max(time, latest - LATE_S), float(draw(st.integers(0, 6)))))
    return ended(rows)


def streams(*names: str, most: int = 14) -> st.SearchStrategy[tuple[Stream, ...]]:
    return st.tuples(*(rows_in_disorder(most).map(_named(name)) for name in names))


def _named(name: str) -> Any:
    return lambda rows: Stream(name, rows)


def busy(*names: str) -> tuple[Stream, ...]:
    """Streams of eight batches of three rows each that meet and compact and expire."""
    return tuple(
        Stream(name, ended([
            (1 + (i + n) % 2, 20 + 3 * (i // 3) - (i + n) % 3, float((i * 2 + n) % 5))
            for i in range(24)
        ]))
        for n, name in enumerate(names)
    )  # fmt: skip


def asked(sql: str, streams: Sequence[Stream]) -> Rows:
    """What DuckDB answers about whole streams, without the row that ends each. Times are integers
    there: microseconds, in columns that end in `_t`."""
    connection = duckdb.connect()
    for stream in streams:
        table = stream.table().slice(0, len(stream.rows) - 1)
        at = table.schema.get_field_index(f"{stream.name}_t")
        plain = table.set_column(at, f"{stream.name}_t", table.column(at).cast(pa.int64()))
        connection.register(stream.name, plain)
    return Counter(connection.execute(sql).fetchall())


def rows_of(table: pa.Table) -> Rows:
    """Rows as DuckDB would give them: times as integers."""
    return Counter(tuple(_plain(v) for v in row.values()) for row in _integers(table).to_pylist())


def _integers(table: pa.Table) -> pa.Table:
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return pa.Table.from_arrays(columns, names=table.schema.names)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):  # a window, of which the start says all
        return round(value["start"].timestamp() * SECOND_US)
    return value
