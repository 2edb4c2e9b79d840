"""Sets of rows around centers, and what a distance from a center says about their members.

A row has one workset as its home. For a row x at home with center c and another row y, the triangle
inequality gives d(y, c) <= d(y, x) + d(x, c): a workset whose members are within `radius` of its
center holds a row within t of y only if y is within radius + t of the center. So y is copied there,
as in S3J, or looks in from outside. Rows that are put into no workset are in one without bounds,
which everybody looks into.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Flags, Floats, Ints, UInts
from skewless.operators.similarity.points import Points, concat, take
from skewless.operators.similarity.points_file import read_points, write_points
from skewless.state.blobs import BlobInfo
from skewless.state.files import Folder

WORKSETS = "worksets"
NEVER_US = int(np.iinfo(np.int64).min)
BOUNDLESS = np.uint64(0)


@dataclass(frozen=True)
class Worksets:
    """Worksets by id, with their centers, the latest event time of a member, the distance of the
    furthest member from the center, and whether they take new members."""

    ids: UInts
    centers: Points
    last_us: Ints
    radius: Floats
    is_open: Flags

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: npt.NDArray[np.generic]) -> Worksets:
        centers, last_us = take(self.centers, rows), self.last_us[rows]
        return Worksets(self.ids[rows], centers, last_us, self.radius[rows], self.is_open[rows])

    @staticmethod
    def around(ids: UInts, centers: Points) -> Worksets:
        """Worksets without members."""
        count = len(ids)
        never, open_ = np.full(count, NEVER_US), np.ones(count, np.bool_)
        return Worksets(ids, centers, never, np.zeros(count), open_)

    @staticmethod
    def boundless(points: Points) -> Worksets:
        """The workset without bounds, before it has members: its center says nothing, and who
        belongs to it is not decided by distances, so that it is never open."""
        alone = Worksets.around(np.array([BOUNDLESS]), take(points, np.zeros(1, np.int64)))
        return replace(alone, radius=np.array([np.inf]), is_open=np.zeros(1, np.bool_))

    @property
    def bounded(self) -> int:
        """How many have bounds: so many distances tell where a row may look."""
        return int(np.isfinite(self.radius).sum())

    def open_ones(self) -> Worksets | None:
        """Those that take new members, if any."""
        return self.take(np.flatnonzero(self.is_open)) if self.is_open.any() else None

    def not_in(self, known: Worksets | None) -> Ints:
        """The numbers of those that others do not have."""
        others = np.zeros(0, np.uint64) if known is None else known.ids
        return np.flatnonzero(~np.isin(self.ids, others))

    def with_open(self, some: Ints, stays: Ints) -> Worksets:
        """Of `some`, by number, only those that stay are open; others are as they were."""
        is_open = self.is_open.copy()
        is_open[some] = False
        is_open[stays] = True
        return replace(self, is_open=is_open)

    def with_members(self, ids: UInts, times: Ints, distances: Floats) -> Worksets:
        """Those that some rows are in, as these rows have made them."""
        order = np.argsort(self.ids)
        owner = order[np.searchsorted(self.ids, ids, sorter=order)]
        last, radius = self.last_us.copy(), self.radius.copy()
        np.maximum.at(last, owner, times)
        np.maximum.at(radius, owner, distances)
        now = Worksets(self.ids, self.centers, last, radius, self.is_open)
        return now.take(np.unique(owner))

    def needed(self, keep_after_us: int, keep_open_after_us: int) -> Worksets:
        """Those that stay: all that hold rows, and open ones that held some not long ago, as what
        comes next is likely to be like what has been."""
        after = np.where(self.is_open, keep_open_after_us, keep_after_us)
        return self.take(np.flatnonzero(self.last_us >= after))

    @staticmethod
    def joined(parts: Iterable[Worksets | None]) -> Worksets | None:
        """Those of several, each once, with the latest time that any of them knows. Who closed one
        comes first."""
        some = [p for p in parts if p is not None and len(p)]
        if not some:
            return None
        ids = np.concatenate([p.ids for p in some])
        last = np.concatenate([p.last_us for p in some])
        unique, first, owner = np.unique(ids, return_index=True, return_inverse=True)
        latest, radius = np.full(len(unique), NEVER_US), np.zeros(len(unique))
        np.maximum.at(latest, owner, last)
        np.maximum.at(radius, owner, np.concatenate([p.radius for p in some]))
        open_ = np.concatenate([p.is_open for p in some])[first]
        centers = take(concat([p.centers for p in some]), first)
        return Worksets(unique, centers, latest, radius, open_)


def write_worksets(folder: Folder, worksets: Worksets) -> BlobInfo:
    """Store worksets; they count when a commit lists the file."""
    columns = {"last_us": worksets.last_us, "radius": worksets.radius, "open": worksets.is_open}
    return write_points(folder, WORKSETS, worksets.centers, {"id": worksets.ids, **columns})


def read_worksets(folder: Folder, blob: BlobInfo) -> Worksets:
    """Worksets as a commit, or a task of this batch, lists them."""
    centers, more = read_points(folder, blob)
    return Worksets(more["id"], centers, more["last_us"], more["radius"], more["open"])


def read_all(folder: Folder, blobs: Iterable[BlobInfo]) -> Worksets | None:
    """The worksets of several files, each once; None if there are none."""
    return Worksets.joined([read_worksets(folder, b) for b in blobs if b.label == WORKSETS])
