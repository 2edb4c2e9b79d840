"""The rows nearest in time to each probing row, in one sorted run. Compiled by Numba."""

from __future__ import annotations

import numpy as np

from skewless.arrays.compiled import kernel
from skewless.arrays.merging import gallop_hash, gallop_time
from skewless.arrays.types import Ints, UInts


@kernel
def nearest_ranges(
    probe_hashes: UInts, probe_times: Ints, run_hashes: UInts, run_times: Ints, run_floor: int,
    before: int, after: int, gap: int,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Per probing row, of time t, the range [first, last) of rows of a run that have its hash and
    of all times in [t - before, t - gap] and [t + gap, t + after] the one nearest to t, of two
    equally near ones the earlier. A negative `before` or `after` looks not that way. Rows older
    than `run_floor` do not count.

    Both inputs are sorted by (hash, time): for the probing rows of one hash, all ends only move
    forward. Rows of one time are leapt over, so that it does not matter how many there are.
    """
    n, m = len(probe_hashes), len(run_hashes)
    first, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
    group, group_end, i = 0, 0, 0
    earlier, later, known_at, known_first = 0, 0, -1, 0
    known = False
    previous = np.uint64(0)
    while i < n:
        h = probe_hashes[i]
        if not known or h != previous:
            known, previous = True, h
            group = gallop_hash(run_hashes, h, group_end, m)
            if group == m:
                break
            if run_hashes[group] != h:
                # Leap over the probing rows that lie before the next stored hash.
                group_end = group
                i = gallop_hash(probe_hashes, run_hashes[group], i, n)
                continue
            group_end = m
            if h != np.uint64(0xFFFFFFFFFFFFFFFF):
                group_end = gallop_hash(run_hashes, h + np.uint64(1), group, m)
            earlier = later = group
        if group < group_end:
            t, found = probe_times[i], -1
            if before >= 0:
                earlier = gallop_time(run_times, t - gap + 1, earlier, group_end)
                p = earlier - 1
                if p >= group and run_times[p] >= max(t - before, np.int64(run_floor)):
                    found = p
                    if p != known_at:
                        known_at, known_first = p, gallop_time(run_times, run_times[p], group, p)
                    first[i], last[i] = known_first, p + 1
            if after >= 0 and (found < 0 or run_times[found] < t):
                later = gallop_time(run_times, max(t + gap, np.int64(run_floor)), later, group_end)
                q = later
                nearer = q < group_end and run_times[q] <= t + after
                if nearer and (found < 0 or run_times[q] - t < t - run_times[found]):
                    first[i] = q
                    last[i] = gallop_time(run_times, run_times[q] + 1, q, group_end)
        i += 1
    return first, last
