"""Averages over batches, and the prices fitted to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.placement.balancing.monitor import Monitor
from skewless.placement.figures import Work
from skewless.placement.places import Placement
from tests.placement.balancing.views import key_in, own, report
from tests.strategies import examples

NO_WORK = Work(np.zeros(2), np.zeros(2), np.zeros(2))


def test_figures_are_averaged_over_the_window() -> None:
    monitor = Monitor(2)
    for rows in ([100.0, 0.0], [1.0, 2.0], [3.0, 6.0]):
        monitor.add(report(rows, 2), NO_WORK)
    seen = monitor.view(Placement.spread(2, 2))
    assert seen.slots.probing_left.tolist() == [2.0, 4.0]
    assert monitor.latest(Placement.spread(2, 2)).slots.probing_left.tolist() == [3.0, 6.0]


def test_batches_under_another_placement_are_seen_as_under_this_one() -> None:
    hot, placement = key_in(0, 2, 1), Placement.spread(2, 2)
    apart = placement.with_isolated(own(hot, 2, 1))
    monitor = Monitor(2)
    monitor.add(report([50.0, 10.0], 2, {hot: 40.0}, placement), NO_WORK)
    monitor.add(report([10.0, 10.0], 2, {hot: 40.0}, apart), NO_WORK)
    for now, slots in ((apart, [10.0, 10.0]), (placement, [50.0, 10.0])):
        seen = monitor.view(now)
        assert seen.slots.probing_left.tolist() == slots
        assert seen.key_figures.probing_left.tolist() == [40.0]
        assert seen.keys[0].isolated == (now is apart)


@examples(50)
@given(st.floats(1e-5, 1e-2), st.floats(1e-6, 1e-3), st.integers(0, 1000))
def test_prices_are_found(row_ms: float, pair_ms: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    monitor = Monitor(1)
    for _ in range(6):
        rows, pairs = rng.integers(1_000, 100_000, 8), rng.integers(1_000, 1_000_000, 8)
        times = (rows * row_ms + pairs * pair_ms) * rng.normal(1, 0.01, 8)
        monitor.add(report([1.0, 1.0], 2), Work(rows * 1.0, pairs * 1.0, times))
    seen = monitor.view(Placement.spread(2, 2))
    typical = 50_000 * row_ms + 500_000 * pair_ms
    assert 50_000 * seen.row_ms + 500_000 * seen.pair_ms == pytest.approx(typical, rel=0.05)


def test_prices_of_keys_apart_are_their_own() -> None:
    hot, placement = key_in(0, 2, 1), Placement.spread(2, 2)
    apart = placement.with_isolated(own(hot, 2, 1))
    monitor = Monitor(1)
    for _ in range(4):
        rows = np.array([100.0, 300.0])
        monitor.add(
            report([10.0, 10.0], 2, {hot: 40.0}, apart),
            Work(rows, rows * 0, rows * 2.0), Work(rows, rows * 0, rows * 5.0),
        )  # fmt: skip
    seen = monitor.view(apart)
    assert seen.slots.time_left_ms == pytest.approx([20.0, 20.0], rel=0.01)
    assert seen.key_figures.time_left_ms == pytest.approx([200.0], rel=0.01)


def test_a_key_that_has_just_got_a_place_of_its_own_has_a_price() -> None:
    """Before, such keys took no more than a clock's tick: that is no price of theirs."""
    hot, placement = key_in(0, 2, 1), Placement.spread(2, 2)
    apart = placement.with_isolated(own(hot, 2, 1))
    monitor, rows = Monitor(1), np.array([100.0, 300.0])
    tick = Work(rows * 0, rows * 0, np.array([0.002, 0.001]))
    for _ in range(3):
        monitor.add(
            report([50.0, 10.0], 2, {hot: 40.0}, placement), Work(rows, rows * 0, rows), tick
        )
    for _ in range(4):
        monitor.add(
            report([10.0, 10.0], 2, {hot: 40.0}, apart),
            Work(rows, rows * 0, rows), Work(rows, rows * 0, rows * 5.0),
        )  # fmt: skip
        assert monitor.view(apart).key_figures.time_left_ms[0] >= 39.0
    assert monitor.view(apart).key_figures.time_left_ms == pytest.approx([200.0], rel=0.01)
