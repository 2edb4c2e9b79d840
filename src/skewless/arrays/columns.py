"""Columns of the same rows, put together and taken in pieces that Arrow, Spark and memory can hold.

Strings, binaries and lists have 32-bit offsets in Arrow: an array cannot hold more than 2 GiB of
them, and who tries fails, however often. So whatever is put together, or taken several times, is
cut into pieces of at most `PIECE_BYTES`; a row that is larger goes alone. Columns know how many
bytes a row of theirs can have: as long as rows are small, asking costs one multiplication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from skewless.arrays.types import Ints

PIECE_BYTES = 256 << 20
BATCH_BYTES = 64 << 20  # handed on at once: as many as Spark gives us by default

Part = TypeVar("Part", bound=Sized)


class Columns(list[pa.Array]):
    """Columns of the same rows. `widest` is how many bytes a row has at most, in all of them; what
    is taken from them has no wider ones."""

    def __init__(self, columns: Iterable[pa.Array] = (), widest: int | None = None) -> None:
        super().__init__(columns)
        self._widest = widest

    @property
    def widest(self) -> int:
        if self._widest is None:
            self._widest = sum(map(_widest, self))
        return self._widest

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return sum(column.nbytes for column in self)

    def row_bytes(self, rows: Ints) -> Ints:
        """How many bytes some rows have."""
        return _all_bytes_before(self, rows + 1) - _all_bytes_before(self, rows)

    def slice(self, begin: int, end: int) -> Columns:
        return Columns((c.slice(begin, end - begin) for c in self), self._widest)

    def take(self, rows: Ints) -> Columns:
        """Some rows. Where one may be taken several times, ask `pieces_of` first."""
        indices = pa.array(rows)
        return Columns((c.take(indices) for c in self), self._widest)

    @staticmethod
    def concat(parts: Sequence[Columns]) -> Columns:
        """All rows. Whoever asks sees to it that they are not too many."""
        if len(parts) == 1:
            return parts[0]
        columns = (pa.concat_arrays(list(c)) for c in zip(*parts, strict=True))
        return Columns(columns, max(part.widest for part in parts))


class Source(Protocol):
    """Something that rows are taken from."""

    @property
    def widest(self) -> int: ...

    def row_bytes(self, rows: Ints) -> Ints: ...


def pieces_of(*taken: tuple[Source, Ints], copies: int = 1) -> Iterator[slice]:
    """Cut rows that are put together of rows of one or several sources, and will be there in so
    many copies."""
    count = len(taken[0][1])
    if count * copies * sum(of.widest for of, _ in taken) <= PIECE_BYTES:
        yield slice(0, count)
    else:
        sizes = np.sum([of.row_bytes(rows) for of, rows in taken], axis=0)
        yield from _cuts(copies * sizes, PIECE_BYTES)


def most_bytes(of: Source, rows: Ints) -> int:
    """How many bytes some rows have, or somewhat more: where rows are small, nobody counts."""
    small = of.widest <= PIECE_BYTES >> 16
    return len(rows) * of.widest if small else int(of.row_bytes(rows).sum())


def pieces_of_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, cut into such as are handed on; without a copy."""
    if batch.num_rows <= 1 or batch.get_total_buffer_size() <= BATCH_BYTES:
        yield batch
        return
    sizes = Columns(batch.columns).row_bytes(np.arange(batch.num_rows))
    for piece in _cuts(sizes, BATCH_BYTES):
        yield batch.slice(piece.start, piece.stop - piece.start)


def gathered(
    parts: Iterable[Part],
    bytes_of: Callable[[Part], int],
    rows: int | None = None,
    most: int | None = None,
) -> Iterator[list[Part]]:
    """Small parts to be put together, until they have so many rows or would be too many bytes:
    more than a piece may have, or than `most`."""
    limit = PIECE_BYTES if most is None else min(most, PIECE_BYTES)
    waiting: list[Part] = []
    size = count = 0
    for part in parts:
        of_part = bytes_of(part)
        if waiting and size + of_part > limit:
            yield waiting
            waiting, size, count = [], 0, 0
        waiting.append(part)
        size += of_part
        count += len(part)
        if rows is not None and count >= rows:
            yield waiting
            waiting, size, count = [], 0, 0
    if waiting:
        yield waiting


def put_together(
    batches: Iterable[pa.RecordBatch], rows: int | None = None, most: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, none of them empty: as many rows in each as `gathered` has,
    which may be told by how many rows or bytes there are."""
    some = (batch for batch in batches if batch.num_rows)
    for waiting in gathered(some, lambda batch: batch.nbytes, rows, most):
        together = pa.concat_batches(waiting)
        waiting.clear()  # it would stay in memory twice
        yield together


def _cuts(sizes: Ints, most: int) -> Iterator[slice]:
    """Neighbours that are together not too large, as many as can be; one at least."""
    ends, begin, before = np.cumsum(sizes), 0, 0
    while begin < len(sizes):
        end = max(int(np.searchsorted(ends, before + most, "right")), begin + 1)
        yield slice(begin, end)
        begin, before = end, int(ends[end - 1])


def _is_bytes(kind: pa.DataType) -> bool:
    checks = (pt.is_string, pt.is_binary, pt.is_large_string, pt.is_large_binary)
    return any(check(kind) for check in checks)


def _widest(column: pa.Array) -> int:
    """The most bytes that a row of a column has."""
    if isinstance(column, pa.ExtensionArray):
        return _widest(column.storage)
    if not len(column):
        return 0
    if not (_is_bytes(column.type) or pt.is_nested(column.type)):
        return _width(column.type)
    if _is_bytes(column.type):
        offsets = _offsets(column)
        return int(np.diff(offsets).max()) + offsets.itemsize
    return int(np.diff(_bytes_before(column, np.arange(len(column) + 1))).max())


def _bytes_before(column: pa.Array, rows: Ints) -> Ints:
    """How many bytes of a column come before some rows: differences of them are what counts."""
    if isinstance(column, pa.ExtensionArray):
        return _bytes_before(column.storage, rows)
    if not len(column):
        return np.zeros(len(rows), np.int64)
    if _is_bytes(column.type):
        offsets = _offsets(column)
        return rows * offsets.itemsize + offsets[rows].astype(np.int64)
    if pt.is_nested(column.type):
        return _nested_bytes_before(column, rows)
    return _width(column.type) * rows


def _nested_bytes_before(column: pa.Array, rows: Ints) -> Ints:
    kind = column.type
    if pt.is_struct(kind):
        return _all_bytes_before((column.field(i) for i in range(kind.num_fields)), rows)
    if pt.is_fixed_size_list(kind):
        return _bytes_before(column.values, (rows + column.offset) * kind.list_size)
    offsets: Ints = column.offsets.to_numpy()
    values = [column.keys, column.items] if pt.is_map(kind) else [column.values]
    return _all_bytes_before(values, offsets[rows].astype(np.int64)) + offsets.itemsize * rows


def _all_bytes_before(columns: Iterable[pa.Array], rows: Ints) -> Ints:
    sizes = np.zeros(len(rows), np.int64)
    for column in columns:
        sizes += _bytes_before(column, rows)
    return sizes


def _offsets(column: pa.Array) -> npt.NDArray[Any]:
    """Where the bytes of each row begin, and those of the last end."""
    large = pt.is_large_string(column.type) or pt.is_large_binary(column.type)
    offsets = np.frombuffer(column.buffers()[1], np.int64 if large else np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]


def _width(kind: pa.DataType) -> int:
    return 0 if pt.is_null(kind) else (kind.bit_width + 7) // 8
