"""Which segments to put together, so that a probe meets few of them.

Fresh segments are level 0. When a side has `FAN_IN` generations of a level, their rows are written
anew by the instances, as one generation of the next level. A row is rewritten once per
level, and the number of generations grows with the logarithm of the state.
"""

from __future__ import annotations

from collections import defaultdict

from skewless.state.segments import SegmentInfo

FAN_IN = 8
GENERATION_ROWS_MAX = 16_000_000  # larger ones stay: rewriting them would stall a batch


def choose_compactions(segments: list[SegmentInfo]) -> tuple[tuple[SegmentInfo, ...], ...]:
    """Groups of segments to be rewritten in the next batch, at most one per side: the lowest level
    that is due, so that a batch is never burdened with two."""
    sides = sorted({segment.side for segment in segments})
    return tuple(group for side in sides if (group := _due(segments, side)))


def _due(segments: list[SegmentInfo], side: str) -> tuple[SegmentInfo, ...]:
    generations: dict[int, dict[int, list[SegmentInfo]]] = defaultdict(lambda: defaultdict(list))
    for segment in segments:
        if segment.side == side:
            generations[segment.level][segment.batch_id].append(segment)
    for level in sorted(generations):
        small = [
            members
            for members in generations[level].values()
            if sum(s.rows for s in members) * FAN_IN <= GENERATION_ROWS_MAX
        ]
        if len(small) >= FAN_IN:
            return tuple(segment for members in small for segment in members)
    return ()


def expired(segment: SegmentInfo, keep_after_us: int) -> bool:
    """Whether no row of a segment can meet a row to come."""
    return segment.time_max_us < keep_after_us
