"""A database, asked from the driver: java.sql in the session's JVM, with Spark's own dialects.

Spark opens the connection as its JDBC writer does: by the same options, with the same driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

KEPT = 10  # marks of a query that stay: only the last batch is ever repeated
MARKS = "skewless_batches"
PART, ATTEMPT = "skewless_part", "skewless_attempt"
# How to make an empty table like another. These are the databases that are exactly once: a
# transaction of theirs holds all of a batch, and tests say so.
EMPTY_COPY = {
    "postgresql": "CREATE TABLE {stage} AS SELECT {columns} FROM {target} WHERE 1 = 0",
    "derby": "CREATE TABLE {stage} AS SELECT {columns} FROM {target} WITH NO DATA",
}


def kind_of(url: str) -> str:
    """The kind of database that a URL is of.

    >>> kind_of("jdbc:postgresql://localhost/shop")
    'postgresql'
    """
    parts = url.split(":")
    return parts[1].lower() if len(parts) > 1 else ""


class Database:
    """One connection, closed at the end of a `with`. Every statement is a transaction of its own,
    but for those within `transaction`."""

    def __init__(self, session: SparkSession, options: Mapping[str, str]) -> None:
        jvm: Any = session._jvm
        java = jvm.java.util.HashMap()
        for key, value in options.items():
            java.put(key, value)
        given = jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcOptionsInWrite(
            jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(java)
        )
        url = next(value for key, value in options.items() if key.lower() == "url")
        self._kind = kind_of(url)
        self._dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url)
        self._connection = self._dialect.createConnectionFactory(given).apply(-1)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements count, or none."""
        self._connection.setAutoCommit(False)
        try:
            yield
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        finally:
            self._connection.setAutoCommit(True)

    def run(self, sql: str, *values: str | int) -> int:
        """How many rows a statement has changed."""
        statement = self._prepared(sql, values)
        try:
            return int(statement.executeUpdate())
        finally:
            statement.close()

    def _prepared(self, sql: str, values: Sequence[str | int]) -> Any:
        statement = self._connection.prepareStatement(sql)
        for number, value in enumerate(values, 1):
            statement.setObject(number, value)
        return statement

    def finds(self, sql: str, *values: str | int) -> bool:
        """Whether a query gives any row."""
        statement = self._prepared(sql, values)
        try:
            return bool(statement.executeQuery().next())
        finally:
            statement.close()

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns, as it has them."""
        statement = self._prepared(f"SELECT * FROM {table} WHERE 1 = 0", ())
        try:
            told = statement.executeQuery().getMetaData()
            return [told.getColumnName(i + 1) for i in range(told.getColumnCount())]
        finally:
            statement.close()

    def exists(self, table: str) -> bool:
        """Databases have no common word for that: one asks a table and sees."""
        try:
            self.finds(f"SELECT 1 FROM {table} WHERE 1 = 0")
        except Py4JJavaError:
            return False
        return True

    def drop(self, table: str) -> None:
        if self.exists(table):
            self.run(f"DROP TABLE {table}")

    def make_marks(self, marks: str) -> None:
        """See to it that there is a table for marks, whoever makes it."""
        if self.exists(marks):
            return
        try:
            self.run(
                f"CREATE TABLE {marks} (query_id VARCHAR(64) NOT NULL, batch_id BIGINT NOT NULL, "
                "written_at TIMESTAMP NOT NULL, PRIMARY KEY (query_id, batch_id))"
            )
        except Py4JJavaError:
            if not self.exists(marks):
                raise

    def has_mark(self, marks: str, query: str, batch_id: int) -> bool:
        """Whether a batch is in there. It is if a later one is: old marks are removed."""
        sql = f"SELECT 1 FROM {marks} WHERE query_id = ? AND batch_id >= ?"
        return self.finds(sql, query, batch_id)

    def make_stage(self, stage: str, target: str, columns: Sequence[str]) -> None:
        """An empty table with some of the columns of a target, and two that tell the tasks that
        write to it."""
        self.drop(stage)
        copy = EMPTY_COPY[self._kind]
        self.run(copy.format(stage=stage, target=target, columns=self._listed(columns)))
        for own in (PART, ATTEMPT):
            self.run(f"ALTER TABLE {stage} ADD COLUMN {own} NUMERIC(19)")

    def take_in(
        self, stage: str, target: str, columns: Sequence[str], marks: str, query: str, batch_id: int
    ) -> int:
        """Put a stage's rows into the target, with the mark of their batch; how many these are.
        The mark comes first: of two who do so at once, the second waits here, and fails. A task
        that ran twice has left its rows twice, and either are all of them: the first count."""
        self.run(f"INSERT INTO {marks} VALUES (?, ?, CURRENT_TIMESTAMP)", query, batch_id)
        listed = self._listed(columns)
        rows = self.run(
            f"INSERT INTO {target} ({listed}) SELECT {listed} FROM {stage} WHERE {ATTEMPT} IN "
            f"(SELECT MIN({ATTEMPT}) FROM {stage} GROUP BY {PART})"
        )
        old = f"DELETE FROM {marks} WHERE query_id = ? AND batch_id < ?"
        self.run(old, query, batch_id - KEPT)
        return rows

    def _listed(self, columns: Sequence[str]) -> str:
        return ", ".join(self._dialect.quoteIdentifier(name) for name in columns)
