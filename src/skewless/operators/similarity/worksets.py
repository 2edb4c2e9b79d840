"""Sets of rows around centers, and what a distance from a center says about their members.

A row is stored in one workset, its home. For a stored row x at home with center c and a new row y,
the triangle inequality gives d(y, c) <= d(y, x) + d(x, c): a workset whose members are within
`radius` of its center holds a row within t of y only if y is within radius + t of the center. So a
pair is compared once: by the later row, where the earlier one lives. No copies of rows are stored
in outer sets, as they are in the papers; those who would be in one look in from outside. Rows that
are put into no workset are in one without bounds, which everybody looks into.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.arrays.types import Floats, Ints, UInts
from skewless.operators.similarity.points import Points, Sets, concat, take
from skewless.state.blobs import BlobInfo, read_blob, write_blob
from skewless.state.files import Folder

WORKSETS = "worksets"
POINTS_KEY = b"skewless.points"
NEVER_US = int(np.iinfo(np.int64).min)
BOUNDLESS = np.uint64(0)

Flags = npt.NDArray[np.bool_]


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
    centers = worksets.centers
    if isinstance(centers, Sets):
        offsets = pa.array(centers.offsets.astype(np.int32))
        column = pa.ListArray.from_arrays(offsets, pa.array(centers.values))
    else:
        width = centers.shape[1]
        offsets = pa.array(np.arange(len(centers) + 1, dtype=np.int32) * width)
        column = pa.ListArray.from_arrays(offsets, pa.array(centers.ravel()))
    batch = pa.record_batch(
        {
            "id": pa.array(worksets.ids),
            "center": column,
            "last_us": pa.array(worksets.last_us),
            "radius": pa.array(worksets.radius),
            "open": pa.array(worksets.is_open),
        }
    )
    kind = b"sets" if isinstance(centers, Sets) else b"matrix"
    batch = batch.replace_schema_metadata({POINTS_KEY: kind})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return write_blob(folder, WORKSETS, sink.getvalue())


def read_worksets(folder: Folder, blob: BlobInfo) -> Worksets:
    """Worksets as a commit, or a task of this batch, lists them."""
    with pa.ipc.open_file(pa.py_buffer(read_blob(folder, blob))) as reader:
        batch = reader.get_batch(0)
    centers = batch.column("center")
    values = centers.flatten().to_numpy()
    points: Points
    if (batch.schema.metadata or {}).get(POINTS_KEY) == b"sets":
        offsets = centers.offsets.to_numpy().astype(np.int64)
        points = Sets(offsets - offsets[0], values)
    else:
        points = values.reshape(len(batch), len(values) // max(len(batch), 1))
    ids, last_us, radius = (batch.column(n).to_numpy() for n in ("id", "last_us", "radius"))
    is_open = batch.column("open").to_numpy(zero_copy_only=False)
    return Worksets(ids, points, last_us, radius, is_open)


def read_all(folder: Folder, blobs: Iterable[BlobInfo]) -> Worksets | None:
    """The worksets of several files, each once; None if there are none."""
    return Worksets.joined([read_worksets(folder, b) for b in blobs if b.label == WORKSETS])
