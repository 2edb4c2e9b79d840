"""The join-biclique with random storing: perfect balance of state, most probing."""

from __future__ import annotations

from dataclasses import dataclass

from skewless.model import RoutingTable, WorkUnit
from skewless.routing.base import Routing


@dataclass(frozen=True)
class Broadcast(Routing):
    """Every instance holds an equal part of all stored rows; every new row probes all instances.
    No key can unbalance it; probing costs as many times more as there are instances.

    >>> [u[0].part for u in Broadcast().table(slots=8, instances=3).units]
    [0, 1, 2]
    """

    def table(self, slots: int, instances: int) -> RoutingTable:
        units = tuple((WorkUnit(part=i, parts=instances),) for i in range(instances))
        return RoutingTable("Broadcast", slots, units)
