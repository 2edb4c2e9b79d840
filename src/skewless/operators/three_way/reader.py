"""Where an instance finds the rows of a batch: new and old, of each stream, in each order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from skewless.arrays.types import Ints
from skewless.engine.operator import RunRef
from skewless.operators.three_way.bindings import Bound, StoredRun
from skewless.operators.three_way.packs import PackKind
from skewless.operators.three_way.portions import EVERYTHING, WHOLE, Part, Share, counted, cut
from skewless.operators.three_way.spec import Edge, Hop, ThreeSpec
from skewless.operators.three_way.tally import Tally
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import Rows, SegmentInfo

RUN_COST = 1000  # to open a run costs as much as so many of its rows
FEW_ROWS = 5000  # merging so many with a run costs as much as taking columns of what is found there


@dataclass(frozen=True)
class BatchSegments:
    """What the instances can read in a batch: new rows, what earlier batches have stored, and pairs
    that an earlier step of this batch has `made`."""

    new: tuple[RunRef, ...]
    old: SegmentSet
    made: tuple[SegmentInfo, ...] = ()

    def new_of(self, side: str) -> list[SegmentInfo]:
        return [run.segment for run in self.new if run.segment.side == side]

    def old_of(self, side: str) -> list[SegmentInfo]:
        return self.old.of_side(side)

    def made_of(self, side: str) -> list[SegmentInfo]:
        return [s for s in self.made if s.side == side]


@dataclass(frozen=True)
class ProbeInput:
    """New rows, and the runs in which they look for partners: an instance's part of the rows, or,
    where rows are few, all of them and a `share` of the pairs that are found."""

    rows: list[Bound]
    runs: list[StoredRun]
    share: Share

    def count(self, tally: Tally) -> None:
        """Count the rows, each in one instance only."""
        rows = sum(map(len, self.rows))
        tally.rows += counted(rows, self.share)
        if self.share != WHOLE:
            tally.shipped += rows


class SegmentReader:
    """The segments of a batch, mapped into memory when they are asked for."""

    def __init__(
        self, spec: ThreeSpec, segments: BatchSegments, rows: Callable[[SegmentInfo], Rows]
    ) -> None:
        self._spec, self._segments, self._rows = spec, segments, rows

    def stored(
        self, stream: int, edge: Edge, *, with_new: bool, part: Part = EVERYTHING
    ) -> list[StoredRun]:
        """The runs in which partners of a stream are found along an edge."""
        return self._runs(self._stored(stream, edge, with_new=with_new), part)

    def _stored(self, stream: int, edge: Edge, *, with_new: bool) -> list[SegmentInfo]:
        side = self._spec.side_name(stream, edge)
        new = self._segments.new_of(side) if with_new else []
        return [*self._segments.old_of(side), *new]

    def old_packs(self, kind: PackKind, part: Part) -> list[StoredRun]:
        """Packs of earlier batches."""
        return self._runs(self._segments.old_of(kind.side), part)

    def made_packs(self, kind: PackKind) -> list[StoredRun]:
        """Packs that an earlier step of this batch has made."""
        return self._runs(self._segments.made_of(kind.side))

    def probing(self, hop: Hop, *, with_new: bool, share: Share) -> ProbeInput:
        """An instance's share of new rows that look for rows of another stream."""
        new, to = hop
        edge = self._spec.edge(new, to)
        assert edge is not None
        return self._probing(new, edge, self._stored(to, edge, with_new=with_new), share)

    def probing_packs(self, kind: PackKind, *, share: Share) -> ProbeInput:
        """An instance's share of new rows that look for packs which wait for them."""
        side, segments = kind.side, self._segments
        packs = [*segments.old_of(side), *segments.made_of(side)]
        return self._probing(kind.third, kind.edge(self._spec), packs, share)

    def _probing(
        self, new: int, edge: Edge, segments: list[SegmentInfo], share: Share
    ) -> ProbeInput:
        arrived = sum(s.rows for s in self._segments.new_of(self._spec.side_name(new, edge)))
        dealt = arrived > FEW_ROWS
        rows = self.new_rows(new, edge, share if dealt else WHOLE)
        return ProbeInput(list(rows), self._runs(segments), WHOLE if dealt else share)

    def _runs(self, segments: list[SegmentInfo], part: Part = EVERYTHING) -> list[StoredRun]:
        """A part of some segments. Only what belongs to it is opened."""
        if part.subgroup == WHOLE:
            cuts = cut(part.share, [s.rows for s in segments], RUN_COST)
            return [self._run(segments[number]).slice(*ends) for number, *ends in cuts]
        runs = [self._run(segment).of_subgroup(part.subgroup) for segment in segments]
        cuts = cut(part.share, list(map(len, runs)), RUN_COST)
        return [runs[number].slice(*ends) for number, *ends in cuts]

    def _run(self, segment: SegmentInfo) -> StoredRun:
        rows = self._rows(segment)
        return StoredRun(rows.hashes, rows.times, rows.columns, segment.floor_us)

    def new_rows(self, stream: int, edge: Edge, share: Share = WHOLE) -> Iterator[Bound]:
        """New rows of a stream that did not come too late; a share is dealt like cards: a hot
        key's rows are neighbours here, so that everybody gets some of them."""
        part, parts = share
        for segment in self._segments.new_of(self._spec.side_name(stream, edge)):
            rows = self._rows(segment)
            mine = np.arange(part, len(rows), parts)
            mine = mine[rows.times[mine] >= segment.floor_us]
            if len(mine):
                yield _bound(stream, rows, mine)

    def new_times(self, stream: int) -> Iterator[tuple[Ints, int]]:
        """The times of new rows of a stream, and from where on they are not too late."""
        side = self._spec.side_name(stream, self._spec.edges_of(stream)[0])
        for segment in self._segments.new_of(side):
            if segment.time_min_us < segment.floor_us:
                yield self._rows(segment).times, segment.floor_us


def _bound(stream: int, rows: Rows, mine: Ints) -> Bound:
    if len(mine) == len(rows):
        return Bound({stream: rows.columns}, {stream: rows.times})
    return Bound({stream: rows.columns.take(mine)}, {stream: rows.times[mine]})
