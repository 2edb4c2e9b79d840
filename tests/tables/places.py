"""The tables that queries are killed over: how a child writes to them, and how somebody else does.

A place is told by a folder, for tables in files, the URL of a database, and the name of a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from skewless.spark.result import Result
from skewless.spark.writer import ResultWriter


@dataclass(frozen=True)
class Place:
    """Where a query writes to: a `kind` of table in a folder, or at a URL."""

    kind: str
    folder: str
    url: str
    table: str

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.table}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def to_delta(writer: ResultWriter, result: Result, place: Place) -> StreamingQuery:
    return writer.format("delta").start(place.path)


def to_delta_table(writer: ResultWriter, result: Result, place: Place) -> StreamingQuery:
    """The catalog of a test lives as long as its process; the table's files do longer."""
    session = result.sparkSession
    columns = ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}" for field in result.schema
    )
    found = session.catalog.tableExists(place.table)
    if not found:
        session.sql(f"CREATE TABLE {place.table} ({columns}) USING delta LOCATION '{place.path}'")
    return writer.toTable(place.table)


def to_iceberg(writer: ResultWriter, result: Result, place: Place) -> StreamingQuery:
    return writer.format("iceberg").start(f"lake.db.{place.table}")


def to_iceberg_table(writer: ResultWriter, result: Result, place: Place) -> StreamingQuery:
    return writer.toTable(f"lake.db.{place.table}")


def database(place: Place) -> dict[str, str]:
    return {"url": place.url, "dbtable": place.table, "driver": "org.postgresql.Driver"}


def to_database(writer: ResultWriter, result: Result, place: Place) -> StreamingQuery:
    return writer.format("jdbc").options(**database(place)).start()


WRITE: dict[str, Callable[[ResultWriter, Result, Place], StreamingQuery]] = {
    "delta": to_delta,
    "delta table": to_delta_table,
    "iceberg": to_iceberg,
    "iceberg table": to_iceberg_table,
    "jdbc": to_database,
}


def append(rows: DataFrame, place: Place) -> None:
    """As one who knows nothing of marks."""
    writer = rows.write.mode("append")
    if place.kind.startswith("delta"):
        writer.format("delta").save(place.path)
    elif place.kind.startswith("iceberg"):
        writer.format("iceberg").save(f"lake.db.{place.table}")
    else:
        writer.format("jdbc").options(**database(place)).save()


def read(session: SparkSession, place: Place) -> DataFrame:
    """As Spark sees it; tests ask others."""
    if place.kind.startswith("delta"):
        return session.read.format("delta").load(place.path)
    if place.kind.startswith("iceberg"):
        return session.table(f"lake.db.{place.table}")
    return session.read.format("jdbc").options(**database(place)).load()
