"""Pd-Stream: as many candidate instances as a key is popular in a short window."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma
from typing import Literal, NamedTuple, cast

import numba
import numpy as np
import numpy.typing as npt

from skewless.errors import ArgumentError
from skewless.placement.grouping.base import (
    Grouper,
    Grouping,
    Ints,
    State,
    Targets,
    UInts,
    between,
    whole,
)
from skewless.placement.grouping.expectation import RUNG, RUNGS, SPLITS, adapt, fresh_control
from skewless.placement.grouping.hash_table import FREE, capacity_for, place_of, remove
from skewless.placement.grouping.hashing import choice, salts
from skewless.placement.grouping.least_loaded import (
    Candidates,
    add_member,
    least_loaded,
    least_member,
)
from skewless.placement.grouping.pkg import less_loaded_of_two

Floats = npt.NDArray[np.float64]

_kernel = numba.njit(cache=True, nogil=True)


class _Window(NamedTuple):
    """The last keys of the stream, in a ring, and how often each is in it. `rows` has the counter
    of each of the `keys`, which are a hash table; `free_rows` lists, from `used` on, the counters
    that nobody has."""

    ring: UInts
    seen: Ints
    used: Ints
    keys: UInts
    rows: Ints
    free_rows: Ints
    counts: Ints

    @staticmethod
    def of(state: State) -> _Window:
        return _Window(
            ring=state["window"],
            seen=state["seen"],
            used=state["used_rows"],
            keys=state["keys"],
            rows=state["rows"],
            free_rows=state["row_stack"],
            counts=state["counts"],
        )


@dataclass(frozen=True)
class PdStream(Grouping):
    """Popularity-aware discriminative grouping (Sun et al., "A Popularity-Aware Discriminative
    Grouping Strategy in Distributed Stream Computing Systems").

    A window holds the last N = `length_factor`·n/2 keys. A key that is in it once is routed as
    by `PKG`. One that is in it n_k ≥ 2 times has a list of candidates: at first its two choices,
    then one more with each tuple, the least loaded of all, while the list is shorter than
    ⌊p̂(n_k)·n⌋ (see `probability_table`). The tuple goes to the least loaded candidate. A key that
    leaves the window is forgotten.

    - `length_factor`: a longer window sees rarer keys as hot, and takes more memory: N·n places
      for candidates are set aside.
    - `expected`: closer to 1 means more candidates, better balance and more splitting. The paper
      has 0.99, or 0.999 in its text. The default of 0.9 is as even on Zipf streams and splits
      less. "auto" goes up and down a ladder of expectations while the stream runs (see
      `expectation`): as even within a tuple or two, with a replication factor at most 1 % above
      that of the best fixed one, and far below it where keys are most skewed.
    - `epsilon`: how precisely probabilities are searched for.
    - `count_arriving`: whether n_k has the arriving tuple in it. The paper's figure 3 says so; its
      algorithm looks n_k up before it adds the key, and only so, with 0.99, do its replication
      factors come out.

    Readings of the paper: the window no longer counts the tuple that leaves; if any least loaded
    instance is a candidate already, none is added. Instead of a traversal of the window there is
    a counter per key in it, and the least loaded candidate is known by a mark (`least_loaded`),
    so the cost of a tuple does not grow with the number of instances.

    >>> PdStream().build(8).assign(np.full(8, 7)).tolist()
    [6, 7, 6, 7, 0, 1, 0, 1]
    """

    length_factor: int = 4
    expected: float | Literal["auto"] = 0.9
    epsilon: float = 1e-4
    count_arriving: bool = True

    def __post_init__(self) -> None:
        whole("length_factor", self.length_factor, 1)
        if isinstance(self.expected, str):
            if self.expected != "auto":
                accepted = 'a number above 0 and below 1, or "auto"'
                raise ArgumentError("expected", self.expected, accepted)
        else:
            between("expected", self.expected, 0, 1)
        between("epsilon", self.epsilon, 0, 1)
        if not isinstance(self.count_arriving, bool):
            raise ArgumentError("count_arriving", self.count_arriving, "True or False")

    def window(self, instances: int) -> int:
        """The number N of tuples that the sampling window holds."""
        return max(1, self.length_factor * instances // 2)

    def build(self, instances: int, seed: int = 0) -> PdStreamGrouper:
        return cast(PdStreamGrouper, super().build(instances, seed))

    def resume(self, snapshot: bytes) -> PdStreamGrouper:
        return cast(PdStreamGrouper, super().resume(snapshot))

    def _grouper(self, instances: int, seed: int, state: State) -> PdStreamGrouper:
        return PdStreamGrouper(self, instances, seed, state)

    def _fresh(self, instances: int, seed: int) -> State:
        window = self.window(instances)
        places = capacity_for(window + 1)
        return {
            "salts": salts(seed, 2),
            **self._fresh_limits(window, instances),
            "mark": np.zeros(2, np.int64),
            "window": np.zeros(window, np.uint64),
            "seen": np.zeros(1, np.int64),
            "used_rows": np.zeros(1, np.int64),
            "keys": np.zeros(places, np.uint64),
            "rows": np.full(places, FREE, np.int64),
            "row_stack": np.arange(window + 1),  # from `used_rows` on: rows that are free
            "counts": np.zeros(window + 1, np.int64),
            **Candidates.fresh(window + 1, instances),
        }

    def _fresh_limits(self, window: int, instances: int) -> State:
        """⌊p̂(n_k)·n⌋ for n_k = 0 … N; with "auto" a row for every rung of the ladder."""
        if self.expected == "auto":
            rows = [self._limits(window, instances, rung) for rung in RUNGS]
            return {"limits": np.stack(rows), "control": fresh_control()}
        return {"limits": self._limits(window, instances, self.expected)}

    def _limits(self, window: int, instances: int, expected: float) -> Ints:
        estimates = probability_table(window, expected, self.epsilon)
        return np.concatenate([[0], np.floor(estimates * instances)]).astype(np.int64)

    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        uncounted = 0 if self.count_arriving else 1
        loads, choices, mark = state["loads"], state["salts"], state["mark"]
        window, candidates, limits = _Window.of(state), Candidates.of(state), state["limits"]
        if self.expected == "auto":
            _route_adapting(
                keys, targets, loads, choices, limits, state["control"], uncounted, mark, window,
                candidates,
            )  # fmt: skip
        else:
            _route_by_popularity(
                keys, targets, loads, choices, limits, uncounted, mark, window, candidates
            )


class PdStreamGrouper(Grouper):
    """A grouper that lets its routing table be seen, and what it expects."""

    @property
    def expected(self) -> float:
        """The expected probability, as it is at present."""
        configured = cast(PdStream, self.grouping).expected
        if configured == "auto":
            return RUNGS[int(self._state["control"][RUNG])]
        return configured

    @property
    def routing_table(self) -> dict[int, list[int]]:
        """The candidates of each hot key in the window, in the order in which they were added."""
        state = self._state
        used = np.flatnonzero(state["rows"] != FREE)
        table = {int(state["keys"][place]): int(state["rows"][place]) for place in used}
        sizes, members = state["sizes"], state["members"]
        return {
            key: members[row, : sizes[row]].tolist() for key, row in table.items() if sizes[row]
        }


def probability_table(window: int, expected: float = 0.99, epsilon: float = 1e-4) -> Floats:
    """Algorithm 1 for n_k = 1 … `window`: the probability p̂ with which a key must appear for at
    least n_k of `window` tuples to be its own with probability `expected`, found by halving
    until less than `epsilon` is left.

    The last midpoint counts, as the algorithm is printed. Table III of the paper is for 0.99,
    though its text says 0.999, and was rounded twice: 43.05 is printed as 43.1.

    >>> [round(100 * float(p), 2) for p in probability_table(16)[:6]]
    [25.01, 34.88, 43.05, 50.3, 56.9, 62.99]
    """
    whole("window", window, 1)
    between("expected", expected, 0, 1)
    between("epsilon", epsilon, 0, 1)
    ways = lgamma(window + 1) - np.array(
        [lgamma(k + 1) + lgamma(window - k + 1) for k in range(window + 1)]
    )
    table: Floats = _search_probabilities(ways, expected, epsilon)
    return table


@_kernel
def _at_least(log_ways: Floats, least: int, p: float) -> float:
    """The binomial tail P(X ≥ least), summed away from the mode until nothing is added any more:
    upwards, or downwards to what is missing from 1. Each term follows from the one before."""
    window, odds = len(log_ways) - 1, p / (1 - p)
    upwards = least > window * p
    k = least if upwards else least - 1
    term = np.exp(log_ways[k] + k * np.log(p) + (window - k) * np.log1p(-p))
    total = 0.0
    while term > 1e-18:
        total += term
        if upwards:
            term *= (window - k) / (k + 1) * odds
            k += 1
        else:
            term *= k / (window - k + 1) / odds
            k -= 1
    return total if upwards else 1 - total


@_kernel
def _search_probabilities(log_ways: Floats, expected: float, epsilon: float) -> Floats:
    window = len(log_ways) - 1
    table = np.empty(window)
    for least in range(1, window + 1):
        lower, upper, middle = 0.0, 1.0, 0.5
        while upper - lower > epsilon:
            middle = (upper + lower) / 2
            if _at_least(log_ways, least, middle) < expected:
                lower = middle
            else:
                upper = middle
        table[least - 1] = middle
    return table


@_kernel
def _slide(
    key: np.uint64,
    ring: UInts,
    seen: Ints,
    used: Ints,
    keys: UInts,
    rows: Ints,
    free_rows: Ints,
    counts: Ints,
    sizes: Ints,
) -> int:
    """Take a key into the window, and the oldest out of it; the row of the key's counter. A new
    row has no candidates."""
    place = place_of(keys, rows, key)
    if rows[place] == FREE:
        row = free_rows[used[0]]
        used[0] += 1
        keys[place], rows[place] = key, row
        counts[row], sizes[row] = 0, 0
    row = rows[place]
    counts[row] += 1
    at = seen[0] % len(ring)
    if seen[0] >= len(ring):
        place = place_of(keys, rows, ring[at])
        leaving = rows[place]
        counts[leaving] -= 1
        if counts[leaving] == 0:
            remove(keys, rows, place)
            used[0] -= 1
            free_rows[used[0]] = leaving
    ring[at] = key
    seen[0] += 1
    return int(row)


@_kernel
def _route_by_popularity(
    stream: UInts,
    targets: Targets,
    loads: Ints,
    salts: UInts,
    limits: Ints,
    uncounted: int,
    mark: Ints,
    window: _Window,
    candidates: Candidates,
) -> int:
    """How many candidates were added."""
    n, added = len(loads), 0
    ring, seen, used, keys, rows, free_rows, counts = window
    sizes, marks, members = candidates
    for i in range(len(stream)):
        key = stream[i]
        row = _slide(key, ring, seen, used, keys, rows, free_rows, counts, sizes)
        popularity = counts[row] - uncounted
        if popularity <= 1:
            target = less_loaded_of_two(key, loads, salts)
        else:
            if sizes[row] == 0:
                first, second = choice(key, salts[0], n), choice(key, salts[1], n)
                add_member(loads, members[row], 0, marks[row], first)
                sizes[row] = 1
                if second != first:
                    add_member(loads, members[row], 1, marks[row], second)
                    sizes[row] = 2
            target = least_member(loads, members[row], sizes[row], marks[row])
            if limits[popularity] > sizes[row]:
                least = least_loaded(loads, mark)
                if loads[least] < loads[target]:
                    add_member(loads, members[row], sizes[row], marks[row], least)
                    sizes[row] += 1
                    added += 1
                    target = least
        targets[i] = target
        loads[target] += 1
    return added


@_kernel
def _route_adapting(
    stream: UInts,
    targets: Targets,
    loads: Ints,
    salts: UInts,
    ladder: Ints,
    control: Ints,
    uncounted: int,
    mark: Ints,
    window: _Window,
    candidates: Candidates,
) -> None:
    """The same, with a look at the loads whenever a window's tuples have gone by."""
    ring, seen, begin = window.ring, window.seen, 0
    while begin < len(stream):
        end = min(len(stream), begin + len(ring) - seen[0] % len(ring))
        control[SPLITS] += _route_by_popularity(
            stream[begin:end], targets[begin:end], loads, salts, ladder[control[RUNG]], uncounted,
            mark, window, candidates,
        )  # fmt: skip
        if seen[0] % len(ring) == 0:
            adapt(control, loads, seen[0], len(ring))
        begin = end
