"""Durations as PySpark users write them: ``"10 minutes"``, ``"1 hour 30 seconds"``, a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from skewless.errors import ArgumentError

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_ALIASES = {"us": "microsecond", "ms": "millisecond", "sec": "second", "min": "minute"}
_TERM = re.compile(r"([+-]?)\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")

# Event times are microseconds in 64 bits; a bound must leave room to be added to any of them.
LONGEST_US = 1 << 61


def parse_duration_us(value: object, argument: str, *, allow_negative: bool = False) -> int:
    """A duration in microseconds; `argument` is named in the error.

    >>> parse_duration_us("1 minute 30 seconds", "late")
    90000000
    >>> parse_duration_us("-500 ms", "within", allow_negative=True)
    -500000
    """
    if isinstance(value, timedelta):
        total = value // timedelta(microseconds=1)
    elif isinstance(value, str):
        total = _parse_text(value, argument)
    else:
        raise ArgumentError(argument, value, "a duration such as '10 minutes' or a timedelta")
    if abs(total) > LONGEST_US:
        raise ArgumentError(argument, value, "a duration of at most 70,000 years")
    if total < 0 and not allow_negative:
        raise ArgumentError(argument, value, "a duration that is not negative")
    return total


def _parse_text(text: str, argument: str) -> int:
    rest = text.strip().lower().removeprefix("interval ").strip()
    total, position = 0, 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        if term is None:
            break
        sign, number, unit = term.groups()
        unit = _ALIASES.get(unit, _ALIASES.get(unit.rstrip("s"), unit.rstrip("s")))
        if unit not in _MICROSECONDS:
            break
        amount = round(Decimal(number) * _MICROSECONDS[unit])
        total += -amount if sign == "-" else amount
        position = term.end()
    if not rest or position < len(rest):
        units = ", ".join(f"{u}s" for u in _MICROSECONDS)
        raise ArgumentError(argument, text, f"a duration such as '10 minutes' (units: {units})")
    return total


def format_duration_us(us: int) -> str:
    """The shortest exact way to write a duration.

    >>> format_duration_us(90_000_000)
    '90 seconds'
    """
    for unit, size in sorted(_MICROSECONDS.items(), key=lambda item: -item[1]):
        if us and us % size == 0:
            count = us // size
            return f"{count} {unit}{'' if abs(count) == 1 else 's'}"
    return "0 seconds"
