"""Partial key grouping: the less loaded of two instances."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from skewless.placement.grouping.base import Grouping, Ints, State, Targets, UInts
from skewless.placement.grouping.hashing import choice, salts


@dataclass(frozen=True)
class PKG(Grouping):
    """Two hash functions name two instances for a key, which may coincide; each tuple goes to the
    one that got fewer tuples so far, the first on a tie (Nasir et al., "The power of both
    choices", ICDE 2015).

    It evens out all but keys too frequent for two instances: with a share p of the tuples, a key
    makes an imbalance of at least p·n/2 − 1.

    >>> PKG().build(8).assign(np.array([7, 7, 7, 7])).tolist()
    [6, 7, 6, 7]
    """

    def _fresh(self, instances: int, seed: int) -> State:
        return {"salts": salts(seed, 2)}

    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        _route_by_two(keys, targets, state["loads"], state["salts"])


@numba.njit(cache=True, nogil=True)
def less_loaded_of_two(key: np.uint64, loads: Ints, salts: UInts) -> np.int64:
    """The less loaded of a key's two choices; the first if they are equal."""
    first, second = choice(key, salts[0], len(loads)), choice(key, salts[1], len(loads))
    return second if loads[second] < loads[first] else first


@numba.njit(cache=True, nogil=True)
def _route_by_two(keys: UInts, targets: Targets, loads: Ints, salts: UInts) -> None:
    for i in range(len(keys)):
        target = less_loaded_of_two(keys[i], loads, salts)
        targets[i] = target
        loads[target] += 1
