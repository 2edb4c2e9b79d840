"""Keys of rows: their hash, and the exact comparison that a hash cannot give.

A band column ``|left - right| <= width`` is hashed by the *cell* its value falls in. Cells are wide
enough that partners are in the same or in neighbouring cells, so a row is stored under one cell
and probes three.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.arrays.hashing import mix_bytes, mix_words
from skewless.arrays.types import BandColumn, Ints, KeyColumn, SideSpec, UInts, frozen

# In float arithmetic cells are wider than the band, so that rounding cannot push partners further
# than one cell apart as long as cell numbers stay below 2^48; values beyond share the last cell.
FLOAT_CELL = 1.5
CELL_MAX = 1 << 48


def is_exact(side: SideSpec) -> bool:
    """Whether equal hashes already mean equal keys (one key that fits 64 bits, mixed by a
    bijection), so that pairs need no comparison."""
    return not side.bands and len(side.keys) == 1 and _is_word(side.keys[0].type)


def _is_word(kind: pa.DataType) -> bool:
    return not (pt.is_decimal(kind) or _is_bytes(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    checks = (pt.is_string, pt.is_binary, pt.is_large_string, pt.is_large_binary)
    return any(check(kind) for check in checks)


def is_key_type(kind: pa.DataType) -> bool:
    """Whether values of a type can be compared for equality as keys."""
    checks = (pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_decimal128, pt.is_string,
              pt.is_binary, pt.is_large_string, pt.is_large_binary, pt.is_date32,
              pt.is_timestamp, pt.is_duration, pt.is_time64)  # fmt: skip
    return any(check(kind) for check in checks)


def words(column: pa.Array, kind: pa.DataType) -> list[UInts]:
    """A fixed-width column without nulls as 64-bit words that are equal where values are.
    As in Spark, NaN equals NaN and -0.0 equals 0.0 in a key."""
    if column.type != kind:
        column = column.cast(kind)
    if pt.is_boolean(kind):
        return [column.cast(pa.uint8()).to_numpy().astype(np.uint64)]
    if pt.is_floating(kind):
        values = column.cast(pa.float64()).to_numpy() + 0.0
        values = np.where(np.isnan(values), np.nan, values)
        return [values.view(np.uint64)]
    if pt.is_decimal(kind):
        raw = np.frombuffer(column.buffers()[1], np.uint64)
        both = raw[2 * column.offset : 2 * (column.offset + len(column))]
        return [np.ascontiguousarray(both[0::2]), np.ascontiguousarray(both[1::2])]
    return [integers(column).view(np.uint64)]


def integers(column: pa.Array) -> Ints:
    """Integers, dates, times and intervals as int64."""
    if any(check(column.type) for check in (pt.is_timestamp, pt.is_duration, pt.is_time64)):
        column = column.view(pa.int64())
    elif pt.is_date32(column.type):
        column = column.view(pa.int32())
    values: Ints = column.to_numpy().astype(np.int64, copy=False)
    return values


def hash_keys(columns: list[pa.Array], side: SideSpec, cells: Ints | None) -> UInts:
    """The hash of each row's key: its equality columns and, in a band join, a cell."""
    rows = len(columns[0]) if columns else len(cells) if cells is not None else 0
    hashes = np.zeros(rows, np.uint64)
    for column, key in zip(columns, side.keys, strict=True):
        if _is_bytes(key.type):
            mix_bytes(hashes, *_bytes_of(column, key.type))
        else:
            for word in words(column, key.type):
                mix_words(hashes, frozen(word))
    if cells is not None:
        mix_words(hashes, frozen(cells.view(np.uint64)))
    return hashes


def _bytes_of(column: pa.Array, kind: pa.DataType) -> tuple[Ints, npt.NDArray[np.uint8]]:
    if column.type != kind:
        column = column.cast(kind)
    width = np.int64 if pt.is_large_string(kind) or pt.is_large_binary(kind) else np.int32
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return frozen(ends.astype(np.int64)), frozen(raw)


