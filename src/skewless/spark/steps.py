"""What is done to results in Catalyst, and which of their columns still have a watermark after it.

Spark carries the metadata of a column along as long as it is only renamed, moved or taken out of a
struct, and drops it when it is computed anew. So it follows its own event-time columns, and so are
ours followed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from skewless.engine.watermark import EventTimes
from skewless.errors import ArgumentError
from skewless.spark.interpreter import is_remote
from skewless.spark.origins import BY_NAME, Ids, identified, is_missing
from skewless.spark.plans import empty_frame, quoted, reason

Step = tuple[str, tuple[Any, ...]]  # name of a DataFrame method, its arguments
Steps = tuple[Step, ...]

EVENT_TIME = "skewless.event_time"
IDENTIFIED = "identified"  # a step of ours: later ones may name columns of the inputs


def with_steps(rows: DataFrame, steps: Steps) -> DataFrame:
    for method, arguments in steps:
        if method == IDENTIFIED:
            rows = identified(rows, *arguments)
        else:
            rows = getattr(rows, method)(*arguments)
    return rows


def identified_steps(ids: Ids, steps: Steps) -> Steps:
    """The same steps over rows that are known by ids of the inputs' columns."""
    return steps if steps and steps[0][0] == IDENTIFIED else ((IDENTIFIED, (ids,)), *steps)


def methods_of(steps: Steps) -> list[str]:
    """What users did."""
    return [method for method, _ in steps if method != IDENTIFIED]


def analysed(session: SparkSession, traced: StructType, step: Step) -> StructType:
    """The columns after a step, which Spark analyses on an empty result: a mistake shows now."""
    method, arguments = step
    nothing = empty_frame(session, traced)
    try:
        if method == "withColumn" and is_remote(session):
            after = _with_column(nothing, *arguments).schema
        else:
            after = getattr(nothing, method)(*arguments).schema
    except (PySparkException, TypeError) as error:
        why = BY_NAME if is_missing(error) else reason(error)
        accepted = f"valid over the columns {', '.join(traced.names)} ({why})"
        written = ", ".join(map(str, arguments))
        raise ArgumentError(method, written, accepted) from error
    return StructType(after.fields)


def _with_column(rows: DataFrame, name: str, column: Column) -> DataFrame:
    """The same by `select`: under Spark Connect, `withColumn` lets go of metadata."""
    exact = rows.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    replaced = {c for c in rows.columns if c == name or (not exact and c.lower() == name.lower())}
    if not replaced:
        return rows.select("*", column.alias(name))
    return rows.select(
        *(column.alias(name) if c in replaced else F.col(quoted(c)) for c in rows.columns)
    )


def traced(schema: StructType, times: EventTimes) -> StructType:
    """A schema whose event times are marked, by their names: "ordered_at", "window.end"."""
    return StructType([_traced(field, field.name, times) for field in schema.fields])


def _traced(field: StructField, path: str, times: EventTimes) -> StructField:
    metadata = {EVENT_TIME: path} if path in times.columns else {}
    return StructField(field.name, _traced_type(field.dataType, path, times), True, metadata)


def _traced_type(kind: DataType, path: str, times: EventTimes) -> DataType:
    # A column may also be called "event.time", beside one called "event".
    is_above = any(column.startswith(f"{path}.") for column in times.columns)
    if not (is_above and isinstance(kind, StructType)):
        return kind
    return StructType([_traced(f, f"{path}.{f.name}", times) for f in kind.fields])


def untraced(schema: StructType) -> StructType:
    """The schema as users see it."""
    return StructType(
        [
            StructField(
                field.name,
                untraced(field.dataType)
                if isinstance(field.dataType, StructType)
                else field.dataType,
                field.nullable,
                {k: v for k, v in (field.metadata or {}).items() if k != EVENT_TIME},
            )
            for field in schema.fields
        ]
    )


def event_times_of(schema: StructType, times: EventTimes) -> EventTimes:
    """The event times that are left among some columns, under their names of now. The schema may
    still tell of columns that are no longer carried, as nobody needs them."""
    found = {name: mark for name, mark in _marked(schema.fields) if mark in times.columns}
    return times.select(found)


def _marked(fields: Sequence[StructField], above: str = "") -> Iterator[tuple[str, str]]:
    for field in fields:
        path = f"{above}{field.name}"
        mark = (field.metadata or {}).get(EVENT_TIME)
        if mark is not None:
            yield path, mark
        elif isinstance(field.dataType, StructType):
            yield from _marked(field.dataType.fields, f"{path}.")
