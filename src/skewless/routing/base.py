"""What every routing strategy does: divide the work of a batch over instances."""

from __future__ import annotations

from abc import ABC, abstractmethod

from skewless.model import RoutingTable


class Routing(ABC):
    """A way to divide the work. Configurations are frozen; `table` is a pure function.

    A table is right when every (prober, stored row) of one key meets in exactly one unit: the units
    cover all hashes, and where several units share a hash range they are its parts 0 to n-1.
    """

    @abstractmethod
    def table(self, slots: int, instances: int) -> RoutingTable:
        """The routing for so many slots and instances."""


def slot_bounds(first: int, last: int, slots: int) -> tuple[int, int]:
    """The hashes that belong to the slots first…last. A slot is an equal range of hashes, so
    neighbouring slots are neighbours in every segment and are worked on as one.

    >>> slot_bounds(0, 0, 2)
    (0, 9223372036854775807)
    """
    low = -(-(first << 64) // slots)
    high = -(-((last + 1) << 64) // slots) - 1
    return low, high
