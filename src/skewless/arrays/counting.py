"""Counting over sorted hashes: long runs, heavy keys. Compiled by Numba."""

from __future__ import annotations

import numpy as np

from skewless.arrays.compiled import kernel
from skewless.arrays.types import Floats, Ints, UInts


@kernel
def count_within(first: Ints, last: Ints, values: Floats, limits: Floats) -> int:
    """How many of the values in each range are at most its limit, all ranges together."""
    total = 0
    for i in range(len(first)):
        for k in range(first[i], last[i]):
            if values[k] <= limits[i]:
                total += 1
    return total


@kernel
def longest_runs(hashes: UInts, most: int) -> tuple[Ints, Ints]:
    """Begin and length of the `most` longest runs of equal hashes, in no special order."""
    begins, lengths = np.zeros(most, np.int64), np.zeros(most, np.int64)
    begin, n = 0, len(hashes)
    for i in range(1, n + 1):
        if i == n or hashes[i] != hashes[begin]:
            least = 0
            for k in range(1, most):
                if lengths[k] < lengths[least]:
                    least = k
            if i - begin > lengths[least]:
                begins[least], lengths[least] = begin, i - begin
            begin = i
    return begins, lengths


@kernel
def count_rows(counts: Ints, rows: Ints) -> None:
    """Add one to the count of every row that is named, in place."""
    for row in rows:
        counts[row] += 1


@kernel
def heaviest_keys(hashes: UInts, pairs: Ints, most: int) -> UInts:
    """The hashes of the `most` heaviest runs of equal hashes by rows and pairs, in no special
    order; fewer where there are fewer."""
    found, weights = np.zeros(most, np.uint64), np.zeros(most, np.int64)
    begin, weight, least, n = 0, 0, 0, len(hashes)
    for i in range(n + 1):
        if i == n or hashes[i] != hashes[begin]:
            if most and weight > weights[least]:
                found[least], weights[least] = hashes[begin], weight
                for k in range(most):
                    if weights[k] < weights[least]:
                        least = k
            begin, weight = i, 0
        if i < n:
            weight += 1 + pairs[i]
    return found[weights > 0]
