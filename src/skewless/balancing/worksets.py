"""Workset balancing of S3J (algorithm 1 of section 8): which worksets go to another instance.

The degree of imbalance is the sum over instances of |load - mean|. The benefit of a change is how
much it falls, less what moving the workset's rows costs. Of the overloaded instances' worksets the
one with the greatest benefit of leaving goes where it has the greatest benefit of coming; one that
nobody gains by is left aside. A workset heavier than the mean stays where it is: its instance would
be overloaded wherever it went.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
    by_id = {w.id: w for w in worksets}
    loads = [0.0] * instances
    for w in by_id.values():
        loads[w.instance] += w.load
    mean = sum(loads) / instances
    place = {w.id: w.instance for w in by_id.values()}
    removable = [w for w in by_id.values() if 0 < w.load <= mean]
    aside: set[int] = set()
    moves: list[WorksetMove] = []
    while True:
        best = max(
            ((_gain(loads[place[w.id]], -w.load, mean), -w.id, w) for w in removable
             if w.id not in aside and loads[place[w.id]] > mean),
            default=None,
        )  # fmt: skip
        if best is None or best[0] <= 0:
            return moves
        leaving, _, w = best
        coming, negated = max((_gain(loads[u], w.load, mean), -u) for u in range(instances))
        target = -negated
        gained = leaving + coming - cost_per_row * w.rows
        aside.add(w.id)
        if loads[target] >= mean or gained <= 0:
            continue
        moves.append(WorksetMove(w.id, place[w.id], target, gained))
        loads[place[w.id]] -= w.load
        loads[target] += w.load
        place[w.id] = target


def _gain(load: float, change: float, mean: float) -> float:
    """How much nearer to the mean a load comes."""
    return abs(load - mean) - abs(load + change - mean)
