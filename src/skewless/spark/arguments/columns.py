"""From what the user wrote to column numbers and types, or to an error that says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType

from skewless.arrays.keys import is_key_type
from skewless.arrays.types import BandColumn, KeyColumn, SideSpec
from skewless.conditions import Band
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError, ColumnError
from skewless.spark.result import Result
from skewless.spark.watermarks import Watermark, watermarks_of

DAY_US = 86_400_000_000
BAND_WIDTH_MAX = 1 << 61
INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
ON_FORMS = (
    'a column "k", several ["k1", "k2"], pairs [("left_k", "right_k")], '
    'sk.band("left_x", "right_x", width), or a list of these'
)

Condition = tuple[str, str] | Band


class Input:
    """One input of an operator, a DataFrame or another operator's result: its columns by number."""

    def __init__(self, source: DataFrame | Result, argument: str) -> None:
        is_frame = hasattr(type(source), "mapInArrow") and hasattr(type(source), "schema")
        if not is_frame and not isinstance(source, Result):
            accepted = "a Spark DataFrame, or the result of another operator"
            raise ArgumentError(argument, type(source).__name__, accepted)
        self.source, self.argument = source, argument
        self.is_result = isinstance(source, Result)
        if isinstance(source, Result) and source.refused_below is not None:
            raise ArgumentError(argument, source, source.refused_below)
        self.fields = source.schema.fields
        # A result has its own way of following watermarks.
        self.watermarks = [] if self.is_result else watermarks_of(source.schema)
        self.names = [f.name for f in self.fields]
        lowered = [n.lower() for n in self.names]
        twice = sorted({n for n in self.names if lowered.count(n.lower()) > 1})
        if twice:
            raise ColumnError(
                argument, self.names, f"a DataFrame with unambiguous columns; twice in it: {twice}"
            )
        try:
            self.schema = to_arrow_schema(source.schema, timezone="UTC")
        except Exception as error:
            raise ColumnError(
                argument, self.names, f"a DataFrame whose columns Arrow can hold ({error})"
            ) from error

    @property
    def every_column(self) -> tuple[int, ...]:
        return tuple(range(len(self.names)))

    @property
    def plain_schema(self) -> pa.Schema:
        """Names and types. Nullability is left out: state outlives a change of it."""
        return pa.schema([pa.field(f.name, f.type) for f in self.schema])

    def index(self, name: object, argument: str) -> int:
        """The number of a column, found as Spark finds it: without regard to case."""
        if not isinstance(name, str):
            raise ArgumentError(argument, name, "the name of a column")
        for i, known in enumerate(self.names):
            if known.lower() == name.lower():
                return i
        raise ColumnError(argument, name, f"a column of `{self.argument}`: {', '.join(self.names)}")

    def time_index(self, name: object, argument: str) -> int:
        """The number of an event-time column."""
        if name is None:
            raise ArgumentError(argument, name, "the event-time column")
        index = self.index(name, argument)
        if not pt.is_timestamp(self.type_of(index)):
            hint = ""
            if pt.is_struct(self.type_of(index)):
                hint = f': take one of its fields first, .withColumn("…", F.col("{name}.…"))'
            accepted = f"a timestamp or timestamp_ntz column{hint}"
            raise ColumnError(argument, self.described(index), accepted)
        if isinstance(self.source, Result) and self.names[index] not in self._with_watermark():
            known = ", ".join(self._with_watermark()) or "none"
            accepted = (
                f"a column of `{self.argument}` that has a watermark. A result has one for the "
                "event times of its inputs, as long as they are bounded and only renamed or moved, "
                f"not computed anew. Here: {known}"
            )
            raise ColumnError(argument, self.described(index), accepted)
        return index

    def watermark(self, index: int) -> Watermark | None:
        """What Spark knows of the watermark of a column."""
        return next((mark for mark in self.watermarks if mark.column == self.names[index]), None)

    def _with_watermark(self) -> tuple[str, ...]:
        return self.source.event_times.columns if isinstance(self.source, Result) else ()

    def type_of(self, index: int) -> pa.DataType:
        return self.schema.field(index).type

    def described(self, index: int) -> str:
        return f"{self.names[index]} ({self.fields[index].dataType.simpleString()})"


def inputs_of(**sources: DataFrame | Result) -> list[Input]:
    """The inputs of an operator by argument, either all streams or all static."""
    inputs = [Input(source, argument) for argument, source in sources.items()]
    streaming = [bool(this.source.isStreaming) for this in inputs]
    if len(set(streaming)) > 1:
        odd = inputs[streaming.index(False)].argument
        other = "the other input is" if len(inputs) == 2 else "another input is"
        raise ArgumentError(odd, "a static DataFrame", f"streaming, as {other}")
    return inputs


