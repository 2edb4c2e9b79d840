"""Workset formulation (section 7 of the S3J paper), within one space partition.

An inner row within t/2 of a center is in that inner set; one further than t from all centers is the
center of a new workset; any other is an outlier of the nearest. Let r be how far a workset reaches:
the distance of its furthest row at home from the center, t at most. Who is within t of a row at
home is within r + t of that center: it is copied there if it is of the outer partition, or if its
own home has a greater id. (The paper copies what is within 2t; r is less, as most worksets have
neighbours.) Of two rows of the inner partition with different homes, only one has the greater id;
so every pair meets in one workset, where one of its rows is at home.

A workset that comes to reach further owes copies of rows that came before: of those within the new
r + t that were not within the old one. One that is new owes them of all that are of the outer
partition; its id is greater than all before, so rows of the inner partition need no copy in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays.types import Flags, Floats, Ints, UInts
from skewless.operators.similarity.copying.roles import ids_of
from skewless.operators.similarity.points import Points, concat, take
from skewless.operators.similarity.spec import SimilaritySpec

ROWS_AT_ONCE = 4096
SLACK = 1e-9  # relative: rounding must not rule a pair out
NOTHING = -np.inf  # how far a workset reaches that is new


class AtHome(NamedTuple):
    """The workset of each row, how far it is from the center; and copies, (row, workset)."""

    ids: UInts
    from_center: Floats
    rows: Ints
    copies: UInts


class Close(NamedTuple):
    """Pairs of a row and a workset, by number, and how far the row is from the center."""

    rows: Ints
    numbers: Ints
    apart: Floats

    @staticmethod
    def joined(parts: list[Close]) -> Close:
        nothing = Close(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        return Close(*(np.concatenate(found) for found in zip(nothing, *parts, strict=True)))

    def only(self, some: Flags) -> Close:
        return Close(self.rows[some], self.numbers[some], self.apart[some])


class Former:
    """The worksets of a partition, ids ascending, and how far each reaches. `made` is how many
    there have ever been. Every row that is told to be copied was not so before."""

    def __init__(
        self,
        spec: SimilaritySpec,
        partition: int,
        ids: UInts,
        centers: Points,
        reach: Floats,
        made: int,
    ) -> None:
        self._spec, self._first = spec, int(ids_of(np.array([partition]))[0])
        self.ids, self.centers, self.reach, self.made = ids, centers, reach.copy(), made
        self._before = reach
        self.distances = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def has_grown(self) -> bool:
        """Whether some workset is new, or reaches further than before this batch."""
        return len(self._grown()) > 0

    def take_in(self, points: Points) -> AtHome:
        """Give rows of the inner partition their homes, making new worksets where they need one."""
        homes, distances, close = [], [], []
        for begin in range(0, len(points), ROWS_AT_ONCE):
            some = np.arange(begin, min(begin + ROWS_AT_ONCE, len(points)))
            mine = take(points, some)
            home, from_center = self._homes(mine)
            np.maximum.at(self.reach, home, from_center)
            # How far worksets reach in the end is not known yet, but it is t at most.
            near = self._close(mine, np.arange(len(self)), self._bounds(self._furthest()))
            near = near.only(near.numbers < home[near.rows])
            close.append(near._replace(rows=some[near.rows]))
            homes.append(self.ids[home])
            distances.append(from_center)
            self.distances += len(some) * len(self)
        found = Close.joined(close)
        found = found.only(found.apart <= self._bounds(self.reach)[found.numbers])
        ids, from_centers = np.concatenate(homes), np.concatenate(distances)
        return AtHome(ids, from_centers, found.rows, self.ids[found.numbers])

    def copies(self, points: Points) -> tuple[Ints, UInts]:
        """Where new rows of the outer partition are copied to: (row, workset)."""
        return self._copies(points, np.arange(len(self)), np.full(len(self), NOTHING))

    def owed(self, points: Points) -> tuple[Ints, UInts]:
        """Where rows of the outer partition are copied to that came before."""
        return self._copies(points, self._grown(), self._reached())

    def between(self) -> tuple[Ints, Ints]:
        """Worksets that may owe copies of rows at home in another one: pairs of these, by number.
        Those rows are within the reach of their own."""
        known = np.arange(len(self._before))
        grown = self._grown()
        grown = grown[grown < len(known)]
        if not len(grown):
            return grown, grown
        centers, bounds = take(self.centers, known), self._bounds(self.reach)[grown]
        bounds = bounds.max() + self.reach[known]
        bounds += SLACK * (1 + bounds) + 3 * self._spec.metric.error
        rows, others = self._spec.metric.within(take(self.centers, grown), centers, bounds)
        self.distances += len(grown) * len(known)
        later = others > grown[rows]
        return grown[rows[later]], others[later]

    def owes(self, numbers: Ints, points: Points) -> Flags:
        """Whether worksets, by number, owe a copy of a row each."""
        apart = self._spec.metric.pairs(points, np.arange(len(points)), self.centers, numbers)
        self.distances += len(points)
        now, before = self._bounds(self.reach), self._bounds(self._reached())
        return np.asarray((apart > before[numbers]) & (apart <= now[numbers]))

    def _copies(self, points: Points, some: Ints, reached: Floats) -> tuple[Ints, UInts]:
        """Copies that some worksets need, up to where they reach; not those that they have."""
        now, before, found = self._bounds(self.reach), self._bounds(reached), []
        for at in range(0, len(points) if len(some) else 0, ROWS_AT_ONCE):
            mine = np.arange(at, min(at + ROWS_AT_ONCE, len(points)))
            near = self._close(take(points, mine), some, now)
            near = near.only(near.apart > before[near.numbers])
            found.append(near._replace(rows=mine[near.rows]))
            self.distances += len(mine) * len(some)
        every = Close.joined(found)
        return every.rows, self.ids[every.numbers]

    def _close(self, points: Points, some: Ints, bounds: Floats) -> Close:
        """Rows and those of some worksets whose centers are within a bound. Which they are has to
        come out the same in a later batch: so it is told by the distance of the pair alone."""
        metric, centers = self._spec.metric, take(self.centers, some)
        rows, numbers = metric.within(points, centers, bounds[some])
        numbers = some[numbers]
        apart = metric.pairs(points, rows, self.centers, numbers)
        return Close(rows, numbers, apart).only(apart <= bounds[numbers])

    def _bounds(self, reach: Floats) -> Floats:
        """How far from a center rows may be within t of a row at home."""
        bounds = reach + self._spec.threshold
        return np.asarray(bounds + SLACK * (1 + bounds) + 3 * self._spec.metric.error)

    def _furthest(self) -> Floats:
        return np.full(len(self), self._spec.threshold)

    def _reached(self) -> Floats:
        """How far worksets reached before this batch."""
        new = len(self) - len(self._before)
        return np.concatenate([self._before, np.full(new, NOTHING)])

    def _grown(self) -> Ints:
        return np.flatnonzero(self.reach > self._reached())

    def _homes(self, points: Points) -> tuple[Ints, Floats]:
        """The number of each row's workset, and how far the row is from its center."""
        metric, rows = self._spec.metric, np.arange(len(points))
        homes, distances = np.zeros(len(points), np.int64), np.full(len(points), np.inf)
        if len(self):
            homes, _ = metric.nearest(points, self.centers)
            distances = metric.pairs(points, rows, self.centers, homes)
        new = self._uncovered(points, homes, distances)
        if len(new):
            before, centers = len(self), take(points, new)
            self._add(centers)
            nearest, _ = metric.nearest(points, centers)
            apart = metric.pairs(points, rows, centers, nearest)
            nearer = apart < distances
            homes[nearer], distances[nearer] = before + nearest[nearer], apart[nearer]
        return homes, distances

    def _uncovered(self, points: Points, homes: Ints, distances: Floats) -> Ints:
        """The rows that become centers: criterion 2, in the order of the rows. Those that they
        cover are given to them, in place."""
        metric, threshold = self._spec.metric, self._spec.threshold
        left = np.flatnonzero(distances > threshold)
        centers: list[int] = []
        while len(left):
            # The first that is left covers what it can: one round per new workset, not per row.
            center = left[0]
            apart = metric.pairs(points, left, points, np.full(len(left), center))
            apart[0] = 0.0
            covered = apart <= threshold
            homes[left[covered]] = len(self) + len(centers)
            distances[left[covered]] = apart[covered]
            centers.append(int(center))
            left = left[~covered]
        return np.array(centers, np.int64)

    def _add(self, centers: Points) -> None:
        numbers = np.arange(self.made + 1, self.made + 1 + len(centers), dtype=np.uint64)
        self.made += len(centers)
        self.centers = concat([self.centers, centers]) if len(self) else centers
        self.ids = np.concatenate([self.ids, np.uint64(self._first) + numbers])
        self.reach = np.concatenate([self.reach, np.zeros(len(centers))])
