"""Workset balancing of S3J (algorithm 1 of section 8): which worksets go to another instance.

The degree of imbalance is the sum over instances of |load - mean|. The benefit of a change is how
much it falls, less what moving the workset's rows costs. Of the overloaded instances' worksets, the
one with the greatest benefit of leaving goes to the underloaded instance where it has the greatest
benefit of coming, even if its own instance would then be underloaded. The heaviest workset of an
overloaded instance stays if it is heavier than the mean: its instance would be overloaded wherever
it went.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Flags

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WorksetLoad:
    """A workset: where it is, the work it makes, and the rows that would move with it."""

    id: int
    instance: int
    load: float
    rows: int = 0


@dataclass(frozen=True)
class WorksetMove:
    """A workset that goes to another instance, and what that gains."""

    id: int
    source: int
    target: int
    benefit: float


def balance_worksets(
    worksets: Iterable[WorksetLoad], instances: int, cost_per_row: float = 0.0
) -> list[WorksetMove]:
    """The moves that make loads more even, in the order in which they were found.

    >>> balance_worksets([WorksetLoad(1, 0, 6), WorksetLoad(2, 0, 4), WorksetLoad(3, 1, 2)], 2)
    [WorksetMove(id=2, source=0, target=1, benefit=8.0)]
    """
    every = sorted(worksets, key=lambda w: w.id)
    if not every:
        return []
    weights = np.array([w.load for w in every], np.float64)
    place = np.array([w.instance for w in every], np.int64)
    loads: Floats = np.bincount(place, weights, minlength=instances).astype(np.float64)
    mean = float(loads.sum()) / instances
    costs = cost_per_row * np.array([w.rows for w in every], np.float64)
    removable = (weights > 0) & ~_irremovable(weights, place, loads, mean)
    moves: list[WorksetMove] = []
    while True:
        here = loads[place]
        leaving, coming = _gain(here, -weights, mean), _gain(loads.min(), weights, mean)
        gained = leaving + coming - costs
        candidates = np.flatnonzero(removable & (here > mean) & (coming > 0) & (gained > 0))
        if not len(candidates):
            return moves
        best = int(candidates[(leaving - costs)[candidates].argmax()])
        source, target = int(place[best]), int(_gain(loads, weights[best], mean).argmax())
        removable[best] = False
        moves.append(WorksetMove(every[best].id, source, target, float(gained[best])))
        loads[source] -= weights[best]
        loads[target] += weights[best]
        place[best] = target


def _irremovable(weights: Floats, place: Ints, loads: Floats, mean: float) -> Flags:
    """Of every overloaded instance the heaviest workset, if it is heavier than the mean."""
    stays = np.zeros(len(weights), np.bool_)
    for instance in np.flatnonzero(loads > mean).tolist():
        mine = np.flatnonzero(place == instance)
        heaviest = mine[weights[mine].argmax()]
        stays[heaviest] = weights[heaviest] > mean
    return stays


def _gain(loads: Floats | float, changes: Floats | float, mean: float) -> Floats:
    """How much nearer to the mean loads come."""
    return np.asarray(np.abs(loads - mean) - np.abs(loads + changes - mean))
