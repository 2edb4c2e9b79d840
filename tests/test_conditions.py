"""Conditions as users write them."""

from __future__ import annotations

import pickle

from skewless.conditions import UNBOUNDED, band


def test_unbounded_is_one_value_wherever_it_travels() -> None:
    assert pickle.loads(pickle.dumps(UNBOUNDED)) is UNBOUNDED
    assert repr(UNBOUNDED) == "sk.UNBOUNDED"


def test_band_keeps_what_was_written() -> None:
    made = band("price", "quote", width="5 seconds")
    assert (made.left, made.right, made.width) == ("price", "quote", "5 seconds")
