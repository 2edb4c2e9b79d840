"""Rows of segments by ranges of hashes: what is rewritten together where fetching costs.

A piece of a rewriting must be the same rows in any batch, whoever works on what by then. So it is
told by hashes and, within a few hashes that have very many rows, by where these lie in files that
do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import HASH_MAX
from skewless.state.parts import CELLS, PREFIX_BITS, Range
from skewless.state.segments import Rows, SegmentInfo

_DROPPED = 64 - PREFIX_BITS  # parts are told apart by the leading bits of hashes


@dataclass(frozen=True)
class Share:
    """Rows in a range of hashes or, if several share it, part number `part` of `parts` of each
    segment's rows there, by where they lie."""

    hash_min: int = 0
    hash_max: int = HASH_MAX
    part: int = 0
    parts: int = 1

    def of(self, rows: Rows) -> Rows:
        low, high = np.uint64(self.hash_min), np.uint64(self.hash_max)
        begin = int(np.searchsorted(rows.hashes, low, "left"))
        length = int(np.searchsorted(rows.hashes, high, "right")) - begin
        first, after = (length * p // self.parts for p in (self.part, self.part + 1))
        return rows.slice(begin + first, begin + after)

    def read_for(self, other: Share) -> Range | None:
        """The range of hashes that has to be read for what of this another share has; None if
        there is nothing. Where rows lie is known of a whole range only."""
        low, high = max(self.hash_min, other.hash_min), min(self.hash_max, other.hash_max)
        if low > high:
            return None
        return (low, high) if self.parts == 1 else (self.hash_min, self.hash_max)


Shares = tuple[tuple[Share, ...], ...]  # of every instance


def even_shares(segments: Sequence[SegmentInfo], pieces: int) -> tuple[Share, ...]:
    """All rows of some segments in about so many pieces of about as many rows."""
    if pieces == 1:
        return (Share(),)
    rows = _rows_by_prefix(segments)
    each = max(rows.sum() / pieces, 1)
    begins = _begins(rows, each)
    rows = np.add.reduceat(rows, begins)
    piece = np.minimum((np.cumsum(rows) - rows / 2) // each, pieces - 1)
    ways = np.maximum(np.rint(rows / each), 1).astype(np.int64)
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (np.diff(piece) > 0) | (ways[1:] > 1) | (ways[:-1] > 1)
    firsts = np.flatnonzero(is_new)
    found: list[Share] = []
    prefixes = [*begins[firsts].tolist(), 1 << PREFIX_BITS]
    for (first, after), parts in zip(pairwise(prefixes), ways[firsts].tolist(), strict=True):
        ends = first << _DROPPED, (after << _DROPPED) - 1
        found += [Share(*ends, part, parts) for part in range(parts)]
    return tuple(found)


def _begins(rows: npt.NDArray[np.float64], each: float) -> npt.NDArray[np.int64]:
    """Where ranges begin that are looked at as one. Segments are cut by cells: if one has many more
    rows than others, and more than a piece, they may be all of one hash; if two neighbours have,
    it may be that of one part."""
    by_cell = rows.reshape(CELLS, -1).sum(axis=1)
    is_hot = by_cell >= 2 * max(each, by_cell.mean())
    is_begin = np.repeat(~is_hot, len(rows) // CELLS)
    is_begin[:: len(rows) // CELLS] |= ~np.append(False, is_hot[:-1])
    return np.flatnonzero(is_begin)


def _rows_by_prefix(segments: Sequence[SegmentInfo]) -> npt.NDArray[np.float64]:
    """About how many rows have hashes that begin with each of the possible bits: those of a part
    are thought to be spread evenly."""
    spread = [(p.first, p.last, p.rows) for s in segments for p in s.parts]
    spread += [
        (s.hash_min >> _DROPPED, s.hash_max >> _DROPPED, s.rows) for s in segments if not s.parts
    ]
    first, last, rows = np.array(spread, np.int64).reshape(-1, 3).T
    each, changes = rows / (last - first + 1), np.zeros((1 << PREFIX_BITS) + 1)
    np.add.at(changes, first, each)
    np.add.at(changes, last + 1, -each)
    found: npt.NDArray[np.float64] = np.maximum(np.cumsum(changes)[:-1], 0)
    return found
