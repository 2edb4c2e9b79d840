"""In which times stored rows lie that a batch has to look at.

Much of what is kept for late rows is further away from the rows of a batch than the bounds of the
join. It is not looked at; where fetching costs, it is not fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skewless.arrays.types import SIDES, Side, other_side
from skewless.operators.pair import JoinSpec, keyless
from skewless.state.segments import SegmentInfo

Span = tuple[int, int]  # the first time and the last


@dataclass(frozen=True)
class Reach:
    """The times of the stored rows of which a batch may need some."""

    spans: Mapping[str, Sequence[Span]]  # by what rows are stored as

    @staticmethod
    def of(
        spec: JoinSpec,
        new: Mapping[Side, Sequence[SegmentInfo]],
        decided_us: Mapping[str, tuple[int, int]],
    ) -> Reach:
        """What the new rows of each side may meet, and the rows that are decided about."""
        spans: dict[str, list[Span]] = {side: [] for side in SIDES}
        for side in SIDES:
            other, arrived = other_side(side), _span_of(new[side])
            if arrived is not None:
                met = _partners_span(spec, side, arrived)
                spans[other].append(met)
                if other in spec.how.first_met:  # had they met before?
                    spans[side].append(_partners_span(spec, other, met))
            if side in decided_us and side not in spec.how.first_met:
                spans[side].append(decided_us[side])
                spans[keyless(side)] = [decided_us[side]]
                # New rows among them have their partners in reach already.
                spans[other].append(_partners_span(spec, side, decided_us[side]))
        return Reach(spans)

    def has(self, stored: SegmentInfo) -> bool:
        """Whether a segment may have such rows."""
        return any(
            stored.time_max_us >= since and stored.time_min_us <= until
            for since, until in self.spans.get(stored.side, ())
        )


def _span_of(new: Sequence[SegmentInfo]) -> Span | None:
    """Of new rows that are not late."""
    if not new:
        return None
    since = min(max(segment.time_min_us, segment.floor_us) for segment in new)
    return since, max(segment.time_max_us for segment in new)


def _partners_span(spec: JoinSpec, side: Side, times: Span) -> Span:
    """In which times partners of a side's rows lie."""
    lower_us, upper_us = spec.partner_bounds(side)
    return times[0] + lower_us, times[1] + upper_us
