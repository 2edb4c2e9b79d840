"""How well a grouping did: balance of the tuples, splitting of the keys, time and memory."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from skewless.errors import ArgumentError
from skewless.placement.grouping.base import Grouper, Ints, Targets, UInts, as_hashes, whole
from skewless.placement.grouping.hashing import mix

_kernel = numba.njit(cache=True, nogil=True)

_FREE, _ANYWHERE = -1, -2  # in place of an instance: no entry; the key, wherever it went
_CAPACITY = 1 << 12
_CHUNK = 1 << 16


def load_imbalance(loads: npt.ArrayLike) -> float:
    """How far the busiest instance is above the mean, as a share of the mean; 0 without tuples.

    >>> round(load_imbalance([4, 3, 2]), 2)
    0.33
    """
    counts = np.asarray(loads)
    mean = float(counts.mean()) if counts.size else 0.0
    return (float(counts.max()) - mean) / mean if mean else 0.0


def replication_factor(hashes: npt.ArrayLike, targets: npt.ArrayLike) -> float:
    """On how many instances a key is, on average; 1 where no key is split, and without tuples.

    >>> replication_factor(np.array([7, 7, 8]), np.array([0, 1, 1]))
    1.5
    """
    places = np.asarray(targets)
    metrics = GroupingMetrics(int(places.max()) + 1 if places.size else 1)
    metrics.update(hashes, places)
    return metrics.replication_factor


class GroupingMetrics:
    """Balance and splitting of a stream that is seen piece by piece: exact, in memory that grows
    with the number of distinct (key, instance) pairs.

    >>> metrics = GroupingMetrics(instances=2)
    >>> metrics.update(np.array([7, 7, 8]), np.array([0, 1, 1]))
    >>> metrics.tuples, metrics.distinct_keys, metrics.replication_factor
    (3, 2, 1.5)
    """

    def __init__(self, instances: int) -> None:
        whole("instances", instances, 1)
        self.instances = instances
        self.loads: Ints = np.zeros(instances, np.int64)
        self._found: Ints = np.zeros(2, np.int64)  # distinct pairs, distinct keys
        self._keys: UInts = np.zeros(_CAPACITY, np.uint64)
        self._places: Targets = np.full(_CAPACITY, _FREE, np.int32)

    def update(self, hashes: npt.ArrayLike, targets: npt.ArrayLike) -> None:
        """Count tuples with these keys that went to these instances."""
        keys, places = as_hashes(hashes), np.asarray(targets)
        if len(keys) != len(places):
            raise ArgumentError(
                "targets", f"{len(places)} of them", f"as many as hashes: {len(keys)}"
            )
        if len(places) and not 0 <= places.min() <= places.max() < self.instances:
            raise ArgumentError("targets", places, f"instances 0 to {self.instances - 1}")
        places = np.ascontiguousarray(places, np.int32)
        places.flags.writeable = False
        for begin in range(0, len(keys), _CHUNK):
            piece = slice(begin, begin + _CHUNK)
            self._make_room(2 * len(keys[piece]))
            _count(keys[piece], places[piece], self.loads, self._found, self._keys, self._places)

    @property
    def tuples(self) -> int:
        return int(self.loads.sum())

    @property
    def distinct_keys(self) -> int:
        return int(self._found[1])

    @property
    def load_imbalance(self) -> float:
        """How far the busiest instance is above the mean, as a share of the mean."""
        return load_imbalance(self.loads)

    @property
    def replication_factor(self) -> float:
        """Distinct (key, instance) pairs over distinct keys; 1 without tuples."""
        pairs, keys = self._found
        return float(pairs / keys) if keys else 1.0

    def _make_room(self, entries: int) -> None:
        needed = 2 * (int(self._found.sum()) + entries)
        if needed <= len(self._keys):
            return
        capacity = 1 << (needed - 1).bit_length()
        keys, places = np.zeros(capacity, np.uint64), np.full(capacity, _FREE, np.int32)
        _move(self._keys, self._places, keys, places)
        self._keys, self._places = keys, places


@_kernel
def _insert(key: np.uint64, instance: int | np.int64, keys: UInts, places: Targets) -> bool:
    """Whether the pair was new."""
    last = len(keys) - 1
    spread = mix(key ^ (np.uint64(instance + 3) * np.uint64(0x9E3779B97F4A7C15)))
    at = np.int64(spread & np.uint64(last))
    while places[at] != _FREE:
        if keys[at] == key and places[at] == instance:
            return False
        at = (at + 1) & last
    keys[at], places[at] = key, instance
    return True


@_kernel
def _count(
    hashes: UInts, targets: Targets, loads: Ints, found: Ints, keys: UInts, places: Targets
) -> None:
    for i in range(len(hashes)):
        target = np.int64(targets[i])
        loads[target] += 1
        if _insert(hashes[i], target, keys, places):
            found[0] += 1
            if _insert(hashes[i], _ANYWHERE, keys, places):
                found[1] += 1


@_kernel
def _move(keys: UInts, places: Targets, new_keys: UInts, new_places: Targets) -> None:
    for i in range(len(keys)):
        if places[i] != _FREE:
            _insert(keys[i], np.int64(places[i]), new_keys, new_places)


@dataclass(frozen=True)
class GroupingReport:
    """What a grouping did with a stream."""

    tuples: int
    distinct_keys: int
    load_imbalance: float
    replication_factor: float
    memory_bytes: int
    ns_per_tuple: float


def measure(grouper: Grouper, hashes: npt.ArrayLike, batch: int = 1_000_000) -> GroupingReport:
    """Route a stream in batches, and tell how well it went and how long a tuple took.

    >>> from skewless.placement.grouping import KeyGrouping
    >>> measure(KeyGrouping().build(4), np.arange(10)).replication_factor
    1.0
    """
    whole("batch", batch, 1)
    keys, seconds = as_hashes(hashes), 0.0
    metrics = GroupingMetrics(grouper.instances)
    for begin in range(0, len(keys), batch):
        piece = keys[begin : begin + batch]
        started = time.perf_counter()
        targets = grouper.assign(piece)
        seconds += time.perf_counter() - started
        metrics.update(piece, targets)
    return GroupingReport(
        metrics.tuples,
        metrics.distinct_keys,
        metrics.load_imbalance,
        metrics.replication_factor,
        grouper.memory_bytes,
        seconds * 1e9 / max(1, len(keys)),
    )
