"""From arriving rows to those that can be compared, which are stored: the first half of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.engine.operator import Arrival
from skewless.operators.ingesting import in_pieces
from skewless.operators.similarity.metrics import OwnMetric
from skewless.operators.similarity.points import Points, take, unfit
from skewless.operators.similarity.running import Stored, Storing
from skewless.operators.similarity.spec import SimilaritySpec, VectorSide

NULL_TIMES, NULL_KEYS, NOT_COMPARABLE = "null times", "null keys", "not comparable"


def ingest_vectors(
    batches: Iterable[pa.RecordBatch],
    spec: SimilaritySpec,
    side: str,
    dimension: int | None,
    store: Storing,
) -> Iterator[Arrival]:
    """Have the rows of one task stored that can be compared; report what was found."""
    task = VectorTask(spec, side, dimension if spec.dimension is None else spec.dimension, store)
    for piece in in_pieces(batches):
        yield task.arrival(piece)


@dataclass(frozen=True)
class VectorTask:
    """What a task knows: how long vectors are, if anybody has said so, and how rows are stored."""

    spec: SimilaritySpec
    side: str
    dimension: int | None
    store: Storing

    def arrival(self, arrived: pa.RecordBatch) -> Arrival:
        """What is made of some rows. Those with a time count for the watermark. A row that cannot
        be compared is counted once: no time, no vector, or a bad one."""
        spec, this = self.spec, self.spec.side(self.side)
        rows, time_max_us = arrived.num_rows, None
        arrived, null_times = _without_nulls(arrived, () if this.time is None else (this.time,))
        if this.time is not None and arrived.num_rows:
            time_max_us = pc.max(arrived.column(this.time).view(pa.int64())).as_py()
        arrived, null_keys = _without_nulls(arrived, this.vector)
        dimension = _dimension(arrived, this, self.dimension) if spec.metric.has_dimension else None
        usable, points = _fit(arrived, this, spec, dimension)
        bad = arrived.num_rows - usable.num_rows
        dropped = {NULL_TIMES: null_times, NULL_KEYS: null_keys, NOT_COMPARABLE: bad}
        refused = (null_times and not spec.drop_null_times) or (bad and not spec.drop_bad)
        stored = Stored()
        if usable.num_rows and not refused:  # else the driver refuses the batch
            if spec.check_metric and isinstance(spec.metric, OwnMetric):
                spec.metric.check_triangles(points)
            stored = self.store(usable, points)
        return Arrival(
            input=self.side,
            rows=rows,
            runs=stored.runs,
            scratch=stored.scratch,
            blobs=stored.blobs,
            dropped={cause: n for cause, n in dropped.items() if n},
            time_max_us=time_max_us,
            detail={"dimension": dimension, **stored.counted},
        )


def _without_nulls(arrived: pa.RecordBatch, columns: Iterable[int]) -> tuple[pa.RecordBatch, int]:
    """Rows that have a value in some columns, and how many have not."""
    keep = np.ones(arrived.num_rows, np.bool_)
    for i in columns:
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
    bad = unfit([arrived.column(i) for i in side.vector], dimension)
    if bad.any():
        arrived = arrived.filter(pa.array(~bad))
    points = spec.metric.points([arrived.column(i) for i in side.vector])
    more = spec.metric.unfit(points) if arrived.num_rows else None
    if more is not None and more.any():
        arrived, points = arrived.filter(pa.array(~more)), take(points, np.flatnonzero(~more))
    return arrived, points
