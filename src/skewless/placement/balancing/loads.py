"""What load means: one small class per reading.

Each gives the load of every instance, were the placement another one than it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from skewless.arrays.types import Floats
from skewless.errors import ArgumentError
from skewless.placement.balancing.view import View
from skewless.placement.figures import Figures
from skewless.placement.places import Placement


class LoadModel(ABC):
    """The load of instances, in a unit of its own."""

    @abstractmethod
    def of_instances(self, view: View, placement: Placement) -> Floats:
        """The load of each instance under a placement."""


@dataclass(frozen=True)
class MeasuredTime(LoadModel):
    """Milliseconds per batch: probing rows and compared pairs at the prices that were measured.
    Where stored rows are cut, every part pays for all the rows that probe."""

    def of_instances(self, view: View, placement: Placement) -> Floats:
        slots, keys = view.slots, view.key_figures
        result = view.sums(
            placement,
            slots.time_left_ms + slots.time_right_ms,
            keys.time_left_ms,
            keys.time_right_ms,
        )
        for own in placement.isolated:
            at = view.key_index.get(own.hash)
            if at is None:
                continue
            for here, of, probing in (
                (own.left, own.left_of, keys.probing_left[at]),
                (own.right, own.right_of, keys.probing_right[at]),
            ):
                if of == "stored" and len(here) > 1:
                    extra = view.row_ms * probing * (1 - 1 / len(here))
                    np.add.at(result, list(here), extra)
        return result


@dataclass(frozen=True)
class StoredTimesProbing(LoadModel):
    """FastJoin's product (its eq. 1): stored rows times rows that probe them. Where the paper has
    two groups of instances, one per stored stream, an instance here serves both: its load is
    ``|R|·φ_S + |S|·φ_R``."""

    def of_instances(self, view: View, placement: Placement) -> Floats:
        def total(name: str, side: str) -> Floats:
            slots, keys = getattr(view.slots, name), getattr(view.key_figures, name)
            none = np.zeros_like(keys)
            # Stored rows of a side lie where the other side's rows probe them.
            left, right = (keys, none) if side == "left" else (none, keys)
            return view.sums(placement, slots, left, right)

        of_right_rows = total("stored_left", "right") * total("probing_right", "right")
        of_left_rows = total("stored_right", "left") * total("probing_left", "left")
        return of_left_rows + of_right_rows


@dataclass(frozen=True)
class WeightedResources(LoadModel):
    """LS-Stream's resources (its eqs. 7 to 12), slot by slot: `gamma` times memory, that is stored
    and waiting rows, and the rest times computing, that is stored times probing rows."""

    gamma: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ArgumentError("gamma", self.gamma, "a number from 0 to 1")

    def of_items(self, figures: Figures) -> Floats:
        f = figures
        memory = f.stored_left + f.stored_right + f.probing_left + f.probing_right
        computing = f.stored_left * f.probing_right + f.stored_right * f.probing_left
        return self.gamma * memory + (1 - self.gamma) * computing

    def of_instances(self, view: View, placement: Placement) -> Floats:
        half = self.of_items(view.key_figures) / 2
        return view.sums(placement, self.of_items(view.slots), half, half)
