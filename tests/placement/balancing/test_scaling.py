"""The scaling gain ratio of FastJoin, eqs. (12) and (13), with the paper's numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import ArgumentError
from skewless.placement.balancing.scaling import scaling_gain_ratio

SIZES = st.floats(0.1, 1e4)


@given(st.integers(1, 10**6), st.integers(1, 10**4), SIZES, SIZES)
def test_it_is_equation_12(rows: int, keys: int, row_bytes: float, key_bytes: float) -> None:
    stored = row_bytes * rows
    expected = stored / (stored + key_bytes * keys)
    assert scaling_gain_ratio(rows / keys, row_bytes, key_bytes) == pytest.approx(expected)


def test_the_papers_numbers() -> None:
    """Above 0.9 when c is larger than 10, whatever the sizes are, as a row is the larger; the
    passenger stream has a c of 14, the taxis' more than ten thousand."""
    assert scaling_gain_ratio(10) == pytest.approx(10 / 11)
    assert all(scaling_gain_ratio(c, 1 + more, 1) > 0.9 for c in (10, 14) for more in (0, 1, 9))
    assert scaling_gain_ratio(14) == pytest.approx(14 / 15)
    assert scaling_gain_ratio(10_000) > 0.9999 - 1e-7
    assert scaling_gain_ratio(8) < 0.9


@pytest.mark.parametrize("name", ["rows_per_key", "row_bytes", "key_bytes"])
def test_nothing_cannot_be_shared(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` must be a number above 0"):
        scaling_gain_ratio(**{"rows_per_key": 1.0, name: 0.0})
