"""FastJoin: keys move from the heaviest instance to the lightest.

Zhou et al., "FastJoin: A Skewness-Aware Distributed Stream Join System", sections III-B to III-E
and IV-A.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from skewless.arrays.types import Floats
from skewless.errors import ArgumentError
from skewless.placement.balancing.adaptive import is_due, rent_ms
from skewless.placement.balancing.annealing import Annealed
from skewless.placement.balancing.changes import Change, Move
from skewless.placement.balancing.greedyfit import Direction, Indices, greedy_fit, loads_after
from skewless.placement.balancing.imbalance import FLOOR, max_over_min
from skewless.placement.balancing.loads import LoadModel, StoredTimesProbing
from skewless.placement.balancing.published import Published
from skewless.placement.balancing.safit import sa_fit
from skewless.placement.balancing.view import View
from skewless.placement.figures import WatchedKey


@dataclass(frozen=True, kw_only=True)
class FastJoin(Annealed, Published):
    """Moves keys when the heaviest instance has more than `theta` times the load of the lightest,
    load being stored times probing rows (eqs. 1 and 2). A lower `theta` balances better and moves
    more often. "auto" sets no threshold, and moves once imbalance has cost as much as moving would
    (`adaptive`).

    `selector` "greedy" fills the whole gap between the two with keys (GreedyFit); "annealing" moves
    little at a time at the best price (SAFit), and takes longer to choose: `temperature`,
    `temperature_min`, `decay` and `rounds` say how long (`annealing.Schedule`). A key that narrows
    the gap by less than `gap_min`, the paper's θ_gap, stays: higher values move fewer keys.

    Beside an idle instance any load is an infinite one. So that a nearly empty system does not move
    its few rows to and fro, the heaviest must have a load of at least `load_min`, by default a
    hundred stored rows times a hundred that probe them: work of well under a millisecond.

    A key goes as a whole. One heavier than all else on its instance cannot be helped by moving it,
    and a key that is split is left as it is. Only keys that are told apart can move, hence the many
    `keys_watched`. The paper's system is ``FastJoin(paper=True, keys_watched="all")``.

    The windowed statistics of section III-E are what the figures are in any case: rows that probe
    are averaged over `window` batches, and counts of stored rows shrink as rows expire.

    >>> FastJoin(theta=1)
    Traceback (most recent call last):
    ...
    skewless.errors.ArgumentError: `theta` must be a number above 1 or 'auto'; received 1
    """

    AS_PUBLISHED = Published.AS_PUBLISHED | {"window": 1}

    theta: float | Literal["auto"] = 2.2
    selector: Literal["greedy", "annealing"] = "greedy"
    gap_min: float = 0.0
    load_min: float = 10_000.0
    keys_watched: int | Literal["all"] = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.theta != "auto":
            self._check_above("theta", 1, " or 'auto'")
        if self.selector not in ("greedy", "annealing"):
            raise ArgumentError("selector", self.selector, "one of: 'greedy', 'annealing'")
        for name in ("gap_min", "load_min"):
            self._check_at_least(name, 0)
        _ = self.schedule  # raises what is wrong with it

    @cached_property
    def load(self) -> LoadModel:
        return StoredTimesProbing()

    def wants_change(self, view: View) -> bool:
        loads = self.load.of_instances(view, view.placement)
        if loads.max() < max(self.load_min, FLOOR):
            return False
        if self.theta == "auto":
            return is_due(view, list(self._plan(view)))
        return max_over_min(loads) > self.theta

    def rent_ms(self, view: View) -> float:
        return rent_ms(view, list(self._plan(view))) if self.theta == "auto" else 0.0

    def propose(self, view: View) -> Iterator[Change]:
        return self._plan(view) if self.wants_change(view) else iter(())

    def _plan(self, view: View) -> Iterator[Change]:
        loads = self.load.of_instances(view, view.placement)
        source, target = int(loads.argmax()), int(loads.argmin())
        here = keys_at(view, source)
        directions = directions_between(view, source, target, here)
        for chosen in self._choose(directions).tolist():
            key = view.keys[here[chosen]]
            left, _ = loads_after(directions, np.array([chosen]))
            share = 1 - left / float(loads[source])
            reason = _reason(key, source, target, loads, share)
            yield Move(key.slot, source, target, reason, key=key)

    def _choose(self, directions: tuple[Direction, Direction]) -> Indices:
        if self.selector == "greedy":
            return greedy_fit(directions, self.gap_min)
        return sa_fit(directions, self.gap_min, self.schedule, self.seed)


def keys_at(view: View, instance: int) -> list[int]:
    """The watched keys that are at one instance as a whole, as indices: in their slot, or at a
    single place of their own."""
    homes = view.instance_of[[key.slot for key in view.keys]].tolist()
    for own in view.placement.isolated:
        at = view.key_index.get(own.hash)
        if at is not None:
            homes[at] = -1 if own.is_split else own.instances[0]
    return [at for at, home in enumerate(homes) if home == instance]


def directions_between(
    view: View, source: int, target: int, keys: list[int]
) -> tuple[Direction, Direction]:
    """What GreedyFit and SAFit choose from. Stored rows of a side lie where the other side's rows
    probe them, which matters for keys that are split."""
    none = np.zeros(len(view.keys))
    picked = np.array(keys, np.int64)

    def totals(name: str, prober: str) -> Floats:
        slots, of_keys = getattr(view.slots, name), getattr(view.key_figures, name)
        left, right = (of_keys, none) if prober == "left" else (none, of_keys)
        return view.sums(view.placement, slots, left, right)

    def direction(stored: str, prober: str) -> Direction:
        stored_rows, probing_rows = f"stored_{stored}", f"probing_{prober}"
        lying, coming = totals(stored_rows, prober), totals(probing_rows, prober)
        return Direction(
            float(lying[source]),
            float(lying[target]),
            float(coming[source]),
            float(coming[target]),
            getattr(view.key_figures, stored_rows)[picked],
            getattr(view.key_figures, probing_rows)[picked],
        )

    return direction("left", "right"), direction("right", "left")


def _reason(key: WatchedKey, source: int, target: int, loads: Floats, share: float) -> str:
    part = f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"
    if loads[target] <= FLOOR:
        beside = f"instance {target} is idle beside instance {source}"
        return f"{beside}; key {key.value} has {part} of its load"
    ratio = loads[source] / loads[target]
    times = f"instance {source} has {ratio:,.1f} times the load of instance {target}"
    return f"{times}; key {key.value} has {part} of it"
