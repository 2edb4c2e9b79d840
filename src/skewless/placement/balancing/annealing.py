"""Simulated annealing over sets, as both FastJoin and LS-Stream use it to choose what moves.

What moves is a set of items. Both papers judge a set by sums over its items, and walk from set to
set by taking one item in or out; only the judgement differs. So the walk is here, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skewless.arrays.types import Floats
from skewless.errors import ArgumentError

EXCESS_WEIGHT = 5.0  # low enough to cross infeasible sets while hot, too high to settle there
FEW = 64  # a set of fewer items is walked as if it had as many
Judge = Callable[[Sequence[float]], tuple[float, float]]


@dataclass(frozen=True)
class Schedule:
    """How long and how freely to walk. From `temperature` down to `temperature_min`, times `decay`
    each time, with `rounds` steps per item at every temperature.

    Values have no scale of their own, so a loss is measured against the larger of the two values:
    at a temperature of 1.0, losing all that was gained is accepted with a probability of 1/e.
    Longer walks, by more `rounds` or a slower `decay`, find better sets and take more time.
    """

    temperature: float = 1.0
    temperature_min: float = 1e-4
    decay: float = 0.9
    rounds: int = 2

    def __post_init__(self) -> None:
        for name, below in (
            ("temperature", math.inf), ("temperature_min", math.inf), ("decay", 1.0)
        ):  # fmt: skip
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0 < value < below:
                most = f" and below {below:g}" if below < math.inf else ""
                raise ArgumentError(name, value, f"a number above 0{most}")
        if not isinstance(self.rounds, int) or isinstance(self.rounds, bool) or self.rounds < 1:
            raise ArgumentError("rounds", self.rounds, "a whole number of at least 1")

    def temperatures(self) -> list[float]:
        found, temperature = [], self.temperature
        while temperature > self.temperature_min:
            found.append(temperature)
            temperature *= self.decay
        return found


@dataclass(frozen=True, kw_only=True)
class Annealed:
    """The settings of a strategy that anneals, as fields of its own."""

    temperature: float = Schedule.temperature
    temperature_min: float = Schedule.temperature_min
    decay: float = Schedule.decay
    rounds: int = Schedule.rounds

    @cached_property
    def schedule(self) -> Schedule:
        return Schedule(self.temperature, self.temperature_min, self.decay, self.rounds)


def anneal(
    items: Floats, start: Sequence[int], judge: Judge, schedule: Schedule, seed: int
) -> list[int]:
    """The best feasible set of items that was met, as sorted indices; `start`, which must be
    feasible, if none was better.

    `items` has a row per item; `judge` is given the sums over the rows of a set, and returns its
    value and by how much it misses being feasible, 0 if it is. A step takes an item in or out, as
    the papers have it, or two or three at once, which may be an exchange.

    The papers never enter a set that is not feasible. Where feasible sets must weigh nearly the
    same, hardly a step leads from one to another, and the walk would stay where it began. So such
    sets may be crossed while it is hot: what they miss counts as a loss. Sums are kept up step by
    step, and summed afresh, with one rounding only, before a set is called the best: what is
    returned is feasible.
    """
    rng = np.random.default_rng(seed)
    rows: list[list[float]] = items.tolist()
    best = sorted(start)
    flags = [False] * len(rows)
    for item in best:
        flags[item] = True
    best_value, excess = old = judge(_sums(items, flags))
    if excess > 0:
        raise ValueError("annealing must start from a feasible set")
    for temperature in schedule.temperatures() if rows else []:
        sums = _sums(items, flags)
        for step, luck in _steps(rng, len(rows), schedule.rounds * max(len(rows), FEW)):
            new_sums = sums
            for item in step:
                new_sums = _flipped(new_sums, rows[item], flags[item])
            new = judge(new_sums)
            lost = _loss(*old, *new)
            if lost > 0 and luck >= math.exp(-lost / temperature):
                continue
            for item in step:
                flags[item] = not flags[item]
            sums, old = new_sums, new
            if new[1] <= 0 and new[0] > best_value:
                value, excess = judge(_sums(items, flags))
                if excess <= 0 and value > best_value:
                    best, best_value = [i for i, flag in enumerate(flags) if flag], value
    return best


def _loss(old: float, old_excess: float, new: float, new_excess: float) -> float:
    """How much worse the new set is, in the unit that temperatures are given in."""
    larger = max(abs(old), abs(new))
    lost = (old - new) / larger if larger > 0 else 0.0
    return lost + EXCESS_WEIGHT * (new_excess - old_excess)


def _steps(
    rng: np.random.Generator, count: int, steps: int
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Which items a step takes in or out, and how lucky it is."""
    picked = rng.integers(count, size=(steps, 3)).tolist()
    sizes = rng.integers(1, 4, size=steps).tolist()
    for (a, b, c), size, luck in zip(picked, sizes, rng.random(steps).tolist(), strict=True):
        if size == 1 or a == b:
            yield (a,), luck
        else:
            yield (a, b, c) if size == 3 and c not in (a, b) else (a, b), luck


def _flipped(sums: list[float], row: list[float], taken: bool) -> list[float]:
    if taken:
        return [s - x for s, x in zip(sums, row, strict=True)]
    return [s + x for s, x in zip(sums, row, strict=True)]


def _sums(items: Floats, flags: list[bool]) -> list[float]:
    return [math.fsum(column) for column in items[np.array(flags, bool)].T.tolist()]
