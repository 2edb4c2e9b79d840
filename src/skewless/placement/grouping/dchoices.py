"""D-Choices: hot keys get just as many choices as their frequencies ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from skewless.placement.grouping.base import Ints, State, Targets, UInts, between, whole
from skewless.placement.grouping.hashing import choice, salts
from skewless.placement.grouping.least_loaded import (
    Candidates,
    Members,
    add_member,
    least_loaded,
    least_member,
)
from skewless.placement.grouping.pkg import less_loaded_of_two
from skewless.placement.grouping.spacesaving import Counters, HotKeyGrouping, observe

Floats = npt.NDArray[np.float64]

_kernel = numba.njit(cache=True, nogil=True)


@dataclass(frozen=True)
class DChoices(HotKeyGrouping):
    """A tuple of a hot key goes to the least loaded of d hash choices, any other to that of two
    (Nasir et al., "When two choices are not enough", ICDE 2016).

    d is the least number, from 2 and from ⌈p₁·n⌉, for which every prefix of the hot keys fits into
    the b instances it is expected to have. For hot keys with shares p₁ ≥ … ≥ p_H and h = 1 … H:

        Σ_{i≤h} pᵢ + (b/n)^d · Σ_{h<i≤H} pᵢ + (b/n)² · Σ_{i>H} pᵢ  ≤  b·(1/n + ε),
        b = n − n·((n−1)/n)^(h·d)

    If no d below n is enough, hot keys may go anywhere, as in `WChoices`. The choices of a hot key
    are listed once, until d changes.

    - `epsilon`: the imbalance that is tolerated; less of it means more choices.
    - `refresh`: d is found anew after so many tuples, and more often in the beginning.

    >>> DChoices().build(4).assign(np.full(6, 7)).tolist()
    [0, 1, 2, 3, 0, 1]
    """

    epsilon: float = 1e-4
    refresh: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        between("epsilon", self.epsilon, 0, 1)
        whole("refresh", self.refresh, 1)

    def _fresh(self, instances: int, seed: int) -> State:
        return {
            "mark": np.zeros(2, np.int64),
            "salts": salts(seed, max(2, instances)),
            "choices": np.array([2, 1]),  # d, and the number of tuples at which it is found anew
            **self._fresh_counters(instances),
            **Candidates.fresh(self._counters(instances), instances),
        }

    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        _route_by_choices(
            keys,
            targets,
            self.epsilon,
            self.refresh,
            state["loads"],
            state["mark"],
            state["salts"],
            state["choices"],
            self._counters_of(state),
            Candidates.of(state),
        )


def choices_needed(shares: npt.ArrayLike, instances: int, epsilon: float = 1e-4) -> int:
    """The least d for hot keys with these shares of all tuples; `instances` if none is enough.

    >>> choices_needed([0.05], 16), choices_needed([0.2, 0.1], 16), choices_needed([0.6], 16)
    (2, 5, 16)
    """
    whole("instances", instances, 1)
    between("epsilon", epsilon, 0, 1)
    head = -np.sort(-np.asarray(shares, np.float64))
    return int(_choices_needed(head, instances, epsilon))


@_kernel
def _choices_needed(head: Floats, n: int, epsilon: float) -> int:
    if len(head) == 0:
        return min(2, n)
    total = head.sum()
    tail = max(0.0, 1.0 - total)
    for d in range(max(2, int(np.ceil(head[0] * n))), n):
        enough, prefix = True, 0.0
        for h in range(1, len(head) + 1):
            prefix += head[h - 1]
            reached = 1.0 - ((n - 1) / n) ** (h * d)  # b/n
            load = prefix + reached**d * (total - prefix) + reached**2 * tail
            if load > reached * (1.0 + n * epsilon):
                enough = False
                break
        if enough:
            return d
    return n


@_kernel
def _list_choices(
    key: np.uint64, loads: Ints, salts: UInts, d: int, members: Members, mark: Ints
) -> None:
    for j in range(d):
        add_member(loads, members, j, mark, choice(key, salts[j], len(loads)))


@_kernel
def _route_by_choices(
    stream: UInts,
    targets: Targets,
    epsilon: float,
    refresh: int,
    loads: Ints,
    mark: Ints,
    salts: UInts,
    choices: Ints,
    counters: Counters,
    candidates: Candidates,
) -> None:
    n = len(loads)
    keys, rows, holders, counts, counts_mark, seen, threshold = counters
    sizes, marks, members = candidates
    for i in range(len(stream)):
        key = stream[i]
        row, is_new = observe(key, keys, rows, holders, counts, counts_mark)
        seen[0] += 1
        if is_new:
            sizes[row] = 0
        if seen[0] == choices[1]:
            hot = counts[counts >= max(1.0, threshold[0] * seen[0])]
            head = -np.sort(-(hot / seen[0]))
            choices[0] = _choices_needed(head, n, epsilon)
            choices[1] += min(seen[0], refresh)
        if counts[row] < threshold[0] * seen[0]:
            target = less_loaded_of_two(key, loads, salts)
        elif choices[0] >= n:
            target = least_loaded(loads, mark)
        else:
            if sizes[row] != choices[0]:
                sizes[row] = choices[0]
                _list_choices(key, loads, salts, choices[0], members[row], marks[row])
            target = least_member(loads, members[row], sizes[row], marks[row])
        targets[i] = target
        loads[target] += 1
