"""Arithmetic on binary numbers as the JVM does it: integers wrap around or, if `ansi`, fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .apply import Fails
from .tree import Datum
from .vectors import any_valid, array_of, dtype_of, values_of

BY_ZERO = "division by zero"


def add(left: Datum, right: Datum, ansi: bool) -> Datum:
    return (pc.add_checked if ansi else pc.add)(left, right)


def subtract(left: Datum, right: Datum, ansi: bool) -> Datum:
    return (pc.subtract_checked if ansi else pc.subtract)(left, right)


def multiply(left: Datum, right: Datum, ansi: bool) -> Datum:
    return (pc.multiply_checked if ansi else pc.multiply)(left, right)


def negate(value: Datum, ansi: bool) -> Datum:
    return (pc.negate_checked if ansi else pc.negate)(value)


def absolute(value: Datum, ansi: bool) -> Datum:
    return (pc.abs_checked if ansi else pc.abs)(value)


def _divided(left: Datum, right: Datum, ansi: bool, operation: Any) -> pa.Array:
    """Division in some form; by zero it is null or fails. The result has the type of the sides."""
    divisor = values_of(right)
    is_zero = np.atleast_1d(divisor == 0)
    has_zeros = bool(is_zero.any())
    if (
        ansi
        and has_zeros
        and any_valid(np.broadcast_to(is_zero, _length(left, right)), (left, right))
    ):
        raise Fails(BY_ZERO)
    with np.errstate(all="ignore"):
        if has_zeros:
            divisor = np.where(divisor == 0, dtype_of(right.type).type(1), divisor)
        made = operation(values_of(left), divisor)
    keep = np.broadcast_to(~is_zero, made.shape) if has_zeros else None
    return array_of(made, left.type, (left, right), keep)


def _length(left: Datum, right: Datum) -> int:
    return len(left) if isinstance(left, pa.Array) else len(right)


def divide(left: Datum, right: Datum, ansi: bool) -> Datum:
    """Of floating numbers. Spark divides by a zero of them no more than by one of integers."""
    if isinstance(right, pa.Scalar) and right.as_py() != 0:
        return pc.divide(left, right)
    return _divided(left, right, ansi, np.divide)


def _truncated(left: Any, right: Any) -> Any:
    quotient = np.floor_divide(left, right)
    is_inexact = quotient * right != left
    return quotient + (is_inexact & ((left < 0) != (right < 0)))


def integral_divide(left: Datum, right: Datum, ansi: bool) -> Datum:
    """Towards zero. The least number over -1 is no number of the type."""
    least = np.iinfo(dtype_of(left.type)).min
    if ansi:
        beyond = np.atleast_1d((values_of(left) == least) & (values_of(right) == -1))
        if any_valid(np.broadcast_to(beyond, _length(left, right)), (left, right)):
            raise Fails("overflow")
    return _divided(left, right, ansi, _truncated)


def remainder(left: Datum, right: Datum, ansi: bool) -> Datum:
    """With the sign of the left side."""
    return _divided(left, right, ansi, np.fmod)


def _positive(left: Any, right: Any) -> Any:
    dtype = np.result_type(left, right)
    if dtype.itemsize < 4 and dtype.kind == "i":  # the JVM computes on 32 bits at least
        left, right = left.astype(np.int32), right.astype(np.int32)
    rest = np.fmod(left, right)
    return np.where(rest < 0, np.fmod(rest + right, right), rest).astype(dtype)


def positive_modulo(left: Datum, right: Datum, ansi: bool) -> Datum:
    return _divided(left, right, ansi, _positive)


def sign(value: Datum) -> Datum:
    """Of floating numbers: zeros and NaN stay what they are."""
    x = values_of(value)
    return array_of(np.where((x == 0) | np.isnan(x), x, np.sign(x)), value.type, (value,))


def square_root(value: Datum) -> Datum:
    return pc.sqrt(value)


def bits_and(left: Datum, right: Datum) -> Datum:
    return pc.bit_wise_and(left, right)


def bits_or(left: Datum, right: Datum) -> Datum:
    return pc.bit_wise_or(left, right)


def bits_xor(left: Datum, right: Datum) -> Datum:
    return pc.bit_wise_xor(left, right)


def bits_not(value: Datum) -> Datum:
    return pc.bit_wise_not(value)


def floor(value: Datum, ansi: bool) -> Datum:
    return _as_long(np.floor(values_of(value)), value, ansi)


def ceil(value: Datum, ansi: bool) -> Datum:
    return _as_long(np.ceil(values_of(value)), value, ansi)


def _as_long(whole: Any, value: Datum, ansi: bool) -> Datum:
    """NaN is 0 in any mode."""
    if ansi and any_valid((whole >= 2.0**63) | (whole < -(2.0**63)), (value,)):
        raise Fails("overflow")
    return array_of(saturated(whole, np.int64), pa.int64(), (value,))


def saturated(x: Any, dtype: type[np.signedinteger[Any]]) -> Any:
    """Floating numbers cut off to integers of 32 or 64 bits: NaN is 0, the rest the nearest."""
    info = np.iinfo(dtype)
    x = np.trunc(x)
    above, below = x >= float(info.max), x <= float(info.min)
    is_plain = ~(above | below | np.isnan(x))
    whole = np.where(is_plain, x, 0).astype(dtype)
    return np.where(above, info.max, np.where(below, info.min, whole)).astype(dtype)
