"""DAGreedy: hot keys go where a score of locality and load is highest."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from skewless.placement.grouping.base import Ints, State, Targets, UInts
from skewless.placement.grouping.hashing import choice, salts
from skewless.placement.grouping.least_loaded import (
    Candidates,
    add_member,
    least_loaded,
    least_member,
)
from skewless.placement.grouping.spacesaving import Counters, HotKeyGrouping, observe


@dataclass(frozen=True)
class DAGreedy(HotKeyGrouping):
    """Distribution-aware greedy grouping (Pacaci and Özsu, "Distribution-Aware Stream Partitioning
    for Distributed Stream Processing Systems", BeyondMR 2018). A key that is not hot stays on
    its one instance by hash. A tuple of a hot key goes to the instance with the highest

        0.5·seen − 0.5·(L − avg)/avg

    where seen is 1 if the instance has had the key since it is counted, L is its load and avg the
    mean load. So a key is split only once its instances are a whole mean load above the least
    loaded one: few splits, and an imbalance of up to 1.

    Only two instances can win: the least loaded of those that have the key, and the least loaded
    of all, the former on a tie. So no tuple costs a look at every instance.

    >>> DAGreedy().build(4).assign(np.full(6, 7)).tolist()
    [3, 0, 1, 2, 3, 0]
    """

    def _fresh(self, instances: int, seed: int) -> State:
        return {
            "mark": np.zeros(2, np.int64),
            "salts": salts(seed, 1),
            **self._fresh_counters(instances),
            **Candidates.fresh(self._counters(instances), instances),
        }

    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        _route_by_score(
            keys,
            targets,
            state["loads"],
            state["mark"],
            state["salts"],
            self._counters_of(state),
            Candidates.of(state),
        )


@numba.njit(cache=True, nogil=True)
def _route_by_score(
    stream: UInts,
    targets: Targets,
    loads: Ints,
    mark: Ints,
    salts: UInts,
    counters: Counters,
    candidates: Candidates,
) -> None:
    n = len(loads)
    keys, rows, holders, counts, counts_mark, seen, threshold = counters
    sizes, marks, members = candidates
    for i in range(len(stream)):
        key = stream[i]
        row, is_new = observe(key, keys, rows, holders, counts, counts_mark)
        if is_new:
            add_member(loads, members[row], 0, marks[row], choice(key, salts[0], n))
            sizes[row] = 1
        if counts[row] >= threshold[0] * (seen[0] + 1):
            target = least_member(loads, members[row], sizes[row], marks[row])
            least = least_loaded(loads, mark)
            # Both scores, times the total over 0.5: a new instance must make up for `seen`.
            if n * (loads[target] - loads[least]) > seen[0]:
                target = least
                add_member(loads, members[row], sizes[row], marks[row], target)
                sizes[row] += 1
        else:
            target = choice(key, salts[0], n)
        seen[0] += 1
        targets[i] = target
        loads[target] += 1
