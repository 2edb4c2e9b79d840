"""`sk.from_json`: a column of JSON as columns, parsed where rows are taken in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from skewless.engine.decoding import ASIDE, ON_BAD, ORIGIN, SHOWN
from skewless.engine.letters import BATCH, REASON
from skewless.errors import ArgumentError, ColumnError
from skewless.spark.interpreter import is_remote
from skewless.spark.json_streams import (
    CORRUPT_OPTION,
    CORRUPT_SETTING,
    KNOWN_OPTIONS,
    LETTERS_OPTION,
    MARK,
)
from skewless.spark.plans import quoted, reason
from skewless.spark.stores import Stores
from skewless.state.stores.locations import check_location

PARSED, BAD = "__skewless_json", "__skewless_bad"  # columns that nobody sees
OnBad = Literal["null", "error", "drop"]


@dataclass(frozen=True)
class DeadLetters:
    """Rows with bad values go to Parquet files in the folder `path`, exactly once: all columns as
    they came, and the ``reason``. Folders ``batch=7`` tell the batch."""

    path: str

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise ArgumentError("path", self.path, "a folder for files")
        check_location("path", self.path)


def from_json(
    df: DataFrame,
    column: str,
    schema: StructType | str,
    *,
    options: Mapping[str, Any] | None = None,
    on_bad: OnBad | DeadLetters = "null",
) -> DataFrame:
    """The columns of `df`, with the fields of a JSON column in place of it.

    ``sk.from_json(kafka, "value", "k long, at timestamp")`` has the same rows, types and nulls as
    PySpark's ``from_json`` over ``value`` as a string. It is a DataFrame like any other, and Spark
    can run it. In a query of skewless the texts are parsed by the tasks that take rows in, many at
    once; `select`, `where` and their like are then done on Arrow, where skewless knows the
    functions. Else Spark parses the texts, and `explain` and the log say why.

    `column` holds strings or bytes, `schema` is a StructType or text. A value is bad if it is no
    JSON object, or if a field's value does not fit its type. With `on_bad="null"` such a field is
    null, or all are if there is no object; bad values are counted in the batch reports. `"drop"`
    drops and counts the rows, `"error"` stops the query and shows the value.
    ``sk.DeadLetters(path)`` drops and counts them, and puts them aside as files. A string field of
    the name that Spark gives to corrupt records (``_corrupt_record``, or the option
    ``columnNameOfCorruptRecord``) has the text of bad values. `options` are those of PySpark's
    ``from_json``, but for ``mode``.
    """
    _check_column(df, column)
    fields = _schema(schema)
    given = _options(options)
    if isinstance(on_bad, DeadLetters):
        mode, given[LETTERS_OPTION] = ASIDE, _letters_path(df, on_bad)
    elif on_bad in ON_BAD:
        mode = on_bad
    else:
        raise ArgumentError("on_bad", on_bad, f"one of: {', '.join(ON_BAD)}, sk.DeadLetters(path)")
    others = [name for name in df.columns if name != column]
    _check_names([*others, *fields.names])
    corrupt = given.get(CORRUPT_OPTION) or df.sparkSession.conf.get(CORRUPT_SETTING)
    _check_corrupt(fields, str(corrupt))
    if corrupt not in fields.names and mode != "null":
        corrupt, fields_read = BAD, StructType([*fields.fields, StructField(BAD, StringType())])
        given[CORRUPT_OPTION] = BAD
    else:
        fields_read = fields
    text = F.col(quoted(column)).cast("string")
    try:
        parsed = F.from_json(text, fields_read, {**given, MARK: mode}).alias(PARSED)
        rows = df.select(*(F.col(quoted(name)) for name in df.columns), parsed)
    except PySparkException as error:
        raise ArgumentError("schema", schema, f"what Spark parses ({reason(error)})") from error
    if mode == "drop":
        rows = rows.where(F.col(PARSED).getField(corrupt).isNull())
    elif mode in ("error", ASIDE):  # of what Spark puts aside, nothing would remain
        rows = rows.where(_all_good(df, column, F.col(PARSED).getField(corrupt)))
    made: list[Column] = []
    for name in df.columns:
        if name == column:
            made += [F.col(PARSED).getField(field).alias(field) for field in fields.names]
        else:
            made.append(F.col(quoted(name)))
    return rows.select(*made)


def _letters_path(df: DataFrame, letters: DeadLetters) -> str:
    """Where dead letters go, if all can be told apart there."""
    if is_remote(df.sparkSession):
        accepted = '"null", "drop" or "error" under Spark Connect, where Spark has to parse'
        raise ArgumentError("on_bad", letters, accepted)
    if not df.isStreaming:
        accepted = 'used on streams; for static rows take on_bad="null" and a _corrupt_record field'
        raise ArgumentError("on_bad", letters, accepted)
    for name in df.columns:
        if name.lower() in (REASON, BATCH):
            accepted = f"renamed: dead letters have columns {REASON} and {BATCH} of their own"
            raise ColumnError("on_bad", name, accepted)
    return Stores.of(df.sparkSession).locate("path", letters.path)


def _check_column(df: DataFrame, column: str) -> None:
    if not hasattr(df, "isStreaming") or not hasattr(df, "withWatermark"):
        raise ArgumentError("df", type(df).__name__, "a DataFrame")
    if not isinstance(column, str):  # a Column cannot be looked for
        raise ArgumentError("column", column, 'the name of a column of df, such as "value"')
    if column not in df.columns:
        raise ColumnError("column", column, f"a column of df: {', '.join(df.columns)}")
    kind = df.schema[column].dataType
    if not isinstance(kind, BinaryType | StringType):
        raise ColumnError("column", f"{column} ({kind.simpleString()})", "of strings or bytes")


def _schema(schema: StructType | str) -> StructType:
    accepted = 'a StructType, or text such as "k long, at timestamp"'
    found: object = schema
    if isinstance(schema, str):
        try:
            found = StructType.fromDDL(schema)
        except PySparkException as error:
            raise ArgumentError("schema", schema, f"{accepted} ({reason(error)})") from error
    if not isinstance(found, StructType) or not found.fields:
        raise ArgumentError("schema", schema, accepted)
    return found


def _options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """What the user gave, as text; names that are known here in one way of writing them."""
    if options is not None and not isinstance(options, Mapping):
        raise ArgumentError("options", options, 'a dict such as {"timeZone": "UTC"}')
    known = {name.lower(): name for name in KNOWN_OPTIONS}
    given = {}
    for key, value in (options or {}).items():
        if str(key).lower() in ("mode", MARK):
            raise ArgumentError("options", key, "left out: on_bad says what happens to bad values")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        given[known.get(str(key).lower(), str(key))] = text
    return given


def _check_corrupt(fields: StructType, name: str) -> None:
    kind = fields[name].dataType if name in fields.names else StringType()
    if kind != StringType():
        accepted = "string: it has the text of bad values"
        raise ColumnError("schema", f"{name} ({kind.simpleString()})", accepted)


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            accepted = (
                "once among the fields and the other columns of df: take from df only the columns "
                'that you need, such as df.select("value"), or rename them'
            )
            raise ColumnError("schema", name, accepted)
        seen.add(name.lower())


def _all_good(df: DataFrame, column: str, corrupt: Column) -> Column:
    """True, or an error that shows a bad value and where it comes from."""
    where = [
        part
        for name in ORIGIN
        if name in df.columns and name != column
        for part in (F.lit(f", {name} "), F.col(quoted(name)).cast("string"))
    ]
    shown = F.substring(corrupt, 1, SHOWN)
    text = F.concat(F.lit("sk.from_json: bad value: "), shown, *where)
    return F.when(corrupt.isNotNull(), F.raise_error(text).cast("boolean")).otherwise(F.lit(True))
