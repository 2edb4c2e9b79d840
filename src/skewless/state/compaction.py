"""Which segments to put together, so that a probe meets few of them.

Fresh segments are level 0. When a side has `FAN_IN` generations of a level, their rows are written
anew by the instances, as one generation of the next level. A row is rewritten once per
level, and the number of generations grows with the logarithm of the state.

However much that is, no batch has to wait for it: a large group is written in portions, one a
batch. It may take as many batches as it took to fill the group, so that a batch rewrites
no more rows of a level than it brings, or `PORTION_ROWS` per instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skewless.arrays.types import HASH_MAX
from skewless.state.segment_set import Rewriting, SegmentSet
from skewless.state.segments import SegmentInfo
from skewless.state.shares import Share, even_shares

FAN_IN = 8
PORTION_ROWS, PORTION_BYTES = 2_000_000, 256 << 20  # per instance and batch
# A generation in small pieces costs every later batch more, as each is looked into.
PIECE_ROWS_MIN, PIECE_BYTES_MIN = 100_000, 16 << 20
GENERATIONS_MAX = 16  # that are put together at once, if they had to wait
GENERATIONS_MIN = 2  # if there are so many segments that tasks cannot be told of more
GROUP_SEGMENTS_MAX = 4096  # that tasks are told of


@dataclass(frozen=True)
class Portion:
    """What a batch is to do of a rewriting, and the segments that are put together."""

    rewriting: Rewriting
    segments: tuple[SegmentInfo, ...]

    @property
    def pieces(self) -> range:
        done = self.rewriting.done
        return range(done, min(done + self.rewriting.at_a_time, self.rewriting.pieces))

    @property
    def ranges(self) -> tuple[Share, ...]:
        """The pieces, where they are told by hashes."""
        return self.rewriting.ranges[self.pieces.start : self.pieces.stop]

    @property
    def told(self) -> Portion:
        """The same for tasks, with those segments only that can have rows of it."""
        if not self.ranges:
            return self
        low = min(share.hash_min for share in self.ranges)
        high = max(share.hash_max for share in self.ranges)
        return replace(self, segments=tuple(s for s in self.segments if s.touches(low, high)))

    @property
    def rows(self) -> int:
        """About how many rows that is."""
        return sum(s.rows for s in self.segments) * len(self.pieces) // self.rewriting.pieces

    def after(self, written: Sequence[SegmentInfo]) -> Rewriting:
        """The rewriting when this is done."""
        before = self.rewriting
        mine = [s for s in written if (s.side, s.level) == (before.side, before.level + 1)]
        return replace(before, done=self.pieces.stop, written=before.written.added(mine))


def choose_compactions(
    segments: SegmentSet, instances: int, *, by_hash: bool = False
) -> tuple[Portion, ...]:
    """What the next batch is to rewrite: what is under way is gone on with. Of what is due at
    several levels of a side, the lowest begins, so that a batch is seldom burdened with two. What
    is begun `by_hash` is done in pieces that all instances have a share of, each of what it works
    on; else each piece is one instance's."""
    under_way = {r.key: r for r in segments.under_way}
    found = [
        _portion(r, tuple(segments.of_generations(r.side, r.level, r.batch_ids)))
        for r in under_way.values()
    ]
    begun: set[str] = set()
    for (side, level), most in sorted(segments.levels().items()):
        if (side, level) not in under_way and side not in begun and most >= FAN_IN:
            portion = _begun(segments, side, level, instances, by_hash=by_hash)
            if portion is not None:
                found.append(portion)
                begun.add(side)
    return tuple(found)


def _begun(
    segments: SegmentSet, side: str, level: int, instances: int, *, by_hash: bool
) -> Portion | None:
    """The first portion of the oldest generations of a level, if they are enough."""
    batch_ids = tuple(segments.generations(side, level, GENERATIONS_MAX))
    if len(batch_ids) < FAN_IN:
        return None
    group = tuple(segments.of_generations(side, level, batch_ids))
    while _most_told(group, by_hash=by_hash) > GROUP_SEGMENTS_MAX:
        batch_ids = batch_ids[: min(FAN_IN, len(batch_ids) - 1)]
        if len(batch_ids) < GENERATIONS_MIN:
            return None
        group = tuple(segments.of_generations(side, level, batch_ids))
    rows, size = sum(s.rows for s in group), sum(s.bytes for s in group)
    needed = -(-max(rows / PORTION_ROWS, size / PORTION_BYTES) // instances)
    portions = int(min(max(needed, 1), FAN_IN ** (level + 1)))
    if by_hash:
        portions = max(portions, _ways_told(group))
        ranges = even_shares(group, portions)
        pieces, at_a_time = len(ranges), -(-len(ranges) // portions)
        begun = Rewriting(side, level, batch_ids, pieces, at_a_time, 0, SegmentSet(), ranges)
        return _portion(begun, group)
    wanted = max(1, rows // portions // PIECE_ROWS_MIN, size // portions // PIECE_BYTES_MIN)
    at_a_time = min(instances, wanted)
    pieces = portions * at_a_time
    return _portion(Rewriting(side, level, batch_ids, pieces, at_a_time, 0, SegmentSet()), group)


def _portion(rewriting: Rewriting, group: tuple[SegmentInfo, ...]) -> Portion:
    """What is to be done next. If it is cut by rows, then by those of the largest segment."""
    if not rewriting.ranges and not rewriting.cut_by:
        rewriting = replace(rewriting, cut_by=max(group, key=lambda s: s.rows).name)
    return Portion(rewriting, group)


def _ways_told(group: Sequence[SegmentInfo]) -> int:
    """Over how many portions by hash a group is told, half as much in each as tasks may be told."""
    return -(-2 * len(group) // GROUP_SEGMENTS_MAX) if len(group) > GROUP_SEGMENTS_MAX else 1


def _most_told(group: Sequence[SegmentInfo], *, by_hash: bool) -> float:
    """Of about how many segments tasks are told at once. By hash, of its own those of a portion,
    besides those that lie across portions: what is exchanged has narrow ranges of hashes."""
    if not by_hash or len(group) <= GROUP_SEGMENTS_MAX:
        return len(group)
    across = sum((s.hash_max - s.hash_min) / HASH_MAX for s in group)
    return GROUP_SEGMENTS_MAX / 2 + across


def expired(segment: SegmentInfo, keep_after_us: int) -> bool:
    """Whether no row of a segment can meet a row to come."""
    return segment.time_max_us < keep_after_us
