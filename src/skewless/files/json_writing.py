"""JSON lines as Spark writes them: an object a row, columns that are null left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skewless.expressions.zones import UTC, Zone
from skewless.files.written_texts import (
    CODECS,
    codec_of,
    packed,
    text_of,
    texts,
    unsupported_texts,
)

if TYPE_CHECKING:
    from skewless.files.writing import FileWriting

NULLS = "spark.sql.jsonGenerator.ignoreNullFields"
SETTINGS = (NULLS,)
OPTIONS = frozenset({"compression", "ignorenullfields"})
ROWS = 1 << 16  # that are made text together
_LETTERS = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPES = {
    "\\": "\\\\",  # before those that bring new ones
    '"': '\\"',
    **{chr(i): _LETTERS.get(chr(i), f"\\u{i:04X}") for i in range(32)},
}
_SPECIAL = '[\\x00-\\x1f"\\\\]'


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
    # Arrow could skip nulls, and the commas with them, but loses rows that have nothing else.
    members, begun = [], pa.repeat(False, rows.num_rows)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        value = _value(column, zone)
        value = pc.fill_null(value, "null") if keep_nulls else value
        label = f"{quoted_name(name)}:"
        before = pc.if_else(begun, pa.scalar(f",{label}"), pa.scalar(label))
        members.append(pc.fill_null(pc.binary_join_element_wise(before, value, ""), ""))
        begun = pc.or_(begun, pc.is_valid(value))
    return text_of(pc.binary_join_element_wise("{", *members, "}\n", ""))


def _value(column: pa.Array, zone: Zone) -> pa.Array:
    text = texts(column, zone)
    if pa.types.is_string(column.type):
        return _quoted(_escaped(text))
    if pa.types.is_temporal(column.type):
        return _quoted(text)
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_finite(column), text, _quoted(text))
    return text


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(text: pa.Array) -> pa.Array:
    """Few strings have anything to be escaped: only those are looked at closely."""
    special = pc.fill_null(pc.match_substring_regex(text, _SPECIAL), False)
    if not pc.any(special).as_py():
        return text
    some = text.filter(special)
    for letter, escape in _ESCAPES.items():
        if pc.any(pc.match_substring(some, letter)).as_py():
            some = pc.replace_substring(some, letter, escape)
    return pc.replace_with_mask(text, special, some)


def quoted_name(name: str) -> str:
    """The name of a column as JSON."""
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in name) + '"'
