"""Values of one column as words and bytes that are equal where the values are; and values that hold
others, and nulls, hashed and compared.

Everything is as in Spark's joins: NaN equals NaN and -0.0 equals 0.0, at any depth. Inside a struct
or an array a null equals a null.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.arrays.hashing import mix_bytes, mix_lists, mix_words
from skewless.arrays.types import Flags, Floats, Ints, UInts, frozen

NULL_WORD = np.uint64(0x5BD1E9955BD1E995)  # any word: what a null is folded in as


def is_bytes(kind: pa.DataType) -> bool:
    checks = (pt.is_string, pt.is_binary, pt.is_large_string, pt.is_large_binary)
    return any(check(kind) for check in checks)


def is_nested(kind: pa.DataType) -> bool:
    return any(check(kind) for check in (pt.is_struct, pt.is_list, pt.is_large_list))


def is_flat(kind: pa.DataType) -> bool:
    """Whether values of a type can be compared for equality, and hold no others."""
    checks = (pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_decimal128, pt.is_date32,
              pt.is_timestamp, pt.is_duration, pt.is_time64)  # fmt: skip
    return is_bytes(kind) or any(check(kind) for check in checks)


def is_comparable(kind: pa.DataType) -> bool:
    """Whether values of a type can be compared for equality, also those that hold others."""
    if not is_nested(kind):
        return is_flat(kind)
    return all(is_comparable(child.type) for child in _children(kind))


def _children(kind: pa.DataType) -> list[pa.Field]:
    return list(kind) if pt.is_struct(kind) else [kind.value_field]


# One column as words and bytes ------------------------------------------------------------------


def converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in another type that holds its values, or for a float, the nearest: as Spark casts
    numbers to wider ones. What holds others is left as it is."""
    if column.type == kind or is_nested(kind):
        return column
    if pt.is_float64(kind):
        # Arrow's cast from decimals is not always the nearest and depends on their scale, so that
        # equal numbers could differ; the way over text does not.
        text = column.cast(pa.string()) if pt.is_decimal(column.type) else column
        return text.cast(kind, safe=False)
    return column.cast(kind)


def floats(column: pa.Array) -> Floats:
    """The nearest float of each number; 0.0 for -0.0."""
    values: Floats = converted(column, pa.float64()).to_numpy() + 0.0
    return values


def integers(column: pa.Array) -> Ints:
    """Integers, dates, times and intervals as int64."""
    if any(check(column.type) for check in (pt.is_timestamp, pt.is_duration, pt.is_time64)):
        column = column.view(pa.int64())
    elif pt.is_date32(column.type):
        column = column.view(pa.int32())
    values: Ints = column.to_numpy().astype(np.int64, copy=False)
    return values


def words(column: pa.Array, kind: pa.DataType) -> list[UInts]:
    """A fixed-width column without nulls as 64-bit words that are equal where values are."""
    column = converted(column, kind)
    if pt.is_boolean(kind):
        return [column.cast(pa.uint8()).to_numpy().astype(np.uint64)]
    if pt.is_floating(kind):
        values = floats(column)
        values = np.where(np.isnan(values), np.nan, values)
        return [values.view(np.uint64)]
    if pt.is_decimal(kind):
        raw = np.frombuffer(column.buffers()[1], np.uint64)
        both = raw[2 * column.offset : 2 * (column.offset + len(column))]
        return [np.ascontiguousarray(both[0::2]), np.ascontiguousarray(both[1::2])]
    return [integers(column).view(np.uint64)]


def _bytes_of(column: pa.Array, kind: pa.DataType) -> tuple[Ints, npt.NDArray[np.uint8]]:
    column = converted(column, kind)
    width = np.int64 if pt.is_large_string(kind) or pt.is_large_binary(kind) else np.int32
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return frozen(ends.astype(np.int64)), frozen(raw)


