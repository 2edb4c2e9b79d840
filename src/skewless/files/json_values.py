"""Many JSON texts as columns, as Spark's `from_json` has them.

Texts are cut into values by loops over bytes (`json_scan.py`), and the values of a field are made a
column at once. Texts that are not plain are read one by one (`json_exact.py`), so that nothing in a
stream stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.arrays.types import Flags, frozen
from skewless.expressions.zones import UTC, Zone
from skewless.files import json_scan as scan
from skewless.files import spark_times, tokens
from skewless.files.json_exact import NO_NUMBERS, RANGES, exact_row
from skewless.files.texts import INTEGERS, TYPES, Words, decimals, floats, moments

SECOND_US = 1_000_000
Where = tuple[Any, Any, Any, Any]  # bytes; begins, ends and marks of values
DATA_MAX = (1 << 31) - 1


def is_known(type: pa.DataType) -> bool:
    """Whether values of a type are read here."""
    if pa.types.is_list(type):
        return is_known(type.value_type)
    if pa.types.is_map(type):
        return pa.types.is_string(type.key_type) and is_known(type.item_type)
    if pa.types.is_struct(type):
        return all(is_known(field.type) for field in type)
    return type in TYPES or pa.types.is_decimal128(type)


@dataclass(frozen=True)
class JsonColumns:
    """What a column of JSON texts becomes. The text of a bad one goes to the field `corrupt`, if
    there is such. Times that name no zone are of `zone`."""

    schema: pa.Schema
    corrupt: str | None = None
    zone: Zone = UTC

    def read(
        self, texts: pa.Array, wanted: Sequence[int] | None = None
    ) -> tuple[list[pa.Array], Flags]:
        """Some fields of each text, all if it is not said which; and which texts are bad: no
        objects, or with a value in any field that does not fit."""
        numbers = range(len(self.schema)) if wanted is None else wanted
        if texts.nbytes > DATA_MAX and len(texts) > 1:
            return self._in_halves(texts, numbers)
        raw = _bytes(texts)
        cells = Cells.of(raw)
        odd = np.zeros(len(raw), np.bool_)
        reading = Reading(cells.data, odd, self.zone)
        odd[_not_utf8(raw)] = True
        needed = {self.schema.field(i).name for i in numbers}
        columns, bad, states = reading.root(cells, self._fields, needed)
        bad |= states == scan.BAD
        odd |= states == scan.ODD
        if odd.any():
            columns, bad = self._exact(raw, odd, columns, bad)
        found = dict(zip((field.name for field in self._fields), columns, strict=True))
        if self.corrupt in needed:
            found[str(self.corrupt)] = _only(raw.view(pa.string()), bad)
        return [found[self.schema.field(i).name] for i in numbers], bad

    @cached_property
    def _fields(self) -> pa.StructType:
        return pa.struct([field for field in self.schema if field.name != self.corrupt])

    def _in_halves(self, texts: pa.Array, numbers: Sequence[int]) -> tuple[list[pa.Array], Flags]:
        half = len(texts) // 2
        parts = [self.read(part, numbers) for part in (texts[:half], texts[half:])]
        columns = [pa.concat_arrays(both) for both in zip(*(p[0] for p in parts), strict=True)]
        return columns, np.concatenate([p[1] for p in parts])

    def _exact(
        self, raw: pa.Array, odd: Flags, columns: Sequence[pa.Array], bad: Flags
    ) -> tuple[list[pa.Array], Flags]:
        """The same with those rows that only the slow way reads."""
        at = np.flatnonzero(odd)
        rows = [exact_row(data, self._fields, self.zone) for data in raw.take(at).to_pylist()]
        bad = bad & ~odd
        bad[at] = [row.is_bad for row in rows]
        taken = np.arange(len(raw))
        taken[at] = len(raw) + np.arange(len(at))
        made = []
        for field, column in zip(self._fields, columns, strict=True):
            values = [None if row.values is None else row.values.get(field.name) for row in rows]
            both = pa.concat_arrays([column, pa.array(values, field.type)])
            made.append(both.take(pa.array(taken)))
        return made, bad


def _bytes(texts: pa.Array) -> pa.Array:
    """Strings or bytes of any kind as bytes, from the beginning of their buffer."""
    if pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type):
        texts = texts.cast(pa.binary())
    return texts.view(pa.binary())


def _not_utf8(raw: pa.Array) -> Any:
    """Which values are no UTF-8."""
    try:
        pc.cast(raw, pa.string())
        return []
    except pa.ArrowInvalid:
        pairs = enumerate(raw.to_pylist())
        return [i for i, data in pairs if data is not None and not _is_utf8(data)]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _only(array: pa.Array, kept: Flags) -> pa.Array:
    return pc.if_else(pa.array(kept), array, pa.scalar(None, array.type))


@dataclass(frozen=True)
class Cells:
    """Values where they stand, and the text that each belongs to, by number."""

    data: Any
    begins: Any
    ends: Any
    kinds: Any
    rows: Any

    @staticmethod
    def of(raw: pa.Array) -> Cells:
        """Whole texts; those that are there are said to be objects."""
        _, offsets, held = raw.buffers()
        data = frozen(np.frombuffer(held, np.uint8) if held else np.zeros(0, np.uint8))
        places = np.frombuffer(offsets, np.int32, len(raw) + 1, raw.offset * 4)
        valid = pc.is_valid(raw).to_numpy(zero_copy_only=False)
        kinds = valid.astype(np.uint8) * np.uint8(scan.OBJECT)
        return Cells(data, places[:-1].copy(), places[1:].copy(), kinds, np.arange(len(raw)))

    def __len__(self) -> int:
        return len(self.begins)

    def are(self, *kinds: int) -> Flags:
        found: Flags = self.kinds == kinds[0]
        for kind in kinds[1:]:
            found = found | (self.kinds == kind)
        return found

    @property
    def present(self) -> Flags:
        found: Flags = self.kinds > scan.NULL
        return found

    def marked(self, chosen: Flags) -> Any:
        """Which of them `tokens.py` is to read."""
        return chosen.astype(np.uint8) * np.uint8(tokens.PLAIN)

    def texts(self, chosen: Flags) -> pa.Array:
        """Some as strings, the others null."""
        kinds = np.where(chosen, self.kinds, np.uint8(scan.NONE))
        offsets, held = scan.gather(self.data, self.begins, self.ends, kinds)
        valid = None if chosen.all() else pa.array(chosen).buffers()[1]
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(held)]
        return pa.Array.from_buffers(pa.string(), len(self), buffers)


@dataclass(frozen=True)
class Made:
    """The values of some cells. Some do not fit their type (`unfit`) and are null; of others a part
    does not (`partial`)."""

    array: pa.Array
    unfit: Flags
    partial: Flags | None = None

    @property
    def bad(self) -> Flags:
        return self.unfit if self.partial is None else self.unfit | self.partial


@dataclass(frozen=True)
class Reading:
    """One go through many texts. Those of which a value turns out not to be plain are noted as
    `odd`, and what is made of them does not count."""

    data: Any
    odd: Flags
    zone: Zone

    def root(
        self, cells: Cells, fields: pa.StructType, needed: set[str]
    ) -> tuple[list[pa.Array], Flags, Any]:
        """The fields of whole texts, which of these are bad, and what came of cutting them. Strings
        that nobody needs are left out: they always fit."""
        found, states = self._cut(cells, cells.are(scan.OBJECT), fields)
        bad = np.zeros(len(cells), np.bool_)
        columns = []
        for field, inner in zip(fields, found, strict=True):
            if field.name not in needed and pa.types.is_string(field.type):
                self._note_odd_texts(inner)
                columns.append(pa.nulls(len(cells), field.type))
                continue
            made = self.made(inner, field.type)
            bad |= made.bad
            columns.append(made.array)
        return columns, bad, states

    def _cut(self, cells: Cells, chosen: Flags, fields: pa.StructType) -> tuple[list[Cells], Any]:
        names = [field.name.encode() for field in fields]
        starts = np.cumsum([0, *map(len, names)]).astype(np.int32)
        shape = (len(names), len(cells))
        begins, ends = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        kinds = np.zeros(shape, np.uint8)
        joined = frozen(np.frombuffer(b"".join(names) or b"\0", np.uint8))
        states = scan.objects(
            self.data, cells.begins, cells.ends, chosen, joined, starts, begins, ends, kinds
        )
        some = zip(begins, ends, kinds, strict=True)
        return [Cells(self.data, b, e, k, cells.rows) for b, e, k in some], states

    def made(self, cells: Cells, type: pa.DataType) -> Made:
        """Cells as values of a type."""
        if pa.types.is_struct(type):
            return self._structs(cells, type)
        if pa.types.is_list(type):
            return self._lists(cells, type)
        if pa.types.is_map(type):
            return self._maps(cells, type)
        if pa.types.is_string(type):
            self._note_odd_texts(cells)
            return Made(cells.texts(cells.present), np.zeros(len(cells), np.bool_))
        array = self._leaf(type)(cells, type)
        fits = pc.is_valid(array).to_numpy(zero_copy_only=False)
        return Made(array, cells.present & ~fits)

    def _leaf(self, type: pa.DataType) -> Callable[[Cells, pa.DataType], pa.Array]:
        if type in INTEGERS:
            return _integers
        if pa.types.is_boolean(type):
            return _booleans
        if pa.types.is_floating(type):
            return self._floats
        if pa.types.is_decimal(type):
            return self._decimals
        return self._times

    # Nested -------------------------------------------------------------------------------------

    def _structs(self, cells: Cells, type: pa.StructType) -> Made:
        chosen = cells.are(scan.OBJECT)
        found, states = self._cut(cells, chosen, type)
        self._note_odd(cells, states == scan.ODD)
        inner = [self.made(some, field.type) for some, field in zip(found, type, strict=True)]
        partial = np.zeros(len(cells), np.bool_)
        for one in inner:
            partial |= one.bad
        mask = None if chosen.all() else pa.array(~chosen)
        arrays = [one.array for one in inner]
        made = pa.StructArray.from_arrays(arrays, fields=list(type), mask=mask)
        return Made(made, cells.present & ~chosen, partial)

    def _lists(self, cells: Cells, type: pa.ListType) -> Made:
        chosen = cells.are(scan.ARRAY)
        sums, inner, _ = self._elements(cells, chosen)
        made = self.made(inner, type.value_type)
        return self._spread(cells, type, made, made.array, chosen, sums)

    def _maps(self, cells: Cells, type: pa.MapType) -> Made:
        chosen = cells.are(scan.OBJECT)
        sums, inner, names = self._elements(cells, chosen)
        made = self.made(inner, type.item_type)
        pairs = [names.texts(names.present), made.array]
        fields = [type.key_field, type.item_field]
        entries = pa.StructArray.from_arrays(pairs, fields=fields)
        return self._spread(cells, type, made, entries, chosen, sums)

    def _elements(self, cells: Cells, chosen: Flags) -> tuple[Any, Cells, Cells]:
        """What is in arrays or objects, as sums up to each of these; and its names."""
        sums = scan.counts(self.data, cells.begins, cells.ends, chosen)
        count = int(sums[-1])
        names, name_ends, begins, ends = (np.zeros(count, np.int32) for _ in range(4))
        name_kinds, kinds = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
        scan.elements(
            self.data, cells.begins, cells.ends, chosen,
            names, name_ends, name_kinds, begins, ends, kinds,
        )  # fmt: skip
        rows = np.repeat(cells.rows, np.diff(sums))
        inner = Cells(self.data, begins, ends, kinds, rows)
        return sums, inner, Cells(self.data, names, name_ends, name_kinds, rows)

    def _spread(
        self,
        cells: Cells,
        type: pa.DataType,
        made: Made,
        content: pa.Array,
        chosen: Flags,
        sums: Any,
    ) -> Made:
        """Lists or maps of what was made. One element that does not fit spoils the whole."""
        spoilt = _any_of(made.unfit, sums)
        partial = None if made.partial is None else _any_of(made.partial, sums) & ~spoilt
        kept = chosen & ~spoilt
        valid = None if kept.all() else pa.array(kept).buffers()[1]
        buffers = [valid, pa.py_buffer(sums)]
        array = pa.Array.from_buffers(type, len(cells), buffers, children=[content])
        return Made(array, cells.present & ~kept, partial)

    # Strings, numbers, times --------------------------------------------------------------------

    def _note_odd(self, cells: Cells, odd: Flags) -> None:
        if odd.any():
            self.odd[cells.rows[odd]] = True

    def _note_odd_texts(self, cells: Cells) -> None:
        self._note_odd(cells, scan.are_odd_texts(self.data, cells.begins, cells.ends, cells.kinds))

    def _floats(self, cells: Cells, type: pa.DataType) -> pa.Array:
        numbers = cells.are(scan.INT, scan.FLOAT)
        made = floats(cells.texts(numbers), type, Words())
        made = pc.if_else(  # there is no -0 among whole numbers
            pa.array(cells.are(scan.INT)), pc.add(made, pa.scalar(0, type)), made
        )
        named = cells.are(scan.STRING, scan.ESCAPED, scan.NO_NUMBER)
        if not named.any():
            return made
        words = pa.array(list(NO_NUMBERS), pa.string())
        values = pa.array([*NO_NUMBERS.values()], type)
        said = values.take(pc.index_in(cells.texts(named), words))
        return pc.if_else(pa.array(named), said, made)

    def _decimals(self, cells: Cells, type: pa.DataType) -> pa.Array:
        texts = cells.texts(cells.are(scan.INT, scan.FLOAT, scan.STRING, scan.ESCAPED))
        other = pc.invert(pc.string_is_ascii(texts)).fill_null(False)
        if pc.any(other).as_py():
            self._note_odd(cells, other.to_numpy(zero_copy_only=False))
            texts = pc.if_else(other, pa.scalar(None, pa.string()), texts)
        return decimals(texts, type)

    def _times(self, cells: Cells, type: pa.DataType) -> pa.Array:
        self._note_odd(cells, cells.are(scan.ESCAPED))
        strings = cells.are(scan.STRING)
        places: Where = (self.data, cells.begins, cells.ends, cells.marked(strings))
        made: Any
        if pa.types.is_date32(type):
            made, states = tokens.dates(*places)
            read: Callable[[str], int | None] = spark_times.date_days
        elif type.tz is None:
            made, states = tokens.times(*places, False, True)
            read = spark_times.local_us
        else:
            made, states = moments(places, self.zone)
            read = self._moment
        found = states == tokens.FOUND
        odd = np.flatnonzero(states == tokens.ODD)
        if odd.size:
            chosen = np.zeros(len(cells), np.bool_)
            chosen[odd] = True
            unique = cells.texts(chosen).take(pa.array(odd)).dictionary_encode()
            values = [read(text) for text in unique.dictionary.to_pylist()]
            known = np.array([value is not None for value in values], np.bool_)
            plain = np.array([value or 0 for value in values], np.int64)
            at = unique.indices.to_numpy()
            made[odd], found[odd] = plain[at], known[at]
        if pa.types.is_timestamp(type) and type.tz is not None:
            whole = cells.are(scan.INT)
            seconds, fits = _in_range(cells, pa.int64())
            made = np.where(whole, seconds * np.int64(SECOND_US), made)
            found |= whole & fits
        return pa.array(made, mask=None if found.all() else ~found).view(type)

    def _moment(self, text: str) -> int | None:
        return spark_times.timestamp_us(text, self.zone)


def _any_of(flags: Flags, sums: Any) -> Flags:
    """Whether any is set, of those between each two sums."""
    before = np.concatenate([[0], np.cumsum(flags)])
    found: Flags = before[sums[1:]] > before[sums[:-1]]
    return found


def _in_range(cells: Cells, type: pa.DataType) -> tuple[Any, Flags]:
    places: Where = (cells.data, cells.begins, cells.ends, cells.marked(cells.are(scan.INT)))
    made, states = tokens.integers(*places, *RANGES[pa.int64()])
    low, high = RANGES[type]
    return made, (states == tokens.FOUND) & (made >= low) & (made <= high)


def _integers(cells: Cells, type: pa.DataType) -> pa.Array:
    made, found = _in_range(cells, type)
    made = made.astype(type.to_pandas_dtype())  # bytes beyond 127 wrap, as they do in Java
    return pa.array(made, mask=None if found.all() else ~found)


def _booleans(cells: Cells, type: pa.DataType) -> pa.Array:
    known = cells.are(scan.TRUE, scan.FALSE)
    return pa.array(cells.are(scan.TRUE), mask=None if known.all() else ~known)
