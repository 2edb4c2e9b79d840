"""Streams of files whose rows are read as columns, in Python: told apart in Spark's own plans.

Such a stream is an ordinary streaming DataFrame, so that everything can be done with it. When a
query starts, its plan is looked at. If it is a source of files, and what is done to their rows can
be done on Arrow, then Spark only follows the files, with its own log, and the tasks that take the
rows in read them. Else Spark reads them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.engine.pipeline import IngestTask
from skewless.engine.reading import FileReading
from skewless.expressions import Shape
from skewless.expressions.shape import lean
from skewless.files.reading import FileFormat
from skewless.spark.catalyst.zones import zone_of
from skewless.spark.interpreter import is_remote
from skewless.spark.plans import (
    arrow_schema,
    class_of,
    id_of,
    items,
    jvm_time_zone,
    scala_map,
    time_zone_of,
)
from skewless.spark.shapes import shapes_of_frame

MARK = "skewless.columns"  # the option by which a source is known that may be read so
# Of files, whatever is in them: without `content` nothing of them is read.
FOLLOWED = "path string, modificationTime timestamp, length bigint, content binary"
TEXTS = ("csv", "json")  # formats in which a time may be one of the session's zone
HIDDEN = "__metadata_col"  # how Catalyst marks `_metadata`, which tells of files and not of rows
# Settings of the session that an option of the same meaning comes before.
MEANT = {
    "ignoreCorruptFiles": "spark.sql.files.ignoreCorruptFiles",
    "ignoreMissingFiles": "spark.sql.files.ignoreMissingFiles",
    "datetimeRebaseMode": "spark.sql.parquet.datetimeRebaseModeInRead",
    "int96RebaseMode": "spark.sql.parquet.int96RebaseModeInRead",
}
# With these, Spark reads files in ways that it alone knows.
ODD = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
}


@dataclass(frozen=True)
class FileStream:
    """A source of files and what is done to their rows. `source` tells it from others: a query may
    read one twice, and Spark then follows it once."""

    session: SparkSession
    source: tuple[int, ...]
    format: FileFormat
    shapes: list[Shape]

    def files(self) -> DataFrame:
        """The files of each batch."""
        reader = self.session.readStream.format("binaryFile").schema(FOLLOWED)
        return reader.options(**dict(self.format.options)).load(self.format.base)

    def told(self, files: DataFrame, task: IngestTask) -> DataFrame:
        """The same as a row of JSON each, for a task."""
        told: list[Column] = [
            F.lit(task.operator_name).alias("operator"),
            F.lit(task.name).alias("input"),
            F.col("path"),
            F.col("length").alias("size"),
        ]
        return files.select(F.to_json(F.struct(*told)).alias("json"))

    def reading(self, task: IngestTask, columns: tuple[int, ...]) -> FileReading:
        """How some columns of the rows are read and taken in."""
        every = self.shapes or [Shape.keeping(self.format.schema)]
        shapes, needed = lean(every, columns)
        return FileReading(task, self.format, needed, tuple(shapes))


def file_stream(frame: DataFrame) -> FileStream | None:
    """What a DataFrame reads, if its files can be read as columns."""
    session = frame.sparkSession
    if is_remote(session):
        return None  # Spark Connect does not show its plans
    found = shapes_of_frame(frame)
    if found is None or class_of(found[0]) != "StreamingRelation":
        return None
    leaf, shapes = found
    options = scala_map(leaf.dataSource().options())
    odd = any(session.conf.get(name, None) == value for name, value in ODD.items())
    attributes = items(leaf.output())
    odd = odd or any(attribute.metadata().contains(HIDDEN) for attribute in attributes)
    if MARK not in options or odd:
        return None
    name = str(leaf.dataSource().className()).lower()
    schema = StructType.fromJson(json.loads(leaf.schema().json()))
    return FileStream(
        session,
        tuple(map(id_of, attributes)),
        FileFormat(
            name,
            arrow_schema(schema),
            _meant(session, name, {k: v for k, v in options.items() if k not in (MARK, "path")}),
            options["path"],
            time_zone_of(session),
            session.conf.get("spark.sql.caseSensitive", "false") == "true",
            jvm_time_zone(session),
            zone_of(session, time_zone_of(session)) if name in TEXTS else None,
        ),
        shapes,
    )


def reader_of(frame: DataFrame) -> str:
    """Who reads a stream, in words, and why."""
    if file_stream(frame) is not None:
        return "skewless reads the files as columns, without the JVM"
    if is_remote(frame.sparkSession):
        return "Spark reads it: Spark Connect does not show its plans"
    leaves = items(frame._jdf.queryExecution().analyzed().collectLeaves())
    marked = [
        leaf
        for leaf in leaves
        if class_of(leaf) == "StreamingRelation" and MARK in scala_map(leaf.dataSource().options())
    ]
    if marked:
        return "Spark reads the files, as what is done to their rows only Spark can do"
    files = [leaf for leaf in leaves if class_of(leaf) == "StreamingRelation"]
    hint = "; sk.readStream(spark) would read them as columns" if files else ""
    return f"Spark reads it{hint}"


def _meant(session: SparkSession, name: str, given: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """The options of a reader, with what the session says where it has none."""
    lowered = {option.lower() for option in given}
    for option, setting in MEANT.items():
        value = session.conf.get(setting, None)
        is_for_parquet = "parquet" in setting
        if option.lower() not in lowered and value and (name == "parquet" or not is_for_parquet):
            given[option] = value
    return tuple(given.items())
