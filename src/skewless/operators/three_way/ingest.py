"""From arriving rows of one stream to segments, one per edge: a stream that has conditions with
both others is stored in two orders, so that either finds its partners by a merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from skewless.arrays import keys
from skewless.arrays.types import FAR_US, BandColumn, KeyColumn, SideSpec
from skewless.engine.operator import RunRef
from skewless.operators.ingesting import (
    heavy_keys_of,
    in_pieces,
    sorted_rows,
    without_unusable,
    write_probes,
)
from skewless.operators.three_way.spec import StreamArrival, ThreeSpec
from skewless.state.files import Folder
from skewless.state.segments import write_segment


def ingest_stream(
    batches: Iterable[pa.RecordBatch], spec: ThreeSpec, stream: int, root: str
) -> Iterator[StreamArrival]:
    """Sort and store the rows of one task; tell what was found."""
    for piece in in_pieces(batches):
        yield _ingest_some(piece, spec, stream, root)


def _ingest_some(
    batches: list[pa.RecordBatch], spec: ThreeSpec, stream: int, root: str
) -> StreamArrival:
    arrived = pa.concat_batches(batches)
    rows = arrived.num_rows
    arrived, bad, time_max_us = without_unusable(arrived, _all_conditions(spec, stream))
    null_keys, null_times, nan_bands = bad
    if (null_times and not spec.drop_null_times) or not arrived.num_rows:
        # The driver refuses the batch, or there is nothing to keep.
        return StreamArrival(stream, (), rows, null_keys, null_times, nan_bands, time_max_us)
    folder, runs, heavy = Folder(root), [], []
    for edge in spec.edges_of(stream):
        side = edge.side(stream)
        cells = None
        if side.bands:
            cells = keys.cells_of(arrived.column(side.bands[0].index), side.bands[0])
        stored, cells = sorted_rows(arrived, side, cells)
        segment = write_segment(
            folder, spec.side_name(stream, edge), side.schema, stored,
            floor_us=-FAR_US, level=0, batch_id=-1,
        )  # fmt: skip
        probes = None if cells is None else write_probes(folder, segment, stored, side, cells)
        runs.append(RunRef(segment, probes))
        heavy += [replace(k, value=f"{edge.name} {k.value}") for k in heavy_keys_of(stored, side)]
    return StreamArrival(
        stream=stream,
        segments=tuple(runs),
        rows=rows,
        null_keys=null_keys,
        null_times=null_times,
        nan_bands=nan_bands,
        time_max_us=time_max_us,
        heavy_keys=tuple(heavy),
    )


def _all_conditions(spec: ThreeSpec, stream: int) -> SideSpec:
    """A stream with the columns of all its conditions: a row that lacks one is in no triple."""
    this = spec.streams[stream]
    sides = [edge.side(stream) for edge in spec.edges_of(stream)]
    key_columns: dict[int, KeyColumn] = {k.index: k for side in sides for k in side.keys}
    bands: dict[int, BandColumn] = {b.index: b for side in sides for b in side.bands}
    return SideSpec(
        this.schema, tuple(key_columns.values()), tuple(bands.values()), this.time, this.late_us
    )
