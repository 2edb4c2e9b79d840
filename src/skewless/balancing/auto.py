"""Auto: move what can be moved, split what cannot, undo both when it is no longer needed.

Slots move greedily from the busiest to the idlest instance, towards the mean. Where a slot is too
coarse, its heavy keys get places of their own. A key that outweighs an instance is split over just
enough of them. Which rows are cut is chosen side by side: cutting those that probe costs nothing,
as all instances can read what they meet, but needs enough of them to be even; cutting the stored
rows makes every prober probe every part, and is weighed against the straggling it saves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skewless.balancing.base import Balancing
from skewless.balancing.changes import Change, Merge, Move, Split
from skewless.balancing.imbalance import max_over_mean
from skewless.balancing.loads import MeasuredTime
from skewless.balancing.placement import CutOf, OwnKey, Placement
from skewless.balancing.view import View
from skewless.errors import ArgumentError
from skewless.model import Side

SPLIT_BACK = 0.6  # of the mean: below, a split key is put together again
OWN_BACK = 0.03  # of the mean: below, a key needs no place of its own
SIDE_MIN = 0.1  # of the mean: a side that does less is not worth splitting
PROBERS_PER_PART = 32  # fewer cannot be cut evenly
KEY_MIN = 0.02  # of the mean: a smaller key is not worth a place of its own


@dataclass(frozen=True, kw_only=True)
class Auto(Balancing):
    """Keeps the busiest instance within `tolerance` of the mean measured time.

    Nothing is done while the mean is below `floor_ms` per batch, or the unevenness is no more than
    chance makes of so many rows (`noise` standard deviations).

    >>> Auto(tolerance=0.05).tolerance
    0.05
    """

    tolerance: float = 0.08
    floor_ms: float = 1.0
    noise: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_above("tolerance", 0)
        for name in ("floor_ms", "noise"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
                raise ArgumentError(name, value, "a number of at least 0")

    def wants_change(self, view: View) -> bool:
        loads = MeasuredTime().of_instances(view, view.placement)
        if not len(loads) or loads.mean() <= max(self.floor_ms, 1e-12):
            return any(_is_cold(view, own, 0.0) for own in _free(view, view.placement))
        uneven = max_over_mean(loads) > 1 + self.tolerance + self._chance(view)
        mean = float(loads.mean())
        return uneven or any(_is_cold(view, own, mean) for own in _free(view, view.placement))

    def _chance(self, view: View) -> float:
        """How much unevenness is to be expected of so few rows."""
        rows = float((view.slots.probing_left + view.slots.probing_right).sum())
        rows += float((view.key_figures.probing_left + view.key_figures.probing_right).sum())
        return self.noise / math.sqrt(max(rows / view.instances, 1.0))

    def propose(self, view: View) -> Iterator[Change]:
        return iter(_Plan(view, 1 + self.tolerance / 2).changes())


def _free(view: View, placement: Placement) -> list[OwnKey]:
    return [own for own in placement.own if own.hash not in view.pinned]


def _weight(view: View, key: int) -> float:
    """The work of a key in one piece, in milliseconds."""
    at = view.key_index.get(key)
    if at is None:
        return 0.0
    return float(view.key_figures.time_left_ms[at] + view.key_figures.time_right_ms[at])


def _is_cold(view: View, own: OwnKey, mean: float) -> bool:
    weight = _weight(view, own.hash)
    return weight <= mean * (SPLIT_BACK if own.is_split else OWN_BACK)


class _Plan:
    """One round of proposals: changes are tried out on a placement, one after the other."""

    def __init__(self, view: View, aim: float) -> None:
        self._view, self._placement = view, view.placement
        self._loads = MeasuredTime().of_instances(view, view.placement)
        self._mean = float(self._loads.mean())
        self._aim = aim * self._mean
        times = view.slots.time_left_ms + view.slots.time_right_ms
        self._slots = times.copy()
        self._total = float(self._loads.sum()) or 1.0
        self._changes: list[Change] = []
        keys = view.key_figures
        self._key_weights = keys.time_left_ms + keys.time_right_ms
        self._key_slots = np.array([key.slot for key in view.keys], np.int64)
        self._homes = np.array([self._home(i) for i in range(len(view.keys))], np.int64)

    def changes(self) -> list[Change]:
        self._cool()
        self._split_heavy()
        for _ in range(64 * self._view.instances):
            busiest = int(self._loads.argmax())
            if self._loads[busiest] <= self._aim or not self._relieve(busiest):
                break
        return self._changes

    def _take(self, change: Change) -> None:
        self._changes.append(change)
        self._placement = change.on(self._placement)
        if isinstance(change, Move) and change.key is None:
            changed = (self._key_slots == change.slot).nonzero()[0].tolist()
        else:
            key = change.key if isinstance(change, Move) else change.own
            at = None if key is None else self._view.key_index.get(key.hash)
            changed = [] if at is None else [at]
        for i in changed:
            self._homes[i] = self._home(i)

    def _cool(self) -> None:
        """Put back what is no longer heavy, as long as that does no harm."""
        for own in sorted(_free(self._view, self._placement), key=lambda o: self._weight(o.hash)):
            weight = self._weight(own.hash)
            if not _is_cold(self._view, own, self._mean):
                continue
            home = int(self._placement.instance_of[own.slot])
            self._remove(own)
            share = f"{weight / self._total:.1%} of the work"
            if self._loads[home] + weight <= max(self._aim, self._loads.max()):
                self._loads[home] += weight
                self._slots[own.slot] += weight
                self._take(Merge(own, home, f"it has cooled to {share}"))
            elif own.is_split:
                self._place_whole(own, f"it has cooled to {share}")
            else:
                self._add(own)

    def _place_whole(self, own: OwnKey, why: str) -> None:
        target = int(self._loads.argmin())
        whole = OwnKey(own.hash, own.value, own.slot, (target,), (target,))
        self._add(whole)
        self._take(Split(whole, own.instances[0], f"{why}: one instance is enough"))

    def _split_heavy(self) -> None:
        """Split what outweighs an instance."""
        view = self._view
        by_weight = sorted(view.keys, key=lambda k: -self._weight(k.hash))
        for key in by_weight:
            weight = self._weight(key.hash)
            if weight <= self._aim:
                break
            own = self._placement.own_key(key.hash)
            if key.hash in view.pinned or (own is not None and self._fits(own)):
                continue
            self._split(key.hash, math.ceil(weight / self._mean))

    def _fits(self, own: OwnKey) -> bool:
        """Whether a split key's parts are neither too large nor needlessly many."""
        ways = len(own.instances)
        part = max(self._parts(own).values())
        needed = math.ceil(self._weight(own.hash) / self._mean)
        return part <= self._aim and ways <= max(needed + 1, 1.5 * needed)

    def _split(self, key: int, ways: int) -> None:
        """Take a key from where it is and share it among the idlest instances."""
        watched = self._view.keys[self._view.key_index[key]]
        own, weight = self._placement.own_key(key), self._weight(key)
        source = int(self._placement.instance_of[watched.slot]) if own is None else own.instances[0]
        if own is None:
            self._loads[source] -= weight
            self._slots[watched.slot] -= weight
        else:
            self._remove(own)
        ways = min(ways, self._view.instances)
        idlest = [int(i) for i in self._loads.argsort(kind="stable")[:ways]]
        sides = {side: self._cut(key, side, idlest) for side in ("left", "right")}
        (left, left_of), (right, right_of) = sides["left"], sides["right"]
        split = OwnKey(key, watched.value, watched.slot, left, right, left_of, right_of)
        self._add(split)
        if split != own:
            share, even = weight / self._total, 1 / self._view.instances
            why = f"{share:.1%} of the work, an even share is {even:.1%}"
            self._take(Split(split, source, why))

    def _cut(self, key: int, side: str, idlest: list[int]) -> tuple[tuple[int, ...], CutOf]:
        """Over how many instances one side's probing goes, and what is cut."""
        view, at = self._view, self._view.key_index[key]
        probing = float(getattr(view.key_figures, f"probing_{side}")[at])
        time = float(getattr(view.key_figures, f"time_{side}_ms")[at])
        if time <= SIDE_MIN * self._mean:
            return (idlest[0],), "probers"
        if probing >= PROBERS_PER_PART * len(idlest):
            return tuple(idlest), "probers"
        # Each part pays for all rows that probe: more parts as long as the straggling they save is
        # more than that.
        fixed = view.row_ms * probing
        ways = [n for n in range(1, len(idlest) + 1) if n * (n - 1) * fixed <= time - fixed]
        return tuple(idlest[: max(ways, default=1)]), "stored"

    def _relieve(self, busiest: int) -> bool:
        """Take something from the busiest instance. Whether that helped."""
        target = int(self._loads.argmin())
        gap = float(self._loads[busiest] - self._loads[target])
        room = min(self._aim - self._loads[target], self._loads[busiest] - self._mean)
        return (
            self._move_slot(busiest, target, room)
            or self._move_key(busiest, target, room)
            or self._move_slot(busiest, target, gap / 2)
            or self._split_further(busiest)
        )

    def _why(self, source: int, target: int) -> str:
        loads = self._loads / self._mean if self._mean else self._loads
        return (
            f"instance {source} does {loads[source]:.2f} of the mean, {target} {loads[target]:.2f}"
        )

    def _move_slot(self, source: int, target: int, room: float) -> bool:
        """The heaviest slot that fits."""
        here = (self._placement.instance_of == source).nonzero()[0]
        weights = self._slots[here]
        fitting = (weights <= room) & (weights > 1e-3 * self._mean)
        if not fitting.any():
            return False
        slot = int(here[fitting][weights[fitting].argmax()])
        weight = float(self._slots[slot])
        change = Move(slot, source, target, self._why(source, target))
        self._loads[source] -= weight
        self._loads[target] += weight
        self._take(change)
        return True

    def _move_key(self, source: int, target: int, room: float) -> bool:
        """The heaviest key that fits, apart or still in its slot."""
        weights = np.where(self._homes == source, self._key_weights, 0.0)
        weights[weights > room] = 0.0
        at = int(weights.argmax()) if len(weights) else -1
        if at < 0 or weights[at] <= KEY_MIN * self._mean:
            return False
        weight, key = float(weights[at]), self._view.keys[at]
        change = Move(key.slot, source, target, self._why(source, target), key)
        if self._placement.own_key(key.hash) is None:
            self._slots[key.slot] -= weight
        self._loads[source] -= weight
        self._loads[target] += weight
        self._take(change)
        return True

    def _split_further(self, source: int) -> bool:
        """Share the heaviest key of an instance that has nothing small enough to give."""
        shared = [
            self._view.key_index[own.hash]
            for own in _free(self._view, self._placement)
            if own.is_split and source in own.instances and own.hash in self._view.key_index
        ]
        here = [*(self._homes == source).nonzero()[0].tolist(), *shared]
        if not here:
            return False
        at = max(here, key=lambda i: float(self._key_weights[i]))
        weight, key = float(self._key_weights[at]), self._view.keys[at].hash
        own = self._placement.own_key(key)
        ways = 1 if own is None else len(own.instances)
        if weight / ways < 2 * KEY_MIN * self._mean or ways >= self._view.instances:
            return False
        before = float(self._loads.max())
        self._split(key, ways + 1)
        return float(self._loads.max()) < before

    def _home(self, at: int) -> int:
        """The one instance that works on a key; none of them where it is split or pinned."""
        key = self._view.keys[at]
        own = self._placement.own_key(key.hash)
        if key.hash in self._view.pinned or (own is not None and own.is_split):
            return -1
        return int(self._placement.instance_of[key.slot]) if own is None else own.instances[0]

    def _weight(self, key: int) -> float:
        return _weight(self._view, key)

    def _parts(self, own: OwnKey) -> dict[int, float]:
        """What each instance has to do with a key."""
        at = self._view.key_index.get(own.hash)
        parts = dict.fromkeys(own.instances, 0.0)
        if at is None:
            return parts
        figures = self._view.key_figures
        sides: tuple[tuple[Side, tuple[int, ...], CutOf], ...] = (
            ("left", own.left, own.left_of), ("right", own.right, own.right_of)
        )  # fmt: skip
        for side, here, of in sides:
            time = float(getattr(figures, f"time_{side}_ms")[at])
            fixed = self._view.row_ms * float(getattr(figures, f"probing_{side}")[at])
            for instance in here:
                shared = of == "stored" and len(here) > 1
                parts[instance] += (
                    (time - fixed) / len(here) + fixed if shared else time / len(here)
                )
        return parts

    def _remove(self, own: OwnKey) -> None:
        for instance, part in self._parts(own).items():
            self._loads[instance] -= part

    def _add(self, own: OwnKey) -> None:
        for instance, part in self._parts(own).items():
            self._loads[instance] += part
