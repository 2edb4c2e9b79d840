"""Merging sorted rows: where the partners of each probing row lie. Compiled by Numba."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skewless.arrays.compiled import kernel
from skewless.arrays.types import Ints, UInts, frozen


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
    n, m = len(probe_hashes), len(run_hashes)
    first, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
    pairs, group, group_end, low, high, i = 0, 0, 0, 0, 0, 0
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
            low = high = group
        t = probe_times[i]
        if t >= probe_floor and group < group_end:
            low = gallop_time(
                run_times, max(t + np.int64(lower), np.int64(run_floor)), low, group_end
            )
            high = gallop_time(run_times, t + upper + 1, max(low, high), group_end)
            first[i], last[i] = low, high
            pairs += high - low
        i += 1
    return first, last, pairs


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
