"""Where an instance finds the rows of a batch: new and old, of each stream, in each order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from skewless.joining.kernels import Ints
from skewless.model import SegmentInfo
from skewless.state.files import Folder
from skewless.state.segments import Rows, SegmentCache
from skewless.three_way.bindings import Bound, StoredRun
from skewless.three_way.packs import PackKind, kinds_of
from skewless.three_way.spec import STREAMS, Edge, ThreePlan, ThreeSpec


def layout_of(spec: ThreeSpec) -> dict[str, tuple[pa.Schema, int]]:
    """The columns of every side's segments, and which of them has the time they are sorted by."""
    rows = {
        spec.side_name(x, edge): (spec.streams[x].schema, spec.streams[x].time)
        for x in STREAMS
        for edge in spec.edges_of(x)
    }
    packs = {k.name: (k.schema(spec), spec.streams[k.hub].time) for k in kinds_of(spec)}
    return rows | packs


class Shelf:
    """The segments of a batch, mapped into memory when they are asked for."""

    def __init__(self, spec: ThreeSpec, plan: ThreePlan, cache: SegmentCache) -> None:
        self._spec, self._plan, self._cache = spec, plan, cache
        self._folder, self._layout = Folder(plan.root), layout_of(spec)

    def rows(self, segment: SegmentInfo) -> Rows:
        return self._cache.rows(self._folder, segment, self._layout[segment.side][1])

    def stored(self, stream: int, edge: Edge, *, with_new: bool) -> list[StoredRun]:
        """The runs in which partners of a stream are found along an edge."""
        side = self._spec.side_name(stream, edge)
        segments = [s for s in self._plan.old if s.side == side]
        if with_new:
            segments += [r.segment for r in self._plan.new if r.segment.side == side]
        return [self._run(segment) for segment in segments]

    def _run(self, segment: SegmentInfo) -> StoredRun:
        rows = self.rows(segment)
        return StoredRun(rows.hashes, rows.times, rows.columns, segment.floor_us)

    def packs(self, kind: PackKind) -> list[StoredRun]:
        return [self._run(s) for s in self._plan.old if s.side == kind.name]

    def fresh_pairs(self, kind: PackKind) -> list[StoredRun]:
        """Pairs that an earlier step of this batch has made."""
        return [self._run(s) for s in self._plan.pairs if s.side == kind.name]

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
    taken = pa.array(mine)
    return Bound({stream: [c.take(taken) for c in rows.columns]}, {stream: rows.times[mine]})