def parse_on(on: object) -> list[Condition]:
    """The conditions of `on` as (left, right) pairs and bands."""
    items = on if isinstance(on, list) else [on]
    conditions: list[Condition] = []
    for item in items:
        if isinstance(item, str):
            conditions.append((item, item))
        elif isinstance(item, Band):
            conditions.append(item)
        elif isinstance(item, tuple) and len(item) == 2 and all(isinstance(n, str) for n in item):
            conditions.append((item[0], item[1]))
        else:
            raise ArgumentError("on", on, ON_FORMS)
    if not conditions:
        raise ArgumentError("on", on, ON_FORMS)
    return conditions


def resolve_keys(
    left: Input, right: Input, conditions: Sequence[Condition]
) -> tuple[list[KeyColumn], list[KeyColumn], list[BandColumn], list[BandColumn]]:
    """The columns that the conditions compare, with the type they are compared in."""
    left_keys, right_keys = [], []
    left_bands, right_bands = [], []
    for condition in conditions:
        names = (condition.left, condition.right) if isinstance(condition, Band) else condition
        a, b = left.index(names[0], "on"), right.index(names[1], "on")
        if isinstance(condition, Band):
            kind, width = _band_type(left, a, right, b, condition)
            left_bands.append(BandColumn(a, kind, width))
            right_bands.append(BandColumn(b, kind, width))
        else:
            kind = _key_type(left, a, right, b)
            left_keys.append(KeyColumn(a, kind))
            right_keys.append(KeyColumn(b, kind))
    return left_keys, right_keys, left_bands, right_bands


def _key_type(left: Input, a: int, right: Input, b: int) -> pa.DataType:
    refuse_collation(left, a, "on")
    refuse_collation(right, b, "on")
    common = _common_type(left.type_of(a), right.type_of(b))
    if common is None or not is_key_type(common):
        raise ColumnError(
            "on",
            f"{left.described(a)} with {right.described(b)}",
            "columns of types that compare: both the same of boolean, integer, decimal, float, "
            "double, string, binary, date, timestamp, timestamp_ntz, time or day-time interval, or "
            "numbers of one family. Cast one of them, or use the fields of a struct",
        )
    return common


def refuse_collation(this: Input, index: int, argument: str) -> None:
    kind = this.fields[index].dataType
    plain = (None, "UTF8_BINARY")
    if isinstance(kind, StringType) and getattr(kind, "collation", None) not in plain:
        accepted = "strings compared by their bytes (collation UTF8_BINARY)"
        raise ColumnError(argument, this.described(index), accepted)


def _common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if a == b:
        return a
    if pt.is_integer(a) and pt.is_integer(b):
        return pa.int64()
    if pt.is_floating(a) and pt.is_floating(b):
        return pa.float64()
    shapes = [_decimal_shape(a), _decimal_shape(b)]
    if None in shapes:
        return None
    scale = max(s for _, s in shapes if s is not None)  # type: ignore[misc]
    digits = max(p - s for p, s in shapes if s is not None)  # type: ignore[misc]
    return pa.decimal128(digits + scale, scale) if digits + scale <= 38 else None


def _decimal_shape(kind: pa.DataType) -> tuple[int, int] | None:
    if pt.is_decimal(kind):
        return kind.precision, kind.scale
    return (INTEGER_DIGITS[kind.bit_width], 0) if pt.is_integer(kind) else None


def _band_type(
    left: Input, a: int, right: Input, b: int, band: Band
) -> tuple[pa.DataType, int | float | Decimal]:
    kinds = (left.type_of(a), right.type_of(b))
    numeric = all(pt.is_integer(k) or pt.is_floating(k) or pt.is_decimal(k) for k in kinds)
    common = _common_type(*kinds)
    if common is None and numeric:
        common = pa.float64()  # as Spark compares an integer or a decimal with a double
    if common is not None and (pt.is_timestamp(common) or pt.is_date32(common)):
        return common, _time_width(common, band)
    if common is None or not numeric:
        raise ColumnError(
            "on",
            f"band of {left.described(a)} with {right.described(b)}",
            "two numeric columns, two timestamps of one kind, or two dates",
        )
    return common, _number_width(common, band.width)


def _time_width(kind: pa.DataType, band: Band) -> int:
    width_us = parse_duration_us(band.width, "width")
    if pt.is_timestamp(kind):
        return width_us
    if width_us % DAY_US:
        raise ArgumentError("width", band.width, "whole days, as the columns are dates")
    return width_us // DAY_US


def _number_width(kind: pa.DataType, width: object) -> int | float | Decimal:
    number: Any = width
    usable = isinstance(width, int | float | Decimal) and not isinstance(width, bool)
    if not usable or not math.isfinite(number) or number < 0:
        raise ArgumentError("width", width, "a number that is finite and not negative")
    if number > BAND_WIDTH_MAX:
        raise ArgumentError("width", width, f"at most {BAND_WIDTH_MAX}")
    if pt.is_integer(kind):
        whole: int = math.floor(number)
        return whole
    return float(number) if pt.is_floating(kind) else Decimal(str(number))


def side_spec(
    this: Input,
    keys: Sequence[KeyColumn],
    bands: Sequence[BandColumn],
    time: int | None,
    late_us: int,
) -> SideSpec:
    """All about one side."""
    return SideSpec(this.plain_schema, tuple(keys), tuple(bands), time, late_us)
