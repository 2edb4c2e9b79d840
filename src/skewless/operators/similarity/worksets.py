"""Sets of rows around centers, and what a distance from a center says about their members.

A row is stored in one workset, its home. For a stored row x at home with center c and a new row y,
the triangle inequality gives d(y, c) <= d(y, x) + d(x, c): a workset whose members are within
`reach` of its center holds a row within t of y only if y is within reach + t of the center. So a
pair is compared once: by the later row, where the earlier one lives. No copies of rows are stored
in outer sets, as they are in the papers; those who would be in one look in from outside.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.arrays.types import Ints, UInts
from skewless.operators.similarity.points import Points, Sets, concat, take
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies import (
    S3J,
    BruteForce,
    ClusterJoin,
    SimilarityStrategy,
)
from skewless.state.blobs import read_kept, write_kept
from skewless.state.commits import GrouperFile
from skewless.state.files import Folder

WORKSETS = "worksets"
POINTS_KEY = b"skewless.points"
SLACK = 1e-9  # relative: rounding must not rule a pair out
ROWS_AT_ONCE = 4096
THINNED_MOST = 4096  # new worksets: the driver compares each with all that stay, in half a second
ALL = np.uint64(0)
NEVER = np.iinfo(np.int64).min

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Worksets:
    """Worksets by id, with their centers, the latest event time of a member, the distance of the
    furthest member from the center, and whether they take new members."""

    ids: UInts
    centers: Points
    last_us: Ints
    reach: Floats
    is_open: Flags

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: npt.NDArray[np.generic]) -> Worksets:
        centers, last_us = take(self.centers, rows), self.last_us[rows]
        return Worksets(self.ids[rows], centers, last_us, self.reach[rows], self.is_open[rows])

    @staticmethod
    def around(ids: UInts, centers: Points) -> Worksets:
        """Worksets without members."""
        count = len(ids)
        never, open_ = np.full(count, NEVER), np.ones(count, np.bool_)
        return Worksets(ids, centers, never, np.zeros(count), open_)

    def open_ones(self) -> Worksets | None:
        """Those that take new members, if any."""
        return self.take(np.flatnonzero(self.is_open)) if self.is_open.any() else None

    def with_members(self, ids: UInts, times: Ints, distances: Floats) -> Worksets:
        """Those that some rows are in, as these rows have made them."""
        order = np.argsort(self.ids)
        owner = order[np.searchsorted(self.ids, ids, sorter=order)]
        last, reach = self.last_us.copy(), self.reach.copy()
        np.maximum.at(last, owner, times)
        np.maximum.at(reach, owner, distances)
        now = Worksets(self.ids, self.centers, last, reach, self.is_open)
        return now.take(np.unique(owner))

    @staticmethod
    def joined(parts: list[Worksets]) -> Worksets | None:
        """Those of several, each once, with the latest time that any of them knows. Who closed one
        comes first."""
        parts = [p for p in parts if len(p)]
        if not parts:
            return None
        ids = np.concatenate([p.ids for p in parts])
        last = np.concatenate([p.last_us for p in parts])
        unique, first, owner = np.unique(ids, return_index=True, return_inverse=True)
        latest, reach = np.full(len(unique), NEVER), np.zeros(len(unique))
        np.maximum.at(latest, owner, last)
        np.maximum.at(reach, owner, np.concatenate([p.reach for p in parts]))
        open_ = np.concatenate([p.is_open for p in parts])[first]
        centers = take(concat([p.centers for p in parts]), first)
        return Worksets(unique, centers, latest, reach, open_)


def write_worksets(folder: Folder, worksets: Worksets) -> GrouperFile:
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
            "reach": pa.array(worksets.reach),
            "open": pa.array(worksets.is_open),
        }
    )
    kind = b"sets" if isinstance(centers, Sets) else b"matrix"
    batch = batch.replace_schema_metadata({POINTS_KEY: kind})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return write_kept(folder, WORKSETS, sink.getvalue(), suffix=".arrow")


def read_worksets(folder: Folder, file: GrouperFile) -> Worksets:
    """Worksets as a commit, or a task of this batch, lists them."""
    with pa.ipc.open_file(pa.py_buffer(read_kept(folder, file))) as reader:
        batch = reader.get_batch(0)
    centers = batch.column("center")
    values = centers.flatten().to_numpy()
    points: Points
    if (batch.schema.metadata or {}).get(POINTS_KEY) == b"sets":
        offsets = centers.offsets.to_numpy().astype(np.int64)
        points = Sets(offsets - offsets[0], values)
    else:
        points = values.reshape(len(batch), len(values) // max(len(batch), 1))
    ids, last_us, reach = (batch.column(n).to_numpy() for n in ("id", "last_us", "reach"))
    is_open = np.ones(len(batch), np.bool_)
    if "open" in batch.schema.names:  # older states have none that are closed
        is_open = batch.column("open").to_numpy(zero_copy_only=False)
    return Worksets(ids, points, last_us, reach, is_open)


def find_homes(
    spec: SimilaritySpec,
    strategy: SimilarityStrategy,
    points: Points,
    known: Worksets | None,
    stored: int = 0,
) -> tuple[UInts, Floats, Worksets]:
    """The workset of each row, its distance from the center, and all worksets, known and new.
    `stored` is how many rows there are already."""
    known = None if known is None else known.open_ones()
    if isinstance(strategy, BruteForce):
        one = Worksets.around(np.array([ALL]), take(points, np.zeros(1, np.int64)))
        return np.zeros(len(points), np.uint64), np.zeros(len(points)), one
    if isinstance(strategy, ClusterJoin):
        all_of_them = _random_centers(points, strategy) if known is None else known
        homes, distances = nearest(spec, points, all_of_them)
        return all_of_them.ids[homes], distances, all_of_them
    assert isinstance(strategy, S3J)
    most = _most(strategy, stored + len(points), points)
    ids, distances, made = _on_the_fly(spec, points, known, most)
    new = Worksets.around(ids[made], take(points, made))
    found = Worksets.joined([w for w in (known, new) if w is not None])
    assert found is not None
    return ids, distances, found


def _most(strategy: S3J, rows: int, points: Points) -> int | None:
    return strategy.limit(rows, 0 if isinstance(points, Sets) else points.shape[1])


def nearest(spec: SimilaritySpec, points: Points, worksets: Worksets) -> tuple[Ints, Floats]:
    """The nearest center of each row, and its distance."""
    homes, distances = np.empty(len(points), np.int64), np.empty(len(points))
    for begin in range(0, len(points), ROWS_AT_ONCE):
        some = np.arange(begin, min(begin + ROWS_AT_ONCE, len(points)))
        homes[some], distances[some] = spec.metric.nearest(take(points, some), worksets.centers)
    return homes, distances


def _random_centers(points: Points, strategy: ClusterJoin) -> Worksets:
    rng = np.random.default_rng(strategy.seed)
    chosen = rng.permutation(len(points))[: strategy.partitions]
    return Worksets.around(new_ids(len(chosen)), take(points, chosen))


def new_ids(count: int) -> UInts:
    """Ids that no other task gives: worksets are made in many places at once."""
    return np.frombuffer(b"".join(uuid.uuid4().bytes[:8] for _ in range(count)), np.uint64).copy()


def _on_the_fly(
    spec: SimilaritySpec, points: Points, known: Worksets | None, most: int | None
) -> tuple[UInts, Floats, Ints]:
    """Rows that no center covers become centers themselves, in the order in which they came: the
    workset of each, the distance from its center, and which of them are centers.

    Tasks do this on their own, so two of them may make centers that are near each other: rows are
    stored in one workset all the same, and who looks for them looks into every one in reach; `thin`
    then closes one. When there are `most` worksets, rows stay with the nearest, however far."""
    rows = len(points)
    ids, distances = np.zeros(rows, np.uint64), np.full(rows, np.inf)
    if known is not None and len(known):
        homes, distances = nearest(spec, points, known)
        ids = known.ids[homes]
    uncovered = np.flatnonzero(distances > spec.threshold)
    centers: list[int] = []
    room = np.inf if most is None else most - (0 if known is None else len(known))
    while len(uncovered) and (len(centers) < room or not np.isfinite(distances[uncovered]).all()):
        # The first that is left covers what it can: one round per new workset, not per row.
        center = uncovered[:1]
        apart = spec.metric.cross(take(points, uncovered), take(points, center))[:, 0]
        identity = new_ids(1)[0]
        nearer = apart < distances[uncovered]
        ids[uncovered[nearer]] = identity
        distances[uncovered[nearer]] = apart[nearer]
        centers.append(int(center[0]))
        ids[center], distances[center] = identity, 0.0
        uncovered = uncovered[distances[uncovered] > spec.threshold]
    return ids, distances, np.array(centers, np.int64)


def thin(
    spec: SimilaritySpec,
    strategy: SimilarityStrategy,
    worksets: Worksets,
    known: Worksets | None,
    rows: int,
) -> Worksets:
    """Close worksets that there would not be, had one task seen all `rows`: new ones near another,
    and those beyond the most there may be. Their members stay where they are; new rows go
    elsewhere, so that closed ones are empty in the end. Those `known` before stay as they are."""
    old = np.zeros(0, np.uint64) if known is None else known.ids
    new = np.flatnonzero(~np.isin(worksets.ids, old))
    before = None if known is None else known.open_ones()
    stays = np.arange(len(new))
    if isinstance(strategy, S3J) and len(new) <= THINNED_MOST:
        centers = take(worksets.centers, new)
        *_, stays = _on_the_fly(spec, centers, before, _most(strategy, rows, centers))
    elif isinstance(strategy, ClusterJoin):
        stays = stays[: max(0, strategy.partitions - (0 if before is None else len(before)))]
    is_open = worksets.is_open.copy()
    is_open[new] = False
    is_open[new[stays]] = True
    return replace(worksets, is_open=is_open)


def reached(
    spec: SimilaritySpec, strategy: SimilarityStrategy, points: Points, worksets: Worksets
) -> tuple[Ints, Ints]:
    """Which worksets rows have to look into: (row, number of the workset)."""
    if isinstance(strategy, BruteForce):
        numbers = np.arange(len(worksets))
        rows = np.repeat(np.arange(len(points)), len(numbers))
        return rows, np.tile(numbers, len(points))
    bound = worksets.reach + spec.threshold
    bound = bound + SLACK * (1 + bound)
    found = []
    for begin in range(0, len(points), ROWS_AT_ONCE):
        some = np.arange(begin, min(begin + ROWS_AT_ONCE, len(points)))
        rows, numbers = spec.metric.within(take(points, some), worksets.centers, bound)
        found.append((rows + begin, numbers))
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([r for r, _ in found]), np.concatenate([n for _, n in found])
