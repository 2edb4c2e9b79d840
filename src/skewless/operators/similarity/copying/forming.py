"""Workset formulation (section 7 of the S3J paper), within one space partition.

An inner row within t/2 of a center is in that inner set; one further than t from all centers is the
center of a new workset; any other is an outlier of the nearest. So a row is within t of the center
of its home, and who is within t of the row is within 2t of that center: it is copied there if it is
of the outer partition, or if its own home has a greater id. Of two rows of the inner partition with
different homes, only one has the greater id; so every pair meets in one workset, where one of its
rows is at home. A workset that is made later has a greater id than all before: rows that are there
need no copy in it, but those of the outer partition do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays.types import Floats, Ints, UInts
from skewless.operators.similarity.copying.roles import ids_of
from skewless.operators.similarity.points import Points, concat, take
from skewless.operators.similarity.spec import SimilaritySpec

ROWS_AT_ONCE = 4096
SLACK = 1e-9  # relative: rounding must not rule a pair out


class AtHome(NamedTuple):
    """The workset of each row, how far it is from the center; and copies, (row, workset)."""

    ids: UInts
    from_center: Floats
    rows: Ints
    copies: UInts


class Former:
    """The worksets of a partition, ids ascending. `made` is how many there have ever been."""

    def __init__(
        self, spec: SimilaritySpec, partition: int, ids: UInts, centers: Points, made: int
    ) -> None:
        self._spec, self._first = spec, int(ids_of(np.array([partition]))[0])
        self.ids, self.centers, self.made = ids, centers, made
        self.distances = 0

    def __len__(self) -> int:
        return len(self.ids)

    def take_in(self, points: Points) -> AtHome:
        """Give rows of the inner partition their homes, making new worksets where they need one."""
        parts = []
        for begin in range(0, len(points), ROWS_AT_ONCE):
            some = np.arange(begin, min(begin + ROWS_AT_ONCE, len(points)))
            mine = take(points, some)
            homes, from_center = self._homes(mine)
            rows, numbers = self._near(mine, 0)
            smaller = numbers < homes[rows]
            copies = self.ids[numbers[smaller]]
            parts.append(AtHome(self.ids[homes], from_center, some[rows[smaller]], copies))
            self.distances += len(some) * len(self)
        return AtHome(*(np.concatenate(found) for found in zip(*parts, strict=True)))

    def copies(self, points: Points, begin: int = 0) -> tuple[Ints, UInts]:
        """Where rows of the outer partition are copied to: (row, workset), of the worksets from the
        one of number `begin` on."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for at in range(0, len(points) if begin < len(self) else 0, ROWS_AT_ONCE):
            some = np.arange(at, min(at + ROWS_AT_ONCE, len(points)))
            rows, numbers = self._near(take(points, some), begin)
            found.append((some[rows], numbers))
            self.distances += len(some) * (len(self) - begin)
        rows, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
        return rows, self.ids[numbers]

    def _near(self, points: Points, begin: int) -> tuple[Ints, Ints]:
        """Rows and the worksets, from one on, that may hold a row within t at home."""
        centers = take(self.centers, np.arange(begin, len(self)))
        bound = 2 * self._spec.threshold
        bounds = np.full(len(centers), bound + SLACK * (1 + bound))
        rows, numbers = self._spec.metric.within(points, centers, bounds)
        return rows, numbers + begin

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
