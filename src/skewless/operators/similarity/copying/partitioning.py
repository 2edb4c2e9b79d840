"""Rows to their space partitions: while they are taken in or, in the first batch, in a step.

Who takes rows in knows the centroids from the last commit. In the first batch with rows there are
none: rows are put aside, with a sample of them; the driver draws the centroids from the samples,
and the instances go on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skewless.arrays.columns import Columns, pieces_of
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, Ints, frozen
from skewless.engine.instance import Instance
from skewless.engine.operator import RunRef
from skewless.engine.report import InstanceLoad
from skewless.operators.similarity.copying.roles import (
    INNER,
    OUTER,
    ids_of,
    input_of,
    layouts,
    named,
    role_of,
)
from skewless.operators.similarity.copying.space import Space, read_space, sample_of, write_space
from skewless.operators.similarity.points import Points
from skewless.operators.similarity.running import Stored
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.state.blobs import BlobInfo
from skewless.state.files import Folder
from skewless.state.segments import (
    ROWS,
    SCRATCH,
    SEGMENTS,
    Rows,
    SegmentInfo,
    times_of,
    write_segment,
)


class Partitioned(NamedTuple):
    """Rows by partition and time, and what that has cost: `sent` are rows times partitions. A row
    is outer in many partitions: such rows come in pieces."""

    inner: list[Rows]
    outer: list[Rows]
    sent: int
    distances: int

    @property
    def counted(self) -> dict[str, int]:
        return {"sent": self.sent, "space_distances": self.distances}


def partition(
    spec: SimilaritySpec, space: Space, points: Points, times: Ints, columns: Columns
) -> Partitioned:
    """Rows in the partitions that they are sent to."""
    placed = space.place(spec, points)
    every = np.arange(len(points))
    inner = list(_in_partitions(every, placed.inner, times, columns))
    outer = list(_in_partitions(placed.rows, placed.outer, times, columns))
    sent = len(placed.inner) + len(placed.outer)
    return Partitioned(inner, outer, sent, len(points) * len(space))


def _in_partitions(rows: Ints, partitions: Ints, times: Ints, columns: Columns) -> Iterator[Rows]:
    ids, times = ids_of(partitions), times[rows]
    order = sort_order(frozen(ids), frozen(times))
    ids, times, rows = ids[order], times[order], rows[order]
    for piece in pieces_of((columns, rows)):
        if len(rows):
            yield Rows(ids[piece], times[piece], columns.take(rows[piece]))


@dataclass(frozen=True)
class StoreByPartition:
    """How a task stores rows: by partition, if it knows the `space`; else as they are, with so many
    `sampled` rows. Inner rows are state if they are not `formed` into worksets later."""

    spec: SimilaritySpec
    side: str
    folder: Folder
    space: Space | None
    sampled: int
    seed: int
    formed: bool

    def __call__(self, arrived: pa.RecordBatch, points: Points) -> Stored:
        times = times_of(arrived.columns, self.spec.side(self.side).time, arrived.num_rows)
        if self.space is None:
            aside = Rows(np.zeros(len(times), np.uint64), times, Columns(arrived.columns))
            sample = sample_of(points, self.sampled, self.seed)
            return Stored(
                scratch=(self._written(self.side, aside, SCRATCH),),
                blobs=(write_space(self.folder, sample),),
                counted={"sampled_from": len(points)},
            )
        found = partition(self.spec, self.space, points, times, Columns(arrived.columns))
        inner_place = SCRATCH if self.formed else SEGMENTS
        inner = [self._written(named(self.side, INNER), rows, inner_place) for rows in found.inner]
        outer = [self._written(named(self.side, OUTER), rows, SEGMENTS) for rows in found.outer]
        runs = [RunRef(segment) for segment in (outer if self.formed else [*inner, *outer])]
        return Stored(tuple(runs), tuple(inner) if self.formed else (), (), found.counted)

    def _written(self, side: str, rows: Rows, place: str) -> SegmentInfo:
        return write_segment(
            self.folder, side, layouts(self.spec)[side].schema, rows,
            floor_us=-FAR_US, level=0, batch_id=-1, kind=role_of(side) or ROWS, place=place,
        )  # fmt: skip


@dataclass(frozen=True)
class PartitionWork:
    """Every instance puts its share of the rows that were put aside into partitions. Rows before
    `floor_us` are late."""

    spec: SimilaritySpec
    aside: tuple[SegmentInfo, ...]
    centroids: BlobInfo
    floor_us: int

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        space = read_space(instance.folder, self.centroids)
        counted = {"sent": 0, "space_distances": 0}
        for segment in self.aside:
            rows = instance.rows(segment)
            begin, end = (len(rows) * (instance.number + i) // instance.instances for i in (0, 1))
            mine = rows.slice(begin, end)
            kept = mine.at_or_after(self.floor_us)
            instance.note_late(mine.times, self.floor_us)
            if len(kept):
                found = self._partitioned(instance, segment, kept, space)
                counted = {name: n + found.counted[name] for name, n in counted.items()}
        instance.load = InstanceLoad(instance.number)
        instance.detail = dict(counted)
        return iter(())

    def _partitioned(
        self, instance: Instance, segment: SegmentInfo, rows: Rows, space: Space
    ) -> Partitioned:
        side = input_of(segment)
        points = self.spec.metric.points([rows.columns[i] for i in self.spec.side(side).vector])
        found = partition(self.spec, space, points, rows.times, rows.columns)
        for role, parts in ((INNER, found.inner), (OUTER, found.outer)):
            for part in parts:
                instance.write(named(side, role), part, kind=role)
        return found
