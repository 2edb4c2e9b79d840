"""One JSON text as a row, the way Spark's `from_json` reads it: for what is not plain.

A field whose value does not fit its type is null, and the rest of the row is kept. In lists and
maps one such value spoils the whole. Which fields are kept of a text that is no JSON depends on
where it breaks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.expressions.zones import Zone
from skewless.files import jackson, spark_times
from skewless.files.jackson import MalformedError, Tokens
from skewless.files.texts import decimal_of

LONG = 1 << 63
# What Jackson takes for a byte goes up to 255.
RANGES = {
    pa.int8(): (-128, 255),
    pa.int16(): (-(1 << 15), (1 << 15) - 1),
    pa.int32(): (-(1 << 31), (1 << 31) - 1),
    pa.int64(): (-LONG, LONG - 1),
}
NO_NUMBERS = {
    "NaN": float("nan"),
    **dict.fromkeys(("+INF", "+Infinity", "Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}
_SURROGATE_BYTES = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACED = "\ufffd".encode()
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_ESCAPES = {c: f"\\{c}" for c in '"\\'} | dict(
    zip("\b\f\n\r\t", ("\\b", "\\f", "\\n", "\\r", "\\t"), strict=True)
)


class UnfitError(Exception):
    """A value is not of its type."""


class PartialError(UnfitError):
    """A part of a value is not; the rest is kept."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


FAILURES = (MalformedError, UnfitError)


@dataclass(frozen=True)
class Row:
    """The fields of a text, None where there is no value at all; and whether it is a bad one."""

    values: dict[str, Any] | None
    is_bad: bool = False


def exact_row(data: bytes, fields: pa.StructType, zone: Zone) -> Row:
    # Java takes a surrogate, or half of one, for one mistake; Python for several.
    tokens = Tokens(_SURROGATE_BYTES.sub(_REPLACED, data).decode(errors="replace"))
    try:
        if tokens.next() is None:
            return Row(None)
        if tokens.token != jackson.OPEN_OBJECT:
            return Row({}, is_bad=True)
        return Row(_object(tokens, fields, zone))
    except PartialError as partial:
        return Row(partial.value, is_bad=True)
    except FAILURES:
        return Row({}, is_bad=True)


def _until(tokens: Tokens, end: str) -> bool:
    return tokens.next() not in (None, end)


def _object(tokens: Tokens, fields: pa.StructType, zone: Zone) -> dict[str, Any]:
    row: dict[str, Any] = {}
    is_bad = False
    types = {field.name: field.type for field in fields}
    while _until(tokens, jackson.CLOSE_OBJECT):
        name = tokens.name
        if name is None or name not in types:
            tokens.skip()
            continue
        try:
            row[name] = _value(tokens, types[name], zone)
        except PartialError as partial:
            is_bad, row[name] = True, partial.value
        except FAILURES:
            is_bad = True
            tokens.skip()
    if is_bad:
        raise PartialError(row)
    return row


def _list(tokens: Tokens, type: pa.DataType, zone: Zone) -> list[Any]:
    values, is_bad = [], False
    while _until(tokens, jackson.CLOSE_ARRAY):
        try:
            values.append(_value(tokens, type.value_type, zone))
        except PartialError as partial:
            is_bad = True
            values.append(partial.value)
    if is_bad:
        raise PartialError(values)
    return values


def _map(tokens: Tokens, type: pa.DataType, zone: Zone) -> list[tuple[str, Any]]:
    pairs, is_bad, is_unfit = [], False, False
    while _until(tokens, jackson.CLOSE_OBJECT):
        name = java_text(tokens.name or "")
        try:
            pairs.append((name, _value(tokens, type.item_type, zone)))
        except PartialError as partial:
            is_bad = True
            pairs.append((name, partial.value))
        except FAILURES:
            is_unfit = True
            tokens.skip()
    if is_unfit:
        raise UnfitError
    if is_bad:
        raise PartialError(pairs)
    return pairs


def _value(tokens: Tokens, type: pa.DataType, zone: Zone) -> Any:
    while tokens.token == jackson.NAME:
        tokens.next()
    token = tokens.token
    if token in (None, jackson.NULL):
        return None
    if pa.types.is_struct(type) and token == jackson.OPEN_OBJECT:
        return _object(tokens, type, zone)
    if pa.types.is_map(type) and token == jackson.OPEN_OBJECT:
        return _map(tokens, type, zone)
    if pa.types.is_list(type) and token == jackson.OPEN_ARRAY:
        return _list(tokens, type, zone)
    if pa.types.is_string(type):
        return java_text(tokens.text()) if token == jackson.STRING else _copied(tokens)
    text = tokens.text() if token in (jackson.STRING, jackson.INT, jackson.FLOAT) else ""
    if pa.types.is_nested(type):
        raise UnfitError
    return _scalar(str(token), text, type, zone)


