"""From what the user wrote to column numbers and types, or to an error that says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from skewless.arrays.types import BandColumn, KeyColumn, SideSpec
from skewless.arrays.values import is_comparable, is_flat
from skewless.conditions import Band, Equal
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError, ColumnError
from skewless.spark.arguments import analysis
from skewless.spark.interpreter import is_remote
from skewless.spark.plans import arrow_schema, empty_frame, quoted
from skewless.spark.result import Result
from skewless.spark.watermarks import Watermark, watermarks_of

DAY_US = 86_400_000_000
BAND_WIDTH_MAX = 1 << 61
INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
ON_FORMS = (
    'a column "k", several ["k1", "k2"], pairs [("left_k", "right_k")], '
    'sk.equal("left_k", "right_k", null_safe=True), sk.band("left_x", "right_x", width), '
    'left["k"] == right["k"], or a list of these'
)
COLUMN_FORMS = (
    'equalities of a column of `left` with one of `right`, such as left["a"] == right["b"] or '
    'left["a"].eqNullSafe(right["b"]), joined by &. Bounds of time belong into `within`, '
    "distances into sk.band(…), what else there is into `condition`"
)
CONNECT = "names of columns: Spark Connect does not tell which columns an expression means"

Condition = Equal | Band


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
        self.fields = list(source.schema.fields)
        # A result has its own way of following watermarks.
        self.watermarks = [] if self.is_result else watermarks_of(source.schema)
        self.names = [f.name for f in self.fields]
        lowered = [n.lower() for n in self.names]
        twice = sorted({n for n in self.names if lowered.count(n.lower()) > 1})
        if twice:
            raise ColumnError(
                argument, self.names, f"a DataFrame with unambiguous columns; twice in it: {twice}"
            )
        self.schema = pa.schema([self._arrow_field(i) for i in range(len(self.fields))])

    def _arrow_field(self, index: int) -> pa.Field:
        try:
            return arrow_field(self.fields[index])
        except Exception as error:
            raise ColumnError(
                self.argument,
                self.described(index),
                f"a DataFrame whose columns Arrow can hold; drop it or cast it ({error})",
            ) from error

    @property
    def every_column(self) -> tuple[int, ...]:
        """The columns of the input, and behind them what they are cast to."""
        return tuple(range(len(self.fields)))

    @property
    def frame(self) -> DataFrame:
        """A DataFrame with these columns, for Spark to analyse expressions over."""
        return self.source.nothing() if isinstance(self.source, Result) else self.source

    def cast(self, index: int, casts: Sequence[DataType]) -> int:
        """The number of a column as Spark casts it, which it does before rows are taken in."""
        column, name = F.col(quoted(self.names[index])), self.names[index]
        for kind in casts:
            column, name = column.cast(kind), f"cast({name} as {kind.simpleString()})"
        while name.lower() in (own.lower() for own in self.names):
            name += "'"
        known = [field.name for field in self.fields]
        if name not in known:
            self.source = self.source.withColumn(name, column)
            self.fields.append(StructField(name, casts[-1]))
            self.schema = self.schema.append(arrow_field(self.fields[-1]))
            known.append(name)
        return known.index(name)

    @property
    def plain_schema(self) -> pa.Schema:
        """Names and types. Nullability is left out: state outlives a change of it."""
        return pa.schema([pa.field(f.name, f.type) for f in self.schema])

    def index(self, name: object, argument: str) -> int:
        """The number of a column, found as Spark finds it: without regard to case."""
        if isinstance(name, Column):
            return self._index_of(name, argument)
        if not isinstance(name, str):
            raise ArgumentError(argument, name, "the name of a column")
        for i, known in enumerate(self.names):
            if known.lower() == name.lower():
                return i
        raise ColumnError(argument, name, f"a column of `{self.argument}`: {', '.join(self.names)}")

    def _index_of(self, column: Column, argument: str) -> int:
        if is_remote(self.source.sparkSession):
            raise ArgumentError(argument, column, CONNECT)
        try:
            return analysis.column_index(self.frame, column)
        except analysis.NotUnderstoodError as error:
            accepted = f"a column of `{self.argument}`: {', '.join(self.names)} ({error})"
            raise ColumnError(argument, column, accepted) from error

    def name(self, column: object, argument: str) -> str:
        """The name of a column that is given by its name or as a Column."""
        return column if isinstance(column, str) else self.names[self.index(column, argument)]

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


def arrow_field(field: StructField) -> pa.Field:
    return arrow_schema(StructType([field])).field(0)


def arrow_type(kind: DataType) -> pa.DataType:
    return arrow_field(StructField("", kind)).type


def parse_on(on: object, left: Input, right: Input) -> list[Condition]:
    """The conditions of `on`, over names of columns."""
    conditions: list[Condition] = []
    for item in on if isinstance(on, list) else [on]:
        if isinstance(item, str):
            conditions.append(Equal(item, item))
        elif isinstance(item, Column):
            conditions += _column_condition(item, left, right)
        elif isinstance(item, Band | Equal):
            names = left.name(item.left, "on"), right.name(item.right, "on")
            conditions.append(replace(item, left=names[0], right=names[1]))
        elif isinstance(item, tuple) and len(item) == 2 and _are_columns(item):
            conditions.append(Equal(left.name(item[0], "on"), right.name(item[1], "on")))
        else:
            raise ArgumentError("on", on, ON_FORMS)
    if not conditions:
        raise ArgumentError("on", on, ON_FORMS)
    return conditions


def _are_columns(items: Sequence[object]) -> bool:
    return all(isinstance(item, str | Column) for item in items)


def _column_condition(condition: Column, left: Input, right: Input) -> list[Equal]:
    """What ``(left["a"] == right["b"]) & …`` compares."""
    session = left.source.sparkSession
    if is_remote(session):
        raise ArgumentError("on", condition, CONNECT)
    found = []
    try:
        for one in analysis.equalities(left.frame, right.frame, condition):
            a, b = one.left, one.right
            types = left.fields[a.index].dataType, right.fields[b.index].dataType
            casts = a.casts, b.casts
            if any(casts) and casts != analysis.casts_of(session, *types):
                raise analysis.NotUnderstoodError("add the cast with withColumn first")
            found.append(Equal(left.names[a.index], right.names[b.index], one.null_safe))
    except analysis.NotUnderstoodError as error:
        raise ArgumentError("on", condition, f"{COLUMN_FORMS} ({error})") from error
    return found


def resolve_keys(
    left: Input, right: Input, conditions: Sequence[Condition]
) -> tuple[list[KeyColumn], list[KeyColumn], list[BandColumn], list[BandColumn]]:
    """The columns that the conditions compare, with the type they are compared in."""
    left_keys, right_keys = [], []
    left_bands, right_bands = [], []
    for condition in conditions:
        a, b = left.index(condition.left, "on"), right.index(condition.right, "on")
        if isinstance(condition, Band):
            kind, width = _band_type(left, a, right, b, condition)
            left_bands.append(BandColumn(a, kind, width))
            right_bands.append(BandColumn(b, kind, width))
        else:
            if not isinstance(condition.null_safe, bool):
                raise ArgumentError("null_safe", condition.null_safe, "True or False")
            a, b, kind = _compared(left, a, right, b)
            left_keys.append(KeyColumn(a, kind, condition.null_safe))
            right_keys.append(KeyColumn(b, kind, condition.null_safe))
    return left_keys, right_keys, left_bands, right_bands


def _compared(left: Input, a: int, right: Input, b: int) -> tuple[int, int, pa.DataType]:
    """The columns of a key, cast where need be, and the type that both then are compared in. Casts
    between numbers are made where they are compared, others by Spark."""
    refuse_collation(left, a, "on")
    refuse_collation(right, b, "on")
    kinds = left.fields[a].dataType, right.fields[b].dataType
    if kinds[0] == kinds[1] and is_flat(left.type_of(a)):
        return a, b, left.type_of(a)
    session = left.source.sparkSession
    if is_remote(session):
        common = _common_type(left.type_of(a), right.type_of(b))
        if common is None or not is_flat(common):
            raise _incomparable(left, a, right, b, "Spark Connect does not tell how it casts them")
        return a, b, common
    try:
        casts = analysis.casts_of(session, *kinds)
    except analysis.NotUnderstoodError as error:
        raise _incomparable(left, a, right, b, str(error)) from error
    common = arrow_type(casts[0][-1] if casts[0] else kinds[0])
    if not is_comparable(common):
        raise _incomparable(left, a, right, b, f"both would be {common}")
    if _widens(left.type_of(a), common) and _widens(right.type_of(b), common):
        # No value changes. Our own name of the type stays: checkpoints are tied to it.
        return a, b, _common_type(left.type_of(a), right.type_of(b)) or common
    return _as_type(left, a, casts[0], common), _as_type(right, b, casts[1], common), common


def _as_type(this: Input, index: int, casts: Sequence[DataType], common: pa.DataType) -> int:
    return index if not casts or _widens(this.type_of(index), common) else this.cast(index, casts)


def _incomparable(left: Input, a: int, right: Input, b: int, why: str) -> ColumnError:
    return ColumnError(
        "on",
        f"{left.described(a)} with {right.described(b)}",
        f"columns of types that Spark compares for equality ({why}). Cast one of them",
    )


def merged(left: Input, a: int, right: Input, b: int) -> tuple[int, int, DataType | None]:
    """The columns that one column of the result stands for, whichever is there, and the type it has
    in Spark if that is not the type of both."""
    kinds = left.fields[a].dataType, right.fields[b].dataType
    if kinds[0] == kinds[1]:
        return a, b, None
    both = StructType([StructField("a", kinds[0]), StructField("b", kinds[1])])
    try:
        frame = empty_frame(left.source.sparkSession, both)
        kind = frame.select(F.coalesce("a", "b")).schema[0].dataType
    except PySparkException as error:
        raise _incomparable(left, a, right, b, "they have no type in common") from error
    if kinds[0].simpleString() == kinds[1].simpleString():  # but other fields may be null
        return a, b, kind
    common = arrow_type(kind)
    return _as_type(left, a, [kind], common), _as_type(right, b, [kind], common), kind


def refuse_collation(this: Input, index: int, argument: str) -> None:
    if _is_collated(this.fields[index].dataType):
        accepted = "strings compared by their bytes (collation UTF8_BINARY)"
        raise ColumnError(argument, this.described(index), accepted)


def _is_collated(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_is_collated(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_collated(kind.elementType)
    plain = (None, "UTF8_BINARY")
    return isinstance(kind, StringType) and getattr(kind, "collation", None) not in plain


def _widens(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether all numbers of one type have an equal in another, or in doubles, their nearest."""
    if pt.is_float64(b):
        return any(check(a) for check in (pt.is_integer, pt.is_floating, pt.is_decimal))
    if pt.is_integer(b):
        return bool(pt.is_integer(a) and a.bit_width <= b.bit_width)
    own = _decimal_shape(a)
    if own is None or not pt.is_decimal(b):
        return False
    digits, scale = own
    return bool(b.scale >= scale and b.precision - b.scale >= digits - scale)


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
