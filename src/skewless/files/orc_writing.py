"""ORC as Spark writes it: the same types in the files, and its notes at those that ORC has not.

Days and times before 1582 are stored by the Julian calendar, as the Java library has them. Spark
writes times by the clocks of its machines; here only those of UTC are. Arrow writes parts of a
second before 1970 as something that Spark cannot read: such values are left to Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as po

from skewless.expressions.vectors import values_of
from skewless.files.converting import INSTANT, LOCAL, OLD_DAYS, UTC_NAMES
from skewless.files.parts import NotAsSparkError

if TYPE_CHECKING:
    from skewless.files.writing import FileWriting

CODEC = "spark.sql.orc.compression.codec"
LIBRARY = "spark.sql.orc.impl"
_NEVER = ("orc.encrypt", "orc.mask", "orc.key.provider")
_UNSET = (*_NEVER, *(f"spark.hadoop.{name}" for name in _NEVER))
SETTINGS = (CODEC, LIBRARY, *_UNSET)
OPTIONS = frozenset({"compression", "orc.compress"})
# By what Spark calls a codec: what Arrow calls it, how names of files end.
_CODECS = {
    "none": ("uncompressed", ".orc"),
    "uncompressed": ("uncompressed", ".orc"),
    "snappy": ("snappy", ".snappy.orc"),
    "zlib": ("zlib", ".zlib.orc"),
    "zstd": ("zstd", ".zstd.orc"),
    "lz4": ("lz4", ".lz4.orc"),
}
NOTE = "spark.sql.catalyst.type"
SECOND = 1_000_000
DAY = 86_400 * SECOND
DISTINCT_SHARE = 0.8  # above it Java does without a dictionary


def _codec(writing: FileWriting) -> str:
    given = writing.option("compression") or writing.option("orc.compress")
    return (given or writing.setting(CODEC, "zstd")).lower()


def unsupported(writing: FileWriting) -> str | None:
    if _codec(writing) not in _CODECS:
        return f"the compression {_codec(writing)!r}"
    if writing.setting(LIBRARY, "native").lower() != "native":
        return f"the setting {LIBRARY} {writing.setting(LIBRARY)!r}"
    for name in _UNSET:
        if writing.setting(name):
            return f"the setting {name}"
    if writing.jvm_time_zone not in UTC_NAMES and any(
        map(_has_moments, writing.stored_schema.types)
    ):
        return f"times of machines whose clocks go by {writing.jvm_time_zone or 'an unknown zone'}"
    return None


def _has_moments(type: pa.DataType) -> bool:
    inner = (type.field(i).type for i in range(type.num_fields))
    return bool(type == INSTANT) or any(map(_has_moments, inner))


def ending(writing: FileWriting) -> str:
    return _CODECS[_codec(writing)][1]


class Files:
    """Opens the files of one task."""

    def __init__(self, writing: FileWriting) -> None:
        self._codec, _ = _CODECS[_codec(writing)]
        kinds = [field["type"] for field in writing.stored_fields]
        self._schema = pa.schema(map(_stored, writing.stored_schema, kinds))

    def __call__(self, sink: pa.NativeFile, rows: pa.Table) -> OrcFile:
        writer = po.ORCWriter(
            sink, compression=self._codec, dictionary_key_size_threshold=DISTINCT_SHARE
        )
        return OrcFile(writer, self._schema)


class OrcFile:
    def __init__(self, writer: po.ORCWriter, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema

    def write(self, rows: pa.Table) -> None:
        whole = rows.combine_chunks()
        columns = [
            _values(column.combine_chunks(), field.type)
            for column, field in zip(whole.columns, self._schema, strict=True)
        ]
        self._writer.write(pa.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _stored(field: pa.Field, kind: Any) -> pa.Field:
    """How a column is in the file. What ORC has no type for is a number. A note says of what type
    it is where that is not clear to Spark: `kind`, as its JSON has it."""
    type = field.type
    if pa.types.is_struct(type):
        inner = map(_stored, type, (one["type"] for one in kind["fields"]))
        return field.with_type(pa.struct(inner))
    if pa.types.is_map(type):
        key = _stored(type.key_field, kind["keyType"])
        return field.with_type(pa.map_(key, _stored(type.item_field, kind["valueType"])))
    if pa.types.is_list(type):
        return field.with_type(pa.list_(_stored(type.value_field, kind["elementType"])))
    noted = field.with_metadata({NOTE: str(kind)})
    if pa.types.is_duration(type) or type == LOCAL:
        return noted.with_type(pa.int64())
    if type == INSTANT:
        return noted.with_type(LOCAL)
    return noted if pa.types.is_string(type) else field


def _values(array: pa.Array, type: pa.DataType) -> pa.Array:
    """The same values by the type that is stored."""
    if pa.types.is_date(array.type):
        return _changed(array, _julian_days, type)
    if array.type == INSTANT:
        _check_parts(array)
        return _changed(array, _julian_moments, type)
    if pa.types.is_nested(type):
        return _nested(array, type)
    return array if array.type.equals(type) else array.view(type)


def _nested(array: pa.Array, type: pa.DataType) -> pa.Array:
    if array.offset:
        array = array.take(pa.array(np.arange(len(array))))  # parts of arrays take no mask
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(type):
        fields = [array.field(i) for i in range(type.num_fields)]
        inner = [_values(one, field.type) for one, field in zip(fields, type, strict=True)]
        return pa.StructArray.from_arrays(inner, fields=list(type), mask=mask)
    if pa.types.is_map(type):
        keys, items = (
            _values(one, kind)
            for one, kind in ((array.keys, type.key_type), (array.items, type.item_type))
        )
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=type, mask=mask)
    values = _values(array.values, type.value_type)
    return pa.ListArray.from_arrays(array.offsets, values, type=type, mask=mask)


def _changed(array: pa.Array, change: Any, type: pa.DataType) -> pa.Array:
    made = change(values_of(array))
    width = np.int32 if pa.types.is_date(type) else np.int64
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(made.astype(width), mask=mask).view(type)


def _check_parts(array: pa.Array) -> None:
    us = values_of(array.drop_null())
    if ((us < 0) & (us % SECOND != 0)).any():
        raise NotAsSparkError("times before 1970 with parts of a second, which Arrow cannot write")


def _julian_days(days: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The days on which the old calendar has the same date. What it leaves out, from the 5th to the
    14th of October 1582, is its first day after."""
    is_old = days < OLD_DAYS
    if not is_old.any():
        return days
    old = days[is_old].astype(np.int64)
    dates = old.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    years = months.astype(np.int64) // 12 + 1970
    month = months.astype(np.int64) % 12 + 1
    day = (dates - months.astype("datetime64[D]")).astype(np.int64)
    made = days.astype(np.int64)
    made[is_old] = np.minimum(_julian_day(years, month) + day, OLD_DAYS)
    return made


def _julian_day(year: npt.NDArray[Any], month: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The first of a month by the Julian calendar, as days since 1970."""
    shifted = (month + 9) % 12  # from March on, so that a leap day is the last of its year
    counted = year - (month <= 2)
    first: npt.NDArray[Any] = 365 * counted + counted // 4 + (153 * shifted + 2) // 5 - 719_470
    return first


def _julian_moments(us: npt.NDArray[Any]) -> npt.NDArray[Any]:
    days = us // DAY
    moved: npt.NDArray[Any] = us + (_julian_days(days) - days) * DAY
    return moved
