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
from skewless.state.shares import Share, Shares
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
class Compaction:
    """Groups of segments that are to be one each, and what a batch is to do of it. Rows before
    `keep_after_us` of their side are left out. `merge` puts rows together; by default they are laid
    in order, none is lost. With `shares`, every instance rewrites what it works on of each piece
    that is told by hashes: `shares[i]` is that of instance i."""

    portions: tuple[Portion, ...]
    layouts: Mapping[str, Layout]
    keep_after_us: Mapping[str, int]
    merge: Merge | None = None
    shares: Shares | None = None

    def reads(self, instance: int) -> dict[str, list[Range]]:
        """The ranges of hashes that an instance has to read of every side; none said: of all."""
        found: dict[str, list[Range]] = {}
        for portion in (p for p in self.portions if self.is_shared(p)):
            ranges = [piece.read_for(s) for s in self.of(instance) for piece in portion.ranges]
            found.setdefault(portion.rewriting.side, []).extend(r for r in ranges if r is not None)
        for portion in (p for p in self.portions if not self.is_shared(p)):
            found.pop(portion.rewriting.side, None)
        return found

    def is_shared(self, portion: Portion) -> bool:
        """Whether every instance rewrites its own of each piece; else each piece is one's."""
        return self.shares is not None and bool(portion.ranges)

    def of(self, instance: int) -> tuple[Share, ...]:
        assert self.shares is not None
        return self.shares[instance]


Reader = Callable[[SegmentInfo], Rows]


def rewrite(
    folder: Folder, compaction: Compaction, share: tuple[int, int], batch_id: int, read: Reader
) -> Iterator[SegmentInfo]:
    """Rewrite what falls to an instance, number i of n, of some groups of segments; leave out what
    is late or expired. The sources stay as they are until a commit no longer lists them."""
    for group, sources in _to_rewrite(compaction, share, read):
        if not group:
            continue  # nothing has rows of this piece
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
) -> Iterator[tuple[Portion, int]]:
    """What an instance takes part in rewriting, and which pieces are its own: those of a large
    group are for all instances, those of small ones each for others."""
    instance, instances = share
    for number, portion in enumerate(portions):
        for piece in portion.pieces:
            if (piece + number) % instances == instance:
                yield portion, piece


Source = tuple[SegmentInfo, Rows]


def _to_rewrite(
    compaction: Compaction, share: tuple[int, int], read: Reader
) -> Iterator[tuple[Sequence[SegmentInfo], list[Source]]]:
    """What an instance has to rewrite: of every group, which rows of which segments."""
    for portion in (p for p in compaction.portions if compaction.is_shared(p)):
        mine, group = compaction.of(share[0]), portion.segments
        for piece in portion.ranges:
            parts = [(s, piece.of(read(s))) for s in group]
            yield group, [(s, own.of(rows)) for s, rows in parts for own in mine]
    others = tuple(p for p in compaction.portions if not compaction.is_shared(p))
    for portion, number in pieces_for(others, share):
        yield portion.segments, _piece(portion, number, read)


def _piece(portion: Portion, number: int, read: Reader) -> list[Source]:
    """A piece of a rewriting: rows of some hashes, or between two rows of one source."""
    rewriting, sources = portion.rewriting, [read(segment) for segment in portion.segments]
    if rewriting.ranges:
        mine = [rewriting.ranges[number].of(rows) for rows in sources]
    else:
        by = [segment.name for segment in portion.segments].index(rewriting.cut_by)
        ends = shares_of(sources, sources[by], number, rewriting.pieces)
        mine = [rows.slice(*at) for rows, at in zip(sources, ends, strict=True)]
    return list(zip(portion.segments, mine, strict=True))


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


def shares_of(sources: list[Rows], by: Rows, share: int, shares: int) -> list[tuple[int, int]]:
    """The range of each source that is in a share: what lies between two rows of one of them, by
    hash and time. By the largest, work is even even where one key is most of the state."""
    return [
        (_position(rows, by, share, shares), _position(rows, by, share + 1, shares))
        for rows in sources
    ]


def _position(rows: Rows, by: Rows, share: int, shares: int) -> int:
    """Where in some rows the share of that number begins."""
    if share == 0:
        return 0
    if share == shares:
        return len(rows)
    at = len(by) * share // shares
    return position(rows, by.hashes[at], by.times[at])
