"""Columns as the texts that Spark's JSON and CSV writers make of them, and what texts are packed
with."""

from __future__ import annotations

import bz2
import gzip
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.expressions.casting import boolean_to_string, date_to_string, timestamp_to_string
from skewless.expressions.vectors import values_of
from skewless.expressions.zones import UTC, Zone
from skewless.files.doubles import double_texts
from skewless.files.partitioning import has_plain_text

if TYPE_CHECKING:
    from skewless.files.writing import FileWriting

POLICY = "spark.sql.legacy.timeParserPolicy"
_PACKED = "mapreduce.output.fileoutputformat.compress"
_UNSET = (_PACKED, f"spark.hadoop.{_PACKED}")
SETTINGS = (POLICY, *_UNSET)
# Those between which every year has four digits.
_FIRST, _LAST = (int(np.datetime64(t, "us").astype(int)) for t in ("0001-01-01", "9999-12-31"))
# By what Spark calls a codec: how names of files end.
CODECS = {"none": "", "uncompressed": "", "gzip": ".gz", "bzip2": ".bz2"}


def packed(sink: pa.NativeFile, codec: str) -> Any:
    """A sink whose content is compressed, at the level that Java has."""
    if codec == "gzip":
        return gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=6, mtime=0)
    return bz2.BZ2File(sink, "wb") if codec == "bzip2" else sink


def codec_of(writing: FileWriting) -> str:
    return (writing.option("compression") or writing.option("codec") or "none").lower()


def text_of(lines: pa.StringArray) -> memoryview:
    """All of them, one behind the other."""
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]


def unsupported_texts(writing: FileWriting) -> str | None:
    """Why files of text are left to Spark, whatever their format."""
    if codec_of(writing) not in CODECS:
        return f"the compression {codec_of(writing)!r}"
    if writing.setting(POLICY, "CORRECTED").upper() == "LEGACY":
        return f"the setting {POLICY} {writing.setting(POLICY)!r}"
    for name in _UNSET:
        if writing.setting(name, "false").lower() != "false":
            return f"the setting {name}"
    zone = writing.known_zone
    found = (unsupported_text(f["name"], f["type"], zone) for f in writing.stored_fields)
    return next(filter(None, found), None)


def unsupported_text(name: str, type: object, zone: Zone | None) -> str | None:
    """Why a column of one of Spark's types is not written as text. A float's text is what others
    read as a double, and Java's differs between its versions."""
    if type == "double" or has_plain_text(type, zone):
        return None
    shown = type["type"] if isinstance(type, dict) else type
    return f"the column {name!r} of type {shown} as text"


def texts(values: pa.Array, zone: Zone) -> pa.Array:
    """The text of each value, null where there is none."""
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_boolean(kind):
        return boolean_to_string(values)
    if pa.types.is_floating(kind):
        return double_texts(values)
    if pa.types.is_timestamp(kind):
        return _moments(values, zone) if kind.tz else _clocks(values)
    if pa.types.is_date(kind) and not _is_usual(values.cast(pa.timestamp("s")).cast(_MICROS)):
        return date_to_string(values)
    return pc.cast(values, pa.string())


_MICROS = pa.timestamp("us")


def _is_usual(values: pa.Array) -> bool:
    ends = pc.min_max(values.cast(pa.int64()))
    least, most = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (least >= _FIRST and most < _LAST)


def _clocks(values: pa.Array) -> pa.Array:
    """``2024-03-31T01:30:00.123``, what is below a millisecond cut off, as Spark's default is."""
    local = values_of(values)
    if not _is_usual(values):
        return _unusual(values)
    millis = pa.array(local // 1000).cast(pa.timestamp("ms"))
    letters = np.frombuffer(pc.cast(millis, pa.string()).buffers()[2], np.uint8).copy()
    letters = letters[: len(values) * 23].reshape(-1, 23)
    letters[:, 10] = ord("T")
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 23
    made = pa.StringArray.from_buffers(
        len(values), pa.py_buffer(offsets), pa.py_buffer(letters.tobytes())
    )
    return made if not values.null_count else pc.if_else(values.is_valid(), made, _NO_TEXT)


_NO_TEXT = pa.scalar(None, pa.string())


def _unusual(values: pa.Array) -> pa.Array:
    """Rare: years of more or fewer than four digits."""
    text = timestamp_to_string(values, UTC)
    text = pc.replace_substring(text, " ", "T")
    text = pc.replace_substring_regex(text, r"(:\d\d)$", r"\1.000")
    text = pc.replace_substring_regex(text, r"\.(\d+)$", r".\1" + "00")
    return pc.replace_substring_regex(text, r"(\.\d{3})\d*$", r"\1")


def _moments(values: pa.Array, zone: Zone) -> pa.Array:
    """The same in a zone, with its distance to UTC."""
    us = values_of(values)
    local = zone.local(us)
    mask = None if not values.null_count else values.is_null().to_numpy(zero_copy_only=False)
    clocks = _clocks(pa.array(local, _MICROS, mask=mask))
    found, at = np.unique(local - us, return_inverse=True)
    ends = pa.array([_distance(int(one)) for one in found])
    end = ends[0] if len(ends) == 1 else ends.take(pa.array(at.reshape(-1)))
    return pc.binary_join_element_wise(clocks, end, "")


def _distance(us: int) -> str:
    if us == 0:
        return "Z"
    minutes, seconds = divmod(abs(us) // 1_000_000, 60)
    shown = f"{'-' if us < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{shown}:{seconds:02d}" if seconds else shown  # before clocks went by zones
