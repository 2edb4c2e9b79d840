"""SpaceSaving: the frequent keys of a stream, counted in a fixed number of counters.

Every key that is not counted takes over the least counter, count included (Metwally et al.,
"Efficient computation of frequent and top-k elements in data streams", ICDT 2005). So a count is
never too low, and too high by at most the number of tuples over the number of counters.
Counters only grow: `least_loaded` finds the least one in constant time on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from skewless.errors import ArgumentError
from skewless.placement.grouping.base import Grouping, Ints, State, UInts, between, whole
from skewless.placement.grouping.hash_table import FREE, capacity_for, place_of, remove
from skewless.placement.grouping.least_loaded import least_loaded


class Counters(NamedTuple):
    """The counters of a stream's keys. `rows` has the counter of each of the `keys`, which are a
    hash table; `holders` has the key of each counter, and `mark` knows the least of the `counts`.
    A key is hot from the share `threshold` of the tuples `seen`. Kernels take it apart before they
    loop, as every look into a structure costs."""

    keys: UInts
    rows: Ints
    holders: UInts
    counts: Ints
    mark: Ints
    seen: Ints
    threshold: npt.NDArray[np.float64]


@dataclass(frozen=True)
class HotKeyGrouping(Grouping):
    """What groupings share that treat frequent keys apart.

    - `threshold`: the share of all tuples from which a key is hot; by default 1/(5n) for n
      instances. Less of it splits more keys.
    - `counters`: how many keys are counted; by default twice as many as could be hot. More of them
      mean fewer keys that are taken for hot by mistake, and more memory; groupings that keep
      something per key and instance need as many times `instances` of it.
    """

    threshold: float | None = None
    counters: int | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            between("threshold", self.threshold, 0, 1)
            if self.counters is None and self.threshold < 1e-7:
                accepted = "a share of at least 1e-7 unless `counters` is given"
                raise ArgumentError("threshold", self.threshold, accepted)
        if self.counters is not None:
            whole("counters", self.counters, 1)

    def _counters(self, instances: int) -> int:
        return self.counters or ceil(2 / self._threshold(instances))

    def _threshold(self, instances: int) -> float:
        return 1 / (5 * instances) if self.threshold is None else self.threshold

    def _fresh_counters(self, instances: int) -> State:
        """`Counters` that have seen nothing, as arrays of the state."""
        counters = self._counters(instances)
        places = capacity_for(counters)
        return {
            "keys": np.zeros(places, np.uint64),
            "rows": np.full(places, FREE, np.int64),
            "holders": np.zeros(counters, np.uint64),
            "counts": np.zeros(counters, np.int64),
            "counts_mark": np.zeros(2, np.int64),
            "seen": np.zeros(1, np.int64),
            "threshold": np.array([self._threshold(instances)]),
        }

    @staticmethod
    def _counters_of(state: State) -> Counters:
        return Counters(
            keys=state["keys"],
            rows=state["rows"],
            holders=state["holders"],
            counts=state["counts"],
            mark=state["counts_mark"],
            seen=state["seen"],
            threshold=state["threshold"],
        )


@numba.njit(cache=True, nogil=True)
def observe(
    key: np.uint64, keys: UInts, rows: Ints, holders: UInts, counts: Ints, mark: Ints
) -> tuple[np.int64, bool]:
    """Count a key; its row, and whether the row was another key's or nobody's before."""
    place = place_of(keys, rows, key)
    if rows[place] != FREE:
        row = rows[place]
        counts[row] += 1
        return row, False
    row = least_loaded(counts, mark)
    if counts[row] > 0:
        remove(keys, rows, place_of(keys, rows, holders[row]))
        place = place_of(keys, rows, key)  # closing the gap may have moved it
    keys[place], rows[place] = key, row
    holders[row] = key
    counts[row] += 1
    return row, True
