"""Durations as PySpark users write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.durations import LONGEST_US, format_duration_us, parse_duration_us
from skewless.errors import ArgumentError
from tests.strategies import examples

SECOND, MINUTE, HOUR, DAY = 10**6, 60 * 10**6, 3600 * 10**6, 86_400 * 10**6

GOOD = {
    "0 seconds": 0,
    "1 microsecond": 1,
    "3 us": 3,
    "10 ms": 10_000,
    "10 milliseconds": 10_000,
    "1 second": SECOND,
    "2 sec": 2 * SECOND,
    "2 secs": 2 * SECOND,
    "10 minutes": 10 * MINUTE,
    "10 min": 10 * MINUTE,
    "10 mins": 10 * MINUTE,
    "1 hour": HOUR,
    "36 hours": 36 * HOUR,
    "2 days": 2 * DAY,
    "1 week": 7 * DAY,
    "1 hour 30 seconds": HOUR + 30 * SECOND,
    "1 day 2 hours 3 minutes 4 seconds 5 ms 6 us": DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 5006,
    "1.5 hours": HOUR + 30 * MINUTE,
    "0.1 seconds": 100_000,
    "  10   MINUTES  ": 10 * MINUTE,
    "10minutes": 10 * MINUTE,
    "interval 5 minutes": 5 * MINUTE,
    "INTERVAL 5 Minutes": 5 * MINUTE,
    "+5 minutes": 5 * MINUTE,
    "1 hour -15 minutes": 45 * MINUTE,
    "9007199254740993 microseconds": 9_007_199_254_740_993,
    timedelta(minutes=5): 5 * MINUTE,
    timedelta(microseconds=1): 1,
    timedelta(days=200_000, microseconds=1): 200_000 * DAY + 1,
}


@pytest.mark.parametrize(("written", "us"), GOOD.items(), ids=str)
def test_understood(written: object, us: int) -> None:
    assert parse_duration_us(written, "within") == us


BAD = ["", "  ", "interval", "5", "minutes", "five minutes", "10 minutes ago", "10 fortnights",
       "1 month", "1 year", "1,5 hours", "1e3 seconds", "-", "10 minutes,", "nan seconds",
       None, 5, 5.0, True, ["5 minutes"], b"5 minutes"]  # fmt: skip


@pytest.mark.parametrize("written", BAD, ids=repr)
def test_not_understood(written: object) -> None:
    with pytest.raises(ArgumentError, match="`late` must be a duration such as '10 min") as told:
        parse_duration_us(written, "late")
    assert (told.value.argument, told.value.received) == ("late", written)


@pytest.mark.parametrize("written", ["-1 second", "1 second -2 seconds", timedelta(seconds=-1)])
def test_negative_only_where_allowed(written: object) -> None:
    assert parse_duration_us(written, "within", allow_negative=True) == -SECOND
    with pytest.raises(ArgumentError, match="`late` must be a duration that is not negative"):
        parse_duration_us(written, "late")


@pytest.mark.parametrize("written", ["99999999 days", "9" * 400 + " weeks", "-99999999 days",
                                     timedelta.max, timedelta.min])  # fmt: skip
def test_too_long(written: object) -> None:
    """Event times are 64 bits: a bound must leave room to be added to any of them."""
    with pytest.raises(ArgumentError, match="at most 70,000 years"):
        parse_duration_us(written, "within", allow_negative=True)


def test_the_longest() -> None:
    written = f"{LONGEST_US} microseconds"
    assert parse_duration_us(written, "within") == LONGEST_US
    assert parse_duration_us(f"-{written}", "within", allow_negative=True) == -LONGEST_US
    with pytest.raises(ArgumentError):
        parse_duration_us(f"{LONGEST_US + 1} microseconds", "within")


@examples(300)
@given(st.integers(-LONGEST_US, LONGEST_US) | st.integers(-1000, 1000).map(lambda n: n * DAY))
def test_formatting_is_exact(us: int) -> None:
    assert parse_duration_us(format_duration_us(us), "within", allow_negative=True) == us


def test_formatting_is_short() -> None:
    spans = [0, 1, 1500, SECOND, 90 * SECOND, 60 * MINUTE, 7 * DAY, 8 * DAY, -MINUTE, -2 * HOUR]
    assert [format_duration_us(us) for us in spans] == [
        "0 seconds",
        "1 microsecond",
        "1500 microseconds",
        "1 second",
        "90 seconds",
        "1 hour",
        "1 week",
        "8 days",
        "-1 minute",
        "-2 hours",
    ]
