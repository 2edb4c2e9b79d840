"""Who works on a set: the instance that has its space partition, unless the set was moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from skewless.arrays.types import Ints, UInts
from skewless.operators.similarity.copying.roles import partitions_of


@dataclass(frozen=True)
class Owners:
    """Sets that were moved, ids ascending, and where each is; others are where they were made."""

    moved: UInts
    places: Ints
    instances: int

    @staticmethod
    def of(moved: Mapping[int, int], instances: int) -> Owners:
        ids = sorted(moved)
        return Owners(np.array(ids, np.uint64), np.array([moved[i] for i in ids], int), instances)

    def rows_of(self, instance: int, ids: UInts) -> Ints:
        """The rows of one instance, of rows that lie together by set."""
        begins = np.flatnonzero(np.concatenate([[len(ids) > 0], ids[1:] != ids[:-1]]))
        lengths = np.diff(np.append(begins, len(ids)))
        return np.flatnonzero(np.repeat(self._of_sets(ids[begins]) == instance, lengths))

    def _of_sets(self, sets: UInts) -> Ints:
        owners = partitions_of(sets) % self.instances
        if len(self.moved):
            place = np.minimum(np.searchsorted(self.moved, sets), len(self.moved) - 1)
            is_moved = self.moved[place] == sets
            owners[is_moved] = self.places[place[is_moved]]
        return owners
