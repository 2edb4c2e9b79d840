"""Comparisons: NaN equals NaN and is greater than any number; zero has no sign."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

from .texts import equals_text
from .tree import Datum


def _compare_as_numbers(left: Datum, right: Datum) -> bool:
    """Whether no NaN stands on the right side and comparing is plain, or nearly so."""
    return isinstance(right, pa.Scalar) and not (
        pa.types.is_floating(right.type) and right.is_valid and math.isnan(right.as_py())
    )


def is_floating(datum: Datum) -> bool:
    return bool(pa.types.is_floating(datum.type))


def equal(left: Datum, right: Datum) -> Datum:
    if isinstance(left, pa.StringArray) and isinstance(right, pa.Scalar) and right.is_valid:
        return equals_text(left, right.as_py())
    same = pc.equal(left, right)
    if not is_floating(left) or _compare_as_numbers(left, right):
        return same
    return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def greater(left: Datum, right: Datum) -> Datum:
    if not is_floating(left):
        return pc.greater(left, right)
    above = pc.invert(pc.less_equal(left, right))  # also where one is NaN
    if _compare_as_numbers(left, right):
        return above
    return pc.and_(above, pc.equal(right, right))


def greater_equal(left: Datum, right: Datum) -> Datum:
    if not is_floating(left):
        return pc.greater_equal(left, right)
    if _compare_as_numbers(left, right):
        return pc.invert(pc.less(left, right))
    return pc.or_(pc.greater_equal(left, right), pc.is_nan(left))


def less(left: Datum, right: Datum) -> Datum:
    if not is_floating(left):
        return pc.less(left, right)
    return pc.less(left, right) if _compare_as_numbers(left, right) else greater(right, left)


def less_equal(left: Datum, right: Datum) -> Datum:
    if not is_floating(left):
        return pc.less_equal(left, right)
    if _compare_as_numbers(left, right):
        return pc.less_equal(left, right)
    return greater_equal(right, left)
