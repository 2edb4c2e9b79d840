"""What is done to results in Catalyst, and which of their columns still have a watermark after it.

Spark carries the metadata of a column along as long as it is only renamed, moved or taken out of a
struct, and drops it when it is computed anew. So it follows its own event-time columns, and so are
ours followed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from skewless.engine.watermark import EventTimes
from skewless.errors import ArgumentError
from skewless.spark.interpreter import is_remote
from skewless.spark.origins import BY_NAME, Ids, identified, is_missing
from skewless.spark.plans import chain_of, class_of, empty_frame, quoted, reason

Step = tuple[str, tuple[Any, ...]]  # name of a DataFrame method, its arguments
Steps = tuple[Step, ...]

EVENT_TIME = "skewless.event_time"
IDENTIFIED = "identified"  # a step of ours: later ones may name columns of the inputs
MANY_ROWS = frozenset({"Aggregate", "Window"})  # what Catalyst makes of sum(…) and … over (…)


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


def analysed(session: SparkSession, traced: StructType, step: Step) -> DataFrame:
    """No rows after a step, which Spark analyses on an empty result: a mistake shows now."""
    method, arguments = step
    nothing = empty_frame(session, traced)
    try:
        if method == "withColumn" and is_remote(session):
            after = _with_column(nothing, *arguments)
        else:
            after = getattr(nothing, method)(*arguments)
        after.schema  # noqa: B018 (Spark Connect analyses it now)
    except (PySparkException, TypeError) as error:
        why = BY_NAME if is_missing(error) else reason(error)
        accepted = f"valid over the columns {', '.join(traced.names)} ({why})"
        written = ", ".join(map(str, arguments))
        raise ArgumentError(method, written, accepted) from error
    return after


def refuse_many_rows(shaped: DataFrame, step: Step) -> None:
    """Steps are done batch by batch. On a stream, what looks at several rows would see those of one
    batch alone, and its results would depend on how the stream is cut. Spark Connect does not show
    plans."""
    if is_remote(shaped.sparkSession):
        return
    nodes = chain_of(shaped._jdf.queryExecution().analyzed()) or ()
    if MANY_ROWS.isdisjoint(map(class_of, nodes)):
        return
    method, arguments = step
    accepted = (
        "of one row at a time on a stream, without aggregates and windows over other rows: "
        'those are .groupBy("k", time="at", window="1 minute").agg(n="count"), or what '
        "foreachBatch does to a batch"
    )
    raise ArgumentError(method, ", ".join(map(str, arguments)), accepted)


def _with_column(rows: DataFrame, name: str, column: Column) -> DataFrame:
    """The same by `select`: under Spark Connect, `withColumn` lets go of metadata."""
    return rows.select(*replacing(rows.sparkSession, rows.columns, {name: column}))


def replacing(
    session: SparkSession, names: Sequence[str], columns: Mapping[str, Column]
) -> list[Column]:
    """All columns, with some added or in place of those of the same names."""
    exact = session.conf.get("spark.sql.caseSensitive", "false") == "true"

    def known(name: str) -> str:
        return name if exact else name.lower()

    given = {known(name): column.alias(name) for name, column in columns.items()}
    if len(given) < len(columns):
        raise ArgumentError("columns", list(columns), "names that differ in more than their case")
    kept = {known(name) for name in names}
    return [
        *(given[known(name)] if known(name) in given else F.col(quoted(name)) for name in names),
        *(column for name, column in given.items() if name not in kept),
    ]


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
