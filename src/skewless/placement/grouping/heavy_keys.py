"""The heavy keys of a whole batch, exactly, without a table of all its keys.

Tuples are first counted by a few bits of their hashes. A key can be heavy only if its bucket is,
and hardly any bucket is heavy without a heavy key: so only those tuples are counted key by key.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from skewless.placement.grouping.hash_table import FREE, capacity_for, place_of

Ints = npt.NDArray[np.int64]
UInts = npt.NDArray[np.uint64]

_kernel = numba.njit(cache=True, nogil=True)

_BUCKETS_MAX = 1 << 16


def heavy_keys(hashes: UInts, least: int, most: int) -> tuple[UInts, Ints]:
    """The keys with at least `least` tuples and how many each has, heaviest first and at most
    `most`; equally heavy ones by their hashes.

    >>> keys, counts = heavy_keys(np.array([5, 6, 5, 5, 7, 7], np.uint64), least=2, most=9)
    >>> keys.tolist(), counts.tolist()
    ([5, 7], [3, 2])
    """
    bits = min(4 * len(hashes) + 2, _BUCKETS_MAX).bit_length() - 1
    shift = np.uint64(64 - bits)
    buckets = _count_buckets(hashes, shift)
    # Heavy buckets hold few light keys; should they hold many, the table is made larger.
    capacity = capacity_for(1 << 10)
    while True:
        keys, counts, complete = _count_keys(hashes, buckets, shift, least, capacity)
        if complete:
            break
        capacity *= 4
    heavy = counts >= least
    keys, counts = keys[heavy], counts[heavy]
    order = np.lexsort((keys, -counts))[:most]
    return keys[order], counts[order]


@_kernel
def _bucket(key: np.uint64, shift: np.uint64) -> np.int64:
    return np.int64((key * np.uint64(0xD6E8FEB86659FD93)) >> shift)


@_kernel
def _count_buckets(hashes: UInts, shift: np.uint64) -> Ints:
    buckets = np.zeros(1 << (64 - np.int64(shift)), np.int64)
    for i in range(len(hashes)):
        buckets[_bucket(hashes[i], shift)] += 1
    return buckets


@_kernel
def _count_keys(
    hashes: UInts, buckets: Ints, shift: np.uint64, least: int, capacity: int
) -> tuple[UInts, Ints, bool]:
    keys, rows = np.zeros(capacity, np.uint64), np.full(capacity, FREE, np.int64)
    found = 0
    for i in range(len(hashes)):
        key = hashes[i]
        if buckets[_bucket(key, shift)] >= least:
            place = place_of(keys, rows, key)
            if rows[place] == FREE:
                found += 1
                if 2 * found > capacity:
                    return keys, rows, False
                keys[place], rows[place] = key, 0
            rows[place] += 1
    used = rows != FREE
    return keys[used], rows[used], True
