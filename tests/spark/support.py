"""Streams made of files, and an oracle that knows nothing of skewless: DuckDB on the same rows.

A stream is a list of Arrow tables, one per micro-batch. Written as one parquet file each and read
with one file per trigger, left table i and right table i arrive together in batch i.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

import skewless as sk

TIMESTAMP = pa.timestamp("us", tz="UTC")
SECOND_US = 1_000_000
PATIENCE_S = 120

Rows = Counter[tuple[Any, ...]]


def at(seconds: float) -> datetime:
    """An event time, in seconds after an arbitrary beginning."""
    return datetime(2024, 3, 1, tzinfo=UTC) + timedelta(seconds=seconds)


# Streams ---------------------------------------------------------------------------------------


@dataclass
class FileStream:
    """A folder of parquet files that arrive one per trigger."""

    folder: Path
    schema: pa.Schema
    tables: list[pa.Table] = field(default_factory=list)

    def add(self, *tables: pa.Table) -> FileStream:
        """More batches. Files are taken in the order of their modification times."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for table in tables:
            number = len(self.tables)
            hidden = self.folder / f".{number:05d}.tmp"
            pq.write_table(table.cast(self.schema), hidden)
            os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
            hidden.rename(self.folder / f"{number:05d}.parquet")
            self.tables.append(table)
        return self

    def read(self, spark: SparkSession, files_per_trigger: int = 1) -> DataFrame:
        reader = spark.readStream.schema(from_arrow_schema(self.schema))
        return reader.option("maxFilesPerTrigger", files_per_trigger).parquet(str(self.folder))

    def read_columns(self, spark: SparkSession) -> DataFrame:
        reader = sk.readStream(spark).schema(from_arrow_schema(self.schema))
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder))

    def read_static(self, spark: SparkSession) -> DataFrame:
        return spark.read.schema(from_arrow_schema(self.schema)).parquet(str(self.folder))


def file_stream(folder: Path, tables: Sequence[pa.Table]) -> FileStream:
    return FileStream(folder, tables[0].schema).add(*tables)


KEYED = {"left": ("k", "at", "a"), "right": ("k", "seen", "b")}


def keyed_tables(side: str, batches: Iterable[Iterable[tuple[Any, float]]]) -> list[pa.Table]:
    """Batches of (key, seconds) as tables of the smallest useful schema, rows numbered: left has
    the columns k, at, a; right has k, seen, b."""
    key, time, number = KEYED[side]
    schema = pa.schema([(key, pa.int64()), (time, TIMESTAMP), (number, pa.int64())])
    tables, count = [], 0
    for batch in batches:
        rows = [
            {key: k, time: None if t is None else at(t), number: count + i}
            for i, (k, t) in enumerate(batch)
        ]
        count += len(rows)
        tables.append(pa.Table.from_pylist(rows, schema))
    return tables


