"""JSON lines as Spark writes them: an object a row, columns that are null left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skewless.expressions.zones import UTC, Zone
from skewless.files.json_objects import objects
from skewless.files.written_texts import CODECS, codec_of, packed, text_of, unsupported_texts

if TYPE_CHECKING:
    from skewless.files.writing import FileWriting

NULLS = "spark.sql.jsonGenerator.ignoreNullFields"
SETTINGS = (NULLS,)
OPTIONS = frozenset({"compression", "ignorenullfields"})
ROWS = 1 << 16  # that are made text together


def _nulls(writing: FileWriting) -> str:
    return (writing.option("ignoreNullFields") or writing.setting(NULLS, "true")).lower()


def unsupported(writing: FileWriting) -> str | None:
    if _nulls(writing) not in ("true", "false"):
        return f"ignoreNullFields {_nulls(writing)!r}"
    return unsupported_texts(writing)


def ending(writing: FileWriting) -> str:
    return f".json{CODECS[codec_of(writing)]}"


class Files:
    """Opens the files of one task."""

    def __init__(self, writing: FileWriting) -> None:
        self._codec, self._zone = codec_of(writing), writing.known_zone or UTC
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
    return text_of(objects(rows.schema.names, rows.columns, zone, keep_nulls, "\n"))
