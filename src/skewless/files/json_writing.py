"""JSON lines as Spark writes them: an object a row, columns that are null left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skewless.expressions.zones import UTC, Zone
from skewless.files.json_objects import objects
from skewless.files.written_texts import CODECS, packed, unsupported_text

if TYPE_CHECKING:
    from skewless.files.writing import FileWriting

NULLS = "spark.sql.jsonGenerator.ignoreNullFields"
POLICY = "spark.sql.legacy.timeParserPolicy"
_PACKED = "mapreduce.output.fileoutputformat.compress"
_UNSET = (_PACKED, f"spark.hadoop.{_PACKED}")
SETTINGS = (NULLS, POLICY, *_UNSET)
OPTIONS = frozenset({"compression", "ignorenullfields"})
ROWS = 1 << 16  # that are made text together


def _codec(writing: FileWriting) -> str:
    return (writing.option("compression") or "none").lower()


def _nulls(writing: FileWriting) -> str:
    return (writing.option("ignoreNullFields") or writing.setting(NULLS, "true")).lower()


def unsupported(writing: FileWriting) -> str | None:
    if _codec(writing) not in CODECS:
        return f"the compression {_codec(writing)!r}"
    if _nulls(writing) not in ("true", "false"):
        return f"ignoreNullFields {_nulls(writing)!r}"
    if writing.setting(POLICY, "CORRECTED").upper() == "LEGACY":
        return f"the setting {POLICY} {writing.setting(POLICY)!r}"
    for name in _UNSET:
        if writing.setting(name, "false").lower() != "false":
            return f"the setting {name}"
    zone = writing.known_zone
    found = (unsupported_text(f["name"], f["type"], zone) for f in writing.stored_fields)
    return next(filter(None, found), None)


def ending(writing: FileWriting) -> str:
    return f".json{CODECS[_codec(writing)]}"


class Files:
    """Opens the files of one task."""

    def __init__(self, writing: FileWriting) -> None:
        self._codec, self._zone = _codec(writing), writing.known_zone or UTC
        self._keep_nulls = _nulls(writing) == "false"

    def __call__(self, sink: pa.NativeFile, rows: pa.Table) -> JsonFile:
        return JsonFile(sink, packed(sink, self._codec), self._zone, self._keep_nulls)


class JsonFile:
    def __init__(self, sink: pa.NativeFile, out: Any, zone: Zone, keep_nulls: bool) -> None:
        self._sink, self._out = sink, out
        self._zone, self._keep_nulls = zone, keep_nulls

    def write(self, rows: pa.Table) -> None:
        for batch in rows.combine_chunks().to_batches(ROWS):
            self._out.write(_lines(batch, self._zone, self._keep_nulls))

    def close(self) -> None:
        if self._out is not self._sink:
            self._out.close()


def _lines(rows: pa.RecordBatch, zone: Zone, keep_nulls: bool) -> memoryview:
    lines = objects(rows.schema.names, rows.columns, zone, keep_nulls, "\n")
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]
