"""The groupings of the Pd-Stream paper with every traversal that their papers have.

The package's own never look at all of anything (`least_loaded`, a counter per key in the window).
Here a tuple costs what the papers' algorithms say: Pd-Stream looks through the sampling window and
the candidates, W-Choices through all instances, DAGreedy scores all instances, and SpaceSaving
looks through its counters for the least. Targets are the same, tuple by tuple (those of DAGreedy
but for ties); figure 13 is of the difference.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from benchmarks.grouping import Hashes, Targets
from skewless.placement.grouping import PdStream, probability_table
from skewless.placement.grouping.hash_table import FREE, capacity_for, place_of, remove
from skewless.placement.grouping.hashing import choice, salts

Ints = npt.NDArray[np.int64]
UInts = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_kernel = numba.njit(cache=True, nogil=True)

COUNTERS_PER_INSTANCE = 10  # twice as many as could be hot, at a threshold of 1/(5n)


def popularity(
    hashes: Hashes,
    instances: int,
    expected: float = 0.99,
    *,
    count_arriving: bool = True,
    forgets: bool = True,
    seed: int = 0,
) -> Targets:
    """Pd-Stream, algorithm 2. Without `forgets`, a key that leaves the window keeps its
    candidates: an experiment, no reading of the paper."""
    window = PdStream().window(instances)
    estimates = probability_table(window, expected)
    limits = np.concatenate([[0], np.floor(estimates * instances)]).astype(np.int64)
    rows = window + 1 if forgets else len(np.unique(hashes)) + 1
    return _popularity(
        hashes, instances, window, rows, capacity_for(rows), salts(seed, 2), limits,
        0 if count_arriving else 1, forgets,
    )  # fmt: skip


def anywhere(hashes: Hashes, instances: int, seed: int = 0) -> Targets:
    """W-Choices."""
    return _hot_keys(hashes, instances, salts(seed, 2), False)


def scored(hashes: Hashes, instances: int, seed: int = 0) -> Targets:
    """DAGreedy."""
    return _hot_keys(hashes, instances, salts(seed, 1), True)


@_kernel
def _popularity(
    stream: Hashes,
    n: int,
    window: int,
    rows_max: int,
    places: int,
    salts: UInts,
    limits: Ints,
    uncounted: int,
    forgets: bool,
) -> Targets:
    targets, loads = np.empty(len(stream), np.int32), np.zeros(n, np.int64)
    ring = np.zeros(window, np.uint64)
    keys, rows = np.zeros(places, np.uint64), np.full(places, FREE, np.int64)  # the routing table
    free, used = np.arange(rows_max), 0
    sizes, members = np.zeros(rows_max, np.int64), np.zeros((rows_max, n), np.int32)
    for i in range(len(stream)):
        key, at, filled = stream[i], i % window, min(i + 1, window)
        tail = ring[at]
        ring[at] = key
        if i >= window and forgets:
            place = place_of(keys, rows, tail)
            if rows[place] != FREE and not _contains(ring, filled, tail):
                used -= 1
                free[used] = rows[place]
                remove(keys, rows, place)
        seen = -uncounted
        for j in range(filled):
            seen += ring[j] == key
        first, second = choice(key, salts[0], n), choice(key, salts[1], n)
        if seen <= 1:
            target = second if loads[second] < loads[first] else first
        else:
            place = place_of(keys, rows, key)
            if rows[place] == FREE:
                keys[place], rows[place] = key, free[used]
                used += 1
                row = rows[place]
                members[row, 0], members[row, 1] = first, second
                sizes[row] = 1 if first == second else 2
            row = rows[place]
            target = _least_of(loads, members[row], sizes[row])
            if limits[seen] > sizes[row]:
                least = np.argmin(loads)
                if loads[least] < loads[target]:
                    members[row, sizes[row]] = least
                    sizes[row] += 1
                    target = least
        targets[i] = target
        loads[target] += 1
    return targets


@_kernel
def _contains(ring: UInts, filled: int, key: np.uint64) -> bool:
    found = False
    for j in range(filled):
        found |= ring[j] == key
    return found


@_kernel
def _least_of(loads: Ints, members: Targets, size: int) -> np.int64:
    best = np.int64(members[0])
    for j in range(1, size):
        if loads[members[j]] < loads[best]:
            best = np.int64(members[j])
    return best


@_kernel
def _hot_keys(stream: Hashes, n: int, salts: UInts, by_score: bool) -> Targets:
    """W-Choices or, by score, DAGreedy: both count keys by SpaceSaving."""
    counters = COUNTERS_PER_INSTANCE * n
    places = 1
    while places < 2 * counters:
        places *= 2
    keys, rows = np.zeros(places, np.uint64), np.full(places, FREE, np.int64)
    holders, counts = np.zeros(counters, np.uint64), np.zeros(counters, np.int64)
    had = np.zeros((counters, n), np.bool_)
    targets, loads = np.empty(len(stream), np.int32), np.zeros(n, np.int64)
    for i in range(len(stream)):
        key = stream[i]
        place = place_of(keys, rows, key)
        first = choice(key, salts[0], n)
        if rows[place] == FREE:
            row = np.argmin(counts)
            if counts[row] > 0:
                remove(keys, rows, place_of(keys, rows, holders[row]))
                place = place_of(keys, rows, key)
            keys[place], rows[place], holders[row] = key, row, key
            if by_score:
                had[row] = False
                had[row, first] = True
        row = rows[place]
        counts[row] += 1
        hot = counts[row] * 5 * n >= i + 1
        if by_score:
            target = _best_score(loads, had[row], i) if hot else first
            had[row, target] |= hot
        elif hot:
            target = np.argmin(loads)
        else:
            second = choice(key, salts[1], n)
            target = second if loads[second] < loads[first] else first
        targets[i] = target
        loads[target] += 1
    return targets


@_kernel
def _best_score(loads: Ints, had: Flags, tuples: int) -> np.int64:
    """0.5·seen − 0.5·(L − avg)/avg of every instance; those that had the key win a tie."""
    best, best_score, best_had = 0, -np.inf, False
    for j in range(len(loads)):
        uneven = (loads[j] * len(loads) - tuples) / tuples if tuples else 0.0
        score = (0.5 if had[j] else 0.0) - 0.5 * uneven
        if score > best_score or (score == best_score and had[j] and not best_had):
            best, best_score, best_had = j, score, had[j]
    return np.int64(best)
