"""In which times stored rows lie that a batch has to look at, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import SIDES, Side, other_side
from skewless.operators.join_type import JOIN_TYPES
from skewless.operators.pair import JoinSpec
from skewless.operators.two_way.reach import Reach
from skewless.state.segments import SegmentInfo
from tests.frame.kits import joined

TIMES = st.lists(st.integers(0, 30), max_size=4)


def segment(side: str, *times: int, floor: int = -100) -> SegmentInfo:
    return SegmentInfo("", side, len(times), 0, 0, 0, 0, min(times), max(times), floor)


@dataclass(frozen=True)
class Batch:
    """What a batch has to do, by its rows' times; rows below the floor are late."""

    spec: JoinSpec
    new: dict[Side, list[int]]
    old: dict[Side, list[int]]
    floor: int
    decided: dict[str, tuple[int, int]]

    def in_time(self, side: Side) -> list[int]:
        return [t for t in self.new[side] if t >= self.floor]

    def are_near(self, side: Side, time: int, partner: int) -> bool:
        left, right = (time, partner) if side == "left" else (partner, time)
        return self.spec.lower_us <= right - left <= self.spec.upper_us

    def partners(self, side: Side, times: list[int]) -> Iterator[tuple[Side, int]]:
        """Stored rows that are near to some of a side."""
        other = other_side(side)
        for partner in self.old[other]:
            if any(self.are_near(side, time, partner) for time in times):
                yield other, partner

    def needed(self) -> Iterator[tuple[Side, int]]:
        how = self.spec.how
        for side in SIDES:
            met = list(self.partners(side, self.in_time(side)))
            yield from met
            if other_side(side) in how.first_met:
                yield from self.partners(other_side(side), [time for _, time in met])
            if side in self.decided and side not in how.first_met:
                since, until = self.decided[side]
                due = [t for t in self.old[side] if since <= t < until]
                yield from ((side, t) for t in due)
                yield from self.partners(side, due + [t for t in self.in_time(side) if t < until])

    def reach(self) -> Reach:
        new = {
            side: [segment(side, *times, floor=self.floor)] if times else []
            for side, times in self.new.items()
        }
        return Reach.of(self.spec, new, self.decided)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    lower, upper = sorted((draw(st.integers(-9, 9)), draw(st.integers(-9, 9))))
    spec = replace(
        joined("a", "b", "a_k", "a_t"),
        lower_us=lower,
        upper_us=upper,
        how=JOIN_TYPES[draw(st.sampled_from(sorted(JOIN_TYPES)))],
    )
    decided = {}
    for side in spec.looked_up:
        since = draw(st.integers(-5, 30))
        decided[str(side)] = since, draw(st.integers(since, 35))
    new, old = ({side: draw(TIMES) for side in SIDES} for _ in range(2))
    return Batch(spec, new, old, draw(st.integers(-5, 20)), decided)


@given(batches())
def test_whatever_is_needed_is_in_reach(batch: Batch) -> None:
    reach = batch.reach()
    for side, time in batch.needed():
        assert reach.has(segment(side, time))
        assert reach.has(segment(side, time - 3, time + 3))


def test_what_is_further_away_is_not() -> None:
    new: dict[Side, list[int]] = {"left": [10], "right": []}
    batch = Batch(joined("a", "b", "a_k", "a_t"), new, {"left": [], "right": []}, 0, {})
    reach = replace(batch, spec=replace(batch.spec, lower_us=-2, upper_us=1)).reach()
    assert [t for t in range(20) if reach.has(segment("right", t))] == [8, 9, 10, 11]
    assert reach.has(segment("right", 0, 20))
    assert not any(reach.has(segment("left", t)) for t in range(20))


def test_rows_without_a_key_are_in_reach_when_they_are_decided_about() -> None:
    none: dict[Side, list[int]] = {"left": [], "right": []}
    spec = replace(joined("a", "b", "a_k", "a_t"), how=JOIN_TYPES["left"])
    reach = Batch(spec, none, none, 0, {"left": (5, 7)}).reach()
    assert [t for t in range(10) if reach.has(segment("left-keyless", t))] == [5, 6, 7]
