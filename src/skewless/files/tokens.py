"""Lines of text cut into values, and values read as numbers, dates and times: loops over bytes.

Whatever is not plain is left to the caller (`ODD`): it is rare, and Spark's own reader knows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skewless.arrays.compiled import kernel

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]
States = npt.NDArray[np.uint8]

NONE, PLAIN, QUOTED, ESCAPED = 0, 1, 2, 3  # how a value stands in its line
NULL, FOUND, BAD, ODD = 0, 1, 2, 3  # what came of reading it
DAY_US = 86_400_000_000


@kernel
def count_lines(data: Bytes) -> int:
    """At most so many lines."""
    count = 1
    for i in range(data.size):
        count += data[i] == 10 or data[i] == 13
    return count


@kernel
def _line(data: Bytes, at: int) -> tuple[int, int, bool]:
    """Where a line ends, where the next begins, and whether there is nothing in it."""
    end, blank = at, True
    while end < data.size and data[end] != 10 and data[end] != 13:
        blank = blank and data[end] <= 32
        end += 1
    after = end + 1
    if after < data.size and data[end] == 13 and data[after] == 10:
        after += 1
    return end, after, blank


@kernel
def _is_escape(data: Bytes, at: int, end: int, quote: int, escape: int) -> bool:
    """Whether the byte here only says that the next one is meant as it is."""
    if data[at] != escape or at + 1 >= end:
        return False
    return data[at + 1] == quote or (data[at + 1] == escape and escape != quote)


@kernel
def _value(
    data: Bytes, at: int, end: int, sep: int, quote: int, escape: int
) -> tuple[int, int, int, int]:
    """Begin, end and kind of a value, and where what separates it from the next stands. -1 there
    if its quotes are not well-formed."""
    if at < end and data[at] == quote:
        last, kind = at + 1, QUOTED
        while last < end:
            if _is_escape(data, last, end, quote, escape):
                kind = ESCAPED
                last += 2
            elif data[last] == quote:
                break
            else:
                last += 1
        closed = last < end and (last + 1 == end or data[last + 1] == sep)
        return at + 1, last, kind, last + 1 if closed else -1
    last = at
    while last < end and data[last] != sep:
        last += 1
    return at, last, PLAIN if last > at else NONE, last


@kernel
def cut(
    data: Bytes,
    sep: int,
    quote: int,
    escape: int,
    comment: int,
    skip: bool,
    slots: npt.NDArray[np.int64],
    begins: Places,
    ends: Places,
    kinds: States,
    counts: Places,
) -> tuple[int, int]:
    """The values of every line, for columns that have a slot: what a line lacks stays none. How
    many lines there are, and where one begins that is not well-formed, or -1."""
    rows, at = 0, 0
    while at < data.size:
        begin = at
        end, at, blank = _line(data, begin)
        if blank or data[begin] == comment:
            continue
        if data[begin] == 0:
            return rows, begin
        if skip:
            skip = False
            continue
        column, p = 0, begin - 1
        while p < end:
            first, last, kind, p = _value(data, p + 1, end, sep, quote, escape)
            if p < 0:
                return rows, begin
            if column < slots.size and slots[column] >= 0:
                slot = slots[column]
                begins[slot, rows], ends[slot, rows], kinds[slot, rows] = first, last, kind
            column += 1
        counts[rows] = column
        rows += 1
    return rows, -1


@kernel
def forget(data: Bytes, begins: Places, ends: Places, kinds: States, null: Bytes) -> None:
    """Values that stand for null become none."""
    for i in range(begins.size):
        if kinds[i] == PLAIN or kinds[i] == QUOTED:
            size = ends[i] - begins[i]
            if size == null.size:
                same = True
                for k in range(size):
                    same = same and data[begins[i] + k] == null[k]
                if same:
                    kinds[i] = NONE


@kernel
def gather(
    data: Bytes, begins: Places, ends: Places, kinds: States, quote: int, escape: int
) -> tuple[Places, Bytes]:
    """The bytes of values one behind the other, without escapes, and where each begins."""
    offsets = np.zeros(begins.size + 1, np.int32)
    total = 0
    for i in range(begins.size):
        if kinds[i] != NONE:
            total += ends[i] - begins[i]
    held = np.empty(total, np.uint8)
    at = 0
    for i in range(begins.size):
        if kinds[i] == ESCAPED:
            p = begins[i]
            while p < ends[i]:
                if _is_escape(data, p, ends[i], quote, escape):
                    p += 1
                held[at] = data[p]
                at += 1
                p += 1
        elif kinds[i] != NONE:
            for p in range(begins[i], ends[i]):
                held[at] = data[p]
                at += 1
        offsets[i + 1] = at
    return offsets, held[:at]


@kernel
def integers(
    data: Bytes, begins: Places, ends: Places, kinds: States, low: int, high: int
) -> tuple[npt.NDArray[np.int64], States]:
    """Digits with a sign. Java reads digits of other scripts, too: those are odd."""
    made = np.zeros(begins.size, np.int64)
    states = np.zeros(begins.size, np.uint8)
    for i in range(begins.size):
        if kinds[i] == NONE:
            continue
        p, end = begins[i], ends[i]
        negative = p < end and data[p] == 45
        if p < end and (data[p] == 45 or data[p] == 43):
            p += 1
        state = FOUND if p < end else BAD
        value, digits = np.uint64(0), 0
        while p < end:
            c = data[p]
            if 48 <= c <= 57:
                digits += digits > 0 or c > 48
                value = value * np.uint64(10) + np.uint64(c - 48)
            elif c >= 128:
                state = ODD
                break
            else:
                state = BAD
            p += 1
        if state == FOUND:
            most = np.uint64(high) + np.uint64(1 if negative else 0)
            if digits > 19 or value > most:
                state = BAD
            else:
                made[i] = -np.int64(value) if negative and value < most else np.int64(value)
                if negative and value == most:
                    made[i] = low
        states[i] = state
    return made, states


@kernel
def _number(data: Bytes, at: int, width: int) -> int:
    """So many digits, or -1."""
    value = 0
    for k in range(width):
        c = data[at + k]
        if c < 48 or c > 57:
            return -1
        value = value * 10 + c - 48
    return value


@kernel
def _day(data: Bytes, at: int) -> int:
    """Days since 1970 of yyyy-MM-dd; a large number if there is no such day, a larger one if these
    are no digits."""
    year, month, day = _number(data, at, 4), _number(data, at + 5, 2), _number(data, at + 8, 2)
    if min(year, month, day) < 0 or data[at + 4] != 45 or data[at + 7] != 45:
        return 1 << 41
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if month < 1 or month > 12 or day < 1:
        return 1 << 40
    length = 31 if month in (1, 3, 5, 7, 8, 10, 12) else 30
    if month == 2:
        length = 29 if leap else 28
    if day > length:
        return 1 << 40
    y = year - (month <= 2)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@kernel
def _unread(data: Bytes, begin: int, end: int) -> int:
    """What is not of the usual form: without a digit it is no time in any form."""
    for p in range(begin, end):
        if 48 <= data[p] <= 57 or data[p] >= 128:
            return ODD
    return BAD


@kernel
def dates(
    data: Bytes, begins: Places, ends: Places, kinds: States
) -> tuple[npt.NDArray[np.int32], States]:
    """yyyy-MM-dd; a time may follow, and does not count."""
    made = np.zeros(begins.size, np.int32)
    states = np.zeros(begins.size, np.uint8)
    for i in range(begins.size):
        if kinds[i] == NONE:
            continue
        begin, end = begins[i], ends[i]
        day = _day(data, begin) if end - begin >= 10 else 1 << 41
        follows = end - begin > 10 and data[begin + 10] != 84 and data[begin + 10] != 32
        if day >= 1 << 41 or follows:
            states[i] = _unread(data, begin, end)
        elif day >= 1 << 40:
            states[i] = BAD
        else:
            made[i], states[i] = day, FOUND
    return made, states


@kernel
def _clock(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Microseconds of HH:mm:ss with a fraction, and where it ends. Negative if there is no such
    time, and then -1 as the end if it is of another form."""
    if end - at < 8 or data[at + 2] != 58 or data[at + 5] != 58:
        return -1, -1
    h, m, s = _number(data, at, 2), _number(data, at + 3, 2), _number(data, at + 6, 2)
    if min(h, m, s) < 0:
        return -1, -1
    us, unit, p = (h * 3600 + m * 60 + s) * 1_000_000, 1_000_000, at + 8
    if p < end and data[p] == 46:
        p += 1
        first = p
        while p < end and 48 <= data[p] <= 57:
            unit //= 10
            us += (data[p] - 48) * unit
            p += 1
        if p == first or p - first > 9:
            return -1, -1
    return us if h < 24 and m < 60 and s < 60 else -1, p


