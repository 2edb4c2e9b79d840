"""Columns that are in the names of folders: `day=2024-01-01/`, as Spark reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa

from skewless.files.converting import UnfaithfulError
from skewless.state.files import qualify

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # of null, and of "", which has no folder of its own
_GLOB = re.compile(r"[{}\[\]*?\\]")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2}:\d{2}(\.\d{1,6})?)?")
_INTEGERS = {pa.int8(): 32, pa.int16(): 32, pa.int32(): 32, pa.int64(): 64}


def found_in(path: str, base: str) -> dict[str, str]:
    """Names and values, still escaped, of the folders between a base and a file. Above a folder
    that is none of them, others do not count.

    >>> found_in("file:/data/x/day=1/k=a%20b/f.parquet", "/data")
    {'day': '1', 'k': 'a%20b'}
    """
    if not base or _GLOB.search(base):
        return {}
    top = qualify(base).rstrip("/")
    folder = qualify(path).rpartition("/")[0]
    if not folder.startswith(f"{top}/"):
        return {}
    found: dict[str, str] = {}
    for part in reversed(folder.removeprefix(f"{top}/").split("/")):
        name, equals, value = part.partition("=")
        if name and equals and value:
            found = {unescaped(name): value} | found
        elif found:
            break
    return found


def unescaped(text: str) -> str:
    """Every `%` with two digits is the character of that number.

    >>> unescaped("12%3A30 100%")
    '12:30 100%'
    """
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def values(
    path: str, base: str, fields: list[pa.Field], time_zone: str, *, case_sensitive: bool
) -> dict[int, pa.Scalar]:
    """What folders say about fields, by their numbers."""
    folders = found_in(path, base)
    return {
        i: _value(text, field, time_zone, path)
        for i, field in enumerate(fields)
        for name, text in _named(folders, field.name, case_sensitive=case_sensitive)
    }


def _named(
    folders: dict[str, str], wanted: str, *, case_sensitive: bool
) -> Iterator[tuple[str, str]]:
    for name, text in folders.items():
        if name == wanted or (not case_sensitive and name.lower() == wanted.lower()):
            yield name, text


def _value(text: str, field: pa.Field, time_zone: str, path: str) -> pa.Scalar:
    type = field.type
    if text == NO_VALUE:
        return pa.scalar(None, type)
    try:
        found = _parsed(text, type, time_zone)
    except (ValueError, ArithmeticError, pa.ArrowInvalid):
        found = None
    if found is None:
        raise UnfaithfulError(
            f"{path}: the folder {field.name}={text} is not read as {type}, as which it is declared"
        )
    return found


def _parsed(text: str, type: pa.DataType, time_zone: str) -> pa.Scalar | None:  # noqa: PLR0911
    if pa.types.is_string(type):
        return pa.scalar(unescaped(text), type)
    if pa.types.is_binary(type):
        return pa.scalar(text.encode(), type)
    if pa.types.is_boolean(type):
        return {"true": pa.scalar(True), "false": pa.scalar(False)}.get(text.lower())
    if type in _INTEGERS:
        return _integer(text, type)
    if pa.types.is_floating(type):
        return pa.scalar(float(text), type) if _NUMBER.fullmatch(text) else None
    if pa.types.is_date32(type):
        return pa.scalar(date.fromisoformat(text), type) if _DATE.fullmatch(text) else None
    if pa.types.is_timestamp(type):
        return _moment(unescaped(text), type, time_zone)
    raise UnfaithfulError(f"folders are not read as {type}; `spark.readStream` may do so")


def _integer(text: str, type: pa.DataType) -> pa.Scalar | None:
    """Java's way: bytes and shorts are read as integers, and wrap around."""
    bits = _INTEGERS[type]
    if not _WHOLE.fullmatch(text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        return None
    half = 1 << type.bit_width - 1
    return pa.scalar((int(text) + half) % (2 * half) - half, type)


def _moment(text: str, type: pa.DataType, time_zone: str) -> pa.Scalar | None:
    if not _TIME.fullmatch(text):
        return None
    found = datetime.fromisoformat(text)
    if type.tz is None:
        return pa.scalar(found, type)
    return pa.scalar(found.replace(tzinfo=ZoneInfo(time_zone)).astimezone(UTC), type)
