"""From arriving rows to sorted segments: the first half of a batch.

Every task of the input stage sorts its own rows by (key hash, event time) and writes them as a
segment. It needs to know nothing of the batch, the routing or the watermark, so this half is a
fixed part of the streaming plan; the instances then read their share straight from these files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.joining import keys
from skewless.joining.kernels import Ints, UInts, frozen, longest_runs, sort_order
from skewless.model import FAR_US, Arrival, HeavyKey, JoinSpec, SegmentInfo, Side, SideSpec
from skewless.state.files import Folder
from skewless.state.segments import Rows, times_of, write_arrays, write_segment

SEGMENT_BYTES_MAX = 256 << 20  # bounds a task's memory: beyond it, it writes a segment and goes on
HEAVY_KEYS = 8
HEAVY_SHARE_MIN = 0.001
PROBES = "probes"


def ingest(
    batches: Iterable[pa.RecordBatch], spec: JoinSpec, side: Side, root: str
) -> Iterator[Arrival]:
    """Sort and store the rows of one task; tell what was found."""
    for piece in in_pieces(batches):
        yield _ingest_some(piece, spec, side, root)


def in_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The rows of a task, as many at a time as its memory is to hold."""
    pending: list[pa.RecordBatch] = []
    pending_bytes = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            pending_bytes += batch.nbytes
        if pending_bytes >= SEGMENT_BYTES_MAX:
            yield pending
            pending, pending_bytes = [], 0
    if pending:
        yield pending


def _ingest_some(batches: list[pa.RecordBatch], spec: JoinSpec, side: Side, root: str) -> Arrival:
    this = spec.side(side)
    arrived = pa.concat_batches(batches)
    rows = arrived.num_rows
    arrived, bad, time_max_us = without_unusable(arrived, this)
    null_keys, null_times, nan_bands = bad
    if (null_times and not spec.drop_null_times) or not arrived.num_rows:
        # The driver refuses the batch, or there is nothing to keep.
        return Arrival(side, None, None, rows, null_keys, null_times, nan_bands, time_max_us)
    folder = Folder(root)
    cells = (
        keys.cells_of(arrived.column(this.bands[0].index), this.bands[0]) if this.bands else None
    )
    stored, cells = sorted_rows(arrived, this, cells)
    segment = write_segment(
        folder, side, this.schema, stored, floor_us=-FAR_US, level=0, batch_id=-1
    )
    probe_file = None if cells is None else write_probes(folder, segment, stored, this, cells)
    return Arrival(
        side=side,
        segment=segment,
        probe_file=probe_file,
        rows=rows,
        null_keys=null_keys,
        null_times=null_times,
        nan_bands=nan_bands,
        time_max_us=time_max_us,
        heavy_keys=heavy_keys_of(stored, this),
    )


def without_unusable(
    arrived: pa.RecordBatch, side: SideSpec
) -> tuple[pa.RecordBatch, tuple[int, int, int], int | None]:
    """Take out the rows that can match nothing: without a time, without a key, NaN in a band.
    Each such row is counted once, in that order. Rows with a time count for the watermark."""
    null_times = null_keys = nan_bands = 0
    time_max_us = None
    if side.time is not None:
        arrived, null_times = _drop_nulls(arrived, [side.time])
        if arrived.num_rows:
            time_max_us = pc.max(arrived.column(side.time).view(pa.int64())).as_py()
    key_columns = [k.index for k in side.keys] + [b.index for b in side.bands]
    arrived, null_keys = _drop_nulls(arrived, key_columns)
    for band in side.bands:
        nan = keys.nan_rows(arrived.column(band.index))
        if nan is not None and nan.any():
            nan_bands += int(nan.sum())
            arrived = arrived.filter(pa.array(~nan))
    return arrived, (null_keys, null_times, nan_bands), time_max_us


def _drop_nulls(arrived: pa.RecordBatch, columns: list[int]) -> tuple[pa.RecordBatch, int]:
    with_nulls = [arrived.column(i) for i in columns if arrived.column(i).null_count]
    if not with_nulls:
        return arrived, 0
    keep = with_nulls[0].is_valid()
    for column in with_nulls[1:]:
        keep = pc.and_(keep, column.is_valid())
    kept = arrived.filter(keep)
    return kept, arrived.num_rows - kept.num_rows


def sorted_rows(
    arrived: pa.RecordBatch, side: SideSpec, cells: Ints | None
) -> tuple[Rows, Ints | None]:
    hashes = keys.hash_keys([arrived.column(k.index) for k in side.keys], side, cells)
    times = times_of(arrived.columns, side.time, arrived.num_rows)
    order = sort_order(frozen(hashes), frozen(times))
    indices = pa.array(order)
    columns = [column.take(indices) for column in arrived.columns]
    sorted_cells = None if cells is None else cells[order]
    return Rows(hashes[order], times[order], columns), sorted_cells


def write_probes(
    folder: Folder, segment: SegmentInfo, stored: Rows, side: SideSpec, cells: Ints
) -> str:
    """A band row probes several cells: a file lists (hash of cell, row), sorted like a segment."""
    key_columns = [stored.columns[k.index] for k in side.keys]
    probed = keys.probed_cells(cells, side.bands[0])
    hashes: UInts = np.concatenate([keys.hash_keys(key_columns, side, c) for c in probed])
    rows = np.tile(np.arange(len(stored), dtype=np.int64), len(probed))
    order = sort_order(frozen(hashes), frozen(stored.times[rows]))
    name = f"{PROBES}/{segment.side}-{uuid.uuid4().hex}.arrow"
    write_arrays(folder, name, {"hash": hashes[order], "row": rows[order]})
    return name


def heavy_keys_of(stored: Rows, side: SideSpec) -> tuple[HeavyKey, ...]:
    begins, lengths = longest_runs(frozen(stored.hashes), HEAVY_KEYS)
    least = max(2, int(len(stored) * HEAVY_SHARE_MIN))
    found = [
        HeavyKey(keys.describe(stored.columns, side, int(begin)), int(length))
        for begin, length in zip(begins, lengths, strict=True)
        if length >= least
    ]
    return tuple(sorted(found, key=lambda k: (-k.rows, k.value)))
