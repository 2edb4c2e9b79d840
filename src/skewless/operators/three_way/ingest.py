"""From arriving rows of one stream to segments, one per edge: a stream that has conditions with
both others is stored in two orders, so that either finds its partners by a merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from skewless.arrays.types import BandColumn, KeyColumn, SideSpec
from skewless.engine.operator import Arrival
from skewless.operators.ingesting import heavy_keys_of, in_pieces, store, usable_rows
from skewless.operators.three_way.spec import NAMES, ThreeSpec
from skewless.state.files import Folder


def ingest(
    batches: Iterable[pa.RecordBatch], spec: ThreeSpec, stream: int, folder: Folder
) -> Iterator[Arrival]:
    """Sort and store the rows of one task; tell what was found."""
    for piece in in_pieces(batches):
        yield _ingest_some(piece, spec, stream, folder)


def _ingest_some(arrived: pa.RecordBatch, spec: ThreeSpec, stream: int, folder: Folder) -> Arrival:
    usable = usable_rows(arrived, _all_conditions(spec, stream))
    found = Arrival(
        NAMES[stream], arrived.num_rows, dropped=usable.dropped, time_max_us=usable.time_max_us
    )
    refused = usable.dropped.get("null times") and not spec.drop_null_times
    if refused or not usable.rows.num_rows:
        # The driver refuses the batch, or there is nothing to keep.
        return found
    runs, heavy = [], []
    for edge in spec.edges_of(stream):
        side = edge.side(stream)
        run, stored = store(usable.rows, side, spec.side_name(stream, edge), folder, probes=False)
        runs.append(run)
        heavy += [replace(k, value=f"{edge.name} {k.value}") for k in heavy_keys_of(stored, side)]
    return replace(found, runs=tuple(runs), heavy_keys=tuple(heavy))


def _all_conditions(spec: ThreeSpec, stream: int) -> SideSpec:
    """A stream with the columns of all its conditions: a row that lacks one is in no triple."""
    this = spec.streams[stream]
    sides = [edge.side(stream) for edge in spec.edges_of(stream)]
    # Where one condition takes a null and another does not, the row is in no triple.
    of_all = sorted((k for side in sides for k in side.keys), key=lambda k: not k.null_safe)
    key_columns: dict[int, KeyColumn] = {k.index: k for k in of_all}
    bands: dict[int, BandColumn] = {b.index: b for side in sides for b in side.bands}
    return SideSpec(
        this.schema, tuple(key_columns.values()), tuple(bands.values()), this.time, this.late_us
    )
