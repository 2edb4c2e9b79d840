"""From arriving rows to sorted segments: what the operators with keys have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.arrays import keys
from skewless.arrays.columns import Columns, put_together
from skewless.arrays.counting import longest_runs
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, Ints, SideSpec, UInts, frozen
from skewless.engine.operator import HeavyKey, RunRef
from skewless.state.epochs import own_name
from skewless.state.files import Folder
from skewless.state.segments import (
    SCRATCH,
    Rows,
    SegmentInfo,
    times_of,
    write_arrays,
    write_segment,
)

HEAVY_KEYS = 8
# Sorted and stored at once. A task has them in memory several times: as they came, put together,
# sorted, and as the file that they become.
TAKEN_BYTES = 64 << 20
HEAVY_SHARE_MIN = 0.001


def in_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a task, as many at a time as its memory is to hold, and a segment."""
    return put_together(batches, most=TAKEN_BYTES)


@dataclass(frozen=True)
class Usable:
    """Rows that can match something, what was dropped by cause, and the latest event time; and the
    rows that were dropped for their key, as `keyless`."""

    rows: pa.RecordBatch
    dropped: dict[str, int]
    time_max_us: int | None
    keyless: tuple[pa.RecordBatch, ...] = ()


def usable_rows(arrived: pa.RecordBatch, side: SideSpec) -> Usable:
    """Take out the rows that can match nothing: without a time, without a key, NaN in a band.
    Each such row is counted once, in that order. Rows with a time count for the watermark."""
    null_times = null_keys = nan_bands = 0
    time_max_us = None
    if side.time is not None:
        arrived, null_times = _drop_nulls(arrived, [side.time])
        if arrived.num_rows:
            time_max_us = pc.max(arrived.column(side.time).view(pa.int64())).as_py()
    strict = [k.index for k in side.keys if not k.null_safe]
    key_columns = strict + [b.index for b in side.bands]
    keep = _without_nulls(arrived, key_columns)
    keyless = [] if keep is None else [arrived.filter(pc.invert(keep))]
    null_keys = sum(rows.num_rows for rows in keyless)
    arrived = arrived if keep is None else arrived.filter(keep)
    for band in side.bands:
        nan = keys.nan_rows(arrived.column(band.index))
        if nan is not None and nan.any():
            nan_bands += int(nan.sum())
            keyless.append(arrived.filter(pa.array(nan)))
            arrived = arrived.filter(pa.array(~nan))
    dropped = {"null times": null_times, "null keys": null_keys, "NaN in a band": nan_bands}
    causes = {cause: n for cause, n in dropped.items() if n}
    return Usable(arrived, causes, time_max_us, tuple(keyless))


def _drop_nulls(arrived: pa.RecordBatch, columns: list[int]) -> tuple[pa.RecordBatch, int]:
    keep = _without_nulls(arrived, columns)
    kept = arrived if keep is None else arrived.filter(keep)
    return kept, arrived.num_rows - kept.num_rows


def _without_nulls(arrived: pa.RecordBatch, columns: list[int]) -> pa.Array | None:
    """Which rows have a value in all of some columns; None: all."""
    with_nulls = [arrived.column(i) for i in columns if arrived.column(i).null_count]
    if not with_nulls:
        return None
    keep = with_nulls[0].is_valid()
    for column in with_nulls[1:]:
        keep = pc.and_(keep, column.is_valid())
    return keep


def sorted_rows(
    arrived: pa.RecordBatch, side: SideSpec, cells: Ints | None
) -> tuple[Rows, Ints | None]:
    hashes = keys.hash_keys([arrived.column(k.index) for k in side.keys], side, cells)
    rows, order = sort_by(hashes, arrived, side)
    return rows, None if cells is None else cells[order]


def sort_by(hashes: UInts, arrived: pa.RecordBatch, side: SideSpec) -> tuple[Rows, Ints]:
    """Rows sorted by their hashes and times, and the order that they come in."""
    times = times_of(arrived.columns, side.time, arrived.num_rows)
    order = sort_order(frozen(hashes), frozen(times))
    columns = Columns(arrived.columns).take(order)
    times = times_of(columns, side.time, len(order))  # these are sorted already
    return Rows(hashes[order], times, columns), order


def write_probes(
    folder: Folder, segment: SegmentInfo, stored: Rows, side: SideSpec, cells: Ints
) -> str:
    """A band row probes several cells: a file lists (hash of cell, row), sorted like a segment."""
    key_columns = [stored.columns[k.index] for k in side.keys]
    probed = keys.probed_cells(cells, side.bands[0])
    hashes: UInts = np.concatenate([keys.hash_keys(key_columns, side, c) for c in probed])
    rows = np.tile(np.arange(len(stored), dtype=np.int64), len(probed))
    order = sort_order(frozen(hashes), frozen(stored.times[rows]))
    name = f"{own_name(folder, SCRATCH, segment.side)}.arrow"
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


def cells_of(columns: Sequence[pa.Array], side: SideSpec) -> Ints | None:
    """The cell of every row, if there is a band."""
    return keys.cells_of(columns[side.bands[0].index], side.bands[0]) if side.bands else None


def store(
    arrived: pa.RecordBatch, side: SideSpec, name: str, folder: Folder, *, probes: bool = True
) -> tuple[RunRef, Rows]:
    """Sort rows by key and time and store them; with a file of probes where they have a band and
    the work does not make them itself."""
    cells = cells_of(arrived.columns, side)
    stored, cells = sorted_rows(arrived, side, cells)
    segment = write_segment(
        folder, name, side.schema, stored, floor_us=-FAR_US, level=0, batch_id=-1
    )
    if cells is None or not probes:
        return RunRef(segment), stored
    return RunRef(segment, write_probes(folder, segment, stored, side, cells)), stored


def store_keyless(
    rows: tuple[pa.RecordBatch, ...], side: SideSpec, name: str, folder: Folder
) -> RunRef:
    """Store rows that can match nothing, by their times."""
    every = pa.concat_batches(rows)
    times = times_of(every.columns, side.time, every.num_rows)
    order = np.argsort(times, kind="stable")
    columns = Columns(every.columns).take(order)
    stored = Rows(np.zeros(len(order), np.uint64), times[order], columns)
    return RunRef(
        write_segment(folder, name, side.schema, stored, floor_us=-FAR_US, level=0, batch_id=-1)
    )
