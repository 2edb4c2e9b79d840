"""Watermarks that Spark knows: what `withWatermark` says of a DataFrame's columns.

Spark notes the delay in the column's metadata, and carries it along as the column is renamed or
moved, into windows too. So the schema tells, whatever lies between `withWatermark` and here. Spark
itself drops nothing for it before a stateful operator of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructType

from skewless.durations import format_duration_us

DELAY_MS = "spark.watermarkDelayMs"
TICK_US = 1000  # Spark's watermarks have whole milliseconds


@dataclass(frozen=True)
class Watermark:
    """A column that has a watermark, and how far the watermark stays behind its latest value. Of a
    window, it is that of the times in it."""

    column: str
    delay_us: int
    is_window: bool

    @property
    def delay(self) -> str:
        return format_duration_us(self.delay_us)

    def __str__(self) -> str:
        return f'withWatermark("{self.column}", "{self.delay}")'


def watermarks_of(schema: StructType) -> list[Watermark]:
    """The columns that have a watermark; several where Spark has joined streams before."""
    return [
        Watermark(
            field.name,
            int(field.metadata[DELAY_MS]) * TICK_US,
            isinstance(field.dataType, StructType),
        )
        for field in schema.fields
        if DELAY_MS in (field.metadata or {})
    ]


def tick_us(schema: StructType, time: str | None) -> int:
    """The steps in which the watermark of a column moves."""
    return TICK_US if time in [mark.column for mark in watermarks_of(schema)] else 1
