"""Sorting rows by (hash, time), compiled by Numba."""

from __future__ import annotations

import numpy as np

from skewless.arrays.compiled import kernel
from skewless.arrays.types import Ints, UInts

INSERTION_MAX = 24  # buckets up to this size are sorted by insertion


BUCKET_BITS_MAX = 18  # 2 MiB of counters: still within a core's cache


@kernel
def _sort_bucket(order: Ints, hashes: UInts, times: Ints, begin: int, end: int) -> None:
    if end - begin <= INSERTION_MAX:
        for i in range(begin + 1, end):
            row = order[i]
            h, t = hashes[row], times[row]
            j = i - 1
            while j >= begin:
                other = order[j]
                if hashes[other] < h or (hashes[other] == h and times[other] <= t):
                    break
                order[j + 1] = other
                j -= 1
            order[j + 1] = row
        return
    rows = order[begin:end].copy()
    rows = rows[np.argsort(times[rows], kind="mergesort")]
    order[begin:end] = rows[np.argsort(hashes[rows], kind="mergesort")]


@kernel
def _is_sorted(order: Ints, hashes: UInts, times: Ints, begin: int, end: int) -> bool:
    for i in range(begin + 1, end):
        a, b = order[i - 1], order[i]
        if hashes[a] > hashes[b] or (hashes[a] == hashes[b] and times[a] > times[b]):
            return False
    return True


@kernel
def sort_order(hashes: UInts, times: Ints) -> Ints:
    """The stable order by (hash, time).

    Hashes are even, so one distribution pass by their leading bits leaves a few rows per bucket.
    A bucket that a hot key fills usually arrives in time order; only if not is it sorted in full.
    """
    n = len(hashes)
    bits = 0
    while bits < BUCKET_BITS_MAX and (1 << bits) < n // 4:
        bits += 1
    if bits == 0:
        order = np.arange(n)
        _sort_bucket(order, hashes, times, 0, n)
        return order
    shift = np.uint64(64 - bits)
    ends = np.zeros((1 << bits) + 1, np.int64)
    for i in range(n):
        ends[(hashes[i] >> shift) + np.uint64(1)] += 1
    for b in range(1, len(ends)):
        ends[b] += ends[b - 1]
    order = np.empty(n, np.int64)
    for i in range(n):
        bucket = hashes[i] >> shift
        order[ends[bucket]] = i
        ends[bucket] += 1
    begin = 0
    for b in range(1 << bits):
        end = ends[b]
        if end - begin > 1 and not _is_sorted(order, hashes, times, begin, end):
            _sort_bucket(order, hashes, times, begin, end)
        begin = end
    return order
