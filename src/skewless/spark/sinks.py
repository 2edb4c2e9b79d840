"""Where the matches of a batch go.

File formats are exactly-once to any reader: Spark writes them under the checkpoint, and the commit
moves them to the output folder. Kafka is delivered to after the commit (`spark/kafka.py`). Every
other sink is written before the commit, so a crash in between repeats the batch: at least once,
with the batch id at hand to tell repeats. Those in `tables/` tell them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skewless.engine import executor as engine
from skewless.engine.output import FileTarget
from skewless.files.writing import SETTINGS, FileWriting, unsupported
from skewless.spark.catalyst.zones import zone_of
from skewless.spark.interpreter import is_remote
from skewless.spark.plans import arrow_schema, jvm_time_zone, time_zone_of
from skewless.spark.shapes import shapes_of_steps
from skewless.spark.steps import Steps, with_steps
from skewless.state.epochs import Ownership
from skewless.state.files import qualify
from skewless.state.output import is_shown
from skewless.state.publish import Moves, final_name, staging_folder

if TYPE_CHECKING:
    from skewless.spark.result import Plan

log = logging.getLogger("skewless")

Sink = engine.Sink[DataFrame]


class ShapedSink(Sink):
    """Does the steps of a result to its rows before another sink takes them."""

    def __init__(self, sink: Sink, steps: Steps) -> None:
        self._sink, self._steps = sink, steps
        self.shows_empty = sink.shows_empty
        self.may_skip = sink.may_skip

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        return self._sink.write(with_steps(result, self._steps), batch_id)


class FileSink(Sink):
    """Files in a folder. `spark_root` is the state folder as Spark names it."""

    def __init__(
        self,
        ownership: Ownership,
        spark_root: str,
        path: str,
        file_format: str,
        options: dict[str, Any],
        partition_by: list[str],
    ) -> None:
        self._ownership, self._spark_root = ownership, spark_root
        # Made absolute here, and once: commits outlive the working directory, and the escapes in
        # the names of partitions ("a%2Fb") must stay as they are.
        self._path = qualify(path).rstrip("/")
        self._format, self._options, self._partition_by = file_format, options, partition_by

    def target(self, plan: Plan, schema: StructType) -> FileTarget | None:
        """The same as files that instances write, where these would be what Spark writes."""
        root = plan.nodes[-1].name
        session = plan.streams[0].sparkSession
        shapes = shapes_of_steps(session, plan.schemas[root], plan.steps)
        if shapes is None:
            return None
        for name in (name for name, value in self._options.items() if value is None):
            log.info("Spark writes the %s files: the option %r without value", self._format, name)
            return None
        writing = FileWriting(
            self._format.lower(),
            arrow_schema(schema),
            schema.json(),
            session.version,
            tuple(self._partition_by),
            tuple((key, str(value)) for key, value in self._options.items()),
            tuple((key, value) for key in SETTINGS if (value := session.conf.get(key, None))),
            None if is_remote(session) else zone_of(session, time_zone_of(session)),
            jvm_time_zone(session),
        )
        if (why := unsupported(writing)) is not None:
            log.info("Spark writes the %s files: %s", self._format, why)
            return None
        return FileTarget(self._path, writing, tuple(shapes))

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        folder = self._ownership.folder
        staged = staging_folder(folder, batch_id)
        writer = result.write.format(self._format).options(**self._options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.save(f"{self._spark_root}/{staged}")
        return [
            (f"{staged}/{name}", f"{self._path}/{final_name(name, batch_id)}")
            for name in folder.list(staged)
            if is_shown(name)  # what tasks left that Spark's own job commit did not show is not
        ]


class SourceSink(Sink):
    """Any data source that Spark can write a batch to."""

    def __init__(
        self, source: str, options: dict[str, Any], partition_by: list[str], path: str | None
    ) -> None:
        self._source, self._options = source, options
        self._partition_by, self._path = partition_by, path

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        self.append(result, {})
        return []

    def append(self, result: DataFrame, options: Mapping[str, Any]) -> None:
        writer = result.write.format(self._source).options(**self._options, **options)
        writer = writer.mode("append")
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.save(self._path) if self._path else writer.save()


class TableSink(Sink):
    """A table of the catalog; it is made by the first batch if it does not exist."""

    def __init__(
        self, table: str, source: str | None, options: dict[str, Any], partition_by: list[str]
    ) -> None:
        self._table, self._source = table, source
        self._options, self._partition_by = options, partition_by

    def of(self, provider: str) -> TableSink:
        """The same, told whose format the table has, if nobody has said another."""
        source = self._source or provider
        return TableSink(self._table, source, self._options, self._partition_by)

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        self.append(result, {})
        return []

    def append(self, result: DataFrame, options: Mapping[str, Any]) -> None:
        writer = result.write.options(**self._options, **options).mode("append")
        if self._source is not None:
            writer = writer.format(self._source)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.saveAsTable(self._table)


class ConsoleSink(Sink):
    """Shows the first rows of each batch, as Spark's console sink does."""

    shows_empty = True

    def __init__(self, rows: int, truncate: bool) -> None:
        self._rows, self._truncate = rows, truncate

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        # The whole result is taken, as Spark's console sink does: reading only the first rows would
        # leave most instances without work, and the history without their figures.
        rows = result.toArrow().slice(0, self._rows + 1)
        rule = "-" * 43
        print(f"{rule}\nBatch: {batch_id}\n{rule}")
        result.sparkSession.createDataFrame(rows, result.schema).show(self._rows, self._truncate)
        return []


class MemorySink(Sink):
    """A temporary view of the session that started the query, named as the query."""

    def __init__(self, session: SparkSession, name: str, schema: StructType) -> None:
        self._session, self._name = session, name
        self._batches: dict[int, pa.Table] = {}
        self._schema = schema
        self._show()

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        rows = result.toArrow()
        if rows.num_rows:
            self._batches[batch_id] = rows
            self._show()
        return []

    def _show(self) -> None:
        rows: Any = pa.concat_tables(self._batches.values()) if self._batches else []
        self._session.createDataFrame(rows, self._schema).createOrReplaceTempView(self._name)


class ForeachBatchSink(Sink):
    """A user's function. It gets the batch id, by which it can tell a repeated batch."""

    shows_empty = True

    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        self._function = function

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        self._function(result, batch_id)
        return []
