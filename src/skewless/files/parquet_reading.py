"""Parquet: whole row groups, only the columns that are asked for, a few rows at a time.

Which types are read as which others is what Spark's own reader does, as far as it makes sense:
a date that Spark would read as a number, for instance, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skewless.files.converting import (
    HINT,
    INSTANT,
    LOCAL,
    OLD_DAYS,
    Convert,
    Rules,
    UnfaithfulError,
    assembled,
    cast_to,
    is_wider_decimal,
    same,
    text_of,
)
from skewless.files.options import Options
from skewless.files.pruning import Range, Wanted, is_whole, whole
from skewless.files.splits import Split

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_ROWS = 1 << 17
SIGNED = (pa.int8(), pa.int16(), pa.int32())
SMALL = (*SIGNED, pa.uint8(), pa.uint16())

VERSION = b"org.apache.spark.version"
LEGACY = {"datetime": b"org.apache.spark.legacyDateTime", "int96": b"org.apache.spark.legacyINT96"}
SINCE = {"datetime": (3, 0), "int96": (3, 1)}  # versions that write today's calendar
# Before it, clocks differ: local times before there were zones.
OLD_US = int(np.datetime64("1900-01-02", "us").astype(np.int64))


def read(
    split: Split,
    source: pa.NativeFile,
    fields: Sequence[pa.Field],
    wanted_of: Wanted,
    options: Options,
    *,
    case_sensitive: bool,
    far: bool,
) -> Iterator[pa.RecordBatch]:
    """The columns of a split that are in its file under these names; nulls for what is not. Row
    groups of which nothing is wanted are left out."""
    file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=far)
    groups = [g for g in range(file.metadata.num_row_groups) if _is_in(split, file, g)]
    if not groups:
        return
    rules = Rules(_leaf, case_sensitive)
    places = [rules.position(field.name, file.schema_arrow.names, split.path) for field in fields]
    if wanted_of.condition is not None:
        groups = [g for g in groups if wanted_of(_ranges(file, g, places, fields))]
    converts = {
        at: _converter(split.path, file, at, field, rules, options)
        for at, field in zip(places, fields, strict=True)
        if at is not None
    }
    wanted = sorted(converts)
    for batch in _batches(file, groups, wanted, far=far):
        found = {at: convert(batch.column(wanted.index(at))) for at, convert in converts.items()}
        yield assembled(len(batch), fields, [None if at is None else found[at] for at in places])


def _is_in(split: Split, file: pq.ParquetFile, group: int) -> bool:
    """Whether the middle of a row group lies in a split."""
    if split.is_whole:
        return True
    about = file.metadata.row_group(group)
    columns = [about.column(i) for i in range(about.num_columns)]
    begin = min(_begin(column) for column in columns)
    middle = begin + sum(column.total_compressed_size for column in columns) // 2
    last = split.end >= split.size
    return split.begin <= middle < split.end or (last and middle >= split.end)


def _ranges(
    file: pq.ParquetFile, group: int, places: Sequence[int | None], fields: Sequence[pa.Field]
) -> dict[int, Range]:
    """The least and greatest values of columns in a row group, where the file tells them and they
    are read as they are."""
    found: dict[int, Range] = {}
    for number, (at, field) in enumerate(zip(places, fields, strict=True)):
        if at is None or file.schema_arrow.field(at).type != field.type or not is_whole(field.type):
            continue
        [leaf] = _leaves(file.schema_arrow, [at])
        told = file.metadata.row_group(group).column(leaf).statistics
        if told is None or not told.has_min_max:
            continue
        ends = [whole(pa.scalar(end, field.type)) for end in (told.min, told.max)]
        if ends[0] is not None and ends[1] is not None:
            found[number] = ends[0], ends[1]
    return found


def _begin(column: pq.ColumnChunkMetaData) -> int:
    dictionary = column.dictionary_page_offset
    data = int(column.data_page_offset)
    return data if dictionary is None or dictionary <= 0 else min(int(dictionary), data)


def _batches(
    file: pq.ParquetFile, groups: Sequence[int], wanted: Sequence[int], *, far: bool
) -> Iterator[pa.RecordBatch]:
    """Row groups of a remote file are fetched one after the other: each is in memory as a whole."""
    if not wanted:
        for group in groups:
            rows = file.metadata.row_group(group).num_rows
            for begin in range(0, rows, BATCH_ROWS):
                yield pa.record_batch([pa.nulls(min(BATCH_ROWS, rows - begin))], names=[""])
        return
    leaves = _leaves(file.schema_arrow, wanted)
    for some in [[group] for group in groups] if far else [list(groups)]:
        yield from file.reader.iter_batches(
            BATCH_ROWS, row_groups=some, column_indices=leaves, use_threads=False
        )


def _leaves(schema: pa.Schema, wanted: Sequence[int]) -> list[int]:
    """The numbers of the stored columns that make some fields. Names would not do: they may have
    dots, and then mean several."""
    ends = np.cumsum([0, *(_width(field.type) for field in schema)])
    return [leaf for at in wanted for leaf in range(int(ends[at]), int(ends[at + 1]))]


def _width(type: pa.DataType) -> int:
    """How many stored columns a type has."""
    if isinstance(type, pa.BaseExtensionType):
        return _width(type.storage_type)
    if pa.types.is_dictionary(type):
        return _width(type.value_type)
    if type.num_fields:
        return sum(_width(type.field(i).type) for i in range(type.num_fields))
    return 1


def _converter(
    path: str, file: pq.ParquetFile, at: int, field: pa.Field, rules: Rules, options: Options
) -> Convert:
    where = f"{path}: column `{field.name}`"
    found = file.schema_arrow.field(at).type
    limits = _limits(file, _leaves(file.schema_arrow, [at]), options)
    if limits:
        rules = Rules(_refusing_old(where), rules.case_sensitive)
    return rules.converter(found, field.type, where)


def _limits(file: pq.ParquetFile, leaves: Sequence[int], options: Options) -> bool:
    """Whether old dates and times of a column are in a calendar of before."""
    kinds = {
        "int96" if file.schema.column(i).physical_type == "INT96" else "datetime" for i in leaves
    }
    return any(_is_legacy(file.metadata.metadata or {}, kind, options) for kind in kinds)


def _is_legacy(metadata: dict[bytes, bytes], kind: str, options: Options) -> bool:
    """As files say themselves, or if they do not, as the reader is told: it may be told to refuse
    old values, or to take them for what they seem."""
    version = metadata.get(VERSION)
    if version is None:
        return options.get(f"{kind}RebaseMode", "CORRECTED").upper() != "CORRECTED"
    numbers = tuple(int(n) for n in re.findall(rb"\d+", version)[:2])
    return numbers < SINCE[kind] or LEGACY[kind] in metadata


def _refusing_old(where: str) -> Callable[[pa.DataType, pa.DataType], Convert | None]:
    def leaf(found: pa.DataType, declared: pa.DataType) -> Convert | None:
        convert = _leaf(found, declared)
        if convert is None or not (pa.types.is_date(declared) or pa.types.is_timestamp(declared)):
            return convert
        return lambda array: _none_old(convert(array), where)

    return leaf


def _none_old(array: pa.Array, where: str) -> pa.Array:
    number, limit = (pa.int32(), OLD_DAYS) if pa.types.is_date(array.type) else (pa.int64(), OLD_US)
    least = pc.min(array.view(number)).as_py()
    if least is not None and least < limit:
        raise UnfaithfulError(
            f"{where} has values before {1582 if limit == OLD_DAYS else 1900} that were written "
            f"in another calendar. {HINT}"
        )
    return array


def _leaf(found: pa.DataType, declared: pa.DataType) -> Convert | None:  # noqa: PLR0911
    """How Spark reads a type as another, None if it does not, or not sensibly."""
    if found == declared:
        return same
    if found in SMALL:
        return _small(found, declared)
    if pa.types.is_timestamp(found):
        is_fit = found.unit in ("s", "ms", "us") and declared in (INSTANT, LOCAL)
        return (lambda array: _moment(array, declared)) if is_fit else None
    if pa.types.is_decimal128(found) and pa.types.is_decimal128(declared):
        return cast_to(declared) if is_wider_decimal(found, declared) else None
    if found == pa.int64() and pa.types.is_decimal128(declared):
        return cast_to(declared) if declared.precision - declared.scale >= 20 else None
    if pa.types.is_null(found):
        return cast_to(declared) if declared in (*SIGNED, pa.int64(), pa.float64()) else None
    return _BY_PAIR.get((found, declared)) or (
        cast_to(declared)
        if pa.types.is_fixed_size_binary(found) and declared == pa.binary()
        else None
    )


def _small(found: pa.DataType, declared: pa.DataType) -> Convert | None:
    """Numbers that are stored in 32 bits. What is too large for a smaller type wraps around."""
    if declared in (*SIGNED, pa.int64(), pa.float64()):
        return cast_to(declared, safe=False)
    if found in SIGNED and pa.types.is_decimal128(declared):
        return cast_to(declared) if declared.precision - declared.scale >= 10 else None
    return None


def _moment(array: pa.Array, declared: pa.DataType) -> pa.Array:
    """Spark takes times with and without a zone for each other, as they are stored."""
    return pc.cast(array, pa.timestamp("us", array.type.tz)).view(pa.int64()).view(declared)


_BY_PAIR: dict[tuple[pa.DataType, pa.DataType], Convert] = {
    (pa.uint32(), pa.int64()): cast_to(pa.int64()),
    (pa.uint64(), pa.decimal128(20, 0)): cast_to(pa.decimal128(20, 0)),
    (pa.float32(), pa.float64()): cast_to(pa.float64()),
    (pa.string(), pa.binary()): lambda array: array.view(pa.binary()),
    (pa.binary(), pa.string()): text_of,
    (pa.date32(), LOCAL): cast_to(LOCAL),
}
