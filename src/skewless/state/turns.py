"""Sorted rows of several segments, a range at a time: what is put together must not be too much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from skewless.arrays import columns
from skewless.arrays.types import UInts
from skewless.state.segments import Rows


def too_many(parts: Sequence[Rows]) -> bool:
    """Whether these rows are more than may be put together."""
    return sum(rows.nbytes for rows in parts if len(rows)) > columns.PIECE_BYTES


def in_turn(parts: Sequence[Rows], *, by_hash: bool = False) -> Iterator[list[slice]]:
    """Ranges of rows sorted by (hash, time), one after the other, with what each part has of a
    range. Rows of one hash and time stay together or, `by_hash`, all rows of one hash: only they
    may be too many."""
    yield from _halved(parts, [slice(0, len(rows)) for rows in parts], by_hash)


def _halved(parts: Sequence[Rows], mine: list[slice], by_hash: bool) -> Iterator[list[slice]]:
    some = [rows.slice(at.start, at.stop) for rows, at in zip(parts, mine, strict=True)]
    if too_many(some):
        # Before the middle row of the largest part, or behind it: one of these moves something,
        # unless all rows are like that one.
        largest = max((rows for rows in some if len(rows)), key=lambda rows: rows.nbytes)
        middle = len(largest) // 2
        where = largest.hashes[middle], None if by_hash else largest.times[middle]
        for side in ("left", "right"):
            cuts = [
                at.start + position(rows, *where, side) for rows, at in zip(some, mine, strict=True)
            ]
            low = [slice(at.start, cut) for at, cut in zip(mine, cuts, strict=True)]
            high = [slice(cut, at.stop) for at, cut in zip(mine, cuts, strict=True)]
            if mine not in (low, high):
                yield from _halved(parts, low, by_hash)
                yield from _halved(parts, high, by_hash)
                return
    yield mine


def position(rows: Rows, hash_: UInts, time_us: np.int64 | None, side: str = "left") -> int:
    """Where rows of a hash, and of a time if one is given, begin, or where they end."""
    if time_us is None:
        return int(np.searchsorted(rows.hashes, hash_, side))  # type: ignore[call-overload]
    begin, end = (int(np.searchsorted(rows.hashes, hash_, s)) for s in ("left", "right"))
    return begin + int(np.searchsorted(rows.times[begin:end], time_us, side))  # type: ignore[call-overload]
