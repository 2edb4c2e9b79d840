"""Who works on what: ranges of hashes, and cuts of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from skewless.arrays.types import HASH_MAX, SIDES, Side, UInts


@lru_cache(maxsize=8)
def slot_ends(slots: int) -> tuple[UInts, UInts]:
    """The first and the last hash of every slot."""
    ends = [slot_bounds(slot, slot, slots) for slot in range(slots)]
    low, high = (np.array([end[i] for end in ends], np.uint64) for i in range(2))
    return low, high


def slot_of(key: int, slots: int) -> int:
    """The slot that a hash belongs to."""
    return (key * slots) >> 64


@dataclass(frozen=True)
class Cut:
    """A share of the probing that one side's new rows do: part number `part` of `parts` equal ones,
    either of the rows that probe, each meeting all its stored partners, or of the stored rows, each
    part met by all that probe. Both are cut by where rows lie in immutable files: a task that runs
    again takes the same rows."""

    part: int = 0
    parts: int = 1
    of: Literal["probers", "stored"] = "stored"


WHOLE = Cut()


@dataclass(frozen=True)
class WorkUnit:
    """A share of the work: the rows whose hash is in [hash_min, hash_max], and how much of what
    left and right rows have to probe there (None: nothing). The cuts of all units of one range and
    side are the parts 0 to n-1 of one kind, so that every prober meets every stored row of its
    range in exactly one unit."""

    hash_min: int = 0
    hash_max: int = HASH_MAX
    left: Cut | None = WHOLE
    right: Cut | None = WHOLE
    isolated: bool = False  # one key that has a place of its own, apart from its slot

    def cut(self, prober: Side) -> Cut | None:
        return self.left if prober == "left" else self.right


def slot_bounds(first: int, last: int, slots: int) -> tuple[int, int]:
    """The hashes that belong to the slots first…last. A slot is an equal range of hashes, so
    neighbouring slots are neighbours in every segment and are worked on as one.

    >>> slot_bounds(0, 0, 2)
    (0, 9223372036854775807)
    """
    low = -(-(first << 64) // slots)
    high = -(-((last + 1) << 64) // slots) - 1
    return low, high


@dataclass(frozen=True)
class RoutingTable:
    """Which instance works on what: `units[i]` is the work of instance i."""

    strategy: str
    slots: int
    units: tuple[tuple[WorkUnit, ...], ...]

    @property
    def instances(self) -> int:
        return len(self.units)

    def flaw(self) -> str | None:
        """Why pairs would be lost or found twice, if they would."""
        return next((f"{side} rows: {why}" for side in SIDES if (why := self._flaw_of(side))), None)

    def _flaw_of(self, side: Side) -> str | None:
        cuts: dict[tuple[int, int], list[Cut]] = defaultdict(list)
        for unit in (unit for mine in self.units for unit in mine):
            if (cut := unit.cut(side)) is not None:
                cuts[unit.hash_min, unit.hash_max].append(cut)
        covered = 0
        for (first, last), divided in sorted(cuts.items(), key=lambda item: item[0]):
            if first != covered or last < first:
                return f"the hashes from {covered} on must come next, not {first} to {last}"
            parts = sorted((cut.of, cut.part, cut.parts) for cut in divided)
            of, count = divided[0].of, len(divided)
            if parts != [(of, part, count) for part in range(count)]:
                return (
                    f"the units of hashes {first} to {last} must be parts 0 to {count - 1} of one "
                    f"kind, not {', '.join(map(str, divided))}"
                )
            covered = last + 1
        return None if covered > HASH_MAX else f"nobody has the hashes from {covered} on"
