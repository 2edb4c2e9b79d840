"""Where the work is: every slot at one instance, and a few heavy keys at places of their own.

A placement is the two small tables of the design in one value. Changing it is all there is to
migration: the rows lie in files that every instance can read. It compiles to the routing table
that the instances work by, and is stored in every commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Side
from skewless.placement.units import Cut, RoutingTable, WorkUnit, slot_bounds, slot_of

CutOf = Literal["probers", "stored"]
Instances = npt.NDArray[np.int32]


@dataclass(frozen=True)
class IsolatedKey:
    """A key apart from its slot. `left` are the instances that share what its left rows probe,
    `right` what its right rows do; one instance means that the side is not split. `left_of` and
    `right_of` say what is cut."""

    hash: int
    value: str
    slot: int
    left: tuple[int, ...]
    right: tuple[int, ...]
    left_of: CutOf = "probers"
    right_of: CutOf = "probers"

    @property
    def instances(self) -> tuple[int, ...]:
        return tuple(sorted({*self.left, *self.right}))

    @property
    def is_split(self) -> bool:
        return len(self.instances) > 1

    def ways(self, prober: Side) -> int:
        return len(self.left if prober == "left" else self.right)

    def resized(self, before: int, after: int) -> IsolatedKey:
        """The same share of another number of instances; what is not split stays so."""

        def share(of: tuple[int, ...]) -> tuple[int, ...]:
            if len(of) == 1:
                return ((2 * of[0] + 1) * after // (2 * before),)
            now = {j for i in of for j in range(i * after // before, -(-(i + 1) * after // before))}
            return tuple(sorted(now))

        return replace(self, left=share(self.left), right=share(self.right))

    def units(self) -> dict[int, WorkUnit]:
        """The work unit of each instance that takes part."""
        cuts: dict[int, dict[Side, Cut]] = {i: {} for i in self.instances}
        for part, instance in enumerate(self.left):
            cuts[instance]["left"] = Cut(part, len(self.left), self.left_of)
        for part, instance in enumerate(self.right):
            cuts[instance]["right"] = Cut(part, len(self.right), self.right_of)
        return {
            instance: WorkUnit(
                self.hash, self.hash, mine.get("left"), mine.get("right"), isolated=True
            )
            for instance, mine in cuts.items()
        }


@dataclass(frozen=True, eq=False)
class Placement:
    """`instance_of[s]` is the instance that works on slot s; `isolated` are the keys with places
    of their own."""

    instances: int
    instance_of: Instances
    isolated: tuple[IsolatedKey, ...] = ()

    def __post_init__(self) -> None:
        of = np.array(self.instance_of, np.int32)
        of.flags.writeable = False
        object.__setattr__(self, "instance_of", of)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Placement):
            return NotImplemented
        same = self.instances == other.instances and self.isolated == other.isolated
        return same and np.array_equal(self.instance_of, other.instance_of)

    def __hash__(self) -> int:
        return hash((self.instances, self.instance_of.tobytes(), self.isolated))

    @staticmethod
    def spread(slots: int, instances: int) -> Placement:
        """Neighbouring slots together, equally many each: what `Hash` does."""
        firsts = [i * slots // instances for i in range(instances + 1)]
        return Placement(instances, np.repeat(np.arange(instances), np.diff(firsts)))

    @property
    def slots(self) -> int:
        return len(self.instance_of)

    @cached_property
    def isolated_by_hash(self) -> dict[int, IsolatedKey]:
        return {own.hash: own for own in self.isolated}

    def isolated_key(self, key: int) -> IsolatedKey | None:
        return self.isolated_by_hash.get(key)

    def with_slot(self, slot: int, instance: int) -> Placement:
        of = self.instance_of.copy()
        of[slot] = instance
        return replace(self, instance_of=of)

    def with_isolated(self, own: IsolatedKey) -> Placement:
        others = self.without_isolated(own.hash).isolated
        return replace(self, isolated=tuple(sorted((*others, own), key=lambda o: o.hash)))

    def without_isolated(self, key: int) -> Placement:
        return replace(self, isolated=tuple(o for o in self.isolated if o.hash != key))

    def refined(self, factor: int) -> Placement:
        """The same with every slot divided into several."""
        slots = self.slots * factor
        isolated = tuple(replace(own, slot=slot_of(own.hash, slots)) for own in self.isolated)
        return replace(self, instance_of=np.repeat(self.instance_of, factor), isolated=isolated)

    def resized(self, instances: int) -> Placement:
        """The same division, as far as that goes, over more instances or fewer: what one has done
        is done by several now, or what neighbours have done by one."""
        if instances == self.instances:
            return self
        order = np.argsort(self.instance_of, kind="stable")
        counts = np.bincount(self.instance_of, minlength=self.instances)
        rank = np.arange(self.slots) - np.repeat(np.cumsum(counts) - counts, counts)
        share = (2 * rank + 1) / (2 * np.repeat(counts, counts))  # how far through an instance
        of = np.empty(self.slots, np.int32)
        of[order] = (self.instance_of[order] + share) * instances / self.instances
        isolated = tuple(own.resized(self.instances, instances) for own in self.isolated)
        return Placement(instances, of, isolated)

    def table(self, strategy: str) -> RoutingTable:
        """The work units of every instance. Neighbouring slots of one instance are one range; keys
        apart are cut out of it."""
        units: list[list[WorkUnit]] = [[] for _ in range(self.instances)]
        hashes = [own.hash for own in self.isolated]
        firsts = np.flatnonzero(np.diff(self.instance_of, prepend=-1)).tolist()
        for first, after in zip(firsts, [*firsts[1:], self.slots], strict=True):
            low, high = slot_bounds(first, after - 1, self.slots)
            units[self.instance_of[first]] += _around(low, high, hashes)
        for own in self.isolated:
            for instance, unit in own.units().items():
                units[instance].append(unit)
        return RoutingTable(strategy, self.slots, tuple(tuple(mine) for mine in units))

    def to_json(self) -> dict[str, Any]:
        return {
            "instances": self.instances,
            "instance_of": self.instance_of.tolist(),
            "isolated": [
                vars(own) | {"left": list(own.left), "right": list(own.right)}
                for own in self.isolated
            ],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Placement:
        own = [
            IsolatedKey(**(o | {"left": tuple(o["left"]), "right": tuple(o["right"])}))
            for o in data["isolated"]
        ]
        return Placement(data["instances"], np.array(data["instance_of"]), tuple(own))


def _around(low: int, high: int, hashes: list[int]) -> list[WorkUnit]:
    """A range of hashes without some of them."""
    pieces = []
    for h in (h for h in hashes if low <= h <= high):
        if h > low:
            pieces.append(WorkUnit(low, h - 1))
        low = h + 1
    return [*pieces, WorkUnit(low, high)] if low <= high else pieces
