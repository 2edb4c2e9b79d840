"""SAFit finds the best set of small cases, and never an infeasible one."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given

from skewless.errors import ArgumentError
from skewless.placement.balancing.annealing import Schedule, anneal
from skewless.placement.balancing.greedyfit import (
    Direction,
    benefits,
    gap,
    loads_after,
    stored_rows,
)
from skewless.placement.balancing.safit import sa_fit, set_value
from tests.placement.balancing.test_greedyfit import BY_HAND, problems
from tests.strategies import examples

SHORT = Schedule(decay=0.6, rounds=1)


def value_of(problem: list[Direction], keys: list[int]) -> float:
    return set_value(
        math.fsum(benefits(problem)[keys]), math.fsum(stored_rows(problem)[keys])
    )  # fmt: skip


def best_by_trying_all(problem: list[Direction]) -> float:
    F, room = benefits(problem), gap(problem)
    sets = [list(s) for n in range(len(F) + 1) for s in combinations(range(len(F)), n)]
    return max(value_of(problem, s) for s in sets if math.fsum(F[s]) <= room)


def drawn_problem(seed: int) -> list[Direction]:
    rng = np.random.default_rng(seed)
    stored = rng.integers(0, 20, 7) * (rng.random(7) < 0.7).astype(float)
    probing = rng.integers(0, 20, 7).astype(float)
    return [Direction(stored.sum() + 10, 5, probing.sum() + 5, 3, stored, probing)]


@pytest.mark.quick(1)
@pytest.mark.parametrize("problem", [[BY_HAND], drawn_problem(1), drawn_problem(2)], ids=range(3))
def test_the_optimum_is_found_in_95_of_100_seeds(problem: list[Direction]) -> None:
    best = best_by_trying_all(problem)
    assert best > 0
    plans = [
        sa_fit(problem, schedule=Schedule(decay=0.8), seed=seed).tolist() for seed in range(100)
    ]
    assert all(benefits(problem)[plan].sum() <= gap(problem) for plan in plans)
    assert sum(value_of(problem, plan) >= best * (1 - 1e-12) for plan in plans) >= 95


def test_the_same_seed_finds_the_same() -> None:
    assert sa_fit([BY_HAND], seed=3).tolist() == sa_fit([BY_HAND], seed=3).tolist()


def test_free_keys_are_the_best_and_small_ones_can_be_left_out() -> None:
    # Values by hand, see BY_HAND: key 3 moves for free with F = 24, key 2 has 72 / 2 = 36, and
    # both together (24 + 72) / 2 = 48.
    assert sa_fit([BY_HAND]).tolist() == [3, 2]
    assert sa_fit([BY_HAND], gap_min=25).tolist() == [2]
    assert sa_fit([BY_HAND], gap_min=1000).tolist() == []


def test_a_smaller_set_that_fits_beats_a_larger_one_that_does_not() -> None:
    # Gap 100·200 - 100·100 = 10000, F = 200·probing = 6000, 5000, 4400, all for free.
    free = Direction(100, 100, 200, 100, np.zeros(3), np.array([30.0, 25, 22]))
    assert [sa_fit([free], seed=seed).tolist() for seed in range(5)] == [[1, 2]] * 5


def test_among_many_keys_the_one_with_the_best_factor_is_found() -> None:
    """No random walk meets one key alone among 2 to the 120 sets: it has to be led there."""
    rng = np.random.default_rng(7)
    stored, probing = rng.integers(1, 1000, 120) * 1.0, rng.integers(0, 1000, 120) * 1.0
    problem = [Direction(stored.sum(), 10, probing.sum(), 10, stored, probing)]
    best = max(value_of(problem, [key]) for key in range(120))
    for seed in range(5):
        assert value_of(problem, sa_fit(problem, seed=seed).tolist()) == pytest.approx(best)


@examples(40)
@given(problem=problems())
def test_every_plan_is_feasible(problem: tuple[Direction, Direction]) -> None:
    chosen = sa_fit(problem, schedule=SHORT)
    if len(chosen):
        source, target = loads_after(problem, chosen)
        assert target <= source


def test_annealing_refuses_an_infeasible_start() -> None:
    with pytest.raises(ValueError, match="feasible"):
        anneal(np.ones((2, 1)), [0], lambda sums: (0.0, sums[0]), SHORT, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 0), ("temperature_min", "1"), ("decay", 1.0), ("decay", math.nan),
     ("rounds", 0), ("rounds", 1.5)],
)  # fmt: skip
def test_a_schedule_must_come_to_an_end(name: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` must be"):
        Schedule(**{name: value})
