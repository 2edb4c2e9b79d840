"""Segments: immutable files of stored rows, sorted by (key hash, event time).

A segment is an Arrow IPC file with one record batch, or one for each part that can be fetched
alone. Its first column is the key hash (uint64); the columns of the input follow as they came. It
is written once, under a name nobody knows before a commit lists it, and read back by
memory-mapping: nothing is decoded, nothing is rebuilt.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless import failpoints
from skewless.arrays.columns import Columns, pieces_of
from skewless.arrays.types import FAR_US
from skewless.errors import StateDamagedError, StateFormatError
from skewless.state.epochs import own_name
from skewless.state.files import Folder
from skewless.state.parts import (
    CELLS,
    Part,
    Range,
    cuts_at,
    cuts_of,
    is_far,
    neighbours,
    write_parts,
)

FORMAT, FORMAT_OF_PARTS = b"1", b"2"
FORMAT_KEY = b"skewless.segment"
WIDEST_KEY = b"skewless.widest"  # how many bytes a row has at most
HASH_FIELD = pa.field("__hash", pa.uint64(), nullable=False)
SEGMENTS = "segments"
SCRATCH = "scratch"  # files of one batch only
ROWS = "rows"
SEGMENT_ROWS_MAX = 8_000_000

REPAIR = (
    "The state cannot be trusted any more: restore the checkpoint folder from a backup, or start "
    "with a new checkpointLocation (the sources are then read anew from their starting offsets)."
)


@dataclass(frozen=True)
class SegmentInfo:
    """A sorted, immutable file of stored rows.

    `side` says what its rows are sorted and looked up as: the input they are of, or a name that
    its operator gives; `kind` says what they are: "rows" as they came, or what an operator made of
    them. `floor_us` is the watermark when its rows arrived: older rows in it came too late and do
    not count. `level` is how often its rows were compacted, `batch_id` when they were last written.
    Where fetching costs, it has `parts` that can be read alone, with columns of a known schema.
    """

    name: str
    side: str
    rows: int
    bytes: int
    crc32: int
    hash_min: int
    hash_max: int
    time_min_us: int
    time_max_us: int
    floor_us: int = -FAR_US
    level: int = 0
    batch_id: int = -1
    kind: str = ROWS
    parts: tuple[Part, ...] = ()
    schema_crc32: int = 0

    @staticmethod
    def from_json(data: dict[str, Any]) -> SegmentInfo:
        if "parts" not in data:
            return SegmentInfo(**data)
        return SegmentInfo(**data | {"parts": tuple(Part(*part) for part in data["parts"])})

    def to_json(self) -> dict[str, Any]:
        plain = dict(vars(self))
        plain["parts"] = [part if part.key >= 0 else part[:-1] for part in self.parts]
        if not self.parts:
            del plain["parts"], plain["schema_crc32"]
        return plain

    def touches(self, hash_min: int, hash_max: int) -> bool:
        """Whether it can hold rows of a range of hashes."""
        return self.hash_min <= hash_max and self.hash_max >= hash_min

    def parts_in(self, ranges: Sequence[Range]) -> tuple[Part, ...] | None:
        """The parts that can hold rows of some ranges of hashes; None: all of it, in one piece."""
        if not any(self.touches(*of) for of in ranges):
            return ()
        found = tuple(part for part in self.parts if part.touches(ranges))
        return None if len(found) == len(self.parts) else found


@dataclass(frozen=True)
class Rows:
    """The rows of a segment: key hashes, event times (microseconds) and columns as they came."""

    hashes: npt.NDArray[np.uint64]
    times: npt.NDArray[np.int64]
    columns: Columns

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def nbytes(self) -> int:
        return self.hashes.nbytes + self.columns.nbytes

    def slice(self, begin: int, end: int) -> Rows:
        columns = self.columns.slice(begin, end)
        return Rows(self.hashes[begin:end], self.times[begin:end], columns)

    def take(self, indices: npt.NDArray[np.int64]) -> Rows:
        """Some of the rows, none of them twice."""
        return Rows(self.hashes[indices], self.times[indices], self.columns.take(indices))

    def at_or_after(self, time_us: int) -> Rows:
        """The rows that are not older; without a copy where all are."""
        keep = self.times >= time_us
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def pieces(self) -> Iterator[Rows]:
        """The same rows, as many at a time as a segment may have."""
        for piece in pieces_of((self.columns, np.arange(len(self)))):
            for begin in range(piece.start, piece.stop, SEGMENT_ROWS_MAX):
                yield self.slice(begin, min(begin + SEGMENT_ROWS_MAX, piece.stop))


def write_segment(
    folder: Folder,
    side: str,
    schema: pa.Schema,
    rows: Rows,
    *,
    floor_us: int,
    level: int,
    batch_id: int,
    kind: str = ROWS,
    place: str = SEGMENTS,
    cells: int | None = None,
    borders: Sequence[int] | None = None,
    apart: Sequence[int] = (),
) -> SegmentInfo:
    """Write rows as a new segment, at most one of `Rows.pieces`. `place` is another folder for rows
    that are not state. Where fetching costs it is cut at some borders of so many `cells`, what is
    no state only if they are given, and around the hashes of keys that are worked on `apart`; or
    else at some positions that are `borders`."""
    name = f"{own_name(folder, place, side)}.arrow"
    in_parts = is_far(folder) and (borders is not None or _by_hash(rows, place, cells))
    stored = _stored_schema(schema, FORMAT_OF_PARTS if in_parts else FORMAT)
    widest = Columns(rows.columns).widest  # of these rows, and not of those they were among
    told = {**stored.metadata, WIDEST_KEY: str(widest).encode()}
    described = stored.with_metadata(told)
    batch = pa.RecordBatch.from_arrays([pa.array(rows.hashes), *rows.columns], schema=described)
    parts: tuple[Part, ...] = ()
    if in_parts:
        cuts = (
            cuts_of(rows.hashes, batch.nbytes, cells or CELLS, apart)
            if borders is None
            else cuts_at(borders, len(rows), batch.nbytes)
        )
        data, parts = write_parts(batch, rows.hashes, cuts)
    else:
        data = _ipc_bytes(batch)
    failpoints.hit("segment.begun", folder.root)
    # Who works on a range of keys stores it, and reads it; what is no state is of this batch only.
    folder.write(name, data, keep=True, durable=place == SEGMENTS)
    failpoints.hit("segment.written", folder.root)
    return SegmentInfo(
        name=name,
        side=side,
        rows=len(rows),
        bytes=data.size,
        crc32=zlib.crc32(data),
        hash_min=int(rows.hashes.min()),
        hash_max=int(rows.hashes.max()),
        time_min_us=int(rows.times.min()),
        time_max_us=int(rows.times.max()),
        floor_us=floor_us,
        level=level,
        batch_id=batch_id,
        kind=kind,
        parts=parts,
        schema_crc32=_schema_crc32(stored) if parts else 0,
    )


def _by_hash(rows: Rows, place: str, cells: int | None) -> bool:
    """Whether rows are cut by their hashes."""
    if place != SEGMENTS and cells is None:
        return False
    return bool((rows.hashes[1:] >= rows.hashes[:-1]).all())


def _schema_crc32(schema: pa.Schema) -> int:
    return zlib.crc32(schema.serialize())


def _stored_schema(schema: pa.Schema, version: bytes) -> pa.Schema:
    """What a file has whose rows have some columns."""
    return pa.schema([HASH_FIELD, *schema], metadata={FORMAT_KEY: version})


def _ipc_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    measured = pa.MockOutputStream()  # a buffer that grows would be copied, and twice as large
    _write_batch(measured, batch)
    data = pa.allocate_buffer(measured.size())
    _write_batch(pa.FixedSizeBufferWriter(data), batch)
    return data


def _write_batch(out: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_file(out, batch.schema) as writer:
        writer.write_batch(batch)


def write_arrays(folder: Folder, name: str, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write plain columns for use within one batch."""
    batch = pa.record_batch({k: pa.array(v) for k, v in arrays.items()})
    folder.write(name, _ipc_bytes(batch), durable=False)


