"""Parquet as Spark writes it: the same types in the files, and its own notes beside them, by which
it reads exactly the columns that were declared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skewless.files.parts import GROUP_BYTES, GROUP_ROWS

if TYPE_CHECKING:
    from skewless.files.writing import FileWriting

CODEC = "spark.sql.parquet.compression.codec"
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
# What has to be set to this, or not at all.
_USUAL = {
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
# What must not be set: files that Spark encrypts.
_NEVER = (
    "parquet.crypto.factory.class",
    "parquet.encryption.footer.key",
    "parquet.encryption.column.keys",
    "parquet.encryption.uniform.key",
)
_UNSET = (*_NEVER, *(f"spark.hadoop.{name}" for name in _NEVER))
SETTINGS = (CODEC, TIMESTAMPS, *_USUAL, *_UNSET)
OPTIONS = frozenset({"compression", "parquet.compression"})
# By what Spark calls a codec: what Arrow calls it, its level in Java, how names of files end.
_CODECS: dict[str, tuple[str, int | None, str]] = {
    "none": ("none", None, ".parquet"),
    "uncompressed": ("none", None, ".parquet"),
    "snappy": ("snappy", None, ".snappy.parquet"),
    "gzip": ("gzip", 6, ".gz.parquet"),
    "lz4_raw": ("lz4", None, ".lz4raw.parquet"),
    "zstd": ("zstd", 3, ".zstd.parquet"),
}
SAMPLE_ROWS = 1 << 16
DISTINCT_SHARE = 4  # a dictionary pays if every value comes so often


def _codec(writing: FileWriting) -> str:
    given = writing.option("compression") or writing.option("parquet.compression")
    return (given or writing.setting(CODEC, "snappy")).lower()


def unsupported(writing: FileWriting) -> str | None:
    if _codec(writing) not in _CODECS:
        return f"the compression {_codec(writing)!r}"
    for name, usual in _USUAL.items():
        if writing.setting(name, usual).upper() != usual.upper():
            return f"the setting {name} {writing.setting(name)!r}"
    for name in _UNSET:
        if writing.setting(name):
            return f"the setting {name}"
    kinds = set().union(*map(_kinds, (field.type for field in writing.stored_schema)))
    if _timestamps(writing) not in ("INT96", "TIMESTAMP_MICROS"):
        return f"the setting {TIMESTAMPS} {writing.setting(TIMESTAMPS)!r}"
    if _timestamps(writing) == "INT96" and {_MOMENT, _CLOCK} <= kinds:
        return "columns of types timestamp, as INT96, and timestamp_ntz in one file"
    return None


_MOMENT, _CLOCK = pa.timestamp("us", "UTC"), pa.timestamp("us")


def _timestamps(writing: FileWriting) -> str:
    return writing.setting(TIMESTAMPS, "INT96").upper()


def _kinds(type: pa.DataType) -> set[pa.DataType]:
    """All types within a type."""
    inner = (type.field(i).type for i in range(type.num_fields))
    return {type}.union(*map(_kinds, inner))


def ending(writing: FileWriting) -> str:
    return _CODECS[_codec(writing)][2]


class Files:
    """Opens the files of one task. Where dictionaries pay is seen from the first rows of the first:
    looking at those of every file would take longer than small ones take to be written."""

    def __init__(self, writing: FileWriting) -> None:
        codec, level, _ = _CODECS[_codec(writing)]
        self._schema = _stored(writing.stored_schema)
        self._notes = _notes(writing)
        kinds = set().union(*map(_kinds, self._schema.types))
        self._choices: dict[str, Any] = {
            "compression": codec,
            "compression_level": level,
            "use_deprecated_int96_timestamps": _timestamps(writing) == "INT96" and _MOMENT in kinds,
            "store_decimal_as_integer": True,
            "store_schema": False,
            "write_page_index": True,
        }

    def __call__(self, sink: pa.NativeFile, rows: pa.Table) -> ParquetFile:
        if "use_dictionary" not in self._choices:
            self._choices["use_dictionary"] = list(_repeated(rows))
        writer = pq.ParquetWriter(sink, self._schema, **self._choices)
        writer.add_key_value_metadata(self._notes)
        return ParquetFile(writer, self._schema)


class ParquetFile:
    """One file; rows that are handed over together are a row group, or several if they are many."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema

    def write(self, rows: pa.Table) -> None:
        size = rows.nbytes // rows.num_rows + 1
        stored = rows if rows.schema.equals(self._schema) else rows.cast(self._schema)
        self._writer.write_table(stored, min(GROUP_ROWS, max(1, GROUP_BYTES // size)))

    def close(self) -> None:
        self._writer.close()


def _notes(writing: FileWriting) -> dict[str, str]:
    schema = {"type": "struct", "fields": writing.stored_fields}
    return {
        "org.apache.spark.version": writing.spark_version,
        "org.apache.spark.sql.parquet.row.metadata": json.dumps(
            schema, separators=(",", ":"), ensure_ascii=False
        ),
    }


def _stored(schema: pa.Schema) -> pa.Schema:
    return pa.schema(field.with_type(_stored_type(field.type)) for field in schema)


def _stored_type(type: pa.DataType) -> pa.DataType:
    """Durations are numbers in the file; that they are durations is in Spark's notes."""
    if pa.types.is_duration(type):
        return pa.int64()
    if pa.types.is_struct(type):
        return pa.struct(f.with_type(_stored_type(f.type)) for f in type)
    if pa.types.is_map(type):
        key, item = (f.with_type(_stored_type(f.type)) for f in (type.key_field, type.item_field))
        return pa.map_(key, item)
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(_stored_type(type.value_type)))
    return type


def _repeated(rows: pa.Table) -> Iterator[str]:
    """The columns that are worth a dictionary. On values that do not repeat it costs half of the
    time, and room."""
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_nested(field.type):
            yield from _leaves(field.name, field.type)
        elif pa.types.is_boolean(field.type):
            continue
        else:
            sample = column.slice(0, SAMPLE_ROWS)
            if pc.count_distinct(sample).as_py() * DISTINCT_SHARE <= len(sample):
                yield field.name


def _leaves(path: str, type: pa.DataType) -> Iterator[str]:
    """The columns that a nested one is stored as, by their names in Parquet."""
    inner: Any
    if pa.types.is_struct(type):
        inner = [(f"{path}.{f.name}", f.type) for f in type]
    elif pa.types.is_map(type):
        inner = [
            (f"{path}.key_value.{n}", t)
            for n, t in (("key", type.key_type), ("value", type.item_type))
        ]
    elif pa.types.is_list(type):
        inner = [(f"{path}.list.element", type.value_type)]
    else:
        yield path
        return
    for name, kind in inner:
        yield from _leaves(name, kind)
