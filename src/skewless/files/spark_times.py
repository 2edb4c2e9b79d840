"""Dates and times in any form that Spark reads in JSON and CSV: one text at a time.

The usual forms are read by `tokens.py`, many at once. This is for the others.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np

from skewless.expressions.zones import Zone

BLANK = "".join(map(chr, range(33))) + "\x7f"
DAY_US = 86_400_000_000
LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1
GREGORIAN_DAY = -141_427  # 1582-10-15

_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2}))?(?::?([0-9]{2}))?")
_DATE = re.compile(r"[+-]?([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?=[ T]|$))?)?")
_SHORT = {
    "EST": "-05:00", "MST": "-07:00", "HST": "-10:00", "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago",
    "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


def timestamp_us(text: str, zone: Zone) -> int | None:
    """Microseconds since 1970, in a zone where the text has none; None if it is no time."""
    found = _moment(text, zone)
    return _moment(text.replace("GMT", ""), zone) if found is None else found


def local_us(text: str) -> int | None:
    """The same of times that have no zone, and may not name one."""
    parsed = _segments(text)
    if parsed is None or parsed.zone or parsed.today:
        return None
    return _wall_us(parsed.values)


def date_days(text: str) -> int | None:
    """Days since 1970; a number by itself may be that."""
    found = written_days(text)
    if found is not None:
        return found
    if not re.fullmatch(r"[+-]?\d+", text) or not -INT_MAX - 1 <= int(text) <= INT_MAX:
        return None
    return _from_julian(int(text))


def written_days(text: str) -> int | None:
    """Days since 1970 of what is written as a date."""
    found = _date(text)
    return _date(text.replace("GMT", "")) if found is None else found


class _Parsed:
    def __init__(self, values: list[int], zone: str | None, *, today: bool) -> None:
        self.values, self.zone, self.today = values, zone, today


def _fits(segment: int, digits: int) -> bool:
    if segment == 0:
        return 4 <= digits <= 6
    return segment == 6 or 0 < digits <= 2 or (segment == 7 and digits == 0)


def _segments(text: str) -> _Parsed | None:
    """Year, month, day, hour, minute, second and microseconds, as far as they are there; then
    perhaps a zone. A time of day alone is one of today."""
    text = text.strip(BLANK)
    values, at, value, digits, fraction = [1, 1, 1, 0, 0, 0, 0, 0, 0], 0, 0, 0, 0
    zone, today, sign, j = None, False, 0, 0
    if text[:1] in ("-", "+") and text:
        sign, j = (-1 if text[0] == "-" else 1), 1
    while j < len(text):
        c = text[j]
        if "0" <= c <= "9":
            fraction += at == 6
            if at != 6 or digits < 6:
                value = value * 10 + int(c)
            digits += 1
        elif j == 0 and c == "T":
            today, at = True, at + 3
        else:
            place = at
            if at == 0 and c == ":" and not sign:
                today, place = True, 3
            elif not _separates(at, c):
                return None
            if not _fits(place, digits):
                return None
            values[place], value, digits = value, 0, 0
            at = place + 1
            if place in (5, 6) and not (c == "." and place == 5):
                zone, at = text[j:], 7
                break
        j += 1
    if at > 8 or not _fits(at, digits):
        return None
    if at != 7:
        values[at] = value
    values[6] *= 10 ** max(6 - fraction, 0)
    values[0] *= sign or 1
    return _Parsed(values, None if zone is None else zone.strip(BLANK), today=today)


def _separates(segment: int, c: str) -> bool:
    if segment < 2:
        return c == "-"
    if segment == 2:
        return c in " T"
    if segment in (3, 4):
        return c == ":"
    return segment in (5, 6)


def _days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970; None if there is no such day."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    cycle, of_cycle = divmod(year, 400)
    months = np.array([of_cycle * 12 + month - 1, of_cycle * 12 + month]) - 1970 * 12
    first, last = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64).tolist()
    return first + day - 1 + cycle * 146_097 if day <= last - first else None


def _wall_us(values: list[int]) -> int | None:
    year, month, day, hour, minute, second, us = values[:7]
    days = _days_of(year, month, day)
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    made = days * DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + us
    return made if -LONG_MAX - 1 <= made <= LONG_MAX else None


def _moment(text: str, zone: Zone) -> int | None:
    parsed = _segments(text)
    if parsed is None:
        return None
    named = None if parsed.zone is None else zone_named(parsed.zone)
    if parsed.zone is not None and named is None:
        return None
    if parsed.today:
        now = datetime.now(UTC)
        now_us = int(now.timestamp() * 1_000_000)
        local = (
            int(zone.local(np.int64(now_us))) if named is None else now_us + _distance(named, now)
        )
        today = np.datetime64(local // DAY_US, "D").astype(object)
        parsed.values[:3] = [today.year, today.month, today.day]
    wall = _wall_us(parsed.values)
    if wall is None:
        return None
    made = int(zone.utc(np.array([wall]))[0]) if named is None else _utc(wall, named)
    return made if -LONG_MAX - 1 <= made <= LONG_MAX else None


def _distance(zone: tzinfo, at: datetime) -> int:
    return (zone.utcoffset(at.astimezone(zone)) or timedelta()) // timedelta(microseconds=1)


def _utc(wall: int, zone: tzinfo) -> int:
    if isinstance(zone, timezone):
        return wall - zone.utcoffset(None) // timedelta(microseconds=1)
    year = datetime(1970, 1, 1)
    try:
        local = (year + timedelta(microseconds=wall)).replace(tzinfo=zone)
    except OverflowError:
        local = datetime(9999, 1, 1, tzinfo=zone)
    return wall - (zone.utcoffset(local) or timedelta()) // timedelta(microseconds=1)


def zone_named(name: str) -> tzinfo | None:
    """What Java takes for a zone; None if it is none."""
    name = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", name, count=1)
    name = re.sub(r"([+-])([0-9][0-9]):([0-9])$", r"\1\2:0\3", name, count=1)
    name = _SHORT.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    bare = re.sub(r"^(UTC|GMT|UT)(?=[+-])", "", name)
    if bare[:1] in ("+", "-"):
        return _offset(bare)
    try:
        return ZoneInfo(name) if "/" in name or name.isalnum() else None
    except (ValueError, OSError, KeyError):
        return None


def _offset(text: str) -> tzinfo | None:
    """+h, +hh, +hhmm, +hh:mm, +hhmmss or +hh:mm:ss, up to 18 hours."""
    found = _OFFSET.fullmatch(text)
    if found is None:
        return None
    sign, hours, minutes, seconds = found.groups()
    if text.count(":") not in (0, 1 + (seconds is not None)) or (minutes and len(hours) == 1):
        return None
    if ":" not in text and minutes is None and seconds is not None:
        return None
    h, m, s = int(hours), int(minutes or 0), int(seconds or 0)
    if m > 59 or s > 59 or h * 3600 + m * 60 + s > 18 * 3600:
        return None
    distance = timedelta(hours=h, minutes=m, seconds=s)
    return timezone(-distance if sign == "-" else distance)


def _date(text: str) -> int | None:
    text = text.strip(BLANK)
    if not text:
        return None
    sign = -1 if text[0] == "-" else 1
    found = _DATE.match(text)
    if found is None:
        return None
    year, month, day = found.groups()
    if day is None and found.end() != len(text):
        return None
    days = _days_of(sign * int(year), int(month or 1), int(day or 1))
    return days if days is None or -INT_MAX - 1 <= days <= INT_MAX else None


def _from_julian(days: int) -> int:
    """A day of the calendar before 1582, as today's calendar has it."""
    if days >= GREGORIAN_DAY:
        return days
    year, month, day = _julian(days)
    made = _days_of(year, month, day)
    return made if made is not None else _days_of(year, 3, 1) or 0  # 29 February


def _julian(days: int) -> tuple[int, int, int]:
    shifted = days + 719_470  # from 1 March of the year 0
    year, of_year = divmod(4 * shifted + 3, 1461)
    of_year //= 4
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return year + (month >= 10), month + 3 if month < 10 else month - 9, day
