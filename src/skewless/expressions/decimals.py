"""Decimals: exact, then rounded half up to their scale; what does not fit is null or fails."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .apply import Fails
from .arithmetic import BY_ZERO
from .tree import Datum
from .vectors import any_valid, array_of

DIGITS = 38  # of a decimal in Spark
NEGATED_DIGITS = 34  # to which Spark rounds when it changes a sign
WIDE_DIGITS = 76  # of one that only we compute with
EXACT = 1 << 53  # doubles count exactly up to here
EXACT_SCALE = 22  # and hold powers of ten exactly up to this one
HALF_UP, HALF_EVEN, CUT = "half_towards_infinity", "half_to_even", "towards_zero"
# Beside multiples of 2^32, Arrow 26 divides wrongly by powers of ten that need more than 32 bits,
# when it rounds and when it casts: -4294967295.99999999999999 becomes -4294967295.
DIGITS_AT_ONCE = 9


def _wide(value: Datum, scale: int) -> Datum:
    """The same numbers with at least that scale and as many digits as Arrow has."""
    type = value.type
    scale = max(scale, type.scale)
    digits = type.precision - type.scale + scale
    return pc.cast(value, pa.decimal256(min(WIDE_DIGITS, max(digits, DIGITS) + 1), scale))


def _rounded(value: Datum, digits: int, mode: str) -> Datum:
    """With at most so many digits behind the point, or zeros before it if they are fewer than none.
    There must be room for the digit that rounding may add."""
    if mode not in (HALF_UP, HALF_EVEN):
        return _shortened(value, digits, mode)
    cut = _shortened(value, digits + 1, CUT)
    up = _with_point(_shortened(cut, digits, HALF_UP))
    if mode == HALF_UP:
        return up
    is_all = pc.equal(pc.cast(cut, value.type), value)
    return pc.if_else(is_all, _with_point(_shortened(cut, digits, HALF_EVEN)), up)


def _shortened(value: Datum, digits: int, mode: str) -> Datum:
    """Rounded a few digits at a time: one after the other comes to the same only by modes that do
    not ask for halves, or if there is but one digit too many."""
    while value.type.scale > digits:
        scale = max(digits, value.type.scale - DIGITS_AT_ONCE)
        value = pc.round(value, ndigits=scale, round_mode=mode)
        value = pc.cast(value, pa.decimal256(value.type.precision, scale))
    return value


def _with_point(value: Datum) -> Datum:
    """With a scale that is not below 0, which little else can compute with."""
    return pc.cast(value, pa.decimal256(value.type.precision, max(value.type.scale, 0)))


def fitted(value: Datum, type: pa.DataType, ansi: bool) -> Datum:
    """Decimals as ones of another precision and scale."""
    if isinstance(value, pa.Scalar):
        return fitted(pa.repeat(value, 1), type, ansi)[0]
    source = value.type
    gained = (type.precision - type.scale) - (source.precision - source.scale)
    if gained >= 0 and type.scale >= source.scale and source.precision <= DIGITS:
        return value if source == type else pc.cast(value, type)
    wide = _rounded(_wide(value, type.scale), type.scale, HALF_UP)
    limit = Decimal(1).scaleb(type.precision - type.scale)
    fits = pc.less(pc.abs(wide), pa.scalar(limit, pa.decimal256(type.precision + 1, type.scale)))
    if not pc.any(pc.invert(fits)).as_py():
        return pc.cast(wide, type)
    if ansi:
        raise Fails("a decimal overflows")
    # Arrow looks at what lies under a null as well.
    made = pc.cast(pc.if_else(fits, wide, pa.scalar(Decimal(0), wide.type)), type)
    return pc.if_else(fits, made, pa.scalar(None, type))


def _for_sums(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Both sides such that their sum and difference are exact."""
    scale = max(left.type.scale, right.type.scale)
    whole = max(left.type.precision - left.type.scale, right.type.precision - right.type.scale)
    kind = pa.decimal128 if whole + scale < DIGITS else pa.decimal256
    type = kind(min(WIDE_DIGITS - 1, whole + scale), scale)
    return pc.cast(left, type), pc.cast(right, type)


def add(left: Datum, right: Datum, type: pa.DataType, ansi: bool) -> Datum:
    return fitted(pc.add(*_for_sums(left, right)), type, ansi)


def subtract(left: Datum, right: Datum, type: pa.DataType, ansi: bool) -> Datum:
    return fitted(pc.subtract(*_for_sums(left, right)), type, ansi)


def can_multiply(left: pa.DataType, right: pa.DataType) -> bool:
    return bool(left.precision + right.precision < WIDE_DIGITS)


