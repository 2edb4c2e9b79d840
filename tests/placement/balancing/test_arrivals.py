"""LS-Stream's eq. 4: how fast rows arrive, without the highest and the lowest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.placement.balancing.arrivals import steady_batches
from skewless.placement.balancing.lsstream import LSStream
from skewless.placement.balancing.monitor import Monitor
from skewless.placement.balancing.view import View
from skewless.placement.figures import Work
from skewless.placement.places import Placement
from tests.placement.balancing.views import report, view
from tests.strategies import examples


def rate(rows: list[float]) -> float:
    told = np.array(rows)
    return float(told[steady_batches(told)].mean())


def test_the_highest_and_the_lowest_do_not_count() -> None:
    # (10 + 90 + 11 + 0 + 12) - 90 - 0 = 33, of three batches.
    assert rate([10, 90, 11, 0, 12]) == 11
    assert rate([10, 10, 10, 10, 10]) == 10  # as printed, divided by the whole period: 6
    assert rate([7, 1, 4]) == 4
    assert rate([3, 5]) == 4
    assert rate([3]) == 3


@examples(100)
@given(st.lists(st.integers(0, 1000), min_size=3, max_size=9))
def test_it_is_the_mean_of_the_sorted_ones_between(rows: list[int]) -> None:
    between = sorted(rows)[1:-1]
    assert rate([float(r) for r in rows]) == pytest.approx(sum(between) / len(between))


def test_the_last_batches_are_told_apart() -> None:
    monitor = Monitor(2, apart=3)
    for rows in ([100.0, 0.0], [1.0, 2.0], [3.0, 6.0], [5.0, 4.0]):
        none = np.zeros(2)
        monitor.add(report(rows, 2), Work(none, none, none))
    seen = monitor.view(Placement.spread(2, 2))
    assert [b.slots.probing_left.tolist() for b in seen.batches] == [[1, 2], [3, 6], [5, 4]]
    assert seen.slots.probing_left.tolist() == [4, 5]  # of the last two


def with_batches(*of_slots: list[float]) -> View:
    """Two instances with two slots each; the loads are those of the last batch."""
    batches = tuple(view(slots, 2) for slots in of_slots)
    return replace(batches[-1], batches=batches)


def test_rates_and_their_time_are_those_of_the_steady_batches() -> None:
    """Instance 0 has 12, 100, 14, 0 and 16 rows: 14 of them count. Instance 1 has 2, 3, 4, 1, 3:
    8/3. The slots of the straggler are told for the batches in which it was steady."""
    seen = with_batches([4, 8, 1, 1], [60, 40, 1, 2], [6, 8, 2, 2], [0, 0, 1, 0], [8, 8, 1, 2])
    relief = LSStream()._relief(seen, np.array([5.0, 1.0]), 0, 1, [0, 1])
    assert (relief.straggler.rows, relief.straggler.time_ms) == (14, 14)
    assert relief.least.rows == pytest.approx(8 / 3)
    assert relief.rows.tolist() == [6, 8]
    assert relief.stored.tolist() == [160, 160]  # stored rows are those of now


def test_a_burst_does_not_make_an_instance_saturated() -> None:
    """A price of 1 ms a row: 1500 rows in a second are too many, but only one batch had them."""
    calm, burst = [400.0, 300.0, 10.0, 10.0], [900.0, 600.0, 10.0, 10.0]
    strategy, loads = LSStream(), np.array([5.0, 1.0])
    seen = with_batches(calm, calm, burst)
    steady = strategy._relief(seen, loads, 0, 1, [0, 1])
    assert steady.sojourn_ms(steady.straggler.rows, steady.straggler.time_ms) < 10
    alone = strategy._relief(replace(seen, batches=()), loads, 0, 1, [0, 1])
    assert alone.sojourn_ms(alone.straggler.rows, alone.straggler.time_ms) > 1e6
    assert LSStream(rate_batches=7).batches_apart == 7
