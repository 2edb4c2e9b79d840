"""Tables of a database: rows and the mark of their batch in one transaction.

Spark's tasks write to a staging table, each in a transaction of its own, so that some of them are
there when others fail. Then one transaction puts all rows into the target, with a line in
`skewless_batches`: a batch whose line is there is not written again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from skewless import failpoints
from skewless.errors import ArgumentError, StateError
from skewless.spark.plans import empty_frame
from skewless.spark.sinks import Sink
from skewless.spark.tables.database import ATTEMPT, MARKS, PART, Database
from skewless.state.epochs import Ownership
from skewless.state.identity import query_id
from skewless.state.publish import Moves
from skewless.state.tries import Try, last_try, note_try

TABLE, ISOLATION = "dbtable", "isolationlevel"
_LAST_NAME = re.compile(r'(?:"[^"]*"|`[^`]*`|\[[^\]]*\]|[^.]*)$')


def schema_of(table: str) -> str:
    """What stands before a table's name: its schema, with the dot.

    >>> schema_of("orders"), schema_of('shop."my.orders"')
    ('', 'shop.')
    """
    found = _LAST_NAME.search(table)
    return table if found is None else table[: found.start()]


def matched(columns: Sequence[str], of_table: Sequence[str]) -> list[str]:
    """How a table calls some columns: letter by letter, else in other cases. What it does not have
    is named as it is; Spark refuses it."""
    exact, any_case = set(of_table), {name.lower(): name for name in of_table}
    return [c if c in exact else any_case.get(c.lower(), c) for c in columns]


class JdbcSink(Sink):
    may_skip = True

    def __init__(self, ownership: Ownership, options: Mapping[str, Any]) -> None:
        self._ownership = ownership
        self._options = {key: _text(value) for key, value in options.items()}
        named = {key.lower(): value for key, value in self._options.items()}
        for needed in ("url", TABLE):
            if not named.get(needed):
                raise ArgumentError(needed, named.get(needed), "given: the option of the JDBC sink")
        if named.get(ISOLATION, "").upper() == "NONE":
            accepted = "a level with transactions: without them rows would come twice"
            raise ArgumentError("isolationLevel", "NONE", accepted)
        self._table = named[TABLE]
        self._marks = f"{schema_of(self._table)}{MARKS}"
        self._is_ready = False

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        folder, session = self._ownership.folder, result.sparkSession
        query = query_id(folder)
        if not self._is_ready:
            # Spark makes the target if there is none, and checks the columns.
            self._append(empty_frame(session, result.schema), self._table)
        stage = f"{schema_of(self._table)}skewless_{query}_e{folder.epoch}_b{batch_id}"
        with Database(session, self._options) as database:
            self._make_ready(database)
            if database.has_mark(self._marks, query, batch_id):
                return []
            note_try(folder, Try(query, batch_id, {"stage": stage}))
            columns = matched(result.columns, database.columns(self._table))
            database.make_stage(stage, self._table, columns)
        rows = self._fill(stage, result.toDF(*columns))
        failpoints.hit("table.staged", folder.root, batch_id)
        with Database(session, self._options) as database:
            self._take_in(database, stage, columns, Try(query, batch_id), rows)
            failpoints.hit("table.written", folder.root, batch_id)
            database.drop(stage)
        return []

    def _make_ready(self, database: Database) -> None:
        """Once: see to it that marks can be written, and remove what a driver has left that was
        killed."""
        if self._is_ready:
            return
        database.make_marks(self._marks)
        former = last_try(self._ownership.folder)
        if former is not None and "stage" in former.facts:
            database.drop(former.facts["stage"])
        self._is_ready = True

    def _fill(self, stage: str, result: DataFrame) -> int:
        """Have tasks write to the stage; how many rows there were. Every row tells the task and the
        try that it is of."""
        counted = Observation()
        told = result.select("*", _told("partitionId", PART), _told("taskAttemptId", ATTEMPT))
        told = told.observe(counted, F.count(F.lit(1)).alias("rows"))
        self._append(told, stage)
        return int(counted.get["rows"])

    def _append(self, result: DataFrame, table: str) -> None:
        options = {k: v for k, v in self._options.items() if k.lower() != TABLE}
        writer = result.write.format("jdbc").options(**options).option(TABLE, table)
        writer.mode("append").save()

    def _take_in(
        self, database: Database, stage: str, columns: Sequence[str], now: Try, rows: int
    ) -> None:
        self._ownership.check()
        try:
            with database.transaction():
                if database.has_mark(self._marks, now.query, now.batch):
                    return  # by a driver that has taken over since
                taken = database.take_in(
                    stage, self._table, columns, self._marks, now.query, now.batch
                )
                if taken != rows:
                    raise StateError(
                        f"batch {now.batch} has {rows} rows, but {taken} are in the staging table "
                        f"{stage}: the database has lost some, or got more. Nothing was written to "
                        f"{self._table}; start the query again, and the batch is repeated."
                    )
        except Py4JJavaError:
            if not database.has_mark(self._marks, now.query, now.batch):
                raise  # else it did so in this very moment


def _told(number: str, name: str) -> Column:
    """What the task that a row is in says of itself. Not by `spark_partition_id`: of few rows the
    optimizer makes constants before there are tasks."""

    def told(rows: pa.Array) -> pa.Array:
        value = getattr(TaskContext.get(), number)()
        return pa.repeat(pa.scalar(value, pa.int64()), len(rows))

    made: Any = arrow_udf  # its types do not know functions of one array
    asked: Column = made(told, "long").asNondeterministic()(F.lit(0))
    return asked.alias(name)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
