"""What every routing strategy does: divide the work of a batch over instances."""

from __future__ import annotations

from abc import ABC, abstractmethod

from skewless.model import RoutingTable, slot_bounds

__all__ = ["Routing", "slot_bounds"]


class Routing(ABC):
    """A way to divide the work. Configurations are frozen; `table` is a pure function.

    A table is right when every (prober, stored row) of one key meets in exactly one unit: the units
    cover all hashes, and where several units share a hash range they are its parts 0 to n-1.
    """

    @abstractmethod
    def table(self, slots: int, instances: int) -> RoutingTable:
        """The routing for so many slots and instances."""
