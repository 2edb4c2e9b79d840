"""Dalton: a bandit learns for each hot key which instance pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Flags
from skewless.placement.grouping.base import Ints, State, Targets, UInts, between, within
from skewless.placement.grouping.hashing import choice, home, mix, salts
from skewless.placement.grouping.spacesaving import Counters, HotKeyGrouping, observe

Floats = npt.NDArray[np.float64]

_kernel = numba.njit(cache=True, nogil=True)


class _Learned(NamedTuple):
    """What is known per counted key: the value of each instance, and which have had the key."""

    values: Floats
    fragments: Flags
    fragment_counts: Ints


@dataclass(frozen=True)
class Dalton(HotKeyGrouping):
    """A contextual bandit (Zapridou et al., "Dalton: Learned Partitioning for Distributed Data
    Streams", VLDB 2022). A key that is not hot stays on its one instance by hash. A hot key has a
    value per instance; a tuple goes to the instance of highest value, the first on a tie, or to a
    random one with probability `epsilon`. The value then moves towards the reward

        −(0.5·(L − avg)/max(L, avg) + 0.5·fragments/n)

    by `learning_rate`. L is the instance's load and avg the mean, both with the tuple; fragments is
    the number of instances that have had the key since it is counted. A value starts as what an
    evenly loaded instance would give: 1 fragment at home, 2 anywhere else.

    - `epsilon`: more of it finds better instances sooner, and splits every hot key further.
    - `learning_rate`: higher values follow a change of load faster, and swing more.

    >>> Dalton().build(4).assign(np.full(6, 7)).tolist()
    [3, 3, 3, 3, 0, 0]
    """

    epsilon: float = 0.1
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        within("epsilon", self.epsilon, 0, 1)
        between("learning_rate", self.learning_rate, 0, 1)

    def _fresh(self, instances: int, seed: int) -> State:
        counters = self._counters(instances)
        return {
            "salts": salts(seed, 1),
            "random": salts(seed, 2)[1:],
            **self._fresh_counters(instances),
            "values": np.zeros((counters, instances)),
            "fragments": np.zeros((counters, instances), np.bool_),
            "fragment_counts": np.zeros(counters, np.int64),
        }

    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        _route_by_bandit(
            keys,
            targets,
            self.epsilon,
            self.learning_rate,
            state["loads"],
            state["salts"],
            state["random"],
            self._counters_of(state),
            _Learned(state["values"], state["fragments"], state["fragment_counts"]),
        )


@_kernel
def _next_random(random: UInts) -> np.uint64:
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    return mix(random[0])


@_kernel
def _choose(values: Floats, epsilon: float, random: UInts) -> np.int64:
    draw = np.float64(_next_random(random) >> np.uint64(11)) * 2.0**-53
    if draw < epsilon:
        return home(_next_random(random), len(values))
    return np.int64(np.argmax(values))


@_kernel
def _route_by_bandit(
    stream: UInts,
    targets: Targets,
    epsilon: float,
    learning_rate: float,
    loads: Ints,
    salts: UInts,
    random: UInts,
    counters: Counters,
    learned: _Learned,
) -> None:
    n = len(loads)
    keys, rows, holders, counts, counts_mark, seen, threshold = counters
    values, fragments, fragment_counts = learned
    for i in range(len(stream)):
        key = stream[i]
        row, is_new = observe(key, keys, rows, holders, counts, counts_mark)
        seen[0] += 1
        target = choice(key, salts[0], n)
        if is_new:
            values[row], values[row, target] = -1.0 / n, -0.5 / n
            fragments[row], fragments[row, target] = False, True
            fragment_counts[row] = 1
        hot = counts[row] >= threshold[0] * seen[0]
        if hot:
            target = _choose(values[row], epsilon, random)
            if not fragments[row, target]:
                fragments[row, target] = True
                fragment_counts[row] += 1
        targets[i] = target
        loads[target] += 1
        if hot:
            mean = seen[0] / n
            uneven = (loads[target] - mean) / max(loads[target], mean)
            reward = -(0.5 * uneven + 0.5 * fragment_counts[row] / n)
            values[row, target] += learning_rate * (reward - values[row, target])
