"""Dates (days since 1970) and timestamps (microseconds since 1970, in UTC or without a zone)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from .apply import Fails
from .tree import Datum
from .vectors import any_valid, array_of, values_of
from .zones import Zone

SECOND = 1_000_000
DAY = 86_400 * SECOND
INT_MAX = (1 << 31) - 1
INT, LONG = pa.int32(), pa.int64()


# Parts of dates. NumPy's calendar is the proleptic Gregorian one, as Spark's is, for all days.


def _months(days: Any) -> Any:
    """Months since 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_day(months: Any) -> Any:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _part(value: Datum, part: Any) -> Datum:
    return array_of(part.astype(np.int32), INT, (value,))


def year(value: Datum) -> Datum:
    return _part(value, _months(values_of(value)) // 12 + 1970)


def month(value: Datum) -> Datum:
    return _part(value, _months(values_of(value)) % 12 + 1)


def quarter(value: Datum) -> Datum:
    return _part(value, _months(values_of(value)) % 12 // 3 + 1)


def day(value: Datum) -> Datum:
    days = values_of(value)
    return _part(value, days - _first_day(_months(days)) + 1)


def day_of_year(value: Datum) -> Datum:
    days = values_of(value)
    return _part(value, days - _first_day(_months(days) // 12 * 12) + 1)


def day_of_week(value: Datum) -> Datum:
    """From 1, a Sunday, on."""
    return _part(value, (values_of(value).astype(np.int64) + 4) % 7 + 1)


def weekday(value: Datum) -> Datum:
    """From 0, a Monday, on."""
    return _part(value, (values_of(value).astype(np.int64) + 3) % 7)


def last_day(value: Datum) -> Datum:
    last = _first_day(_months(values_of(value)) + 1) - 1
    return array_of(last, pa.date32(), (value,))


def add_days(value: Datum, days: Datum, sign: int) -> Datum:
    """Days are 32 bits wide, and wrap around."""
    made = values_of(value).astype(np.int64) + sign * values_of(days).astype(np.int64)
    return array_of(made.astype(np.int32), pa.date32(), (value, days))


def add_months(value: Datum, months: Datum) -> Datum:
    """To the same day of another month, or to its last if it has no such day."""
    days = values_of(value).astype(np.int64)
    made = _months_later(days, values_of(months).astype(np.int64))
    _refuse_far(made, value, months)
    return array_of(made, pa.date32(), (value, months))


def add_months_to_timestamp(value: Datum, months: Datum, zone: Zone) -> Datum:
    us = values_of(value)
    local = zone.local(us)
    days = _months_later(local // DAY, values_of(months).astype(np.int64))
    if any_valid(np.abs(days) > (1 << 63) // DAY - 2, (value, months)):
        raise Fails("overflow")
    return array_of(zone.moved(us, days * DAY + local % DAY), value.type, (value, months))


def _months_later(days: Any, more: Any) -> Any:
    months = _months(days)
    day = days - _first_day(months)
    later = months + more
    return _first_day(later) + np.minimum(day, _first_day(later + 1) - _first_day(later) - 1)


def _refuse_far(days: Any, *data: Datum) -> None:
    if any_valid((days > INT_MAX) | (days < -INT_MAX - 1), data):
        raise Fails("overflow")


def days_between(end: Datum, start: Datum) -> Datum:
    made = values_of(end).astype(np.int64) - values_of(start).astype(np.int64)
    return array_of(made.astype(np.int32), INT, (end, start))


def date_minus_date(end: Datum, start: Datum) -> Datum:
    made = values_of(end).astype(np.int64) - values_of(start).astype(np.int64)
    if any_valid(np.abs(made) > (1 << 63) // DAY, (end, start)):
        raise Fails("overflow")
    return array_of(made * DAY, pa.duration("us"), (end, start))


def days_to_int(value: Datum) -> Datum:
    return array_of(values_of(value), INT, (value,))


# Parts of timestamps.


def hour(value: Datum, zone: Zone) -> Datum:
    return _part(value, zone.local(values_of(value)) % DAY // (3600 * SECOND))


def minute(value: Datum, zone: Zone) -> Datum:
    return _part(value, zone.local(values_of(value)) % (3600 * SECOND) // (60 * SECOND))


def second(value: Datum, zone: Zone) -> Datum:
    return _part(value, zone.local(values_of(value)) % (60 * SECOND) // SECOND)


def to_date(value: Datum, zone: Zone) -> Datum:
    return array_of(zone.local(values_of(value)) // DAY, pa.date32(), (value,))


def scaled_down(value: Datum, by: int) -> Datum:
    """Whole units of so many microseconds since 1970."""
    return array_of(values_of(value) // by, LONG, (value,))


def truncated_seconds(value: Datum) -> Datum:
    """Whole seconds, cut off towards 1970."""
    us = values_of(value)
    return array_of(us // SECOND + ((us < 0) & (us % SECOND != 0)), LONG, (value,))


def to_seconds(value: Datum) -> Datum:
    return array_of(values_of(value) / float(SECOND), pa.float64(), (value,))


def difference(end: Datum, start: Datum, zone: Zone) -> Datum:
    """By clocks on the wall."""
    made = zone.local(values_of(end)) - zone.local(values_of(start))
    return array_of(made, pa.duration("us"), (end, start))


def moved(value: Datum, us: int, zone: Zone) -> Datum:
    """Later by an interval: its whole days by the calendar, the rest by the clock."""
    x = values_of(value)
    days, rest = int(abs(us) // DAY), int(abs(us) % DAY)
    sign = 1 if us >= 0 else -1
    if days and not zone.is_fixed:
        x = zone.moved(x, zone.local(x) + sign * days * DAY) + sign * rest
    else:
        x = x + us
    return array_of(x, value.type, (value,))


def start_of_day(value: Datum, type: pa.DataType, zone: Zone) -> Datum:
    """Midnight of dates, as timestamps."""
    days = values_of(value).astype(np.int64)
    if any_valid(np.abs(days) > (1 << 63) // DAY - 2, (value,)):
        raise Fails("overflow")
    return array_of(zone.utc(days * DAY), type, (value,))


def without_zone(value: Datum, zone: Zone) -> Datum:
    return array_of(zone.local(values_of(value)), pa.timestamp("us"), (value,))


def with_zone(value: Datum, zone: Zone) -> Datum:
    return array_of(zone.utc(values_of(value)), pa.timestamp("us", "UTC"), (value,))


MINUTE = 60 * SECOND
UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": SECOND,
    "MINUTE": MINUTE,
    "HOUR": 60 * MINUTE,
    "DAY": DAY,
}


def truncated(value: Datum, unit: str, zone: Zone) -> Datum:
    us = values_of(value)
    local = zone.local(us)
    width = UNITS.get(unit)
    if width is None:
        made = zone.utc(_truncated_days(local // DAY, unit) * DAY)
    elif width < MINUTE:  # distances to UTC are whole seconds
        made = us - local % width
    else:
        made = zone.moved(us, local - local % width)
    return array_of(made, value.type, (value,))


def truncated_date(value: Datum, unit: str) -> Datum:
    """What would be before the first day of all wraps around, as in Spark; only quarters fail."""
    days = values_of(value)
    if unit == "WEEK":
        before = days - np.int32(7)
        ahead = np.fmod(np.fmod(np.int32(3) - before, np.int32(7)) + np.int32(7), np.int32(7))
        return array_of(before + np.int32(1) + ahead, value.type, (value,))
    made = _truncated_days(days.astype(np.int64), unit)
    if unit == "QUARTER":
        _refuse_far(made, value)
    return array_of(made.astype(np.int32), value.type, (value,))


def _truncated_days(days: Any, unit: str) -> Any:
    if unit == "WEEK":
        return days - (days + 3) % 7
    months = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit]
    return _first_day(_months(days) // months * months)
