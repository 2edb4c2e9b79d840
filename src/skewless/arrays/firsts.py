"""The first rows of each key within a bound of time. Rows lie sorted by (hash, time), so that from
one first row to the next one leaps over all in between, however many a hot key has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skewless.arrays.compiled import kernel
from skewless.arrays.merging import gallop_hash, gallop_time
from skewless.arrays.types import FAR_US, HASH_MAX, Ints, UInts, frozen

NEVER = -FAR_US


@dataclass(frozen=True)
class TimedRun:
    """Rows sorted by (code, time). A code is a hash, or another number that tells keys apart. Of
    rows with one code and time the one with the lowest `order` comes first. Rows before the floor
    do not count."""

    codes: UInts
    times: Ints
    order: Ints
    floor_us: int = NEVER

    def heads(self) -> Ints:
        """The first row of every code."""
        return np.flatnonzero(np.diff(self.codes, prepend=~self.codes[:1]))


def first_rows(
    runs: Sequence[TimedRun], kept: Sequence[TimedRun], within_us: int, until_us: int
) -> list[Ints]:
    """The positions in every run of the rows that come first: per code the earliest that is more
    than `within_us` after the latest `kept` one, then the earliest so long after that one, and so
    on up to `until_us`."""
    if not runs:
        return []
    distinct = np.unique(np.concatenate([run.codes[run.heads()] for run in runs]))
    last = np.full(len(distinct), NEVER)
    for run in kept:
        at = np.searchsorted(run.codes, distinct, "right") - 1
        known = at >= 0
        known[known] = run.codes[at[known]] == distinct[known]
        last[known] = np.maximum(last[known], run.times[at[known]])
    codes = frozen(np.concatenate([run.codes for run in runs]))
    times = frozen(np.concatenate([run.times for run in runs]))
    order = frozen(np.concatenate([run.order for run in runs]))
    ends = np.cumsum([len(run.codes) for run in runs])
    floors = np.array([run.floor_us for run in runs])
    found = _leap(distinct, last, codes, times, order, ends, floors, within_us, until_us)
    whose, begins = np.searchsorted(ends, found, "right"), np.append(0, ends[:-1])
    return [np.sort(found[whose == r] - begins[r]) for r in range(len(runs))]


@kernel
def _leap(
    distinct: UInts, last: Ints, codes: UInts, times: Ints, order: Ints, ends: Ints, floors: Ints,
    within: int, until: int,
) -> Ints:  # fmt: skip
    runs, found = len(ends), [0]
    at, stop = np.zeros(runs, np.int64), np.zeros(runs, np.int64)
    at[1:] = ends[:-1]
    for i in range(len(distinct)):
        code = distinct[i]
        for r in range(runs):
            at[r] = gallop_hash(codes, code, at[r], ends[r])
            stop[r] = ends[r]
            if code != np.uint64(HASH_MAX):
                stop[r] = gallop_hash(codes, code + np.uint64(1), at[r], ends[r])
        earliest = np.int64(NEVER) if last[i] == NEVER else last[i] + within + 1
        best = 0
        while best >= 0:
            best = -1
            for r in range(runs):
                at[r] = gallop_time(times, max(earliest, floors[r]), at[r], stop[r])
                p = at[r]
                while p < stop[r] and times[p] <= until and (best < 0 or times[p] <= times[best]):
                    if best < 0 or times[p] < times[best] or order[p] < order[best]:
                        best = p
                    p += 1
            if best >= 0:
                found.append(best)
                earliest = times[best] + within + 1
    return np.array(found[1:], np.int64)
