"""Parts of a segment that can be read alone, where fetching costs: on a remote store.

A segment is sorted by hash. There it is written as several record batches, each of a range of
hashes, and whoever needs some hashes fetches only these. The commit knows where each lies.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.state.files import Folder

CELLS = 64  # equal ranges of hashes, at whose borders a segment may be cut
PART_BYTES_MIN = 64 << 10  # smaller ones cost more as requests than they spare as bytes
KEYS_APART = 16  # hashes with many rows that have parts of their own
PREFIX_BITS = 16  # of a hash: enough to tell ranges apart, and short in commits

# For tests: do as on a remote store on any.
FORCED = os.environ.get("SKEWLESS_EXCHANGE") == "always"

Range = tuple[int, int]  # the first and the last of some hashes


def is_far(folder: Folder) -> bool:
    """Whether reading costs so much that everyone should read only what it needs."""
    return FORCED or not folder.is_local


class Part(NamedTuple):
    """Rows of a segment that lie together: their hashes from `first` to `last`, of which only the
    leading bits count, and which bytes of the file they are. If all have one hash, it may be known
    as their `key`."""

    first: int
    last: int
    rows: int
    offset: int
    bytes: int
    crc32: int
    key: int = -1

    def touches(self, ranges: Sequence[Range]) -> bool:
        if self.key >= 0:
            return any(low <= self.key <= high for low, high in ranges)
        drop = 64 - PREFIX_BITS
        return any(low >> drop <= self.last and high >> drop >= self.first for low, high in ranges)


@lru_cache(maxsize=8)
def _cell_ends(cells: int) -> npt.NDArray[np.uint64]:
    return np.array([-(-((cell + 1) << 64) // cells) - 1 for cell in range(cells)], np.uint64)


def cuts_of(
    hashes: npt.NDArray[np.uint64], size: int, cells: int, apart: Sequence[int] = ()
) -> list[tuple[int, int]]:
    """Where sorted rows of so many bytes are cut: at borders of cells, as soon as a part is large
    enough, and wherever cells without rows lie between. Hashes with many rows, and those of some
    keys that are worked on `apart`, are parts of their own: what lies beside may be others'."""
    least = max(1, PART_BYTES_MIN * len(hashes) // max(size, 1))
    cuts = _cuts_by_cell(hashes, least, cells)
    many = _with_many_rows(hashes, least)
    borders = {end for cut in cuts for end in cut}.union(
        *(_around(hashes, k) for k in (*many, *apart))
    )
    return list(pairwise(sorted(borders)))


def _with_many_rows(hashes: npt.NDArray[np.uint64], least: int) -> list[int]:
    """Of sorted hashes, those with at least so many rows; the first ones with most."""
    begins = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
    lengths = np.diff(np.append(begins, len(hashes)))
    many = np.flatnonzero(lengths >= least)
    found: list[int] = hashes[begins[many[np.argsort(-lengths[many])[:KEYS_APART]]]].tolist()
    return found


def _around(hashes: npt.NDArray[np.uint64], key: int) -> list[int]:
    """Where the rows of a hash begin and end, and those of the hashes that parts cannot tell from
    it; nothing if there are none."""
    drop = 64 - PREFIX_BITS
    alike = key >> drop << drop, ((key >> drop) + 1 << drop) - 1
    first, begin = (int(np.searchsorted(hashes, np.uint64(h), "left")) for h in (alike[0], key))
    end, last = (int(np.searchsorted(hashes, np.uint64(h), "right")) for h in (key, alike[1]))
    return [first, begin, end, last] if end > begin else []


def _cuts_by_cell(hashes: npt.NDArray[np.uint64], least: int, cells: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    begin = before = 0
    for end in np.searchsorted(hashes, _cell_ends(cells), side="right").tolist():
        if before > begin and (end == before or before - begin >= least):
            found.append((begin, before))
            begin = before
        before = end
    return [*found, (begin, before)] if before > begin else found


def cuts_at(borders: Sequence[int], rows: int, size: int) -> list[tuple[int, int]]:
    """Where rows of so many bytes are cut whose readers are told apart by some ascending positions:
    there, if what lies before or behind is large enough.

    >>> cuts_at([1, 2, 5000, 5001], rows=10_000, size=PART_BYTES_MIN)
    [(0, 10000)]
    >>> cuts_at([1, 2, 5000, 5001], rows=10_000, size=4 * PART_BYTES_MIN)
    [(0, 2), (2, 5000), (5000, 5001), (5001, 10000)]
    """
    least = max(1, PART_BYTES_MIN * rows // max(size, 1))
    inside = [border for border in borders if 0 < border < rows]
    found: list[tuple[int, int]] = []
    begin = 0
    for border, after in pairwise([*inside, rows]):
        if border > begin and max(border - begin, after - border) >= least:
            found.append((begin, border))
            begin = border
    return [*found, (begin, rows)]


def write_parts(
    batch: pa.RecordBatch, hashes: npt.NDArray[np.uint64], cuts: Sequence[tuple[int, int]]
) -> tuple[pa.Buffer, tuple[Part, ...]]:
    """A file of a record batch per part, and where each is."""
    sink, found = pa.BufferOutputStream(), []
    drop = np.uint64(64 - PREFIX_BITS)
    with pa.ipc.new_file(sink, batch.schema) as writer:
        for begin, end in cuts:
            rows = batch.slice(begin, end - begin)
            writer.write_batch(rows)
            size = pa.ipc.get_record_batch_size(rows)
            mine = hashes[begin:end]
            low, high = mine.min(), mine.max()
            key = int(low) if low == high else -1
            ends = int(low >> drop), int(high >> drop)
            found.append(Part(*ends, len(rows), sink.tell() - size, size, 0, key))
    data = sink.getvalue()
    sums = [zlib.crc32(data.slice(p.offset, p.bytes)) for p in found]
    return data, tuple(p._replace(crc32=s) for p, s in zip(found, sums, strict=True))


def neighbours(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts put together that lie next to one another in the file: one request each."""
    found: list[list[Part]] = []
    for part in parts:
        if found and found[-1][-1].offset + found[-1][-1].bytes == part.offset:
            found[-1].append(part)
        else:
            found.append([part])
    return found
