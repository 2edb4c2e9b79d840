"""Key grouping: every key has one instance, by its hash."""

from __future__ import annotations

from dataclasses import dataclass

import numba

from skewless.placement.grouping.base import Grouping, Ints, State, Targets, UInts
from skewless.placement.grouping.hashing import choice, home, salts


@dataclass(frozen=True)
class KeyGrouping(Grouping):
    """A key stays on one instance: no key is split, and the hottest one sets the imbalance.

    With seed 0 it is the home of the key, the equal range of hashes it lies in, as `Hash` routes
    a join; any other seed is another hash function.

    >>> import numpy as np
    >>> KeyGrouping().build(2).assign(np.array([0, 2**63, 2**64 - 1], np.uint64)).tolist()
    [0, 1, 1]
    """

    def _fresh(self, instances: int, seed: int) -> State:
        return {"salts": salts(seed, 1 if seed else 0)}

    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        _route_by_key(keys, targets, state["loads"], state["salts"])


@numba.njit(cache=True, nogil=True)
def _route_by_key(keys: UInts, targets: Targets, loads: Ints, salts: UInts) -> None:
    n = len(loads)
    salted = len(salts) > 0
    for i in range(len(keys)):
        target = choice(keys[i], salts[0], n) if salted else home(keys[i], n)
        targets[i] = target
        loads[target] += 1