def multiply(left: Datum, right: Datum, type: pa.DataType, ansi: bool) -> Datum:
    if left.type.precision + right.type.precision >= DIGITS:
        left = pc.cast(left, pa.decimal256(left.type.precision, left.type.scale))
        right = pc.cast(right, pa.decimal256(right.type.precision, right.type.scale))
    return fitted(pc.multiply(left, right), type, ansi)


def words(value: Datum) -> tuple[Any, Any]:
    """The low and the high 64 bits of the numbers without their point."""
    if isinstance(value, pa.Scalar):
        low, high = words(pa.repeat(value, 1))
        return low[0], high[0]
    if pa.types.is_decimal256(value.type):
        raise AssertionError("of 128 bits only")
    start = value.offset * 16
    pairs = np.frombuffer(value.buffers()[1], np.int64, 2 * len(value), start)
    return pairs[::2], pairs[1::2]


def _from_words(low: Any, type: pa.DataType, data: tuple[Datum, ...]) -> pa.Array:
    """Decimals of at most 18 digits."""
    whole = array_of(low, pa.int64(), data)
    pairs = np.empty(2 * len(whole), np.int64)
    pairs[::2], pairs[1::2] = low, low >> 63
    return pa.Array.from_buffers(type, len(whole), [whole.buffers()[0], pa.py_buffer(pairs)])


def to_double(value: Datum) -> Datum:
    """The nearest doubles."""
    low, high = words(value)
    scale = value.type.scale
    is_exact = (high == low >> 63) & (low < EXACT) & (low > -EXACT)
    if scale <= EXACT_SCALE and is_exact.all():
        return array_of(low / 10.0**scale, pa.float64(), (value,))
    return pc.cast(pc.cast(value, pa.string()), pa.float64())


def to_integer(value: Datum, type: pa.DataType, mode: str) -> Datum:
    """Cut off at the point. Without `ansi` the lowest bits are what is left."""
    whole = pc.cast(_whole(value, CUT), pa.decimal128(DIGITS, 0))
    low, high = words(whole)
    if mode == "legacy":
        return array_of(low.astype(type.to_pandas_dtype()), type, (value,))
    info = np.iinfo(type.to_pandas_dtype())
    fits = (high == low >> 63) & (low <= info.max) & (low >= info.min)
    if mode == "ansi" and any_valid(~fits, (value,)):
        raise Fails("overflow")
    return array_of(np.where(fits, low, 0), type, (value,), fits)


def _whole(value: Datum, mode: str) -> Datum:
    """Whole numbers by a way of rounding, with room for the digit that rounding may add."""
    wide = pc.cast(value, pa.decimal256(value.type.precision + 1, value.type.scale))
    return _rounded(wide, 0, mode)


def floor(value: Datum, type: pa.DataType) -> Datum:
    return fitted(_whole(value, "down"), type, True)


def ceil(value: Datum, type: pa.DataType) -> Datum:
    return fitted(_whole(value, "up"), type, True)


def from_integer(value: Datum, type: pa.DataType, ansi: bool) -> Datum:
    whole = pc.cast(pc.cast(value, pa.int64()), pa.decimal128(19, 0))
    return fitted(whole, type, ansi)


def digits_for_remainder(left: pa.DataType, right: pa.DataType) -> int:
    scale = max(left.scale, right.scale)
    return int(scale + max(left.precision - left.scale, right.precision - right.scale))


def remainder(left: Datum, right: Datum, type: pa.DataType, ansi: bool) -> Datum:
    """Of decimals that have at most 18 digits when both have the greater scale."""
    scale = max(left.type.scale, right.type.scale)
    common = pa.decimal128(digits_for_remainder(left.type, right.type), scale)
    low, _ = words(pc.cast(left, common))
    divisor, _ = words(pc.cast(right, common))
    count = len(left) if isinstance(left, pa.Array) else len(right)
    is_zero = np.broadcast_to(np.equal(divisor, 0), count)
    if ansi and any_valid(is_zero, (left, right)):
        raise Fails(BY_ZERO)
    rest = np.fmod(low, np.where(is_zero, 1, divisor))
    made = _from_words(rest, common, (left, right))
    if is_zero.any():
        made = pc.if_else(pa.array(~is_zero), made, pa.scalar(None, common))
    return fitted(made, type, ansi)


def rounded(value: Datum, type: pa.DataType, digits: int, mode: str, ansi: bool) -> Datum:
    """To so many digits behind the point, or before it if there are fewer than none."""
    digits_at_least = value.type.precision + DIGITS_AT_ONCE + 1
    wide = pc.cast(value, pa.decimal256(digits_at_least, value.type.scale))
    return fitted(_rounded(wide, digits, mode), type, ansi)
