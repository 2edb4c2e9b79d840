"""From the types that a file has to the declared ones, or an error that names both.

What a format allows is a function of two types without children (`Leaf`); lists, structs and maps
are followed here. Nothing is copied where types are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.errors import DataError

INSTANT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Zulu", "Etc/UCT", "UCT"})
# The first day of today's calendar: before it, other libraries count otherwise.
OLD_DAYS = int(np.datetime64("1582-10-15").astype("datetime64[D]").astype(np.int64))
HINT = "`spark.readStream` reads such files."

Convert = Callable[[pa.Array], pa.Array]
Leaf = Callable[[pa.DataType, pa.DataType], Convert | None]


class UnfaithfulError(DataError):
    """Something that Spark may read and that cannot be read here as Spark does: never skipped."""


@dataclass(frozen=True)
class Rules:
    """What a format allows, and how names are compared."""

    leaf: Leaf
    case_sensitive: bool = False

    def position(self, name: str, among: Sequence[str], where: str) -> int | None:
        """Where a name occurs, None if it does not."""
        if self.case_sensitive:
            found = [i for i, other in enumerate(among) if other == name]
        else:
            found = [i for i, other in enumerate(among) if other.lower() == name.lower()]
        if len(found) > 1:
            names = ", ".join(f"`{among[i]}`" for i in found)
            raise UnfaithfulError(f"{where}: `{name}` is ambiguous, there are {names}")
        return found[0] if found else None

    def converter(self, found: pa.DataType, declared: pa.DataType, where: str) -> Convert:
        """How to make arrays of one type those of another. `where` names file and column."""
        plain = plain_type(found)
        inner = self._inner(plain, declared, where)
        if inner is None:
            raise UnfaithfulError(f"{where} is {found} in the file and declared as {declared}")
        if plain == found and not isinstance(found, pa.BaseExtensionType):
            return inner
        return lambda array: inner(_plain(array, plain))

    def _inner(self, found: pa.DataType, declared: pa.DataType, where: str) -> Convert | None:
        if pa.types.is_struct(found) and pa.types.is_struct(declared):
            return self._struct(found, declared, where)
        if pa.types.is_map(found) and pa.types.is_map(declared):
            return self._map(found, declared, where)
        if pa.types.is_list(found) and pa.types.is_list(declared):
            return self._list(found, declared, where)
        if pa.types.is_nested(found) or pa.types.is_nested(declared):
            return None
        return self.leaf(found, declared)

    def _struct(self, found: pa.StructType, declared: pa.StructType, where: str) -> Convert:
        names = [field.name for field in found]
        made: list[tuple[int, Convert] | None] = []
        for field in declared:
            at = self.position(field.name, names, where)
            inside = f"{where}.{field.name}"
            made.append(
                None if at is None else (at, self.converter(found[at].type, field.type, inside))
            )

        def convert(array: pa.StructArray) -> pa.StructArray:
            children = [
                pa.nulls(len(array), field.type) if one is None else one[1](array.field(one[0]))
                for field, one in zip(declared, made, strict=True)
            ]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(children, fields=list(declared), mask=mask)

        return convert

    def _list(self, found: pa.ListType, declared: pa.ListType, where: str) -> Convert:
        inner = self.converter(found.value_type, declared.value_type, f"{where}.element")
        return lambda array: _rebuilt(array, declared, inner(array.values))

    def _map(self, found: pa.MapType, declared: pa.MapType, where: str) -> Convert:
        key = self.converter(found.key_type, declared.key_type, f"{where}.key")
        item = self.converter(found.item_type, declared.item_type, f"{where}.value")
        fields = [declared.key_field, declared.item_field]

        def convert(array: pa.MapArray) -> pa.MapArray:
            children = [key(array.keys), item(array.items)]
            return _rebuilt(array, declared, pa.StructArray.from_arrays(children, fields=fields))

        return convert


def _rebuilt(array: pa.Array, type: pa.DataType, child: pa.Array) -> pa.Array:
    """A list or map with the same offsets and other content."""
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(
        type, len(array), buffers, array.null_count, array.offset, children=[child]
    )


def assembled(
    rows: int, fields: Sequence[pa.Field], arrays: Sequence[pa.Array | None]
) -> pa.RecordBatch:
    """A batch of so many rows, with nulls for what there is not."""
    if not fields:  # it has rows all the same
        return pa.record_batch([pa.nulls(rows)], names=[""]).select([])
    held = [
        pa.nulls(rows, field.type) if array is None else array
        for field, array in zip(fields, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(held, schema=pa.schema(fields))


def plain_type(type: pa.DataType) -> pa.DataType:  # noqa: PLR0911
    """A type without the ways in which Arrow can store the same values otherwise."""
    if isinstance(type, pa.BaseExtensionType):
        return plain_type(type.storage_type)
    if pa.types.is_dictionary(type):
        return plain_type(type.value_type)
    if pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_large_binary(type) or pa.types.is_binary_view(type):
        return pa.binary()
    if pa.types.is_decimal32(type) or pa.types.is_decimal64(type):
        return pa.decimal128(type.precision, type.scale)
    if pa.types.is_map(type):
        return pa.map_(plain_type(type.key_type), plain_type(type.item_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in type])
    if (
        pa.types.is_list(type)
        or pa.types.is_large_list(type)
        or pa.types.is_fixed_size_list(type)
        or pa.types.is_list_view(type)
        or pa.types.is_large_list_view(type)
    ):
        return pa.list_(plain_type(type.value_type))
    return type


def _plain(array: pa.Array, plain: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array if array.type == plain else pc.cast(array, plain)


def same(array: pa.Array) -> pa.Array:
    return array


def cast_to(type: pa.DataType, *, safe: bool = True) -> Convert:
    return lambda array: pc.cast(array, type, safe=safe)


def text_of(array: pa.Array) -> pa.Array:
    """Bytes as strings. Nobody checks that they are such, as nobody does in Spark."""
    return array.view(pa.string())


def is_wider_decimal(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether every value has room: neither fewer digits behind the point nor before it."""
    more = declared.scale - found.scale
    return bool(more >= 0 and declared.precision - found.precision >= more)
