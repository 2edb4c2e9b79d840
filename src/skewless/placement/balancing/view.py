"""What a strategy sees: the figures of the last batches under the placement they were made with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skewless.arrays.types import Floats, Ints
from skewless.placement.figures import Figures, WatchedKey
from skewless.placement.places import Instances, Placement

_Homes = tuple[Ints, Ints, Floats]  # keys as indices, their instances, and the share of each


@dataclass(frozen=True)
class View:
    """Figures per batch, averaged over the window. `slots` has one item per slot, without the keys
    that have places of their own; `key_figures[i]` is of `keys[i]`, and part of its slot's figures
    unless the key is `own`. `row_ms` and `pair_ms` are what a probing row and a compared pair have
    been found to cost; `moved_row_ms` is the price of a stored row that moves, `pause_ms` how long
    instances stand still besides, and `rent_ms` what not changing anything has cost so far, as far
    as it was not spent on changes. `pinned` keys may not be changed. `batches` are the last ones,
    each by itself and the latest last, for strategies that want them (`Balancing.batches_apart`).
    """

    batch_id: int
    placement: Placement
    slots: Figures
    keys: tuple[WatchedKey, ...]
    key_figures: Figures
    row_ms: float = 1e-4
    pair_ms: float = 2e-5
    pinned: frozenset[int] = frozenset()
    moved_row_ms: float = 2.5e-5
    pause_ms: float = 0.0
    rent_ms: float = 0.0
    batches: tuple[View, ...] = ()

    @property
    def instances(self) -> int:
        return self.placement.instances

    @property
    def instance_of(self) -> Instances:
        return self.placement.instance_of

    @cached_property
    def key_index(self) -> dict[int, int]:
        return {key.hash: i for i, key in enumerate(self.keys)}

    @cached_property
    def isolated_keys(self) -> frozenset[int]:
        return frozenset(key.hash for key in self.keys if key.isolated)

    def sums(self, placement: Placement, slots: Floats, left: Floats, right: Floats) -> Floats:
        """Per instance the sum of an additive figure, were the placement another one. The figure is
        given per slot, and per key as what belongs to its left and to its right rows' probing."""
        result: Floats = np.zeros(placement.instances)
        np.add.at(result, placement.instance_of, slots)
        for key in self.isolated_keys ^ placement.isolated_by_hash.keys():
            at = self.key_index.get(key)
            if at is not None:
                slot, back = self.keys[at].slot, 1 if self.keys[at].isolated else -1
                result[placement.instance_of[slot]] += (left[at] + right[at]) * back
        for (keys, here, share), figure in zip(self._homes(placement), (left, right), strict=True):
            np.add.at(result, here, figure[keys] * share)
        return result

    def _homes(self, placement: Placement) -> tuple[_Homes, _Homes]:
        """Where the keys with places of their own are, for what their left and right rows do. One
        placement is asked about again and again."""
        known = self._known_homes.get(id(placement))
        if known is None or known[0] is not placement:
            known = (placement, (self._of_side(placement, 0), self._of_side(placement, 1)))
            self._known_homes[id(placement)] = known
        return known[1]

    @cached_property
    def _known_homes(self) -> dict[int, tuple[Placement, tuple[_Homes, _Homes]]]:
        return {}

    def _of_side(self, placement: Placement, side: int) -> _Homes:
        keys: list[int] = []
        here: list[int] = []
        share: list[float] = []
        for own in placement.isolated:
            at = self.key_index.get(own.hash)
            if at is not None:
                places = own.right if side else own.left
                keys += [at] * len(places)
                here += places
                share += [1 / len(places)] * len(places)
        return np.array(keys, np.int64), np.array(here, np.int64), np.array(share)