def _scalar(token: str, text: str, type: pa.DataType, zone: Zone) -> Any:
    is_text = token == jackson.STRING and text != ""
    if pa.types.is_boolean(type) and token in (jackson.TRUE, jackson.FALSE):
        return token == jackson.TRUE
    if type in RANGES and token == jackson.INT:
        return integer_of(text, type)
    if pa.types.is_floating(type) and (is_text or token in (jackson.INT, jackson.FLOAT)):
        return _floating(token, text, type)
    if pa.types.is_decimal(type) and (is_text or token in (jackson.INT, jackson.FLOAT)):
        return _given(_decimal(text, type))
    if pa.types.is_timestamp(type) and type.tz and token == jackson.INT:
        return _wrapped(integer_of(text, pa.int64()) * 1_000_000)
    if is_text and type in READERS:
        return _given(READERS[type](text, zone))
    raise UnfitError


READERS: dict[pa.DataType, Callable[[str, Zone], int | None]] = {
    pa.timestamp("us", "UTC"): spark_times.timestamp_us,
    pa.timestamp("us"): lambda text, zone: spark_times.local_us(text),
    pa.date32(): lambda text, zone: spark_times.date_days(text),
}


def _given(value: Any) -> Any:
    if value is None:
        raise UnfitError
    return value


def integer_of(text: str, type: pa.DataType) -> int:
    low, high = RANGES[type]
    number = int(text)
    if not low <= number <= high:
        raise UnfitError
    return number - 256 if pa.types.is_int8(type) and number > 127 else number


def _decimal(text: str, type: pa.DataType) -> Decimal | None:
    """Java knows the digits of all scripts."""
    plain = "".join(str(unicodedata.decimal(c, c)) for c in text)
    return decimal_of(plain, type) if plain.isascii() else None


def _wrapped(number: int) -> int:
    return (number + LONG) % (2 * LONG) - LONG


def _floating(token: str, text: str, type: pa.DataType) -> float:
    if token == jackson.STRING or text in NO_NUMBERS:
        return float(_given(NO_NUMBERS.get(text)))
    if token == jackson.INT:
        text = str(int(text))  # there is no -0 among whole numbers
    if pa.types.is_float64(type):
        return float(text)
    try:
        return float(pc.cast(pa.scalar(text), type).as_py())
    except pa.ArrowInvalid:
        with np.errstate(over="ignore"):
            return float(np.float32(float(text)))


def java_text(text: str) -> str:
    """Half a pair of surrogates is a question mark."""
    if not _SURROGATE.search(text):
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub("?", paired)


# Anything as a string ------------------------------------------------------------------------


def _copied(tokens: Tokens) -> str:
    """The text of whatever stands where a string should be, written anew."""
    parts: list[str] = []
    depth, after = 0, ""
    while True:
        token = tokens.token
        if token == jackson.NAME:
            parts += [after, _quoted(tokens.name or ""), ":"]
            after = ""
        elif token in (jackson.OPEN_OBJECT, jackson.OPEN_ARRAY):
            parts += [after, token]
            depth, after = depth + 1, ""
        elif token in (jackson.CLOSE_OBJECT, jackson.CLOSE_ARRAY):
            if not depth:
                raise UnfitError
            parts.append(token)
            depth, after = depth - 1, ","
        else:
            parts += [after, _written(str(token), tokens)]
            after = ","
        if not depth:
            return "".join(parts)
        if tokens.next() is None:
            raise MalformedError


def _written(token: str, tokens: Tokens) -> str:
    if token == jackson.STRING:
        return _quoted(tokens.text())
    if token == jackson.INT:
        return str(int(tokens.text()))
    if token == jackson.FLOAT:
        text = tokens.text()
        number = NO_NUMBERS[text] if text in NO_NUMBERS else float(text)
        made = java_double(number)
        return made if np.isfinite(number) else f'"{made}"'
    return token


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    """Letters beyond 16 bits are written as two."""
    if found[0] in _ESCAPES:
        return _ESCAPES[found[0]]
    units = found[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def java_double(number: float) -> str:
    """As Java writes it; before version 19 it sometimes has one digit more.

    >>> java_double(0.001), java_double(1e7), java_double(-0.0), java_double(5e-324)
    ('0.001', '1.0E7', '-0.0', '4.9E-324')
    """
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else ("Infinity" if number > 0 else "-Infinity")
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return np.format_float_positional(number, trim="0")
    short = f"{number:.1e}"  # it has two digits, even where one would do
    text = short if float(short) == number else repr(number)
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits))
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{power}"
