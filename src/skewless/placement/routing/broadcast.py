"""The join-biclique with random storing: perfect balance of state, most probing."""

from __future__ import annotations

from dataclasses import dataclass

from skewless.placement.routing.base import Routing
from skewless.placement.units import Cut, RoutingTable, WorkUnit


@dataclass(frozen=True)
class Broadcast(Routing):
    """Every instance holds an equal part of all stored rows; every new row probes all instances.
    No key can unbalance it; probing costs as many times more as there are instances.

    >>> [u[0].left.part for u in Broadcast().table(slots=8, instances=3).units]
    [0, 1, 2]
    """

    def table(self, slots: int, instances: int) -> RoutingTable:
        cuts = [Cut(part, instances) for part in range(instances)]
        units = tuple((WorkUnit(left=cut, right=cut),) for cut in cuts)
        return RoutingTable("Broadcast", slots, units)
