"""The one-line verdict."""

from __future__ import annotations

import numpy as np

from skewless.placement.balancing.verdict import verdict
from skewless.placement.places import Placement
from tests.placement.balancing.views import key_in, own, report


def test_no_key_stands_out() -> None:
    told = report([10.0] * 4, 4, {key_in(0, 4, 1): 1.0})
    assert verdict(told, np.array([10.0, 10.0, 10.0, 12.0]), {}) == (
        "no key stands out; busiest/mean 1.14"
    )


def test_heavy_keys_and_what_was_done_about_them() -> None:
    a, b = key_in(0, 4, 17), key_in(1, 4, 42)
    placement = (
        Placement.spread(4, 4).with_isolated(own(a, 4, 0, 1, 2)).with_isolated(own(b, 4, 2, 3))
    )
    told = report([10.0] * 4, 4, {a: 60.0, b: 30.0}, placement)
    loads = np.array([30.0, 30.0, 35.0, 35.0])
    assert verdict(told, loads, placement.isolated_by_hash) == (
        f"keys {a % 1000} and {b % 1000} carry 69% of the work; split 3 and 2 ways; "
        "busiest/mean 1.08"
    )
    assert verdict(told, loads, {}).startswith("keys ")
    assert "split" not in verdict(told, loads, {})


def test_many_keys_are_counted() -> None:
    keys = {key_in(0, 4, n): 20.0 for n in range(1, 6)}
    told = report([100.0, 1.0, 1.0, 1.0], 4, keys)
    assert verdict(told, np.array([100.0, 1.0, 1.0, 1.0]), {}).startswith(
        "5 keys (1, 2, 3, …) carry"
    )


def test_nothing_done_yet() -> None:
    assert verdict(report([0.0] * 4, 4), np.zeros(4), {}) == "busiest/mean 1.00"