def cells_of(column: pa.Array, band: BandColumn) -> Ints:
    """The cell each value of a band column falls in; partners are at most one cell apart."""
    if pt.is_floating(band.type) or pt.is_decimal(band.type):
        values = _as_floats(column)
        if band.width == 0:
            return values.view(np.int64)
        with np.errstate(over="ignore"):
            number = np.floor(values / (float(band.width) * FLOAT_CELL))
        return np.clip(number, -CELL_MAX, CELL_MAX).astype(np.int64)
    numbers = integers(column)
    return numbers if band.width == 0 else numbers // np.int64(int(band.width))


def _as_floats(column: pa.Array) -> npt.NDArray[np.float64]:
    """The nearest float of each number. Arrow's cast from decimals is not always the nearest and
    depends on their scale, so that equal numbers could differ; the way over text does not."""
    if pt.is_decimal(column.type):
        column = column.cast(pa.string())
    values: npt.NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy() + 0.0
    return values


def nan_rows(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which rows of a band column without nulls are NaN; None where the type has no NaN."""
    return np.isnan(_as_floats(column)) if pt.is_floating(column.type) else None


def probed_cells(cells: Ints, band: BandColumn) -> list[Ints]:
    """The cells that partners of these rows may be stored under."""
    return [cells] if band.width == 0 else [cells - 1, cells, cells + 1]


def keys_equal(
    left: list[pa.Array], right: list[pa.Array], keys: tuple[KeyColumn, ...]
) -> npt.NDArray[np.bool_]:
    """Whether the keys of two lists of rows are equal, row by row."""
    equal = np.ones(len(left[0]) if left else 0, np.bool_)
    for a, b, key in zip(left, right, keys, strict=True):
        if _is_bytes(key.type):
            same = pc.equal(a.cast(key.type), b.cast(key.type))
            equal &= same.to_numpy(zero_copy_only=False)
        else:
            for u, v in zip(words(a, key.type), words(b, key.type), strict=True):
                equal &= u == v
    return equal


def _floor(width: int | float | Decimal, scale: int) -> Decimal:
    with localcontext(prec=100):
        return Decimal(str(width)).quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR)


def within_band(left: pa.Array, right: pa.Array, band: BandColumn) -> npt.NDArray[np.bool_]:
    """Whether ``|left - right| <= width``, row by row, exact for the type both are compared in."""
    if pt.is_decimal(band.type):
        # 60 digits hold any difference of 38-digit numbers; differences are whole units of the
        # scale, so that what the width has beyond it makes no difference.
        wide = pa.decimal256(60, band.type.scale)
        difference = pc.abs(pc.subtract(left.cast(wide), right.cast(wide)))
        close = pc.less_equal(difference, pa.scalar(_floor(band.width, wide.scale), wide))
        return np.asarray(close.to_numpy(zero_copy_only=False), np.bool_)
    if pt.is_floating(band.type):
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.abs(_as_floats(left) - _as_floats(right)) <= float(band.width))
    x, y = integers(left), integers(right)
    # The distance of two 64-bit integers needs 64 bits without a sign.
    u, v = x.view(np.uint64), y.view(np.uint64)
    return np.asarray(np.where(x > y, u - v, v - u) <= np.uint64(int(band.width)))


def describe(columns: list[pa.Array], side: SideSpec, row: int) -> str:
    """The key of a row as people would write it."""
    # In the type both sides share, so that one key is written one way.
    parts = [str(columns[k.index].slice(row, 1).cast(k.type)[0].as_py()) for k in side.keys]
    parts += [f"near {columns[b.index][row].as_py()}" for b in side.bands]
    return ", ".join(parts)


def hash_of_value(value: object, side: SideSpec) -> int:
    """The hash of a key given by its value, or by a tuple of values where it has several columns.
    Raises ValueError or TypeError where the value is not of the key's type."""
    values = value if isinstance(value, tuple) else (value,)
    if side.bands or len(values) != len(side.keys):
        raise ValueError("not one value per key column")
    columns = []
    for one, key in zip(values, side.keys, strict=True):
        kind = side.schema.field(key.index).type
        # A file can only write texts: "42" is the key 42.
        text = isinstance(one, str) and not _is_bytes(kind)
        columns.append(pa.array([one]).cast(kind) if text else pa.array([one], kind))
        if columns[-1].null_count:
            raise ValueError("a null is no key")
        if isinstance(one, float) and columns[-1][0].as_py() != one:
            raise ValueError(f"{one} is no {kind}")
    return int(hash_keys(columns, side, None)[0])
