"""Renting or buying: when a change is due if nobody sets a threshold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skewless.placement.balancing import FastJoin
from skewless.placement.balancing.adaptive import is_due, rent_ms
from skewless.placement.balancing.changes import Move
from skewless.placement.balancing.moving import MovePrices
from skewless.placement.routing import Hash
from skewless.placement.strategy import PlacementStrategy
from skewless.simulation.cluster import VirtualCluster
from skewless.simulation.costs import Costs
from skewless.simulation.workloads import Zipf
from tests.placement.balancing.views import view

# Four instances of two slots each; a move of slot 1 takes 40 ms from the first to the last.
PLAN = [Move(1, 0, 3, "because")]


def test_rent_is_what_the_plan_saves() -> None:
    assert rent_ms(view([60, 40, 50, 0, 40, 0, 10, 0], 4), PLAN) == 100 - 60
    assert rent_ms(view([60, 40, 50, 0, 40, 0, 10, 0], 4), []) == 0


def test_rent_is_shared_by_the_plans_that_it_takes() -> None:
    # Two are as busy: one plan saves nothing, two save 20, and three save 40.
    assert rent_ms(view([60, 40, 100, 0, 80, 0, 10, 0], 4), PLAN) == 40 / 3
    # The second is nearly as busy: 1 for the first plan, or 40 for two.
    assert rent_ms(view([60, 40, 99, 0, 30, 0, 10, 0], 4), PLAN) == 40 / 2


def test_a_plan_that_makes_it_worse_saves_nothing() -> None:
    worse = [Move(6, 3, 0, "no good")]
    heavy = view([60, 40, 50, 0, 40, 0, 10, 0], 4)
    assert rent_ms(heavy, worse) == 0
    assert not is_due(replace(heavy, rent_ms=1e9), worse)


def test_a_change_is_due_when_the_rent_has_come_to_its_price() -> None:
    seen = view([60, 40, 50, 0, 40, 0, 10, 0], 4)  # 40 rows probe, 800 are stored
    seen = replace(seen, pause_ms=7.0, moved_row_ms=0.5)
    assert not is_due(replace(seen, rent_ms=406.9), PLAN)
    assert is_due(replace(seen, rent_ms=407.0), PLAN)
    assert not is_due(replace(seen, rent_ms=1e9), [])


def test_prices_of_moving_are_learned() -> None:
    prices = MovePrices()
    prices.learn(100, 20.0)
    assert prices.pause_ms + 100 * prices.row_ms == pytest.approx(20.0)
    for rows in (300, 50, 1000):
        prices.learn(rows, 5.0 + 0.15 * rows)
    assert prices.pause_ms == pytest.approx(5.0)
    assert prices.row_ms == pytest.approx(0.15)


def moves(theta: float | str, pause_ms: float) -> tuple[int, float]:
    """Migrations, and the time that 30 batches take."""
    stream = Zipf(keys=800, left=0.6, right=0.6, rows_left=8000, rows_right=8000)
    costs = Costs(scan="instance", pair_ms=1e-6, migrated_ms=1e-4, pause_ms=pause_ms)
    strategy: PlacementStrategy = Hash()
    if theta != 0:
        strategy = FastJoin(theta=theta, paper=True, keys_watched="all")  # type: ignore[arg-type]
    told = VirtualCluster(strategy, 8, costs=costs, window_batches=4).run(
        stream.batch(i) for i in range(30)
    )
    return sum(b.migrated_rows > 0 for b in told), sum(b.busiest_ms for b in told)


def test_dear_migrations_are_rare_and_cheap_ones_are_not() -> None:
    counts = [moves("auto", pause)[0] for pause in (0.0, 10.0, 1e4)]
    assert counts[0] > counts[1] > counts[2]
    assert counts[2] <= 1  # the first, whose price nobody knew


@pytest.mark.parametrize(("pause_ms", "within"), [(0.0, 1.05), (1.0, 1.05), (10.0, 1.2)])
def test_no_threshold_is_much_better(pause_ms: float, within: float) -> None:
    """A batch takes some 12 ms. Where a pause is as long, waiting for what is worth it costs more:
    in hindsight, those who act at once are right on steady data."""
    fixed = [moves(theta, pause_ms)[1] for theta in (1.4, 2.2, 4.0)]
    ours = moves("auto", pause_ms)[1]
    assert ours < moves(0, pause_ms)[1]
    assert ours < within * min(fixed)
