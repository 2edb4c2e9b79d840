"""The inner loops, compiled by Numba. Arrays in, arrays out; nothing here knows of Arrow or Spark.

All inputs are read-only views (`frozen`), so that each kernel compiles once whether its input is a
fresh array or a memory-mapped file. Hashes are unsigned 64-bit; times are signed microseconds.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

UInts = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_kernel = numba.njit(cache=True, nogil=True)

INSERTION_MAX = 24  # buckets up to this size are sorted by insertion
BUCKET_BITS_MAX = 18  # 2 MiB of counters: still within a core's cache


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous read-only view."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@_kernel
def _mix(x: np.uint64) -> np.uint64:
    # The finaliser of splitmix64: a bijection, so equal hashes of one 64-bit key mean equal keys.
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@_kernel
def mix_words(hashes: UInts, words: UInts) -> None:
    """Fold one 64-bit word per row into the hashes, in place."""
    for i in range(len(words)):
        hashes[i] = _mix((hashes[i] * np.uint64(0x9E3779B97F4A7C15)) ^ words[i])


@_kernel
def mix_bytes(hashes: UInts, offsets: Ints, data: npt.NDArray[np.uint8]) -> None:
    """Fold a string of bytes per row into the hashes, in place."""
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        h = _mix(hashes[i] ^ np.uint64(end - begin))
        word, shift = np.uint64(0), np.uint64(0)
        for j in range(begin, end):
            word |= np.uint64(data[j]) << shift
            shift += np.uint64(8)
            if shift == np.uint64(64):
                h = _mix(h * np.uint64(0x9E3779B97F4A7C15) ^ word)
                word, shift = np.uint64(0), np.uint64(0)
        hashes[i] = _mix(h * np.uint64(0x9E3779B97F4A7C15) ^ word)


@_kernel
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


@_kernel
def _is_sorted(order: Ints, hashes: UInts, times: Ints, begin: int, end: int) -> bool:
    for i in range(begin + 1, end):
        a, b = order[i - 1], order[i]
        if hashes[a] > hashes[b] or (hashes[a] == hashes[b] and times[a] > times[b]):
            return False
    return True


@_kernel
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


@_kernel
def _gallop_hash(hashes: UInts, wanted: np.uint64, begin: int, end: int) -> int:
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


@_kernel
def _gallop_time(times: Ints, wanted: np.int64, begin: int, end: int) -> int:
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


@_kernel
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
            group = _gallop_hash(run_hashes, h, group_end, m)
            if group == m:
                break
            if run_hashes[group] != h:
                # Leap over the probing rows that lie before the next stored hash.
                group_end = group
                i = _gallop_hash(probe_hashes, run_hashes[group], i, n)
                continue
            group_end = m
            if h != np.uint64(0xFFFFFFFFFFFFFFFF):
                group_end = _gallop_hash(run_hashes, h + np.uint64(1), group, m)
            low = high = group
        t = probe_times[i]
        if t >= probe_floor and group < group_end:
            low = _gallop_time(
                run_times, max(t + np.int64(lower), np.int64(run_floor)), low, group_end
            )
            high = _gallop_time(run_times, t + upper + 1, max(low, high), group_end)
            first[i], last[i] = low, high
            pairs += high - low
        i += 1
    return first, last, pairs


@_kernel
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


@_kernel
def count_within(first: Ints, last: Ints, values: Floats, limits: Floats) -> int:
    """How many of the values in each range are at most its limit, all ranges together."""
    total = 0
    for i in range(len(first)):
        for k in range(first[i], last[i]):
            if values[k] <= limits[i]:
                total += 1
    return total


@_kernel
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


@_kernel
def count_rows(counts: Ints, rows: Ints) -> None:
    """Add one to the count of every row that is named, in place."""
    for row in rows:
        counts[row] += 1


@_kernel
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
