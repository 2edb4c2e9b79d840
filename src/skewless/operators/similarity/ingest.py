"""From arriving rows to segments sorted by (workset, time): the first half of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, Side, frozen
from skewless.operators.ingesting import in_pieces
from skewless.operators.similarity.metrics import OwnMetric
from skewless.operators.similarity.points import Points, take, unfit
from skewless.operators.similarity.spec import SimilaritySpec, VectorArrival, VectorSide
from skewless.operators.similarity.strategies import SimilarityStrategy
from skewless.operators.similarity.worksets import (
    Worksets,
    find_homes,
    read_worksets,
    write_worksets,
)
from skewless.state.commits import CommitLog
from skewless.state.files import Folder
from skewless.state.segments import Rows, write_segment


def ingest_vectors(
    batches: Iterable[pa.RecordBatch],
    spec: SimilaritySpec,
    strategy: SimilarityStrategy,
    side: Side,
    root: str,
) -> Iterator[VectorArrival]:
    """Put the rows of one task into worksets and store them; tell what was found."""
    folder = Folder(root)
    last = CommitLog(folder).latest()
    known, dimension = None, spec.dimension
    stored = 0 if last is None else sum(s.rows for s in last.segments)
    if last is not None and last.grouping is not None and last.grouping.groupers:
        known = read_worksets(folder, last.grouping.groupers[0])
    if last is not None and last.placement is not None:
        dimension = last.placement["dimension"] if dimension is None else dimension
    for piece in in_pieces(batches):
        yield _ingest_some(piece, spec, strategy, side, folder, known, dimension, stored)


def _ingest_some(
    batches: list[pa.RecordBatch],
    spec: SimilaritySpec,
    strategy: SimilarityStrategy,
    side: Side,
    folder: Folder,
    known: Worksets | None,
    dimension: int | None,
    stored: int,
) -> VectorArrival:
    this = spec.side(side)
    arrived = pa.concat_batches(batches)
    rows = arrived.num_rows
    null_times = arrived.column(this.time).null_count
    if null_times:
        arrived = arrived.filter(arrived.column(this.time).is_valid())
    time_max_us = None
    if arrived.num_rows:
        time_max_us = pc.max(arrived.column(this.time).view(pa.int64())).as_py()
    arrived, null_keys = _without_nulls(arrived, this)
    dimension = _dimension(arrived, this, dimension)
    before = arrived.num_rows
    arrived, points = _fit(arrived, this, spec, dimension)
    bad = before - arrived.num_rows
    counts = (rows, null_keys, null_times, bad, time_max_us, dimension)
    if (null_times and not spec.drop_null_times) or (bad and not spec.drop_bad):
        return VectorArrival(side, None, None, *counts)  # the driver refuses the batch
    if not arrived.num_rows:
        return VectorArrival(side, None, None, *counts)
    if spec.check_metric and isinstance(spec.metric, OwnMetric):
        spec.metric.check_triangles(points)
    times = arrived.column(this.time).view(pa.int64()).to_numpy()
    ids, distances, worksets = find_homes(spec, strategy, points, known, stored)
    order = sort_order(frozen(ids), frozen(times))
    indices = pa.array(order)
    columns = [c.take(indices) for c in arrived.columns] + [pa.array(distances[order])]
    segment = write_segment(
        folder, side, spec.stored_schema(side), Rows(ids[order], times[order], columns),
        floor_us=-FAR_US, level=0, batch_id=-1,
    )  # fmt: skip
    touched = write_worksets(folder, worksets.with_members(ids, times, distances))
    return VectorArrival(side, segment, touched, *counts)


def _without_nulls(arrived: pa.RecordBatch, side: VectorSide) -> tuple[pa.RecordBatch, int]:
    """Rows that have something to compare."""
    keep = np.ones(arrived.num_rows, np.bool_)
    for i in side.vector:
        if arrived.column(i).null_count:
            keep &= arrived.column(i).is_valid().to_numpy(zero_copy_only=False)
    if keep.all():
        return arrived, 0
    return arrived.filter(pa.array(keep)), int((~keep).sum())


def _dimension(arrived: pa.RecordBatch, side: VectorSide, known: int | None) -> int | None:
    """How many numbers a vector has: as is known, or as the first row says."""
    column = arrived.column(side.vector[0])
    if known is not None or not arrived.num_rows or not pt.is_nested(column.type):
        return known
    return int(column.value_lengths()[0].as_py())


def _fit(
    arrived: pa.RecordBatch, side: VectorSide, spec: SimilaritySpec, dimension: int | None
) -> tuple[pa.RecordBatch, Points]:
    """Rows that have a distance, and what is compared of them: numbers all finite, as many as they
    should be, and whatever else the metric asks."""
    wanted = dimension if spec.metric.has_dimension else None
    bad = unfit([arrived.column(i) for i in side.vector], wanted)
    if bad.any():
        arrived = arrived.filter(pa.array(~bad))
    points = spec.metric.points([arrived.column(i) for i in side.vector])
    more = spec.metric.unfit(points) if arrived.num_rows else None
    if more is not None and more.any():
        arrived, points = arrived.filter(pa.array(~more)), take(points, np.flatnonzero(~more))
    return arrived, points