@kernel
def _offset(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """How many bytes name a zone, as Z or +HH:mm, and the microseconds that it is ahead."""
    if at + 1 == end and data[at] == 90:
        return 1, 0
    if at + 6 != end or data[at + 3] != 58 or (data[at] != 43 and data[at] != 45):
        return 0, 0
    h, m = _number(data, at + 1, 2), _number(data, at + 4, 2)
    if h < 0 or h > 17 or m < 0 or m > 59:
        return 0, 0
    us = (h * 60 + m) * 60_000_000
    return 6, us if data[at] == 43 else -us


@kernel
def _time(data: Bytes, begin: int, end: int, zoned: bool, is_utc: bool) -> tuple[int, int]:
    """Microseconds since 1970, and what came of reading them."""
    day = _day(data, begin) if end - begin >= 10 else 1 << 41
    us, p = 0, begin + 10
    if end - begin > 10 and day < 1 << 41:
        between = data[begin + 10]
        us, p = _clock(data, begin + 11, end) if between in (84, 32) else (-1, -1)
    named, ahead_us = _offset(data, p, end) if p >= 0 else (0, 0)
    if day >= 1 << 41 or p + named != end:
        return 0, _unread(data, begin, end)
    if day >= 1 << 40 or us < 0 or (named and not zoned):
        return 0, BAD
    if zoned and not named and not is_utc:
        return 0, ODD
    return day * DAY_US + us - ahead_us, FOUND


@kernel
def times(
    data: Bytes, begins: Places, ends: Places, kinds: States, zoned: bool, is_utc: bool
) -> tuple[npt.NDArray[np.int64], States]:
    """yyyy-MM-dd, or with HH:mm:ss, a fraction and Z or +HH:mm: microseconds since 1970. Times that
    are to have a zone and do not name one are read only if it is UTC."""
    made = np.zeros(begins.size, np.int64)
    states = np.zeros(begins.size, np.uint8)
    for i in range(begins.size):
        if kinds[i] != NONE:
            made[i], states[i] = _time(data, begins[i], ends[i], zoned, is_utc)
    return made, states


def spread(columns: int, lines: int) -> tuple[Any, Any, Any]:
    """Room for what `cut` finds."""
    shape = (max(columns, 1), lines)
    return np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.uint8)
