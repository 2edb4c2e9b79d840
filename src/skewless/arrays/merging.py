"""Merging sorted rows: where the partners of each probing row lie. Compiled by Numba."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skewless.arrays.compiled import kernel
from skewless.arrays.types import Flags, Ints, UInts, frozen


@kernel
def gallop_hash(hashes: UInts, wanted: np.uint64, begin: int, end: int) -> int:
    """First index in [begin, end) whose hash is at least `wanted`; quick when it is near."""
    step, low = 1, begin
    while low + step < end and hashes[low + step] < wanted:
        low += step
        step <<= 1
    high = min(low + step, end)
    while low < high:
        middle = (low + high) >> 1
        if hashes[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def gallop_time(times: Ints, wanted: np.int64, begin: int, end: int) -> int:
    """First index in [begin, end) whose time is at least `wanted`; quick when it is near."""
    step, low = 1, begin
    while low + step < end and times[low + step] < wanted:
        low += step
        step <<= 1
    high = min(low + step, end)
    while low < high:
        middle = (low + high) >> 1
        if times[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def next_group(probe_hashes: UInts, i: int, run_hashes: UInts, begin: int) -> tuple[int, int, int]:
    """The first probing row from `i` on whose hash is stored, and where the stored rows of that
    hash begin and end, from `begin` on. Leaps over whatever has no partner, on both sides."""
    n, m = len(probe_hashes), len(run_hashes)
    while i < n:
        h = probe_hashes[i]
        begin = gallop_hash(run_hashes, h, begin, m)
        if begin == m:
            break
        if run_hashes[begin] == h:
            if h == np.uint64(0xFFFFFFFFFFFFFFFF):
                return i, begin, m
            return i, begin, gallop_hash(run_hashes, h + np.uint64(1), begin, m)
        i = gallop_hash(probe_hashes, run_hashes[begin], i, n)
    return n, m, m


@kernel
def match_ranges(
    probe_hashes: UInts,
    probe_times: Ints,
    probe_floor: int,
    run_hashes: UInts,
    run_times: Ints,
    run_floor: int,
    lower: int,
    upper: int,
) -> tuple[Ints, Ints, int]:
    """Per probing row the range [first, last) of stored rows with its hash, in its time bounds and
    not older than `run_floor`; and the number of pairs in all.

    Both inputs are sorted by (hash, time): for the probing rows of one hash, both ends only move
    forward. Work follows the probing rows, not the stored ones.
    """
    n = len(probe_hashes)
    first, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
    pairs = 0
    i, group, end = next_group(probe_hashes, 0, run_hashes, 0)
    while i < n:
        h, low, high = probe_hashes[i], group, group
        while i < n and probe_hashes[i] == h:
            t = probe_times[i]
            if t >= probe_floor:
                wanted = max(t + np.int64(lower), np.int64(run_floor))
                low = gallop_time(run_times, wanted, low, end)
                high = gallop_time(run_times, t + upper + 1, max(low, high), end)
                first[i], last[i] = low, high
                pairs += high - low
            i += 1
        i, group, end = next_group(probe_hashes, i, run_hashes, end)
    return first, last, pairs


@kernel
def mark_matched(
    probe_hashes: UInts,
    probe_times: Ints,
    probe_floor: int,
    run_hashes: UInts,
    run_times: Ints,
    run_floor: int,
    lower: int,
    upper: int,
    found: Flags,
) -> None:
    """Flag the probing rows that have a stored row as `match_ranges` would find; those that are
    flagged already are not looked for."""
    n = len(probe_hashes)
    i, group, end = next_group(probe_hashes, 0, run_hashes, 0)
    while i < n:
        h, low = probe_hashes[i], group
        while i < n and probe_hashes[i] == h:
            t = probe_times[i]
            if not found[i] and t >= probe_floor:
                wanted = max(t + np.int64(lower), np.int64(run_floor))
                low = gallop_time(run_times, wanted, low, end)
                found[i] = low < end and run_times[low] <= t + upper
            i += 1
        i, group, end = next_group(probe_hashes, i, run_hashes, end)


@kernel
def expand_ranges(
    first: Ints, last: Ints, row: int, skip: int, room: int
) -> tuple[Ints, Ints, int, int]:
    """Pairs (probing row, stored row), at most `room`, beginning `skip` into the range of `row`;
    and where to go on."""
    probes, runs = np.empty(room, np.int64), np.empty(room, np.int64)
    filled, n = 0, len(first)
    while row < n and filled < room:
        begin = first[row] + skip
        take = min(last[row] - begin, room - filled)
        for k in range(take):
            probes[filled + k] = row
            runs[filled + k] = begin + k
        filled += take
        if begin + take < last[row]:
            skip += take
        else:
            row += 1
            skip = 0
    return probes[:filled], runs[:filled], row, skip


def pairs_in_ranges(first: Ints, last: Ints, most: int) -> Iterator[tuple[Ints, Ints]]:
    """All pairs of a probing row and a stored row in its range, at most so many at a time."""
    pairs, row, skip = int((last - first).sum()), 0, 0
    first, last = frozen(first), frozen(last)
    while pairs > 0:
        room = min(pairs, most)
        probes, partners, row, skip = expand_ranges(first, last, row, skip, room)
        pairs -= room
        yield probes, partners
