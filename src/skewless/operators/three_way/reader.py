"""Where an instance finds the rows of a batch: new and old, of each stream, in each order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.types import Ints
from skewless.operators.three_way.bindings import Bound, StoredRun
from skewless.operators.three_way.packs import PackKind, kinds_of
from skewless.operators.three_way.portions import WHOLE, Share, counted, cut
from skewless.operators.three_way.spec import STREAMS, Edge, Hop, Tally, ThreePlan, ThreeSpec
from skewless.state.cache import SegmentCache
from skewless.state.files import Folder
from skewless.state.segments import Rows, SegmentInfo

A_LOOK = 1000  # to look into a run costs as much as so many of its rows
FEW_ROWS = 5000  # merging so many with a run costs as much as taking columns of what is found there


def layout_of(spec: ThreeSpec) -> dict[str, tuple[pa.Schema, int]]:
    """The columns of every side's segments, and which of them has the time they are sorted by."""
    rows = {
        spec.side_name(x, edge): (spec.streams[x].schema, spec.streams[x].time)
        for x in STREAMS
        for edge in spec.edges_of(x)
    }
    packs = {k.name: (k.schema(spec), spec.streams[k.hub].time) for k in kinds_of(spec)}
    return rows | packs


@dataclass(frozen=True)
class Meeting:
    """New rows, and the runs in which they look for partners: an instance's part of the rows, or,
    where rows are few, all of them and a `share` of the pairs that are found."""

    rows: list[Bound]
    runs: list[StoredRun]
    share: Share

    def note(self, tally: Tally) -> None:
        """Count the rows, each in one instance only."""
        rows = sum(map(len, self.rows))
        tally.rows += counted(rows, self.share)
        if self.share != WHOLE:
            tally.shipped += rows


class Shelf:
    """The segments of a batch, mapped into memory when they are asked for."""

    def __init__(self, spec: ThreeSpec, plan: ThreePlan, cache: SegmentCache) -> None:
        self._spec, self._plan, self._cache = spec, plan, cache
        self._folder, self._layout = Folder(plan.root), layout_of(spec)

    def rows(self, segment: SegmentInfo) -> Rows:
        return self._cache.rows(self._folder, segment, self._layout[segment.side][1])

    def stored(
        self, stream: int, edge: Edge, *, with_new: bool, share: Share = WHOLE
    ) -> list[StoredRun]:
        """The runs in which partners of a stream are found along an edge."""
        return self._runs(self._stored(stream, edge, with_new=with_new), share)

    def _stored(self, stream: int, edge: Edge, *, with_new: bool) -> list[SegmentInfo]:
        side = self._spec.side_name(stream, edge)
        segments = [s for s in self._plan.old if s.side == side]
        if with_new:
            segments += self._arrived(side)
        return segments

    def _arrived(self, side: str) -> list[SegmentInfo]:
        return [r.segment for r in self._plan.new if r.segment.side == side]

    def packs(self, kind: PackKind, share: Share = WHOLE) -> list[StoredRun]:
        return self._runs(self._packs(kind), share)

    def _packs(self, kind: PackKind) -> list[SegmentInfo]:
        return [s for s in self._plan.old if s.side == kind.name]

    def meeting(self, hop: Hop, *, with_new: bool, share: Share) -> Meeting:
        """An instance's share of new rows meeting rows of another stream."""
        new, to = hop
        edge = self._spec.edge(new, to)
        assert edge is not None
        return self._meeting(new, edge, self._stored(to, edge, with_new=with_new), share)

    def meeting_packs(self, kind: PackKind, *, share: Share) -> Meeting:
        """An instance's share of new rows meeting packs that wait for them."""
        return self._meeting(kind.third, kind.edge(self._spec), self._packs(kind), share)

    def _meeting(self, new: int, edge: Edge, segments: list[SegmentInfo], share: Share) -> Meeting:
        arrived = sum(s.rows for s in self._arrived(self._spec.side_name(new, edge)))
        dealt = arrived > FEW_ROWS
        rows = self.new_rows(new, edge, *(share if dealt else WHOLE))
        return Meeting(list(rows), self._runs(segments, WHOLE), WHOLE if dealt else share)

    def _runs(self, segments: list[SegmentInfo], share: Share) -> list[StoredRun]:
        """A share of some segments."""
        mine = []
        for number, begin, end in cut(share, [s.rows for s in segments], A_LOOK):
            run = self._run(segments[number])
            mine.append(run if end - begin == len(run) else run.slice(begin, end))
        return mine

    def _run(self, segment: SegmentInfo) -> StoredRun:
        rows = self.rows(segment)
        return StoredRun(rows.hashes, rows.times, rows.columns, segment.floor_us)

    def fresh_pairs(self, kind: PackKind) -> list[StoredRun]:
        """Pairs that an earlier step of this batch has made."""
        return self._runs([s for s in self._plan.pairs if s.side == kind.name], WHOLE)

    def new_rows(self, stream: int, edge: Edge, part: int, parts: int) -> Iterator[Bound]:
        """Every `parts`-th new row of a stream that did not come too late. Dealt like cards: a hot
        key's rows are neighbours here, so that everybody gets some of them."""
        side = self._spec.side_name(stream, edge)
        for ref in self._plan.new:
            if ref.segment.side != side:
                continue
            rows = self.rows(ref.segment)
            mine = np.arange(part, len(rows), parts)
            mine = mine[rows.times[mine] >= self._plan.watermark_us]
            if len(mine):
                yield _bound(stream, rows, mine)

    def late_rows(self, stream: int) -> int:
        """How many new rows of a stream came too late."""
        side = self._spec.side_name(stream, self._spec.edges_of(stream)[0])
        refs = [ref for ref in self._plan.new if ref.segment.side == side]
        return sum(
            int((self.rows(ref.segment).times < self._plan.watermark_us).sum()) for ref in refs
        )


def _bound(stream: int, rows: Rows, mine: Ints) -> Bound:
    if len(mine) == len(rows):
        return Bound({stream: rows.columns}, {stream: rows.times})
    taken = pa.array(mine)
    return Bound({stream: [c.take(taken) for c in rows.columns]}, {stream: rows.times[mine]})