def mixed(batch: int, rows: int, keys: int, salt: int) -> list[tuple[int, float]]:
    """Rows of a batch that lasts ten seconds: few keys, times in disorder within the batch."""
    numbers = [(i * 7919 + batch * 104_729 + salt * 31) % 1_000_003 for i in range(rows)]
    return [(n % keys, batch * 10 + (n // keys) % 100 / 10) for n in numbers]


def keyed_pair(
    folder: Path, batches: int = 3, rows: int = 40, keys: int = 6
) -> tuple[FileStream, FileStream]:
    """Two streams of the smallest schema with some matches in and between their batches."""
    left = [mixed(b, rows, keys, 1) for b in range(batches)]
    right = [mixed(b, rows, keys, 2) for b in range(batches)]
    return (
        file_stream(folder / "left", keyed_tables("left", left)),
        file_stream(folder / "right", keyed_tables("right", right)),
    )


# Running ---------------------------------------------------------------------------------------


def finish(query: StreamingQuery) -> None:
    """Wait for a query that ends by itself; its error, if any, is raised."""
    assert query.awaitTermination(PATIENCE_S), "the query did not end"


def run(joined: sk.Joined, folder: Path, **options: Any) -> Path:
    """Join all there is into parquet files; the folder of the files."""
    out = folder / "out"
    writer = joined.writeStream.format("parquet").options(**options)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    finish(writer.trigger(availableNow=True).start(str(out)))
    return out


def keyed_join(left: DataFrame, right: DataFrame, **more: Any) -> sk.Joined:
    """The join of two streams of the smallest schema."""
    settings: dict[str, Any] = {"left_time": "at", "right_time": "seen", "within": "4 seconds"}
    settings |= {"late": "10 seconds"} | more
    return sk.join(left, right, "k", **settings)


# The oracle ------------------------------------------------------------------------------------


def canonical(value: Any) -> Any:
    """A value that compares and hashes by content, whoever read it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return tuple(sorted((canonical(k), canonical(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return tuple(canonical(v) for v in value)
    return value


def multiset(rows: Iterable[Iterable[Any]]) -> Rows:
    return Counter(canonical(tuple(row)) for row in rows)


def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def read_parquet(out: Path) -> Rows:
    """What any reader of an output folder sees."""
    pattern = str(out / "**" / "*.parquet")
    return multiset(duck().execute("SELECT * FROM read_parquet($1)", [pattern]).fetchall())


def bound(lower_s: float, upper_s: float, left: str = "l.at", right: str = "r.seen") -> str:
    """The SQL of ``left + lower <= right <= left + upper``."""
    lower, upper = round(lower_s * SECOND_US), round(upper_s * SECOND_US)
    return f"epoch_us({right}) - epoch_us({left}) BETWEEN {lower} AND {upper}"


WATERMARKS = """
    CREATE TABLE watermarks AS
    SELECT batch,
           CASE WHEN reached_l IS NULL OR reached_r IS NULL THEN NULL
                ELSE least(reached_l, reached_r) END AS watermark
    FROM (SELECT now AS batch,
                 (SELECT max(epoch_us(s.{left_time})) FROM all_l s WHERE s.batch < now)
                     - {left_late} AS reached_l,
                 (SELECT max(epoch_us(s.{right_time})) FROM all_r s WHERE s.batch < now)
                     - {right_late} AS reached_r
          FROM range({batches}) AS _(now))
"""
ON_TIME = """
    CREATE VIEW {name} AS SELECT t.* EXCLUDE (batch) FROM all_{name} t JOIN watermarks w
    ON t.batch = w.batch WHERE w.watermark IS NULL OR epoch_us(t.{time}) >= w.watermark
"""


class Oracle:
    """DuckDB with the rows of two streams as tables `l` and `r`, without what came too late.

    A row is late when it is older than the watermark before its batch: the lesser of the latest
    times of both sides so far, each less what its side allows. Without `late` no row is.
    """

    def __init__(
        self,
        left: Sequence[pa.Table],
        right: Sequence[pa.Table],
        late_s: tuple[float, float] | None = None,
        times: tuple[str, str] = ("at", "seen"),
    ) -> None:
        self._duck = duck()
        for name, tables in (("all_l", left), ("all_r", right)):
            numbered = [
                t.append_column("batch", pa.array([i] * len(t), pa.int64()))
                for i, t in enumerate(tables)
            ]
            self._duck.register(f"{name}_arrow", pa.concat_tables(numbered))
            self._duck.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_arrow")
        self._limit(late_s, times, max(len(left), len(right)))

    def _limit(
        self, late_s: tuple[float, float] | None, times: tuple[str, str], batches: int
    ) -> None:
        if late_s is None:
            for name in ("l", "r"):
                self._duck.execute(
                    f"CREATE VIEW {name} AS SELECT * EXCLUDE (batch) FROM all_{name}"
                )
            return
        self._duck.execute(
            WATERMARKS.format(
                left_time=times[0],
                right_time=times[1],
                left_late=round(late_s[0] * SECOND_US),
                right_late=round(late_s[1] * SECOND_US),
                batches=batches,
            )
        )
        for name, time in zip(("l", "r"), times, strict=True):
            self._duck.execute(ON_TIME.format(name=name, time=time))

    def join(self, condition: str, select: str = "l.*, r.*") -> Rows:
        return multiset(
            self._duck.execute(f"SELECT {select} FROM l JOIN r ON {condition}").fetchall()
        )

    def count(self, query: str) -> int:
        found = self._duck.execute(query).fetchone()
        assert found is not None
        return int(found[0])

    def late(self) -> int:
        """How many rows came too late, on both sides together."""
        return self.count(
            "SELECT (SELECT count(*) FROM all_l) + (SELECT count(*) FROM all_r)"
            " - (SELECT count(*) FROM l) - (SELECT count(*) FROM r)"
        )


def keyed_oracle(left: FileStream, right: FileStream, within_s: float = 4) -> Rows:
    """What `keyed_join` must give when no row is late."""
    oracle = Oracle(left.tables, right.tables)
    return oracle.join(f"l.k = r.k AND {bound(-within_s, within_s)}", "l.*, r.* EXCLUDE (k)")


def assert_same(actual: Rows, expected: Rows) -> None:
    """Equal as multisets, to the last row."""
    missing, extra = expected - actual, actual - expected
    assert not missing and not extra, (
        f"{missing.total()} of {expected.total()} rows are missing, such as "
        f"{list(missing.items())[:3]}; {extra.total()} too many, such as {list(extra.items())[:3]}"
    )


@contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session, for a while."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
