"""Hash partitioning, as BiStream and Spark do it: a key is the work of one instance."""

from __future__ import annotations

from dataclasses import dataclass

from skewless.placement.routing.base import Routing, slot_bounds
from skewless.placement.units import RoutingTable, WorkUnit


@dataclass(frozen=True)
class Hash(Routing):
    """Every slot belongs to one instance. Cheapest where keys are even: no row is probed twice;
    a hot key makes its instance the straggler.

    >>> Hash().table(slots=4, instances=2).instances
    2
    """

    def table(self, slots: int, instances: int) -> RoutingTable:
        units = []
        for instance in range(instances):
            first = instance * slots // instances
            last = (instance + 1) * slots // instances - 1
            mine = (WorkUnit(*slot_bounds(first, last, slots)),) if last >= first else ()
            units.append(mine)
        return RoutingTable("Hash", slots, tuple(units))
