"""What the instances of a virtual cluster report: what `operators.two_way.loads` makes of the
figures of real ones, from counts per key."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from skewless.arrays.types import Floats
from skewless.operators.two_way.loads import PAIR_WEIGHT
from skewless.placement.figures import Figures, LoadReport, WatchedKey
from skewless.placement.places import Placement
from skewless.simulation.division import Ints, Loads, UInts, Work

ROW_BYTES = 64.0
GAMMA = 0.5  # the weight of memory in LS-Stream's degree of imbalance


class Keys:
    """All keys that were met, in the order of their hashes. A hash is a bijective mix of the id, so
    no two keys share one."""

    def __init__(self, ids: Ints, slots: int, seed: int) -> None:
        self.ids, self._count, self._seed = ids, slots, seed
        hashes = mixed(ids, seed)
        self.order: Ints = hashes.argsort()
        self.hashes: UInts = hashes[self.order]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def slots(self) -> Ints:
        return slots_of(self.hashes, self._count)

    @cached_property
    def watched(self) -> list[WatchedKey]:
        """Every key as it is told of while it is in its slot; made once, as there may be many."""
        told = zip(
            self.hashes.tolist(), self.ids[self.order].tolist(), self.slots.tolist(), strict=True
        )
        return [WatchedKey(key, str(value), slot) for key, value, slot in told]

    def has_all(self, ids: Ints) -> bool:
        return bool(np.isin(ids, self.ids).all())

    def positions(self, ids: Ints) -> Ints:
        """Where the keys are in the order of hashes."""
        return np.searchsorted(self.hashes, mixed(ids, self._seed))


def mixed(ids: Ints, seed: int) -> UInts:
    """64 well-mixed bits of an id: additions, shifts and odd multipliers only, each of which can be
    undone."""
    z = ids.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D) % 2**64)
    for shift, multiplier in ((32, 0xD6E8FEB86659FD93), (29, 0xA3B195354A39B70D), (32, 1)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(multiplier)
    return z


def slots_of(hashes: UInts, slots: int) -> Ints:
    """The slots of sorted hashes: equal ranges, so their ends are looked up."""
    firsts = np.array([-(-(s << 64) // slots) for s in range(slots)], np.uint64)
    return np.searchsorted(firsts, hashes, "right") - 1


def load_report(
    batch_id: int,
    keys: Keys,
    work: Work,
    placement: Placement,
    isolated: Ints,
    service_ms: Floats,
    watched: int | None,
) -> LoadReport:
    """The figures of a batch: slots without the `isolated` keys, and the heaviest keys of
    each instance, together with those. Stored rows include the new ones."""
    is_isolated = np.zeros(len(keys), bool)
    is_isolated[isolated] = True
    weight = work.new_left + work.new_right + work.pairs_left + work.pairs_right
    total = work.new_left.sum() + work.new_right.sum()
    total += PAIR_WEIGHT * (work.pairs_left.sum() + work.pairs_right.sum())
    rate = float(service_ms.sum() / total) if total > 0 else 0.0
    each = _figures(work, rate)
    slots = Figures(
        *(np.bincount(keys.slots, np.where(is_isolated, 0.0, values), placement.slots).astype(float)
          for values in each.arrays().values())
    )  # fmt: skip
    home = placement.instance_of[keys.slots].astype(np.int64)
    heavy = _heaviest(np.where(is_isolated, 0.0, weight), home, watched)
    reported = np.union1d(isolated, heavy)
    return LoadReport(
        batch_id=batch_id,
        slots=slots,
        keys=tuple(
            replace(keys.watched[at], isolated=True) if apart else keys.watched[at]
            for at, apart in zip(reported.tolist(), is_isolated[reported].tolist(), strict=True)
        ),
        key_figures=each.take(reported),
        instance_ms=tuple(service_ms.tolist()),
    )


def _figures(work: Work, rate: float) -> Figures:
    stored_left, stored_right = work.stored_left + work.new_left, work.stored_right + work.new_right
    return Figures(
        stored_left=stored_left,
        stored_right=stored_right,
        bytes_left=ROW_BYTES * stored_left,
        bytes_right=ROW_BYTES * stored_right,
        probing_left=work.new_left,
        probing_right=work.new_right,
        pairs_left=work.pairs_left,
        pairs_right=work.pairs_right,
        matches=work.pairs_left + work.pairs_right,
        time_left_ms=rate * (work.new_left + PAIR_WEIGHT * work.pairs_left),
        time_right_ms=rate * (work.new_right + PAIR_WEIGHT * work.pairs_right),
    )


def _heaviest(weight: Floats, home: Ints, count: int | None) -> Ints:
    """The keys with the most weight at each instance, `count` of each at most; None: all."""
    some = np.flatnonzero(weight > 0)
    if count is None:
        return some
    order = some[np.lexsort((-weight[some], home[some]))]
    there = home[order]
    firsts = np.flatnonzero(np.diff(there, prepend=-1))
    lengths = np.diff(np.append(firsts, len(there)))
    rank = np.arange(len(order)) - np.repeat(firsts, lengths)
    return order[rank < count]


def compared_by_slot(work: Work, slot: Ints, slots: int, isolated: Ints) -> Work:
    """The same rows, each compared with all of its slot; an isolated key is a slot by itself."""
    is_isolated = np.zeros(len(slot), bool)
    is_isolated[isolated] = True

    def met(side: Floats) -> Floats:
        total = np.bincount(slot, np.where(is_isolated, 0.0, side), minlength=slots)
        return np.where(is_isolated, side, total[slot])

    return replace(
        work,
        pairs_left=work.new_left * met(work.met("left")),
        pairs_right=work.new_right * met(work.met("right")),
    )


def compared_by_instance(loads: Loads) -> Loads:
    """The same rows, each compared with all that its instance has."""
    return replace(
        loads,
        pairs_left=loads.probing_left * loads.met_right,
        pairs_right=loads.probing_right * loads.met_left,
    )


def reported_by_instances(
    work: Work, loads: Loads, keys: Keys, isolated: Ints, placement: Placement
) -> Work:
    """The pairs of each key where a row is compared with all that its instance has. Those of a key
    that several instances share are the mean of theirs."""
    home = placement.instance_of[keys.slots]
    right, left = loads.met_right[home], loads.met_left[home]
    for at, apart in zip(isolated.tolist(), placement.isolated, strict=True):
        right[at] = loads.met_right[list(apart.left)].mean()
        left[at] = loads.met_left[list(apart.right)].mean()
    return replace(work, pairs_left=work.new_left * right, pairs_right=work.new_right * left)


def products(loads: Loads) -> Floats:
    """FastJoin's load of each instance: stored times probing rows."""
    left, right = loads.stored_left + loads.new_left, loads.stored_right + loads.new_right
    return left * loads.probing_right + right * loads.probing_left


def resources(loads: Loads) -> Floats:
    """LS-Stream's load of each instance: memory, and computing partition by partition: the pairs of
    its slots, or of the whole instance where that is one partition, as in BiStream."""
    stored = loads.stored_left + loads.stored_right + loads.new_left + loads.new_right
    return GAMMA * (stored + loads.probing) + (1 - GAMMA) * loads.pairs
