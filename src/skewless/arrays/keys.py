"""Keys of rows: their hash, and the exact comparison that a hash cannot give.

A band column ``|left - right| <= width`` is hashed by the *cell* its value falls in. Cells are wide
enough that partners are in the same or in neighbouring cells, so a row is stored under one cell
and probes three.
"""

from __future__ import annotations

from contextvars import ContextVar
from decimal import ROUND_FLOOR, Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.arrays.hashing import mix_words
from skewless.arrays.telling import bounded, hidden
from skewless.arrays.types import BandColumn, Ints, KeyColumn, SideSpec, UInts, frozen
from skewless.arrays.values import (
    converted,
    floats,
    fold,
    integers,
    is_bytes,
    is_nested,
    values_equal,
)

# In float arithmetic cells are wider than the band, so that rounding cannot push partners further
# than one cell apart as long as cell numbers stay below 2^48; values beyond share the last cell.
FLOAT_CELL = 1.5
CELL_MAX = 1 << 48

# The salt by which the task at work hides the values of keys that it tells of; none if it does not.
HIDDEN_BY: ContextVar[bytes | None] = ContextVar("hidden_by", default=None)


def is_exact(side: SideSpec) -> bool:
    """Whether equal hashes already mean equal keys (one key that fits 64 bits, mixed by a
    bijection), so that pairs need no comparison."""
    if side.bands or len(side.keys) != 1:
        return False
    return _is_word(side.keys[0].type) and not side.keys[0].null_safe


def _is_word(kind: pa.DataType) -> bool:
    return not (pt.is_decimal(kind) or is_bytes(kind) or is_nested(kind))


def hash_keys(columns: list[pa.Array], side: SideSpec, cells: Ints | None) -> UInts:
    """The hash of each row's key: its equality columns and, in a band join, a cell."""
    rows = len(columns[0]) if columns else len(cells) if cells is not None else 0
    hashes = np.zeros(rows, np.uint64)
    for column, key in zip(columns, side.keys, strict=True):
        fold(hashes, column, key.type)
    if cells is not None:
        mix_words(hashes, frozen(cells.view(np.uint64)))
    return hashes


def cells_of(column: pa.Array, band: BandColumn) -> Ints:
    """The cell each value of a band column falls in; partners are at most one cell apart."""
    if pt.is_floating(band.type) or pt.is_decimal(band.type):
        values = floats(column)
        if band.width == 0:
            return values.view(np.int64)
        with np.errstate(over="ignore"):
            number = np.floor(values / (float(band.width) * FLOAT_CELL))
        return np.clip(number, -CELL_MAX, CELL_MAX).astype(np.int64)
    numbers = integers(column)
    return numbers if band.width == 0 else numbers // np.int64(int(band.width))


def nan_rows(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which rows of a band column without nulls are NaN; None where the type has no NaN."""
    return np.isnan(floats(column)) if pt.is_floating(column.type) else None


def probed_cells(cells: Ints, band: BandColumn) -> list[Ints]:
    """The cells that partners of these rows may be stored under."""
    return [cells] if band.width == 0 else [cells - 1, cells, cells + 1]


def keys_equal(
    left: list[pa.Array], right: list[pa.Array], keys: tuple[KeyColumn, ...]
) -> npt.NDArray[np.bool_]:
    """Whether the keys of two lists of rows are equal, row by row."""
    equal = np.ones(len(left[0]) if left else 0, np.bool_)
    for a, b, key in zip(left, right, keys, strict=True):
        equal &= values_equal(a, b, key.type)
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
            return np.asarray(np.abs(floats(left) - floats(right)) <= float(band.width))
    x, y = integers(left), integers(right)
    # The distance of two 64-bit integers needs 64 bits without a sign.
    u, v = x.view(np.uint64), y.view(np.uint64)
    return np.asarray(np.where(x > y, u - v, v - u) <= np.uint64(int(band.width)))


def describe(columns: list[pa.Array], side: SideSpec, row: int) -> str:
    """The key of a row as people would write it, if it is not too long; where keys are hidden, a
    hash of all of that."""
    # In the type both sides share, so that one key is written one way.
    parts = [_written(converted(columns[k.index].slice(row, 1), k.type)[0]) for k in side.keys]
    parts += [f"near {_written(columns[b.index][row])}" for b in side.bands]
    text, salt = ", ".join(parts), HIDDEN_BY.get()
    return bounded(text) if salt is None else hidden(text, salt)


def _written(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "null"
    try:
        return str(value.as_py())
    except OverflowError:  # Python's years are those from 1 to 9999
        return " ".join(pa.array([value]).to_string()[1:-1].split())


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
        text = isinstance(one, str) and not is_bytes(kind)
        columns.append(pa.array([one]).cast(kind) if text else pa.array([one], kind))
        if columns[-1].null_count and not key.null_safe:
            raise ValueError("a null is no key")
        if isinstance(one, float) and columns[-1][0].as_py() != one:
            raise ValueError(f"{one} is no {kind}")
    return int(hash_keys(columns, side, None)[0])
