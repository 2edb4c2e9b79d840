"""ContRand, the hybrid of BiStream: hash to a subgroup, spread within it."""

from __future__ import annotations

from dataclasses import dataclass

from skewless.errors import ArgumentError
from skewless.placement.routing.base import Routing, slot_bounds
from skewless.placement.units import Cut, RoutingTable, WorkUnit


@dataclass(frozen=True)
class ContRand(Routing):
    """A key belongs to one of `groups` groups of instances. Within a group each instance holds an
    equal part of the stored rows, and every new row probes all of them.

    More groups mean less probing but more imbalance: `groups=instances` is `Hash`, `groups=1` is
    `Broadcast`.

    >>> [u[0].left.parts for u in ContRand(groups=2).table(slots=8, instances=4).units]
    [2, 2, 2, 2]
    """

    groups: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.groups, int) or isinstance(self.groups, bool) or self.groups < 1:
            raise ArgumentError("groups", self.groups, "a whole number of at least 1")

    def table(self, slots: int, instances: int) -> RoutingTable:
        groups = min(self.groups, instances, slots)
        members = [
            range(g * instances // groups, (g + 1) * instances // groups) for g in range(groups)
        ]
        units: list[tuple[WorkUnit, ...]] = []
        for group, instances_of_group in enumerate(members):
            first, last = group * slots // groups, (group + 1) * slots // groups - 1
            bounds = slot_bounds(first, last, slots)
            parts = len(instances_of_group)
            cuts = [Cut(part, parts) for part in range(parts)]
            units += [(WorkUnit(*bounds, cut, cut),) for cut in cuts]
        return RoutingTable(f"ContRand(groups={self.groups})", slots, tuple(units))
