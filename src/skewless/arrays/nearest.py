"""The rows nearest in time to each probing row, in one sorted run. Compiled by Numba."""

from __future__ import annotations

import numpy as np

from skewless.arrays.compiled import kernel
from skewless.arrays.merging import gallop_time, next_group
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
    n = len(probe_hashes)
    first, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
    known_at, known_first = -1, 0
    i, group, end = next_group(probe_hashes, 0, run_hashes, 0)
    while i < n:
        h, earlier, later = probe_hashes[i], group, group
        while i < n and probe_hashes[i] == h:
            t, found = probe_times[i], -1
            if before >= 0:
                earlier = gallop_time(run_times, t - gap + 1, earlier, end)
                p = earlier - 1
                if p >= group and run_times[p] >= max(t - before, np.int64(run_floor)):
                    found = p
                    if p != known_at:
                        known_at, known_first = p, gallop_time(run_times, run_times[p], group, p)
                    first[i], last[i] = known_first, p + 1
            if after >= 0 and (found < 0 or run_times[found] < t):
                later = gallop_time(run_times, max(t + gap, np.int64(run_floor)), later, end)
                q = later
                nearer = q < end and run_times[q] <= t + after
                if nearer and (found < 0 or run_times[q] - t < t - run_times[found]):
                    first[i] = q
                    last[i] = gallop_time(run_times, run_times[q] + 1, q, end)
            i += 1
        i, group, end = next_group(probe_hashes, i, run_hashes, end)
    return first, last
