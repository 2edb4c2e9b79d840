"""How far a stream has got: its latest time less its lateness, in the steps that Spark has."""

from __future__ import annotations

import pytest

from skewless.engine.watermark import NEVER_US, reached


@pytest.mark.parametrize(
    ("time_us", "late_us", "tick_us", "expected"),
    [
        (None, 5, 1, NEVER_US),
        (100_000_500, 10_000_000, 1, 90_000_500),
        (100_000_500, 10_000_000, 1000, 90_000_000),
        (100_000_999, 0, 1000, 100_000_000),
        (100_000_000, 10_000_000, 1000, 90_000_000),
        (-1, 0, 1000, -1000),
        (5, -NEVER_US, 1000, NEVER_US),
    ],
)
def test_reached(time_us: int | None, late_us: int, tick_us: int, expected: int) -> None:
    assert reached(time_us, late_us, tick_us) == expected