def some_value(kind: pa.DataType) -> pa.Scalar:
    """Any value of a flat type, to stand where a null was."""
    if pt.is_decimal(kind):
        return pa.scalar(Decimal(0), kind)
    if pt.is_string(kind) or pt.is_large_string(kind):
        return pa.scalar("", kind)
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return pa.scalar(b"", kind)
    whole = pa.int32() if pt.is_date32(kind) else pa.int64()
    return pa.scalar(0, whole).cast(kind)


# Values that may be null or hold others ---------------------------------------------------------


def fold(hashes: UInts, column: pa.Array, kind: pa.DataType, depth: int = 0) -> None:
    """Fold a value per row, which may be null, into the hashes, in place. How deep it lies tells a
    null from one that holds nothing but a null."""
    missing = _missing(column)
    before = hashes[missing]
    if pt.is_struct(kind):
        # Something even of a struct without fields, so that where it stands makes a difference.
        mix_words(hashes, frozen(np.ones(len(hashes), np.uint64)))
        for child, field in zip(column.flatten(), kind, strict=True):
            fold(hashes, child, field.type, depth + 1)
    elif is_nested(kind):
        values, starts, ends = _elements(column)
        elements = np.zeros(len(values), np.uint64)
        fold(elements, values, kind.value_type, depth + 1)
        mix_lists(hashes, frozen(starts), frozen(ends), frozen(elements))
    elif is_bytes(kind):
        mix_bytes(hashes, *_bytes_of(_filled(column), kind))
    else:
        for word in words(_filled(column), kind):
            mix_words(hashes, frozen(word))
    if len(before):
        mix_words(before, frozen(np.full(len(before), NULL_WORD + np.uint64(depth))))
        hashes[missing] = before


def values_equal(left: pa.Array, right: pa.Array, kind: pa.DataType) -> Flags:
    """Whether two lists of values are equal, row by row. Two nulls are."""
    if pt.is_struct(kind):
        equal = np.ones(len(left), np.bool_)
        children = zip(left.flatten(), right.flatten(), kind, strict=True)
        for a, b, field in children:
            equal &= values_equal(a, b, field.type)
    elif is_nested(kind):
        equal = _lists_equal(left, right, kind.value_type)
    elif is_bytes(kind):
        same = pc.equal(converted(_filled(left), kind), converted(_filled(right), kind))
        equal = same.to_numpy(zero_copy_only=False)
    else:
        equal = np.ones(len(left), np.bool_)
        both = zip(words(_filled(left), kind), words(_filled(right), kind), strict=True)
        for u, v in both:
            equal &= u == v
    if left.null_count or right.null_count:
        a, b = (np.asarray(c.is_null().to_numpy(zero_copy_only=False)) for c in (left, right))
        equal = (equal & ~a & ~b) | (a & b)
    return equal


def _lists_equal(left: pa.Array, right: pa.Array, kind: pa.DataType) -> Flags:
    """Compare the elements of lists that are as long as one another, all at once."""
    values, starts, ends = _elements(left)
    others, other_starts, other_ends = _elements(right)
    lengths = ends - starts
    equal: Flags = lengths == other_ends - other_starts
    rows = np.flatnonzero(equal & (lengths > 0))
    of_row = np.repeat(np.arange(len(rows)), lengths[rows])
    within = np.arange(len(of_row)) - (np.cumsum(lengths[rows]) - lengths[rows])[of_row]
    a = values.take(pa.array(starts[rows][of_row] + within))
    b = others.take(pa.array(other_starts[rows][of_row] + within))
    equal[rows[of_row[~values_equal(a, b, kind)]]] = False
    return equal


def _elements(column: pa.Array) -> tuple[pa.Array, Ints, Ints]:
    """The elements of all lists, and where those of each begin and end; a null has none."""
    if not len(column):
        return column.values.slice(0, 0), np.empty(0, np.int64), np.empty(0, np.int64)
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    missing = _missing(column)
    ends[missing] = starts[missing]
    return values, starts, ends


def _missing(column: pa.Array) -> Ints:
    """The rows that are null."""
    if not column.null_count:
        return np.empty(0, np.int64)
    return np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))


def _filled(column: pa.Array) -> pa.Array:
    return column.fill_null(some_value(column.type)) if column.null_count else column
