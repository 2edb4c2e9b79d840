"""Auto: move what can be moved, split what cannot, undo both when it is no longer needed.

Slots move greedily from the busiest to the idlest instance, towards the mean. Where a slot is too
coarse, its heavy keys get places of their own. A key that outweighs an instance is split over just
enough of them to leave none with too much. Which rows are cut is chosen side by side: cutting those
that probe costs nothing, as all instances can read what they meet, but needs enough of them to be
even; cutting the stored rows makes every prober probe every part, and is weighed against the
straggling it saves.

Loads are looked at a little ahead (`expected`): a key that has just turned hot meets more stored
rows with every batch, and is shared by so many that none of them grows by much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skewless.arrays.types import SIDES, Floats, Side
from skewless.placement.balancing.base import Balancing
from skewless.placement.balancing.changes import Change, Merge, Move, Split
from skewless.placement.balancing.expected import ExpectedTime, expected, still_growing_ms
from skewless.placement.balancing.imbalance import max_over_mean
from skewless.placement.balancing.loads import LoadModel, MeasuredTime
from skewless.placement.balancing.view import View
from skewless.placement.places import CutOf, IsolatedKey, Placement

# Shares of the mean load. What is begun at one is undone well below it.
SPLIT_MIN = 0.1  # a smaller key is not worth splitting
KEY_MIN = 0.02  # a smaller key is not worth a place of its own
ISOLATED_MIN = 0.01  # at less, a key needs no place of its own any more
PART_SHARE_MIN = 0.025  # a key in smaller parts than this is in too many
SIDE_MIN = 0.1  # a side that does less, also of its key's work, is not worth splitting
PROBERS_PER_PART = 32  # fewer cannot be cut evenly
JITTER_SHARE = 0.03  # by more, the work of no instance should change for one key
JITTER_DEVIATIONS = 2.0  # standard deviations that are reckoned with
REPLACE_GAIN_MIN = (
    0.02  # so much idler must an instance be to take the place of one that has a part already
)
TRIES = 4  # keys that are tried to relieve an instance by sharing one of them


@dataclass(frozen=True, kw_only=True)
class Auto(Balancing):
    """Keeps the busiest instance within `tolerance` of the mean measured time: a lower one is more
    even, and moves more often.

    Nothing is done while the mean is below `floor_ms` per batch, or the unevenness is no more than
    chance makes of so many rows (`noise` standard deviations). Lower values act on less, and move
    rows for little or nothing.

    >>> Auto(tolerance=0.05).tolerance
    0.05
    """

    tolerance: float = 0.06
    floor_ms: float = 1.0
    noise: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_above("tolerance", 0)
        for name in ("floor_ms", "noise"):
            self._check_at_least(name, 0)

    @cached_property
    def load(self) -> LoadModel:
        return ExpectedTime()

    @property
    def judged_together(self) -> bool:
        return True

    def wants_change(self, view: View) -> bool:
        loads = MeasuredTime().of_instances(view, view.placement)
        mean = float(loads.mean()) if len(loads) else 0.0
        if mean <= max(self.floor_ms, 1e-12):
            return any(_is_cold(view, own, 0.0) for own in _free(view, view.placement))
        most = 1 + self.tolerance + self._chance(view)
        if max_over_mean(loads) > most or max_over_mean(self._soon(view)) > most:
            return True
        return any(_is_cold(view, own, mean) for own in _free(view, view.placement))

    def _soon(self, view: View) -> Floats:
        return self.load.of_instances(view, view.placement)

    def _chance(self, view: View) -> float:
        """How much unevenness is to be expected of so few rows."""
        rows = float((view.slots.probing_left + view.slots.probing_right).sum())
        rows += float((view.key_figures.probing_left + view.key_figures.probing_right).sum())
        return self.noise / math.sqrt(max(rows / view.instances, 1.0))

    def propose(self, view: View) -> Iterator[Change]:
        return iter(_Plan(view, self.tolerance).changes())


def _deviation_ms(view: View) -> Floats:
    """By how much the time of each key goes up and down from batch to batch: few rows that probe,
    each of which meets many, come in very different numbers."""
    keys = view.key_figures
    left = keys.time_left_ms**2 / np.maximum(keys.probing_left, 1.0)
    right = keys.time_right_ms**2 / np.maximum(keys.probing_right, 1.0)
    return np.asarray(np.sqrt(left + right))


def _free(view: View, placement: Placement) -> list[IsolatedKey]:
    return [own for own in placement.isolated if own.hash not in view.pinned]


def _weight(view: View, key: int) -> float:
    """The work of a key in one piece, in milliseconds."""
    at = view.key_index.get(key)
    if at is None:
        return 0.0
    return float(view.key_figures.time_left_ms[at] + view.key_figures.time_right_ms[at])


def _is_cold(view: View, own: IsolatedKey, mean: float) -> bool:
    """Whether a key is no longer worth a place of its own."""
    return _weight(view, own.hash) <= mean * ISOLATED_MIN


class _Plan:
    """One round of proposals. Changes are tried out on a placement, one after the other; what is
    proposed in the end is the difference that they make, each key and slot once."""

    def __init__(self, view: View, tolerance: float) -> None:
        self._growing = still_growing_ms(view)
        self._jitter = self._growing + JITTER_DEVIATIONS * _deviation_ms(view)
        self._view, self._placement = (view := expected(view)), view.placement
        self._loads = MeasuredTime().of_instances(view, view.placement)
        self._mean = float(self._loads.mean())
        self._aim = (1 + tolerance / 2) * self._mean
        self._most = (1 + tolerance) * self._mean
        times = view.slots.time_left_ms + view.slots.time_right_ms
        self._slots = times.copy()
        self._total = float(self._loads.sum()) or 1.0
        self._changes: dict[object, Change] = {}
        keys = view.key_figures
        self._key_weights = keys.time_left_ms + keys.time_right_ms
        self._key_slots = np.array([key.slot for key in view.keys], np.int64)
        self._homes = np.array([self._home(i) for i in range(len(view.keys))], np.int64)

    def changes(self) -> list[Change]:
        self._cool()
        self._split_heavy()
        self._relieve_all()
        if self._loads.max() > self._most:
            self._spread_wide()
        return self._difference()

    def _relieve_all(self) -> None:
        for _ in range(64 * self._view.instances):
            busiest = int(self._loads.argmax())
            if self._loads[busiest] <= self._aim or not self._relieve(busiest):
                break

    def _spread_wide(self) -> None:
        """Where the parts of several heavy keys leave no room for one another: share all that are
        worth it among all instances, so that what is left is small. Kept only if it helps."""
        view, before = self._view, float(self._loads.max())
        kept = (self._loads.copy(), self._slots.copy(), self._homes.copy(), self._placement,
                dict(self._changes))  # fmt: skip
        for at in (self._key_weights >= SPLIT_MIN * self._mean).nonzero()[0].tolist():
            if view.keys[at].hash not in view.pinned:
                self._lift(view.keys[at].hash)
                key = view.keys[at].hash
                why = f"{self._of_work(key)}; the heavy keys are shared by all instances"
                self._share(key, self._spread(key, view.instances), why)
        self._relieve_all()
        if self._loads.max() >= before:
            self._loads, self._slots, self._homes, self._placement, self._changes = kept

    def _difference(self) -> list[Change]:
        """Merges first, as they make room, then keys, the heaviest first, then slots."""
        keys: list[tuple[bool, float, Change]] = []
        slots: list[Change] = []
        for change in self._changes.values():
            key = change.key_hash
            if key is None:
                assert isinstance(change, Move)
                source = int(self._view.instance_of[change.slot])
                if source != change.target:
                    slots.append(replace(change, source=source))
            elif self._differs(key):
                if isinstance(change, Merge):
                    keys.append((False, -self._weight(key), change))
                else:
                    moved = replace(change, source=self._source(key))
                    keys.append((True, -self._weight(key), moved))
        keys.sort(key=lambda one: one[:2])
        return [change for _, _, change in keys] + slots

    def _differs(self, key: int) -> bool:
        return self._placement.isolated_key(key) != self._view.placement.isolated_key(key)

    def _source(self, key: int) -> int:
        """Where a key was, or its first part."""
        own = self._view.placement.isolated_key(key)
        slot = self._view.keys[self._view.key_index[key]].slot
        return int(self._view.instance_of[slot]) if own is None else own.instances[0]

    def _take(self, change: Change) -> None:
        self._changes[change.cools] = change
        self._placement = change.on(self._placement)
        if change.key_hash is None:
            assert isinstance(change, Move)
            changed = (self._key_slots == change.slot).nonzero()[0].tolist()
        else:
            at = self._view.key_index.get(change.key_hash)
            changed = [] if at is None else [at]
        for i in changed:
            self._homes[i] = self._home(i)

    def _cool(self) -> None:
        """Put back what is no longer heavy, as long as that does no harm."""
        for own in sorted(_free(self._view, self._placement), key=lambda o: self._weight(o.hash)):
            weight = self._weight(own.hash)
            if not _is_cold(self._view, own, self._mean) and not self._is_splintered(own):
                continue
            home = int(self._placement.instance_of[own.slot])
            self._remove(own)
            share = self._of_work(own.hash)
            is_small = weight <= SPLIT_MIN * self._mean
            if is_small and self._loads[home] + weight <= max(self._aim, self._loads.max()):
                self._loads[home] += weight
                self._slots[own.slot] += weight
                self._take(Merge(own, home, f"it has cooled to {share}"))
            elif own.is_split:
                self._share(own.hash, self._spread(own.hash), f"it has cooled to {share}")
            else:
                self._add(own)

    def _is_splintered(self, own: IsolatedKey) -> bool:
        """Whether a key is in needlessly many parts, which is mended when there is reason to change
        something anyway."""
        at = self._view.key_index.get(own.hash)
        if at is None or len(own.instances) <= max(self._ways_min(at), 1):
            return False
        return self._weight(own.hash) / len(own.instances) <= PART_SHARE_MIN * self._mean

    def _split_heavy(self) -> None:
        """Split what outweighs an instance, or is about to. All such keys are lifted off before the
        first is put down again: where there is room shows only then."""
        view = self._view
        heavy = (self._key_weights > self._aim) | (self._jitter > JITTER_SHARE * self._mean)
        found = heavy.nonzero()[0]
        order = found[(-self._key_weights[found]).argsort(kind="stable")].tolist()
        lifted = [
            at for at in order if view.keys[at].hash not in view.pinned and not self._fits(at)
        ]
        for at in lifted:
            self._lift(view.keys[at].hash)
        for at in lifted:
            key = view.keys[at].hash
            self._share(key, self._spread(key), self._why_split(at))

    def _why_split(self, at: int) -> str:
        """What is less than an even share is split for what may become of it."""
        even = f"an even share is {1 / self._view.instances:.1%}"
        of_work = self._of_work(self._view.keys[at].hash)
        if self._key_weights[at] > self._aim:
            return f"{of_work}, {even}"
        grows = 2 * self._growing[at] >= self._jitter[at]
        return f"{of_work} and {'growing' if grows else 'up and down by batch'}, {even}"

    def _fits(self, at: int) -> bool:
        """Whether none of a key's parts is too large, or will be."""
        own = self._placement.isolated_key(self._view.keys[at].hash)
        if own is None or len(own.instances) < self._ways_min(at):
            return False
        return max(self._parts(own).values()) <= self._aim

    def _ways_min(self, at: int) -> int:
        """A key whose work is still growing, or goes up and down, is shared by so many that none of
        them is thrown off balance by it."""
        ways = math.ceil(float(self._jitter[at]) / (JITTER_SHARE * self._mean))
        return max(1, min(ways, self._view.instances))

    def _lift(self, key: int) -> None:
        """Take the work of a key from where it is."""
        own = self._placement.isolated_key(key)
        if own is not None:
            self._remove(own)
            return
        slot, weight = self._view.keys[self._view.key_index[key]].slot, self._weight(key)
        self._loads[self._placement.instance_of[slot]] -= weight
        self._slots[slot] -= weight

    def _put_back(self, key: int) -> None:
        """Undo `_lift`."""
        own = self._placement.isolated_key(key)
        if own is not None:
            self._add(own)
            return
        slot, weight = self._view.keys[self._view.key_index[key]].slot, self._weight(key)
        self._loads[self._placement.instance_of[slot]] += weight
        self._slots[slot] += weight

    def _spread(self, key: int, least: int = 1) -> IsolatedKey:
        """The fewest of the idlest instances that a lifted key can be shared by without any of them
        getting too much; where there is no such number, the one with which the busiest of them has
        least."""
        at = self._view.key_index[key]
        watched, least = self._view.keys[at], max(least, self._ways_min(at))
        own = self._placement.isolated_key(key)
        favoured = self._loads.copy()
        if own is not None:
            favoured[list(own.instances)] -= REPLACE_GAIN_MIN * self._mean
        idlest = favoured.argsort(kind="stable")
        peaks = self._peaks(key, np.maximum.accumulate(self._loads[idlest]))
        fitting = (peaks[least - 1 :] <= self._aim).nonzero()[0]
        ways = least + int(fitting[0] if len(fitting) else peaks[least - 1 :].argmin())
        here = [int(i) for i in idlest[:ways]]
        (left, left_of), (right, right_of) = (self._cut(key, s, here) for s in SIDES)
        return IsolatedKey(key, watched.value, watched.slot, left, right, left_of, right_of)

    def _peaks(self, key: int, loads: Floats) -> Floats:
        """What the busiest of the first n instances would have to do, were they to share a key, for
        every n; `loads` ascend."""
        ways = np.arange(1, len(loads) + 1)
        shared, whole = np.zeros(len(loads)), 0.0
        for side in SIDES:
            time, probing, fixed = self._side(key, side)
            if self._is_slight(key, time):
                whole += time
                continue
            most = self._stored_ways(time, fixed, len(loads))
            parts = np.minimum(ways, most)
            of_stored = np.where(parts > 1, (time - fixed) / parts + fixed, time)
            shared += np.where(probing >= PROBERS_PER_PART * ways, time / ways, of_stored)
        peaks: Floats = np.maximum(loads + shared, loads[0] + shared + whole)
        return peaks

    def _side(self, key: int, side: Side) -> tuple[float, float, float]:
        """The time of a key's one side, its rows that probe, and the time these take by
        themselves."""
        view, at = self._view, self._view.key_index[key]
        probing = float(getattr(view.key_figures, f"probing_{side}")[at])
        time = float(getattr(view.key_figures, f"time_{side}_ms")[at])
        return time, probing, view.row_ms * probing

    def _is_slight(self, key: int, time: float) -> bool:
        """Whether a side is not worth splitting, neither for its instance nor for its key."""
        return time <= SIDE_MIN * min(self._mean, self._weight(key))

    def _share(self, key: int, split: IsolatedKey, why: str) -> None:
        """Put a lifted key down where it is shared."""
        own = self._placement.isolated_key(key)
        slot = split.slot
        source = int(self._placement.instance_of[slot]) if own is None else own.instances[0]
        self._add(split)
        if split != own:
            self._take(Split(split, source, why))

    @staticmethod
    def _stored_ways(time: float, fixed: float, most: int) -> int:
        """Each part of stored rows pays for all rows that probe: more parts as long as the
        straggling they save is more than that, ``n(n-1)·fixed <= time - fixed``."""
        if fixed <= 0:
            return most
        ways = (1 + math.sqrt(1 + 4 * max(time - fixed, 0.0) / fixed)) / 2
        return max(1, min(most, int(ways)))

    def _cut(self, key: int, side: Side, here: list[int]) -> tuple[tuple[int, ...], CutOf]:
        """Over how many instances one side's probing goes, and what is cut."""
        time, probing, fixed = self._side(key, side)
        if self._is_slight(key, time):
            return (here[0],), "probers"
        if probing >= PROBERS_PER_PART * len(here):
            return tuple(here), "probers"
        return tuple(here[: self._stored_ways(time, fixed, len(here))]), "stored"

    def _relieve(self, busiest: int) -> bool:
        """Take something from the busiest instance. Whether that helped."""
        target = int(self._loads.argmin())
        gap = float(self._loads[busiest] - self._loads[target])
        room = min(self._aim - self._loads[target], self._loads[busiest] - self._mean)
        return (
            self._move_slot(busiest, target, room)
            or self._move_key(busiest, target, room)
            or self._spread_one(busiest)
            or self._move_slot(busiest, target, gap / 2)
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
        if self._placement.isolated_key(key.hash) is None:
            self._slots[key.slot] -= weight
        self._loads[source] -= weight
        self._loads[target] += weight
        self._take(change)
        return True

    def _spread_one(self, source: int) -> bool:
        """Share a key of an instance that has nothing small enough to give, or share it anew."""
        before = float(self._loads[source])
        for key in self._shareable(source)[:TRIES]:
            self._lift(key)
            split = self._spread(key)
            there = max(float(self._loads[i]) + part for i, part in self._parts(split).items())
            if max(there, float(self._loads[source])) < before * (1 - 1e-3):
                load = before / self._mean
                why = f"{self._of_work(key)}, on an instance that does {load:.2f} of the mean"
                self._share(key, split, why)
                return True
            self._put_back(key)
        return False

    def _shareable(self, source: int) -> list[int]:
        """The keys that an instance works on, whole or in part, the largest part first."""
        found = [
            (float(self._key_weights[at]), self._view.keys[at].hash)
            for at in (self._homes == source).nonzero()[0].tolist()
        ]
        for own in _free(self._view, self._placement):
            if own.is_split and source in own.instances:
                found.append((self._parts(own)[source], own.hash))
        least = SPLIT_MIN * self._mean
        return [key for _, key in sorted(found, reverse=True) if self._weight(key) >= least]

    def _home(self, at: int) -> int:
        """The one instance that works on a key; none of them where it is split or pinned."""
        key = self._view.keys[at]
        own = self._placement.isolated_key(key.hash)
        if key.hash in self._view.pinned or (own is not None and own.is_split):
            return -1
        return int(self._placement.instance_of[key.slot]) if own is None else own.instances[0]

    def _weight(self, key: int) -> float:
        return _weight(self._view, key)

    def _of_work(self, key: int) -> str:
        return f"{self._weight(key) / self._total:.1%} of the work"

    def _parts(self, own: IsolatedKey) -> dict[int, float]:
        """What each instance has to do with a key."""
        at = self._view.key_index.get(own.hash)
        parts = dict.fromkeys(own.instances, 0.0)
        if at is None:
            return parts
        figures = self._view.key_figures
        sides = (("left", own.left, own.left_of), ("right", own.right, own.right_of))
        for side, here, of in sides:
            time = float(getattr(figures, f"time_{side}_ms")[at])
            fixed = self._view.row_ms * float(getattr(figures, f"probing_{side}")[at])
            for instance in here:
                shared = of == "stored" and len(here) > 1
                parts[instance] += (
                    (time - fixed) / len(here) + fixed if shared else time / len(here)
                )
        return parts

    def _remove(self, own: IsolatedKey) -> None:
        for instance, part in self._parts(own).items():
            self._loads[instance] -= part

    def _add(self, own: IsolatedKey) -> None:
        for instance, part in self._parts(own).items():
            self._loads[instance] += part
