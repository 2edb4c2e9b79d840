"""An instance's share of a compaction: its rows of some segments, written anew as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from skewless import failpoints
from skewless.arrays.columns import Columns, gathered
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, frozen
from skewless.state.compaction import Portion
from skewless.state.files import Folder
from skewless.state.parts import Range
from skewless.state.segments import Rows, SegmentInfo, write_segment
from skewless.state.turns import in_turn, position, too_many


class Merge(Protocol):
    """How rows of one side become fewer: rows as (hash, time, columns), sorted anew or not. Those
    of one hash and time are put together at once."""

    def __call__(self, parts: list[Rows]) -> Rows: ...


@dataclass(frozen=True)
class Layout:
    """What the segments of a side look like: their columns, and which of them is the time."""

    schema: pa.Schema
    time_index: int | None


@dataclass(frozen=True)
class Share:
    """Rows that an instance rewrites: those in a range of hashes or, if several share it, part
    number `part` of `parts` of each segment's rows there, by where they lie."""

    hash_min: int
    hash_max: int
    part: int = 0
    parts: int = 1

    def of(self, rows: Rows) -> Rows:
        low, high = np.uint64(self.hash_min), np.uint64(self.hash_max)
        begin = int(np.searchsorted(rows.hashes, low, "left"))
        length = int(np.searchsorted(rows.hashes, high, "right")) - begin
        first, after = (length * p // self.parts for p in (self.part, self.part + 1))
        return rows.slice(begin + first, begin + after)


Shares = tuple[tuple[Share, ...], ...]  # of every instance


@dataclass(frozen=True)
class Compaction:
    """Groups of segments that are to be one each, and what a batch is to do of it. Rows before
    `keep_after_us` of their side are left out. `merge` puts rows together; by default they are laid
    in order, none is lost. With `shares`, every instance rewrites what it works on, at once:
    `shares[i]` is that of instance i."""

    portions: tuple[Portion, ...]
    layouts: Mapping[str, Layout]
    keep_after_us: Mapping[str, int]
    merge: Merge | None = None
    shares: Shares | None = None

    def reads(self, instance: int) -> dict[str, list[Range]]:
        """The ranges of hashes that an instance has to read of every side; none said: of all."""
        if self.shares is None:
            return {}
        ranges = [(share.hash_min, share.hash_max) for share in self.shares[instance]]
        return {portion.rewriting.side: ranges for portion in self.portions}


Reader = Callable[[SegmentInfo], Rows]


def rewrite(
    folder: Folder, compaction: Compaction, share: tuple[int, int], batch_id: int, read: Reader
) -> Iterator[SegmentInfo]:
    """Rewrite what falls to an instance, number i of n, of some groups of segments; leave out what
    is late or expired. The sources stay as they are until a commit no longer lists them."""
    for group, sources in _to_rewrite(compaction, share, read):
        side, kind = group[0].side, group[0].kind
        alive = _alive_rows(sources, compaction.keep_after_us[side])
        for piece in put_together(alive, compaction.merge):
            yield write_segment(
                folder,
                side,
                compaction.layouts[side].schema,
                piece,
                floor_us=-FAR_US,
                level=max(s.level for s in group) + 1,
                batch_id=batch_id,
                kind=kind,
            )
            failpoints.hit("compaction.written", folder.root, batch_id)


def pieces_for(
    portions: Sequence[Portion], share: tuple[int, int]
) -> Iterator[tuple[Sequence[SegmentInfo], tuple[int, int]]]:
    """The groups that an instance takes part in rewriting, and which pieces of how many are its
    own: those of a large group are for all instances, those of small ones each for others."""
    instance, instances = share
    for number, portion in enumerate(portions):
        for piece in portion.pieces:
            if (piece + number) % instances == instance:
                yield portion.segments, (piece, portion.rewriting.pieces)


Source = tuple[SegmentInfo, Rows]


def _to_rewrite(
    compaction: Compaction, share: tuple[int, int], read: Reader
) -> Iterator[tuple[Sequence[SegmentInfo], list[Source]]]:
    """What an instance has to rewrite: of every group, which rows of which segments."""
    if compaction.shares is not None:
        for group in (portion.segments for portion in compaction.portions):
            mine = compaction.shares[share[0]]
            yield group, [(s, of.of(rows)) for s in group for rows in [read(s)] for of in mine]
        return
    for some, piece_of in pieces_for(compaction.portions, share):
        sources = [read(segment) for segment in some]
        parts = zip(some, sources, shares_of(sources, *piece_of), strict=True)
        yield some, [(segment, rows.slice(*ends)) for segment, rows, ends in parts]


def _alive_rows(sources: Sequence[Source], keep_after_us: int) -> Iterator[list[Rows]]:
    """What is kept of the segments, a range of hashes and times after the other."""
    mine = [rows for _, rows in sources]
    since = [max(segment.floor_us, keep_after_us) for segment, _ in sources]
    for ranges in in_turn(mine):
        parts = zip(mine, ranges, since, strict=True)
        kept = [rows.slice(at.start, at.stop).at_or_after(us) for rows, at, us in parts]
        yield [rows for rows in kept if len(rows)]


def put_together(parts: Iterable[list[Rows]], merge: Merge | None = None) -> Iterator[Rows]:
    """Rows of one range after the other as few segments."""
    for ranges in gathered(parts, bytes_of=lambda some: sum(rows.nbytes for rows in some)):
        some = [rows for of_range in ranges for rows in of_range]
        if merge is None and too_many(some):
            found = some  # all of one hash and time, in any order
        else:
            found = [(merge or in_order)(some)] if some else []
        for rows in found:
            yield from rows.pieces()


def in_order(parts: list[Rows]) -> Rows:
    """All rows, by hash and time."""
    hashes = np.concatenate([rows.hashes for rows in parts])
    times = np.concatenate([rows.times for rows in parts])
    order = sort_order(frozen(hashes), frozen(times))
    columns = Columns.concat([rows.columns for rows in parts]).take(order)
    return Rows(hashes[order], times[order], columns)


def shares_of(sources: list[Rows], instance: int, instances: int) -> list[tuple[int, int]]:
    """The range of each source that falls to an instance: what lies between two rows of the largest
    source, by hash and time. So work is even even where one key is most of the state."""
    largest = max(sources, key=len)
    return [
        (
            _position(rows, largest, instance, instances),
            _position(rows, largest, instance + 1, instances),
        )
        for rows in sources
    ]


def _position(rows: Rows, largest: Rows, share: int, shares: int) -> int:
    """Where in some rows the share of that number begins."""
    if share == 0:
        return 0
    if share == shares:
        return len(rows)
    at = len(largest) * share // shares
    return position(rows, largest.hashes[at], largest.times[at])
