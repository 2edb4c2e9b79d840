"""Dividing keys over instances with little room each, in as few new places as can be.

Keys supply tuples, instances have room for them, and a key may use the instances it is on already.
What fits along these is a maximum flow, found by augmenting paths: a key whose instances are full
may push another key's tuples on to a further instance of that key. As a supply that is met stays
met, taking keys from light to heavy leaves over only tuples of heavy keys, which are split anyway.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Flags

Ints = npt.NDArray[np.int64]

_kernel = numba.njit(cache=True, nogil=True)

_UNSEEN = -1


def level_room(base: Ints, tuples: int) -> Ints:
    """How many more tuples each instance gets so that loads become as even as `tuples` more can
    make them.

    >>> level_room(np.array([5, 0, 2]), 6).tolist()
    [0, 4, 2]
    """
    ascending = np.sort(base)
    # With the level at the k-th load, all below it have been filled up to it.
    filled = ascending * np.arange(1, len(base) + 1) - np.cumsum(ascending)
    below = int(np.searchsorted(filled, tuples, side="right"))
    level = (tuples + int(ascending[:below].sum())) // below
    room: Ints = np.maximum(level - base, 0)
    rest = tuples - int(room.sum())
    room[np.flatnonzero(base <= level)[:rest]] += 1
    return room


@_kernel
def divide(counts: Ints, order: Ints, allowed: Flags, room: Ints, slack: int, least: int) -> Ints:
    """How many tuples of each key (row) go to each instance (column). `order` is from light to
    heavy. `allowed` says where keys are, and gets the places that had to be added. Up to `slack`
    tuples without room stay where their key is, and so do all of a key with fewer than `least`."""
    keys, n = allowed.shape
    shares, left = np.zeros((keys, n), np.int64), counts.copy()
    for key in order:
        while left[key] > 0:
            best = _roomiest(room, allowed[key], True)
            if room[best] <= 0:
                break
            _give(shares, left, room, key, best, min(left[key], room[best]))
    _reroute(shares, left, allowed, room, order)
    for key in order[np.argsort(-left[order], kind="mergesort")]:
        while left[key] > slack and counts[key] >= least:
            best = _roomiest(room, allowed[key], False)
            if allowed[key, best] or room[best] <= 0:
                break
            allowed[key, best] = True
            _give(shares, left, room, key, best, min(left[key], room[best]))
        if left[key] > 0:
            best = _roomiest(room, allowed[key], True)
            _give(shares, left, room, key, best, left[key])
    return shares


@_kernel
def _roomiest(room: Ints, places: Flags, wanted: bool) -> int:
    """The place with most room among those that are flagged `wanted`; the first on a tie."""
    best = -1
    for i in range(len(room)):
        if places[i] == wanted and (best < 0 or room[i] > room[best]):
            best = i
    return max(best, 0)


@_kernel
def _give(shares: Ints, left: Ints, room: Ints, key: int, instance: int, amount: int) -> None:
    shares[key, instance] += amount
    left[key] -= amount
    room[instance] -= amount


@_kernel
def _reroute(shares: Ints, left: Ints, allowed: Flags, room: Ints, order: Ints) -> None:
    """Find room for what is left by pushing keys that are in several places about."""
    keys, n = allowed.shape
    several = np.empty(keys, np.int64)
    count = 0
    for key in order:
        if np.sum(allowed[key]) > 1:
            several[count] = key
            count += 1
    several = several[:count]
    by_key, by_instance = np.empty(n, np.int64), np.empty(keys, np.int64)
    queue = np.empty(n, np.int64)
    for key in order:
        while left[key] > 0:
            end = _path(key, shares, allowed, room, several, by_key, by_instance, queue)
            if end == _UNSEEN:
                break
            amount, at = min(left[key], room[end]), end
            while by_key[at] != key:
                pushed = by_key[at]
                at = by_instance[pushed]
                amount = min(amount, shares[pushed, at])
            at = end
            room[end] -= amount
            while by_key[at] != key:
                pushed, before = by_key[at], by_instance[by_key[at]]
                shares[pushed, at] += amount
                shares[pushed, before] -= amount
                at = before
            shares[key, at] += amount
            left[key] -= amount


@_kernel
def _path(
    start: int,
    shares: Ints,
    allowed: Flags,
    room: Ints,
    several: Ints,
    by_key: Ints,
    by_instance: Ints,
    queue: Ints,
) -> int:
    """The nearest instance with room that `start` can reach; `by_key` and `by_instance` tell the
    way back. Breadth first: short paths move few keys."""
    by_key[:] = _UNSEEN
    for key in several:
        by_instance[key] = _UNSEEN
    head, tail = 0, 0
    for i in range(len(room)):
        if allowed[start, i]:
            by_key[i] = start
            queue[tail] = i
            tail += 1
    while head < tail:
        at = int(queue[head])
        head += 1
        if room[at] > 0:
            return at
        for key in several:
            if key != start and by_instance[key] == _UNSEEN and shares[key, at] > 0:
                by_instance[key] = at
                for i in range(len(room)):
                    if allowed[key, i] and by_key[i] == _UNSEEN:
                        by_key[i] = key
                        queue[tail] = i
                        tail += 1
    return _UNSEEN