def read_arrays(folder: Folder, name: str) -> dict[str, npt.NDArray[Any]]:
    """Columns written by `write_arrays`."""
    with pa.ipc.open_file(folder.map(name)) as reader:
        batch = reader.get_batch(0)
    return {n: batch.column(i).to_numpy() for i, n in enumerate(batch.schema.names)}


def read_parts(
    folder: Folder,
    segment: SegmentInfo,
    parts: Sequence[Part],
    time_index: int | None,
    schema: pa.Schema,
) -> Rows:
    """Some rows of a segment. What is fetched is checked."""
    stored = _stored_schema(schema, FORMAT_OF_PARTS)
    if parts and _schema_crc32(stored) != segment.schema_crc32:
        # The query had other columns when this was written: the file begins with which.
        with pa.ipc.open_file(_mapped(folder, segment)) as reader:
            stored = reader.schema
    batches = []
    for some in neighbours(parts):
        first = some[0].offset
        data = folder.map_bytes(segment.name, first, some[-1].offset + some[-1].bytes - first)
        for part in some:
            message = data.slice(part.offset - first, part.bytes)
            if message.size != part.bytes or zlib.crc32(message) != part.crc32:
                what = f"was truncated or altered from byte {part.offset} on"
                raise StateDamagedError(f"{folder.path(segment.name)} {what}. {REPAIR}")
            batches.append(pa.ipc.read_record_batch(message, stored))
    return _rows_of(_one_batch(batches, stored), folder.path(segment.name), time_index, schema)


