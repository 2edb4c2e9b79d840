"""How results become files, as Spark's own writers would make them of the same rows.

What is not known to be written as Spark does it, be it an option, a setting or a type, is left to
Spark: `unsupported` says so, and why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from skewless.errors import ArgumentError
from skewless.expressions.zones import UTC, Zone
from skewless.files import (
    csv_writing,
    json_writing,
    orc_writing,
    parquet_writing,
    written_texts,
)
from skewless.files.partitioning import Partitioning, unsupported_key
from skewless.files.parts import Parts, WrittenFile
from skewless.state.files import Folder

__all__ = ["SETTINGS", "FileWriting", "WrittenFile", "unsupported"]

FORMATS: dict[str, Any] = {
    "parquet": parquet_writing,
    "json": json_writing,
    "csv": csv_writing,
    "orc": orc_writing,
}
ZONE = "spark.sql.session.timeZone"
ROWS_MAX = "spark.sql.files.maxRecordsPerFile"
# Of the session: what the writers of all formats go by, if it is set.
SETTINGS: tuple[str, ...] = (
    ZONE,
    ROWS_MAX,
    *written_texts.SETTINGS,
    *(name for module in FORMATS.values() for name in module.SETTINGS),
)
OPTIONS = frozenset({"path", "checkpointlocation", "maxrecordsperfile", "timezone"})
_UTC_NAMES = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "+00:00", "UTC+0", "Etc/GMT", "Zulu"})
_PLAIN = re.compile(
    r"boolean|byte|short|integer|long|float|double|string|binary|date|timestamp|timestamp_ntz"
    r"|decimal\(\d+,\d+\)|interval (day|hour|minute|second)( to (hour|minute|second))?"
)
# What Spark keeps in the metadata of columns and goes by when it writes them.
_MARKS = ("__CHAR_VARCHAR_TYPE_STRING", "__COLLATIONS", "parquet.field.id", "CURRENT_DEFAULT")


@dataclass(frozen=True)
class FileWriting:
    """How results are written; goes to every task. `schema` is that of the rows that come, as
    pyspark's `to_arrow_schema` has it, `spark_schema` what its `StructType.json` gives. Names of
    `options` are without regard to case. `zone` is that of the session as the JVM knows it: without
    it, what needs a zone other than UTC is left to Spark. `jvm_time_zone` is that of the machines.
    """

    format: str
    schema: pa.Schema
    spark_schema: str
    spark_version: str
    partition_by: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    zone: Zone | None = None
    jvm_time_zone: str = ""

    def write(
        self, rows: Iterable[pa.RecordBatch], folder: Folder, staged: str, part: str
    ) -> list[WrittenFile]:
        """Write the rows below a folder. `part` is what the names of the files begin with: unique
        per attempt. Without rows there is no file."""
        parts = self.parts(folder, staged, part)
        try:
            for name, some in self._split(map(self._as_declared, rows)):
                parts.add(name, some)
            return parts.finish()
        except BaseException:
            parts.abort()
            raise

    def parts(self, folder: Folder, staged: str, part: str) -> Parts:
        """The files to be, for rows that come by and by."""
        reason = unsupported(self)
        if reason is not None:
            raise ArgumentError("format", self.format, f"left to Spark because of {reason}")
        module = FORMATS[self.format]
        begin = f"{part}{'.' if self.partition_by else '-'}c"
        encode, ending = module.Files(self), module.ending(self)
        return Parts(encode, folder, staged, begin, ending, self._rows_max)

    def option(self, name: str) -> str | None:
        """What the user asked the writer for."""
        found = [value for key, value in self.options if key.lower() == name.lower()]
        return found[-1] if found else None

    def setting(self, name: str, default: str = "") -> str:
        """What the session says."""
        found = [value for key, value in self.settings if key == name]
        return found[-1] if found else default

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """Of the rows within a file: what names folders is not repeated there."""
        return pa.schema(field for field in self.schema if field.name not in self.partition_by)

    @cached_property
    def stored_fields(self) -> list[dict[str, Any]]:
        """The same as Spark tells it."""
        fields = json.loads(self.spark_schema)["fields"]
        return [field for field in fields if field["name"] not in self.partition_by]

    @cached_property
    def known_zone(self) -> Zone | None:
        """That of timestamps written as text, None if its rules are not at hand."""
        given = self.option("timeZone")
        name = given or self.setting(ZONE)
        if name in _UTC_NAMES:
            return UTC
        return self.zone if given in (None, self.setting(ZONE)) else None

    @property
    def _rows_max(self) -> int:
        return max(0, int(self.option("maxRecordsPerFile") or self.setting(ROWS_MAX) or 0))

    def _as_declared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows by the declared schema: whether a column may have nulls is seen in the files."""
        if batch.schema.equals(self.schema):
            return batch
        columns = [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _split(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.partition_by:
            partitioning = Partitioning(self.partition_by, self.known_zone or UTC)
            yield from partitioning.split_all(rows)
        else:
            yield from (("", batch) for batch in rows if batch.num_rows)


def unsupported(writing: FileWriting) -> str | None:
    """Why these files are left to Spark's own writer: an option, a setting or a type that is not
    written here exactly as Spark does; None if they are written here."""
    module = FORMATS.get(writing.format)
    if module is None:
        return f"the format {writing.format!r}"
    for name, _ in writing.options:
        if name.lower() not in OPTIONS | module.OPTIONS:
            return f"the option {name!r}"
    return (
        _unsupported_number(writing)
        or _unsupported_columns(writing)
        or _unsupported_keys(writing)
        or next(filter(None, map(_unsupported_type, writing.stored_fields)), None)
        or module.unsupported(writing)
    )


def _unsupported_number(writing: FileWriting) -> str | None:
    for name, value in (
        ("maxRecordsPerFile", writing.option("maxRecordsPerFile")),
        (ROWS_MAX, writing.setting(ROWS_MAX)),
    ):
        if value and not re.fullmatch(r"-?\d{1,18}", value):
            return f"{name} {value!r}"
    return None


def _unsupported_columns(writing: FileWriting) -> str | None:
    names = [field["name"] for field in json.loads(writing.spark_schema)["fields"]]
    if names != writing.schema.names:
        return "a schema that differs from Spark's"
    if len({name.lower() for name in names}) < len(names):
        return "columns of one name"
    return None


def _unsupported_keys(writing: FileWriting) -> str | None:
    fields = {field["name"]: field["type"] for field in json.loads(writing.spark_schema)["fields"]}
    if len(set(writing.partition_by)) < len(writing.partition_by):
        return "folders named twice by one column"
    for name in writing.partition_by:
        if name not in fields:
            return f"folders named by {name!r}, which is no column"
        if reason := unsupported_key(name, fields[name], writing.known_zone):
            return reason
    return None if writing.stored_fields else "folders named by all columns"


def _unsupported_type(field: dict[str, Any]) -> str | None:
    """Types that no format is known to be written with as Spark does it."""
    for mark in _MARKS:
        if any(name.startswith(mark) for name in field.get("metadata", {})):
            return f"the metadata {mark!r} of the column {field['name']!r}"
    if not field["name"] or re.search(r"[,;{}()\n\t=]", field["name"]):
        return f"the name of the column {field['name']!r}"
    return _unsupported_kind(field["type"], field["name"])


def _unsupported_kind(kind: Any, name: str) -> str | None:
    if isinstance(kind, str):
        return None if _PLAIN.fullmatch(kind) else f"the column {name!r} of type {kind}"
    if kind["type"] == "array":
        return _unsupported_kind(kind["elementType"], name)
    if kind["type"] == "map":
        found = (_unsupported_kind(kind[part], name) for part in ("keyType", "valueType"))
        return next(filter(None, found), None)
    if kind["type"] == "struct" and kind["fields"]:
        return next(filter(None, map(_unsupported_type, kind["fields"])), None)
    return f"the column {name!r} of type {kind['type']}"
