"""Strings as values of a type, as Spark's reader of CSV has them. A value that is none is null, and
said to be bad; one that only Spark can judge stops the reading."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skewless.errors import ArgumentError
from skewless.expressions.zones import UTC, Zone
from skewless.files import spark_times, tokens
from skewless.files.converting import HINT, INSTANT, LOCAL, UnfaithfulError
from skewless.files.options import Options

Flags = npt.NDArray[np.bool_]

MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
CORRUPT = "_corrupt_record"
INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
TYPES = (
    *INTEGERS, pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.date32(), INSTANT, LOCAL,
)  # fmt: skip
_BLANK = "".join(map(chr, range(33)))
_FLOATING = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
_NAMED = re.compile(r"[+-]?(NaN|Infinity)")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def check_encoding(options: Options) -> None:
    encoding = options.get("encoding", options.get("charset", "UTF-8"))
    if encoding.upper() not in ("UTF-8", "UTF8"):
        raise ArgumentError("encoding", encoding, "'UTF-8'")


@dataclass(frozen=True)
class Words:
    """What stands for numbers that are none, and the zone of times that name none, where it is
    known. Dates and times of unusual forms are read `in_any_form`, or refused."""

    nan: str = "NaN"
    positive: str = "Inf"
    negative: str = "-Inf"
    zone: Zone | None = UTC
    in_any_form: bool = False


@dataclass(frozen=True)
class Values:
    """The values of a column, where they stand in a block of bytes."""

    data: Any
    begins: Any
    ends: Any
    kinds: Any
    quote: int = ord('"')
    escape: int = ord("\\")

    def strings(self) -> pa.Array:
        """The values as strings; what is no UTF-8 stops the reading."""
        offsets, held = tokens.gather(
            self.data, self.begins, self.ends, self.kinds, self.quote, self.escape
        )
        made = pa.Array.from_buffers(
            pa.binary(),
            len(self.begins),
            [self._valid(), pa.py_buffer(offsets), pa.py_buffer(held)],
        )
        try:
            return pc.cast(made, pa.string())
        except pa.ArrowInvalid as error:
            raise UnfaithfulError(f"there are values that are not UTF-8. {HINT}") from error

    def _valid(self) -> pa.Buffer | None:
        flags = self.kinds != tokens.NONE
        return None if flags.all() else pa.array(flags).buffers()[1]

    def of_type(self, type: pa.DataType, words: Words) -> tuple[pa.Array, Flags | None]:
        """The column, and which values are bad, if any are."""
        if pa.types.is_string(type):
            return self.strings(), None
        places = (self.data, self.begins, self.ends, self.kinds)
        if type in INTEGERS:
            high = (1 << INTEGERS[type] - 1) - 1
            return self._checked(*tokens.integers(*places, -high - 1, high), type)
        if pa.types.is_date32(type) or pa.types.is_timestamp(type):
            return self._checked(*self._times(type, words), type)
        texts = self.strings()
        if pa.types.is_boolean(type):
            made = _booleans(texts)
        elif pa.types.is_floating(type):
            made = floats(texts, type, words)
        else:
            made = decimals(texts, type)
        bad = made.null_count > texts.null_count
        return made, _flags(pc.and_(pc.is_null(made), pc.is_valid(texts))) if bad else None

    def _times(self, type: pa.DataType, words: Words) -> tuple[Any, Any]:
        """Days or microseconds, and what came of reading them."""
        places = (self.data, self.begins, self.ends, self.kinds)
        made: Any
        if pa.types.is_date32(type):
            made, states = tokens.dates(*places)
        elif type.tz is None:
            made, states = tokens.times(*places, False, True)
        else:
            made, states = moments(places, words.zone)
        odd = np.flatnonzero(states == tokens.ODD)
        if not odd.size or not words.in_any_form or (words.zone is None and type == INSTANT):
            return made, states
        some = (self.begins[odd], self.ends[odd], self.kinds[odd], self.quote, self.escape)
        unique = Values(self.data, *some).strings().dictionary_encode()
        read = [_time(text, type, words.zone or UTC) for text in unique.dictionary.to_pylist()]
        at = unique.indices.to_numpy()
        made[odd] = np.array([value or 0 for value in read], made.dtype)[at]
        known = np.array([value is not None for value in read], np.bool_)[at]
        states[odd] = np.where(known, tokens.FOUND, tokens.BAD)
        return made, states

    def _checked(self, made: Any, states: Any, type: pa.DataType) -> tuple[pa.Array, Flags | None]:
        odd = np.flatnonzero(states == tokens.ODD)
        if odd.size:
            begin, end = self.begins[odd[0]], self.ends[odd[0]]
            text = bytes(self.data[begin:end]).decode(errors="replace")
            raise UnfaithfulError(f"{text!r} is of no form that is known here for {type}. {HINT}")
        mask = states != tokens.FOUND
        width = np.int32 if pa.types.is_date32(type) else np.int64
        numbers = pa.array(made.astype(width), mask=mask if mask.any() else None)
        array = numbers.view(type) if not pa.types.is_integer(type) else numbers.cast(type)
        bad: Flags = states == tokens.BAD
        return array, bad if bad.any() else None


def moments(places: tuple[Any, Any, Any, Any], zone: Zone | None) -> tuple[Any, Any]:
    """Times that are to have a zone, and what came of reading them. Those that name none are of the
    one given; without one they are odd."""
    if zone is None:
        return tokens.times(*places, True, False)
    made, states = tokens.times(*places, True, True)
    if zone.is_fixed and not zone.distances[0]:
        return made, states
    _, named = tokens.times(*places, True, False)
    local = (states == tokens.FOUND) & (named == tokens.ODD)
    return np.where(local, zone.utc(made), made), states


def _time(text: str, type: pa.DataType, zone: Zone) -> int | None:
    if pa.types.is_date32(type):
        return spark_times.written_days(text)
    return spark_times.local_us(text) if type.tz is None else spark_times.timestamp_us(text, zone)


def _flags(array: pa.Array) -> Flags:
    found: Flags = array.to_numpy(zero_copy_only=False)
    return found


def _booleans(texts: pa.Array) -> pa.Array:
    lower = pc.ascii_lower(texts)
    is_true = pc.equal(lower, "true")
    known = pc.or_(is_true, pc.equal(lower, "false"))
    return pc.if_else(known, is_true, pa.scalar(None, pa.bool_()))


def floats(texts: pa.Array, type: pa.DataType, words: Words) -> pa.Array:
    """All at once if all are plain; else those that are not one by one, as they are few. Arrow has
    more words for what is no finite number than Spark has."""
    try:
        made = pc.cast(texts, type)
        if pc.all(pc.is_finite(made), min_count=0).as_py():
            return made
    except pa.ArrowInvalid:
        pass
    plain = pc.match_substring_regex(texts, r"^-?[0-9]+(\.[0-9]+)?([eE]-?[0-9]{1,2})?$")
    try:
        made = pc.cast(pc.if_else(plain, texts, pa.scalar(None, pa.string())), type)
    except pa.ArrowInvalid:  # a double that is beyond the range of floats
        made, plain = pa.nulls(len(texts), type), pa.array(np.zeros(len(texts), np.bool_))
    rest = pc.and_(pc.is_valid(texts), pc.invert(pc.fill_null(plain, True)))
    if not pc.any(rest).as_py():
        return made
    unique = texts.filter(rest).dictionary_encode()
    found = [_float(word, type, words) for word in unique.dictionary.to_pylist()]
    return pc.replace_with_mask(made, rest, pa.array(found, type).take(unique.indices))


def is_number(text: str) -> bool:
    return _FLOATING.fullmatch(text.strip(_BLANK)) is not None


def _float(text: str, type: pa.DataType, words: Words) -> float | None:
    named = {
        words.nan: float("nan"),
        words.negative: float("-inf"),
        words.positive: float("inf"),
    }
    if text in named:
        return named[text]
    bare = text.strip(_BLANK)
    if re.search(r"0[xX]", bare) or not bare.isascii():
        raise UnfaithfulError(f"{text!r} is a number of no form that is known here. {HINT}")
    if _NAMED.fullmatch(bare):
        return float(bare)
    if not _FLOATING.fullmatch(bare):
        return None
    bare = bare.rstrip("fFdD").lstrip("+")
    try:
        return float(pc.cast(pa.scalar(bare), type).as_py())
    except pa.ArrowInvalid:  # beyond the range, or next to nothing
        return float(np.float64(bare).astype(type.to_pandas_dtype()))


def decimals(texts: pa.Array, type: pa.DataType) -> pa.Array:
    """All at once if none has to be rounded; else those that do one by one."""
    whole, part = type.precision - type.scale, type.scale
    pattern = (
        rf"^-?[0-9]{{1,{whole}}}(\.[0-9]{{1,{part}}})?$"
        if whole and part
        else (rf"^-?[0-9]{{1,{whole}}}$" if whole else r"^-?0$")
    )
    plain = pc.match_substring_regex(texts, pattern)
    made = pc.cast(pc.if_else(plain, texts, pa.scalar(None, pa.string())), type)
    rest = pc.and_(pc.is_valid(texts), pc.invert(pc.fill_null(plain, True)))
    if not pc.any(rest).as_py():
        return made
    unique = texts.filter(rest).dictionary_encode()
    found = [decimal_of(word, type) for word in unique.dictionary.to_pylist()]
    return pc.replace_with_mask(made, rest, pa.array(found, type).take(unique.indices))


def decimal_of(text: str, type: pa.DataType) -> Decimal | None:
    """Commas do not count, as they stand between thousands."""
    bare = text.replace(",", "")
    if not bare.isascii():
        raise UnfaithfulError(f"{text!r} is a number of no form that is known here. {HINT}")
    if not _DECIMAL.fullmatch(bare):
        return None
    with localcontext(prec=80, Emax=10**6, Emin=-(10**6)):
        try:
            rounded = Decimal(bare).quantize(Decimal(1).scaleb(-type.scale), ROUND_HALF_UP)
        except InvalidOperation:
            return None
        return rounded if abs(rounded) < Decimal(10) ** (type.precision - type.scale) else None
