"""W-Choices: hot keys may go anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from skewless.placement.grouping.base import Ints, State, Targets, UInts
from skewless.placement.grouping.hashing import salts
from skewless.placement.grouping.least_loaded import least_loaded
from skewless.placement.grouping.pkg import less_loaded_of_two
from skewless.placement.grouping.spacesaving import Counters, HotKeyGrouping, observe


@dataclass(frozen=True)
class WChoices(HotKeyGrouping):
    """A tuple of a hot key goes to the least loaded of all instances, any other to the less loaded
    of its key's two (Nasir et al., "When two choices are not enough", ICDE 2016).

    Balance is near perfect; each hot key ends up everywhere.

    >>> WChoices().build(4).assign(np.full(6, 7)).tolist()
    [0, 1, 2, 3, 0, 1]
    """

    def _fresh(self, instances: int, seed: int) -> State:
        return {
            "mark": np.zeros(2, np.int64),
            "salts": salts(seed, 2),
            **self._fresh_counters(instances),
        }

    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        _route_hot_anywhere(
            keys, targets, state["loads"], state["mark"], state["salts"], self._counters_of(state)
        )


@numba.njit(cache=True, nogil=True)
def _route_hot_anywhere(
    stream: UInts, targets: Targets, loads: Ints, mark: Ints, salts: UInts, counters: Counters
) -> None:
    keys, rows, holders, counts, counts_mark, seen, threshold = counters
    for i in range(len(stream)):
        key = stream[i]
        row, _ = observe(key, keys, rows, holders, counts, counts_mark)
        seen[0] += 1
        if counts[row] >= threshold[0] * seen[0]:
            target = least_loaded(loads, mark)
        else:
            target = less_loaded_of_two(key, loads, salts)
        targets[i] = target
        loads[target] += 1
