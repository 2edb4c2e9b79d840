"""What decides who works on which rows of a join: a strategy, and what it becomes when it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skewless.arrays.types import Floats
from skewless.placement.figures import Decision, LoadReport, Work
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.units import RoutingTable

KEYS_WATCHED = 8  # per instance, where nothing depends on it


class Placing(ABC):
    """A strategy at work on one join."""

    @property
    @abstractmethod
    def table(self) -> RoutingTable:
        """Who works on what in the next batch."""

    @property
    def placement(self) -> Placement | None:
        """Where the work is, if that can change."""
        return None

    def observe(
        self, report: LoadReport, rows: Floats, pairs: Floats, isolated: Work | None = None
    ) -> Sequence[Decision]:
        """Take note of a batch, whose instances worked on so many rows and compared so many pairs
        (`isolated` of it for keys with places of their own); decide about the next."""
        return ()


@dataclass(frozen=True)
class Fixed(Placing):
    """A division that stays as it is."""

    routing: RoutingTable

    @property
    def table(self) -> RoutingTable:
        return self.routing


class PlacementStrategy(ABC):
    """A way to divide the work of a join. Strategies are frozen; all give the same result."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def slots_wanted(self) -> int | None:
        """Slots per instance that this strategy needs; None: the default."""
        return None

    @property
    def keys_told(self) -> int | None:
        """How many keys every instance tells apart; None: all that have new rows."""
        return KEYS_WATCHED

    @property
    def stops_to_move(self) -> bool:
        """Whether instances are meant to stand still while rows move between them. Here none has
        to; a virtual cluster has them do so."""
        return False

    @property
    def pinned(self) -> tuple[tuple[object, int], ...]:
        """Values of keys that stay at an instance."""
        return ()

    @abstractmethod
    def begin(
        self,
        slots: int,
        instances: int,
        stored: Mapping[str, Any] | None = None,
        pinned: Mapping[int, IsolatedKey] | None = None,
    ) -> Placing:
        """Begin, or go on from a `stored` placement of the same sizes. `pinned` maps hashes of keys
        to where they stay."""
