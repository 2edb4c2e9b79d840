"""A strategy that changes everything at random, for no reason: results must not notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skewless.arrays.types import Floats
from skewless.placement.balancing.base import Balancing
from skewless.placement.balancing.changes import Change, Merge, Move, Split
from skewless.placement.balancing.loads import LoadModel
from skewless.placement.balancing.view import View
from skewless.placement.places import CutOf, IsolatedKey, Placement


class EverLess(LoadModel):
    """Whatever is asked later is less: every change seems to help."""

    def __init__(self) -> None:
        self._asked = 0

    def of_instances(self, view: View, placement: Placement) -> Floats:
        self._asked += 1
        return np.full(placement.instances, 1 / self._asked)


@dataclass(frozen=True, kw_only=True)
class Chaos(Balancing):
    """Random moves, splits and merges after every batch."""

    window: int = 1
    patience: int = 1
    cooldown: int = 0
    horizon: int = 10**12
    keys_watched: int = 4

    @cached_property
    def load(self) -> LoadModel:
        return EverLess()

    def wants_change(self, view: View) -> bool:
        return True

    def propose(self, view: View) -> Iterator[Change]:
        rng = np.random.default_rng((self.seed, view.batch_id))
        placement = view.placement
        for _ in range(int(rng.integers(0, 4))):
            slot, target = int(rng.integers(placement.slots)), int(rng.integers(view.instances))
            yield Move(slot, int(placement.instance_of[slot]), target, "chance")
        for own in placement.isolated:
            if rng.random() < 0.3:
                yield Merge(own, int(placement.instance_of[own.slot]), "chance")
        for key in view.keys:
            if rng.random() < 0.7:
                left, right = (self._some(rng, view.instances) for _ in range(2))
                of: list[CutOf] = ["stored" if rng.random() < 0.5 else "probers" for _ in range(2)]
                own = IsolatedKey(key.hash, key.value, key.slot, left, right, of[0], of[1])
                yield Split(own, 0, "chance")

    def _some(self, rng: np.random.Generator, instances: int) -> tuple[int, ...]:
        count = int(rng.integers(1, instances + 1))
        return tuple(int(i) for i in rng.permutation(instances)[:count])
