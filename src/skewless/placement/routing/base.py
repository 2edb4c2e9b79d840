"""What every fixed routing does: divide the work of a batch over instances, once and for all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from skewless.errors import ArgumentError
from skewless.placement.places import IsolatedKey
from skewless.placement.strategy import Fixed, PlacementStrategy, Placing
from skewless.placement.units import RoutingTable, slot_bounds

__all__ = ["Routing", "slot_bounds"]


class Routing(PlacementStrategy):
    """A way to divide the work. Configurations are frozen; `table` is a pure function.

    A table is right when every (prober, stored row) of one key meets in exactly one unit: the units
    cover all hashes, and where several units share a hash range they are its parts 0 to n-1. Any
    other table is refused when the query starts. What tables are made of is in
    `skewless.placement.units`.
    """

    @abstractmethod
    def table(self, slots: int, instances: int) -> RoutingTable:
        """The routing for so many slots and instances."""

    def begin(
        self,
        slots: int,
        instances: int,
        stored: Mapping[str, Any] | None = None,
        pinned: Mapping[int, IsolatedKey] | None = None,
    ) -> Placing:
        table = self.table(slots, instances)
        if (table.slots, table.instances) != (slots, instances):
            accepted = f"a routing whose table is for {slots} slots and {instances} instances"
            raise ArgumentError("strategy", self, accepted)
        if (why := table.flaw()) is not None:
            accepted = f"a routing by which every two rows of one key meet in one unit ({why})"
            raise ArgumentError("strategy", self, accepted)
        return Fixed(table)
