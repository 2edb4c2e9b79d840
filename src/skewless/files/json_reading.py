"""JSON, an object a line, by Arrow's parser with the declared types.

Arrow stops at whatever is not of the declared type, where Spark goes on with a null, or with the
text of a number. Then the block is read as `from_json` reads it (`json_values.py`). Lines that
cannot be objects are rows of nulls, as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from skewless.arrays.types import frozen
from skewless.errors import ArgumentError, ColumnError
from skewless.expressions.zones import Zone
from skewless.files import json_lines, tokens
from skewless.files.converting import HINT, Convert, Rules, UnfaithfulError, assembled, same
from skewless.files.json_values import JsonColumns
from skewless.files.lines import blocks
from skewless.files.options import Options
from skewless.files.splits import Split
from skewless.files.texts import CORRUPT, MODES, TYPES, Values, Words, check_encoding

_WHOLE_ZERO = re.compile(rb"-0[\s,}\]]")
NOTHING = pa.field("\0", pa.bool_())  # a column that no object has


def check(options: Options, schema: pa.Schema) -> None:
    """Refuse what is not read here as Spark reads it."""
    mode = options.get("mode", MODES[0])
    if mode.upper() not in MODES:
        raise ArgumentError("mode", mode, f"one of: {', '.join(MODES)}")
    if options.flag("multiLine"):
        raise ArgumentError("multiLine", "true", "'false'")
    check_encoding(options)
    for field in schema:
        if field.name.lower() == CORRUPT:
            raise ColumnError("column", field.name, "one of the file")
        if not _is_known(field.type):
            accepted = "of a number, string, boolean, date or timestamp type, or lists or structs"
            raise ColumnError(field.name, str(field.type), accepted)


def _is_known(type: pa.DataType) -> bool:
    if pa.types.is_list(type):
        return _is_known(type.value_type)
    if pa.types.is_struct(type):
        return all(_is_known(field.type) for field in type)
    return type in TYPES or pa.types.is_decimal128(type)


def read(
    split: Split,
    source: pa.NativeFile,
    fields: Sequence[pa.Field],
    declared: Sequence[pa.Field],
    options: Options,
    zone: Zone | None,
) -> Iterator[pa.RecordBatch]:
    """The lines of a split. Lines that are malformed in any declared column are dropped or refused,
    if that is asked for."""
    mode = options.get("mode", MODES[0]).upper()
    looked_at = list(fields if mode == MODES[0] else declared) or [NOTHING]
    words = Words(zone=zone)
    for block in blocks(split, source):
        try:
            lines = Lines.of(block)
            try:
                rows, arrays, malformed = _parsed(lines, looked_at, words, mode)
            except (UnfaithfulError, pa.ArrowInvalid):
                if zone is None or lines.states_are(json_lines.ROWS):
                    raise
                rows, arrays, malformed = _exactly(lines, looked_at, zone)
        except (UnfaithfulError, pa.ArrowInvalid) as error:
            said = str(error).removesuffix(HINT).rstrip(". ")
            raise UnfaithfulError(f"{split.path}: {said}. {HINT}") from error
        made = assembled(rows, fields, [arrays[field.name] for field in fields])
        if mode == MODES[0] or not malformed.any():
            yield made
        elif mode == "FAILFAST":
            count = int(malformed.sum())
            raise UnfaithfulError(f"{split.path}: malformed lines: {count}; the mode is FAILFAST")
        else:
            yield made.filter(pa.array(~malformed))


@dataclass(frozen=True)
class Lines:
    """The lines of a block that are not blank: where they stand, and what they seem to be."""

    block: pa.Buffer
    data: Any
    begins: Any
    ends: Any
    states: Any

    @staticmethod
    def of(block: pa.Buffer) -> Lines:
        _check_text(block)
        data = frozen(np.frombuffer(block, np.uint8))
        most = tokens.count_lines(data)
        begins, ends = np.zeros(most, np.int64), np.zeros(most, np.int64)
        states = np.zeros(most, np.uint8)
        rows = json_lines.lines(data, begins, ends, states)
        return Lines(block, data, begins[:rows], ends[:rows], states[:rows])

    def states_are(self, state: int) -> bool:
        return bool((self.states == state).any())

    def texts(self) -> pa.Array:
        kinds = np.full(len(self.begins), tokens.PLAIN, np.uint8)
        return Values(self.data, self.begins, self.ends, kinds).strings()


def _exactly(
    lines: Lines, fields: Sequence[pa.Field], zone: Zone
) -> tuple[int, dict[str, pa.Array], Any]:
    """The same as `_parsed`, whatever stands in the lines."""
    found, bad = JsonColumns(pa.schema(fields), zone=zone).read(lines.texts())
    return len(bad), dict(zip((f.name for f in fields), found, strict=True)), bad


def _parsed(
    lines: Lines, fields: Sequence[pa.Field], words: Words, mode: str
) -> tuple[int, dict[str, pa.Array], Any]:
    """How many rows there are, their columns by name, and which rows are malformed."""
    block, data, begins, ends = lines.block, lines.data, lines.begins, lines.ends
    states, rows = lines.states, len(lines.states)
    odd = (states == json_lines.ODD) | (states == json_lines.ROWS)
    if mode != MODES[0]:
        odd |= states == json_lines.NULL
    if odd.any():
        at = int(np.flatnonzero(odd)[0])
        text = bytes(data[begins[at] : ends[at]][:80]).decode(errors="replace")
        raise UnfaithfulError(f"{text!r} is no object that is alone on its line")
    malformed = states != json_lines.OBJECT
    if malformed.any():
        block = pa.py_buffer(json_lines.only_objects(data, begins, ends, states))
    objects = rows - int(malformed.sum())
    found = _objects(block, fields, objects)
    if any(map(_has_negative_zero, found.columns)) and _WHOLE_ZERO.search(memoryview(block)):
        raise UnfaithfulError("-0 is 0.0 in Spark, and here -0.0")
    if malformed.any():
        found = found.take(pa.array(np.cumsum(~malformed) - 1, mask=malformed))
    arrays = {}
    for field in fields:
        column = found.column(field.name)
        arrays[field.name], bad = _converted(column, field, words)
        if bad is not None:
            malformed = malformed | bad
    return rows, arrays, malformed


def _check_text(block: pa.Buffer) -> None:
    ends = pa.py_buffer(np.array([0, block.size], np.int64))
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, block])
    try:
        pc.cast(whole, pa.large_string())
    except pa.ArrowInvalid as error:
        raise UnfaithfulError("it is not UTF-8") from error


def _objects(block: pa.Buffer, fields: Sequence[pa.Field], objects: int) -> pa.RecordBatch:
    """As many rows as there are lines. Arrow takes no notice of lines: if one holds two objects, or
    two hold one, the numbers differ."""
    schema = pa.schema([pa.field(field.name, _stored(field.type)) for field in fields])
    if not objects:
        return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    table = pj.read_json(
        pa.BufferReader(block),
        pj.ReadOptions(use_threads=False, block_size=block.size + 1),
        pj.ParseOptions(
            explicit_schema=schema,
            newlines_in_values=False,
            unexpected_field_behavior="ignore",
        ),
    )
    if table.num_rows != objects:
        raise UnfaithfulError(f"{objects} lines hold {table.num_rows} objects")
    batch = table.combine_chunks().to_batches()[0]
    batch.validate(full=True)  # decimals may have more digits than they are declared with
    return batch


def _has_negative_zero(array: pa.Array) -> bool:
    if pa.types.is_floating(array.type):
        values = array.drop_null().to_numpy(zero_copy_only=False)
        return bool((np.signbit(values) & (values == 0)).any())
    if pa.types.is_list(array.type):
        return _has_negative_zero(array.flatten())
    if pa.types.is_struct(array.type):
        return any(map(_has_negative_zero, array.flatten()))
    return False


def _stored(type: pa.DataType) -> pa.DataType:
    """Dates and times are strings in JSON."""
    if pa.types.is_list(type):
        return pa.list_(_stored(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, _stored(field.type)) for field in type])
    return pa.string() if pa.types.is_date(type) or pa.types.is_timestamp(type) else type


def _converted(column: pa.Array, field: pa.Field, words: Words) -> tuple[pa.Array, Any]:
    if column.type == field.type and not pa.types.is_nested(field.type):
        return column, None
    if pa.types.is_nested(field.type):
        rules = Rules(_leaf(words), case_sensitive=True)
        return rules.converter(column.type, field.type, f"`{field.name}`")(column), None
    return _times(column, field.type, words)


def _leaf(words: Words) -> Any:
    def leaf(found: pa.DataType, declared: pa.DataType) -> Convert:
        if found == declared:
            return same

        def convert(array: pa.Array) -> pa.Array:
            made, bad = _times(array, declared, words)
            if bad is not None:
                raise UnfaithfulError(
                    f"there are strings in lists or structs that are no {declared}"
                )
            return made

        return convert

    return leaf


def _times(array: pa.Array, type: pa.DataType, words: Words) -> tuple[pa.Array, Any]:
    """Strings as dates or times, and which are none."""
    _, offsets, held = array.buffers()
    data = np.frombuffer(held, np.uint8) if held else np.zeros(0, np.uint8)
    places = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    kinds = pc.is_valid(array).to_numpy(zero_copy_only=False).astype(np.uint8) * tokens.PLAIN
    values = Values(frozen(data), places[:-1].copy(), places[1:].copy(), kinds)
    return values.of_type(type, words)
