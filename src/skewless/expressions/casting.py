"""Casts between booleans, binary numbers and strings. A mode is "legacy", "ansi" (what cannot be
cast fails) or "try" (it is null)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .apply import Fails
from .arithmetic import saturated
from .dates import DAY, SECOND
from .tree import Datum
from .vectors import any_valid, array_of, dtype_of, values_of
from .zones import Zone

BLANK = "".join(map(chr, range(33))) + "\x7f"  # what is cut off from both ends before parsing
JAVA_BLANK = "".join(map(chr, range(33)))
WHOLE = r"^[+-]?[0-9]+$"
WHOLE_OR_FRACTION = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]*)$"
FLOATING = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?$"
UNUSUAL = r"[eE][+-]?0*[1-9][0-9]{2,}|^.{300,}"  # what Arrow does not read, or not to the end
TRUE = ("t", "true", "y", "yes", "1")
FALSE = ("f", "false", "n", "no", "0")
NOT_A_NUMBER = "a string is no number of the type"


def is_nonzero(value: Datum) -> Datum:
    return pc.not_equal(value, pa.scalar(0, value.type))


def from_boolean(value: Datum, type: pa.DataType) -> Datum:
    return pc.cast(pc.cast(value, pa.int8()), type)


def to_floating(value: Datum, type: pa.DataType) -> Datum:
    with np.errstate(all="ignore"):
        return array_of(values_of(value).astype(dtype_of(type)), type, (value,))


def _checked(made: Any, fits: Any, value: Datum, type: pa.DataType, mode: str) -> pa.Array:
    if mode == "ansi" and any_valid(~fits, (value,)):
        raise Fails("overflow")
    return array_of(made, type, (value,), fits)


def integer_to_integer(value: Datum, type: pa.DataType, mode: str) -> Datum:
    x, dtype = values_of(value), dtype_of(type)
    made = x.astype(dtype)
    if mode == "legacy" or dtype.itemsize >= x.dtype.itemsize:
        return array_of(made, type, (value,))
    return _checked(made, made == x, value, type, mode)


def floating_to_integer(value: Datum, type: pa.DataType, mode: str) -> Datum:
    x, dtype = values_of(value).astype(np.float64), dtype_of(type)
    made = saturated(x, np.int64 if dtype.itemsize == 8 else np.int32).astype(dtype)
    if mode == "legacy":
        return array_of(made, type, (value,))
    info = np.iinfo(dtype)
    fits = (np.floor(x) <= float(info.max)) & (np.ceil(x) >= float(info.min))
    return _checked(made, fits, value, type, mode)


def integer_to_string(value: Datum) -> Datum:
    return pc.cast(value, pa.string())


def date_to_string(value: Datum) -> Datum:
    days = values_of(value).astype("datetime64[D]")
    months = days.astype("datetime64[M]").astype(np.int64)
    year = months // 12 + 1970
    sign = np.where(year < 0, "-", np.where(year > 9999, "+", "")).astype(str)
    parts = [
        pc.binary_join_element_wise(pa.array(sign), _padded(np.abs(year), 4), ""),
        _padded(months % 12 + 1, 2),
        _padded((days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(int) + 1, 2),
    ]
    return _where(pc.is_valid(value), pc.binary_join_element_wise(*parts, "-"))


def _padded(numbers: Any, width: int) -> pa.Array:
    return pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), width, "0")


def timestamp_to_string(value: Datum, zone: Zone) -> Datum:
    """With as many digits of the second as there are before only zeros follow."""
    local = zone.local(values_of(value))
    day = date_to_string(array_of(local // DAY, pa.date32(), (value,)))
    seconds, micros = local % DAY // SECOND, local % SECOND
    clock = [seconds // 3600, seconds // 60 % 60, seconds % 60]
    time = pc.binary_join_element_wise(*(_padded(part, 2) for part in clock), ":")
    digits = pc.utf8_rtrim(_padded(micros, 6), characters="0")
    point = pc.if_else(pa.array(micros != 0), pa.scalar("."), pa.scalar(""))
    return pc.binary_join_element_wise(
        day, pc.binary_join_element_wise(time, point, digits, ""), " "
    )


def boolean_to_string(value: Datum) -> Datum:
    return pc.if_else(value, pa.scalar("true"), pa.scalar("false"))


def string_to_binary(value: Datum) -> Datum:
    return pc.cast(value, pa.binary())


def _where(met: Datum, value: Datum) -> Datum:
    return pc.if_else(met, value, pa.scalar(None, value.type))


def _all_parsed(value: Datum, made: Datum, mode: str, why: str) -> Datum:
    if mode == "ansi" and made.null_count > value.null_count:
        raise Fails(why)
    return made


def string_to_boolean(value: Datum, mode: str) -> Datum:
    word = pc.ascii_lower(pc.utf8_trim(value, characters=BLANK))
    is_true = pc.is_in(word, value_set=pa.array(TRUE))
    is_known = pc.or_(is_true, pc.is_in(word, value_set=pa.array(FALSE)))
    return _all_parsed(value, _where(is_known, is_true), mode, "a string is no boolean")


def string_to_integer(value: Datum, type: pa.DataType, mode: str) -> Datum:
    """Digits with a sign; in legacy mode a fraction may follow, which is cut off."""
    text = pc.utf8_trim(value, characters=BLANK)
    pattern = WHOLE_OR_FRACTION if mode == "legacy" else WHOLE
    text = _where(pc.match_substring_regex(text, pattern), text)
    text = pc.replace_substring_regex(text, r"^\+|\..*$", "")
    text = pc.replace_substring_regex(text, r"^(-?)0+([0-9])", r"\1\2")
    text = pc.if_else(pc.is_in(text, value_set=pa.array(["", "-"])), pa.scalar("0"), text)
    text = _where(pc.less_equal(pc.binary_length(text), pa.scalar(20, pa.int32())), text)
    number = pc.cast(text, pa.decimal128(38, 0))
    info = np.iinfo(dtype_of(type))
    fits = pc.and_(
        pc.less_equal(number, pa.scalar(int(info.max), number.type)),
        pc.greater_equal(number, pa.scalar(int(info.min), number.type)),
    )
    made = pc.cast(_where(fits, number), type)
    return _all_parsed(value, made, mode, NOT_A_NUMBER)


def string_to_floating(value: Datum, type: pa.DataType, mode: str) -> Datum:
    text = pc.utf8_trim(value, characters=JAVA_BLANK)
    is_plain = pc.match_substring_regex(text, FLOATING)
    is_usual = pc.and_(is_plain, pc.invert(pc.match_substring_regex(text, UNUSUAL)))
    usual = pc.replace_substring_regex(_where(is_usual, text), r"^\+|[fFdD]$", "")
    made = pc.cast(usual, type)
    rest = pc.and_(pc.is_valid(text), pc.invert(pc.fill_null(is_usual, True)))
    if pc.any(rest).as_py():
        # Rare: names of numbers, and numbers at the ends of the range.
        found = [_unusual(word, type) for word in text.filter(rest).to_pylist()]
        made = pc.replace_with_mask(made, rest, pa.array(found, type))
    return _all_parsed(value, made, mode, NOT_A_NUMBER)


def _unusual(word: str, type: pa.DataType) -> float | None:
    if re.fullmatch(FLOATING, word):
        bare = word.rstrip("fFdD")
        try:
            return float(pa.scalar(bare.lstrip("+")).cast(type).as_py())
        except pa.ArrowInvalid:
            return float(bare)
    bare = word.lower()
    sign = -1.0 if bare.startswith("-") else 1.0
    if bare.lstrip("+-") in ("inf", "infinity") and len(bare) - len(bare.lstrip("+-")) <= 1:
        return sign * float("inf")
    if bare == "nan" or word in ("+NaN", "-NaN"):
        return float("nan")
    return None