def read_segment(
    folder: Folder, segment: SegmentInfo, time_index: int | None, schema: pa.Schema | None = None
) -> Rows:
    """The rows of a segment, mapped into memory. A file of the wrong size is refused here; its
    content is checked by whoever reads it first after a start, and when it is fetched. With a
    `schema`, columns are looked up by name: the query may have had others when the rows were
    stored."""
    with pa.ipc.open_file(_mapped(folder, segment)) as reader:
        told = reader.schema.metadata or {}
        found = told.get(FORMAT_KEY)
        if found not in (FORMAT, FORMAT_OF_PARTS):
            raise StateFormatError(
                f"{folder.path(segment.name)} is of segment format {found!r}; this version of "
                f"skewless reads {FORMAT!r} and {FORMAT_OF_PARTS!r}. Upgrade skewless, or start a "
                "new checkpoint."
            )
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        batch = _one_batch(batches, reader.schema)
    widest = int(told[WIDEST_KEY]) if WIDEST_KEY in told else None  # else it is looked up
    return _rows_of(batch, folder.path(segment.name), time_index, schema, widest)


def _one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)


def _rows_of(
    batch: pa.RecordBatch,
    file: str,
    time_index: int | None,
    schema: pa.Schema | None,
    widest: int | None = None,
) -> Rows:
    hashes, *columns = batch.columns
    if schema is not None and batch.schema.names[1:] != schema.names:
        columns = [_column(batch, wanted, file) for wanted in schema]
    times = times_of(columns, time_index, len(batch))
    return Rows(hashes.to_numpy(), times, Columns(columns, widest))


def _mapped(folder: Folder, segment: SegmentInfo) -> pa.MemoryMappedFile:
    try:
        mapped = folder.map(segment.name, (segment.bytes, segment.crc32))
    except FileNotFoundError as error:
        raise StateDamagedError(f"{folder.path(segment.name)} is missing. {REPAIR}") from error
    size = mapped.size()
    if size != segment.bytes:
        what = f"has {size} bytes, {segment.bytes} were committed"
        raise StateDamagedError(f"{folder.path(segment.name)} {what}. {REPAIR}")
    return mapped


def _column(batch: pa.RecordBatch, wanted: pa.Field, file: str) -> pa.Array:
    """A column of a segment; null in all rows if they were stored before there was one."""
    at = batch.schema.get_field_index(wanted.name)
    if at < 0:
        return pa.nulls(len(batch), wanted.type)
    if batch.schema.field(at).type != wanted.type:
        raise StateFormatError(
            f"{file} has {wanted.name!r} as {batch.schema.field(at).type}, and the query as "
            f"{wanted.type}: cast it, or name it otherwise."
        )
    return batch.column(at)


def times_of(columns: list[pa.Array], time_index: int | None, rows: int) -> npt.NDArray[np.int64]:
    """Event times in microseconds; all zero where the join knows no time."""
    if time_index is None:
        return np.zeros(rows, np.int64)
    times: npt.NDArray[np.int64] = columns[time_index].view(pa.int64()).to_numpy()
    return times


def verify_segment(folder: Folder, segment: SegmentInfo) -> None:
    """Compare a segment with the size and checksum in its commit."""
    size = folder.size(segment.name)
    if size is None:
        raise StateDamagedError(f"{folder.path(segment.name)} is missing. {REPAIR}")
    crc32 = None
    if size == segment.bytes:
        crc32 = zlib.crc32(_mapped(folder, segment).read_buffer())
    if crc32 != segment.crc32:
        raise StateDamagedError(
            f"{folder.path(segment.name)} was truncated or altered: {size} bytes with checksum "
            f"{crc32}, committed were {segment.bytes} with {segment.crc32}. {REPAIR}"
        )
