"""What a strategy sees: the figures of the last batches under the placement they were made with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skewless.balancing.placement import Placement
from skewless.model import Figures, Floats, WatchedKey


@dataclass(frozen=True)
class View:
    """Figures per batch, averaged over the window. `slots` has one item per slot, without the keys
    that have places of their own; `key_figures[i]` is of `keys[i]`, and part of its slot's figures
    unless the key is `own`. `row_ms` and `pair_ms` are what a probing row and a compared pair have
    been found to cost."""

    batch_id: int
    placement: Placement
    slots: Figures
    keys: tuple[WatchedKey, ...]
    key_figures: Figures
    row_ms: float = 1e-4
    pair_ms: float = 2e-5

    @property
    def instances(self) -> int:
        return self.placement.instances

    @cached_property
    def instance_of(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(self.placement.instance_of, np.int64)

    @cached_property
    def key_index(self) -> dict[int, int]:
        return {key.hash: i for i, key in enumerate(self.keys)}

    def sums(self, placement: Placement, slots: Floats, left: Floats, right: Floats) -> Floats:
        """Per instance the sum of an additive figure, were the placement another one. The figure is
        given per slot, and per key as what belongs to its left and to its right rows' probing."""
        of_slots = slots.copy()
        for i, key in enumerate(self.keys):
            apart = placement.own_key(key.hash) is not None
            if apart != key.own:
                of_slots[key.slot] += (left[i] + right[i]) * (1 if key.own else -1)
        of = np.array(placement.instance_of, np.int64)
        result: Floats = np.zeros(placement.instances)
        np.add.at(result, of, of_slots)
        for own in placement.own:
            at = self.key_index.get(own.hash)
            if at is not None:
                np.add.at(result, list(own.left), left[at] / len(own.left))
                np.add.at(result, list(own.right), right[at] / len(own.right))
        return result
