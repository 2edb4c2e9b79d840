"""BatchAware: a micro-batch is seen whole, and only what is too heavy for its place is split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numba
import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Flags
from skewless.errors import ArgumentError
from skewless.placement.grouping.base import (
    Grouper,
    Grouping,
    Ints,
    State,
    Targets,
    UInts,
    as_hashes,
    whole,
    within,
)
from skewless.placement.grouping.hash_table import FREE, capacity_for, place_of
from skewless.placement.grouping.hashing import choice, home, home_of, salts
from skewless.placement.grouping.heavy_keys import heavy_keys
from skewless.placement.grouping.shares import divide, level_room

_kernel = numba.njit(cache=True, nogil=True)

_FINENESS = 64  # a key is heavy from this part of an instance's mean load
_KEEP = 0.5  # of a key's weight, from batch to batch
_CORRECTION = 0.1  # of a batch's mean load at most makes up for the batches before


@dataclass(frozen=True)
class BatchAware(Grouping):
    """Every batch is counted before it is routed, so each instance can be filled exactly.

    All keys are at their homes, as with `KeyGrouping`, except for a table of keys that are
    elsewhere, or in several places. In a batch, light keys go where they are. They leave each
    instance some room up to an even load; heavy keys share it. They use the places they are in
    as far as possible, and what is left over goes to the instances with most room (`divide`).
    So a key moves or splits only if its place is full, a light one last of all, and about as many
    places are added as there are instances.

    Unlike other groupings, it depends on how a stream is cut into batches: `assign` takes one
    call for one batch. Where no process sees a whole batch, count the tuples that are of no heavy
    key by their homes, add up keys and counts, and let `BatchAwareGrouper.plan` divide them.

    - `tracked`: the most heavy keys in a batch, and keys in the table; by default 16 per
      instance. Fewer take less memory, and balance less well where many keys are heavy.
    - `least`: keys with fewer tuples in a batch are light, as are those with less than 1/64 of an
      instance's mean load. More of it lets small batches be less even, but splits fewer keys.
    - `tolerance`: a key is not given a new place for fewer tuples than this part of an instance's
      mean load. The batches that follow make up for it.

    >>> grouper = BatchAware(least=1).build(2)
    >>> grouper.assign(np.array([5, 5, 5, 5, 5, 6])).tolist(), grouper.loads.tolist()
    ([0, 0, 1, 1, 1, 0], [3, 3])
    """

    tracked: int | None = None
    least: int = 16
    tolerance: float = 5e-4

    def __post_init__(self) -> None:
        if self.tracked is not None:
            whole("tracked", self.tracked, 1)
        whole("least", self.least, 1)
        within("tolerance", self.tolerance, 0, 1)

    @property
    def planned_by_driver(self) -> bool:
        return True

    def build(self, instances: int, seed: int = 0) -> BatchAwareGrouper:
        return cast(BatchAwareGrouper, super().build(instances, seed))

    def resume(self, snapshot: bytes) -> BatchAwareGrouper:
        return cast(BatchAwareGrouper, super().resume(snapshot))

    def _grouper(self, instances: int, seed: int, state: State) -> BatchAwareGrouper:
        return BatchAwareGrouper(self, instances, seed, state)

    def most(self, instances: int) -> int:
        """How many keys are tracked with so many instances."""
        return 16 * instances if self.tracked is None else self.tracked

    def heavy_from(self, tuples: int, instances: int) -> int:
        """How many of so many tuples make a key heavy: it may get further places."""
        return max(self.least, tuples // (_FINENESS * instances))

    def _fresh(self, instances: int, seed: int) -> State:
        most = self.most(instances)
        return {
            "salts": salts(seed, 1 if seed else 0),
            "size": np.zeros(1, np.int64),
            "keys": np.zeros(most, np.uint64),  # ascending, `size` of them
            "weights": np.zeros(most, np.float64),
            "places": np.zeros((most, instances), np.bool_),
        }

    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        instances = len(state["loads"])
        if len(keys) == 0:
            return
        least = self.heavy_from(len(keys), instances)
        heavy, counts = heavy_keys(keys, least, self.most(instances))
        elsewhere = np.setdiff1d(state["keys"][: state["size"][0]], heavy)
        planned = np.concatenate([heavy, elsewhere])
        table_keys, table_rows = _table_of(planned)
        light, counts = _count(
            keys, table_keys, table_rows, len(planned), instances, state["salts"]
        )
        shares = plan(self, state, light, planned, counts)
        _deal(keys, targets, table_keys, table_rows, shares, state["salts"])


class BatchAwareGrouper(Grouper):
    """A grouper whose planning can be done apart from the routing."""

    @property
    def tracked_keys(self) -> UInts:
        """The keys that are not, or not only, at home: to be counted one by one in every batch,
        however few their tuples are."""
        keys: UInts = self._state["keys"][: self._state["size"][0]].copy()
        return keys

    def first_places(self, hashes: npt.ArrayLike) -> Ints:
        """The homes of keys, where they are unless they are tracked."""
        return _homes(self._state, as_hashes(hashes))

    def plan(self, light: npt.ArrayLike, keys: npt.ArrayLike, counts: npt.ArrayLike) -> Ints:
        """Divide a batch: `light[i]` tuples go to instance i as the home of their keys, and
        `counts[k]` are of the heavy or tracked key `keys[k]`. Row k of the result says how many of
        these each instance gets. The batch counts as routed from then on."""
        own, heavy = np.asarray(light), as_hashes(keys, "keys")
        amounts = np.asarray(counts)
        if own.shape != (self.instances,) or own.dtype.kind not in "iu" or own.min() < 0:
            raise ArgumentError("light", light, f"{self.instances} whole numbers of at least 0")
        if len(np.unique(heavy)) != len(heavy):
            raise ArgumentError("keys", keys, "all different")
        fits = amounts.shape == heavy.shape and (amounts.dtype.kind in "iu" or not amounts.size)
        if not fits or (amounts.size and amounts.min() < 0):
            raise ArgumentError("counts", counts, "a whole number of at least 0 for each key")
        return plan(
            cast(BatchAware, self.grouping),
            self._state,
            own.astype(np.int64),
            heavy,
            amounts.astype(np.int64),
        )


def plan(grouping: BatchAware, state: State, light: Ints, keys: UInts, counts: Ints) -> Ints:
    """The shares of the keys, with loads and table brought up to date."""
    loads, n = state["loads"], len(light)
    tuples = int(light.sum() + counts.sum())
    places, known = _places_of(state, keys)
    bound = int(_CORRECTION * tuples / n)
    behind = np.clip(loads - int(loads.sum()) // n, -bound, bound)
    room = level_room(light + behind, int(counts.sum()))
    order = np.lexsort((keys, counts))
    slack, least = int(grouping.tolerance * tuples / n), grouping.heavy_from(tuples, n)
    shares: Ints = divide(counts, order, places, room, slack, least)
    loads += light + shares.sum(axis=0)
    # A key that found no room at home has never been there.
    moved = ~known & (counts > 0)
    places[moved] = shares[moved] > 0
    _remember(state, keys, counts, places)
    return shares


def _homes(state: State, keys: UInts) -> Ints:
    n, salted = len(state["loads"]), state["salts"]
    homes: Ints = _salted_homes(keys, salted, n) if len(salted) else home_of(keys, n)
    return homes


def _places_of(state: State, keys: UInts) -> tuple[Flags, Flags]:
    """Where keys are: as the table says, or at home; and which of them the table knows."""
    places = np.zeros((len(keys), len(state["loads"])), np.bool_)
    places[np.arange(len(keys)), _homes(state, keys)] = True
    table = state["keys"][: state["size"][0]]
    _, mine, theirs = np.intersect1d(keys, table, assume_unique=True, return_indices=True)
    places[mine] = state["places"][theirs]
    known = np.zeros(len(keys), np.bool_)
    known[mine] = True
    return places, known


def _remember(state: State, keys: UInts, counts: Ints, places: Flags) -> None:
    """Write to the table which keys are not just at home: the heaviest, as many as fit."""
    size = int(state["size"][0])
    old_keys, old_weights = state["keys"][:size], state["weights"][:size]
    apart = places.sum(axis=1) > 1
    apart |= ~places[np.arange(len(keys)), _homes(state, keys)]
    keys, places, weights = keys[apart], places[apart], counts[apart].astype(np.float64)
    _, mine, theirs = np.intersect1d(keys, old_keys, assume_unique=True, return_indices=True)
    weights[mine] += _KEEP * old_weights[theirs]
    unseen = np.ones(size, np.bool_)
    unseen[theirs] = False
    keys = np.concatenate([keys, old_keys[unseen]])
    weights = np.concatenate([weights, _KEEP * old_weights[unseen]])
    places = np.concatenate([places, state["places"][:size][unseen]])
    kept = np.lexsort((keys, -weights))[: len(state["keys"])]
    kept = kept[np.argsort(keys[kept])]
    size = len(kept)
    state["size"][0] = size
    state["keys"][:size], state["weights"][:size] = keys[kept], weights[kept]
    state["places"][:size] = places[kept]


def _table_of(keys: UInts) -> tuple[UInts, Ints]:
    places = capacity_for(max(1, len(keys)))
    table_keys, table_rows = np.zeros(places, np.uint64), np.full(places, FREE, np.int64)
    _fill_table(keys, table_keys, table_rows)
    return table_keys, table_rows


@_kernel
def _fill_table(keys: UInts, table_keys: UInts, table_rows: Ints) -> None:
    for row in range(len(keys)):
        place = place_of(table_keys, table_rows, keys[row])
        table_keys[place], table_rows[place] = keys[row], row


@_kernel
def _salted_homes(keys: UInts, salts: UInts, n: int) -> Ints:
    homes = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        homes[i] = choice(keys[i], salts[0], n)
    return homes


@_kernel
def _count(
    hashes: UInts, table_keys: UInts, table_rows: Ints, rows: int, n: int, salts: UInts
) -> tuple[Ints, Ints]:
    """Tuples per home of the keys that are not in the table, and per row of those that are."""
    light, counts = np.zeros(n, np.int64), np.zeros(rows, np.int64)
    salted = len(salts) > 0
    for i in range(len(hashes)):
        key = hashes[i]
        row = table_rows[place_of(table_keys, table_rows, key)]
        if row != FREE:
            counts[row] += 1
        else:
            light[choice(key, salts[0], n) if salted else home(key, n)] += 1
    return light, counts


@_kernel
def _deal(
    hashes: UInts,
    targets: Targets,
    table_keys: UInts,
    table_rows: Ints,
    shares: Ints,
    salts: UInts,
) -> None:
    """Light tuples go home; those of a key with shares fill one share after the other, so that
    neighbours in the stream stay together."""
    keys, n = shares.shape
    left, at = shares.copy(), np.zeros(keys, np.int64)
    salted = len(salts) > 0
    for i in range(len(hashes)):
        key = hashes[i]
        row = table_rows[place_of(table_keys, table_rows, key)]
        if row == FREE:
            targets[i] = choice(key, salts[0], n) if salted else home(key, n)
        else:
            while left[row, at[row]] == 0:
                at[row] += 1
            left[row, at[row]] -= 1
            targets[i] = at[row]
