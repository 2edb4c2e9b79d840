"""Which segments are put together, and which have expired."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from skewless.arrays.types import HASH_MAX, Side
from skewless.state import compaction
from skewless.state.compaction import choose_compactions, expired
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SegmentInfo

FAN_IN = 3


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", FAN_IN)
    monkeypatch.setattr(compaction, "PORTION_ROWS", 300)
    monkeypatch.setattr(compaction, "PIECE_ROWS_MIN", 100)


def segment(side: Side, level: int, batch_id: int, rows: int = 10, part: int = 0) -> SegmentInfo:
    name = f"{side}-{level}-{batch_id}-{part}"
    return SegmentInfo(name, side, rows, 1, 0, 0, HASH_MAX, 0, 5, 0, level, batch_id)


def names(groups: Iterable[Iterable[SegmentInfo]]) -> list[list[str]]:
    return [sorted(s.name for s in group) for group in groups]


def chosen(segments: list[SegmentInfo], instances: int = 1) -> list[list[SegmentInfo]]:
    return [list(p.segments) for p in choose_compactions(SegmentSet(segments), instances)]


def test_nothing_is_due_of_too_few_generations() -> None:
    assert chosen([]) == []
    few = [segment("left", 0, b, part=p) for b in range(FAN_IN - 1) for p in range(9)]
    assert chosen(few) == []


def test_segments_of_one_batch_are_one_generation() -> None:
    due = [segment("left", 0, b, part=p) for b in range(FAN_IN) for p in range(2)]
    assert names(chosen(due)) == [sorted(s.name for s in due)]


def test_sides_are_put_together_apart() -> None:
    left = [segment("left", 0, b) for b in range(FAN_IN)]
    right = [segment("right", 0, b) for b in range(FAN_IN)]
    assert names(chosen(left + right[1:])) == names([left])
    assert names(chosen(left + right)) == names([left, right])


def test_levels_do_not_mix_and_the_lowest_goes_first() -> None:
    low = [segment("left", 0, b) for b in range(FAN_IN)]
    high = [segment("left", 1, b + 10) for b in range(FAN_IN)]
    assert chosen(low[1:] + high[1:]) == []
    assert names(chosen(high + low)) == names([low])
    assert names(chosen(high + low[1:])) == names([high])


def test_what_waited_goes_along() -> None:
    waiting = [segment("left", 0, b) for b in range(FAN_IN + 2)]
    assert names(chosen(waiting)) == names([waiting])


@pytest.mark.parametrize(
    ("rows", "level", "instances", "pieces", "at_a_time"),
    [
        (10, 0, 4, 1, 1),  # too little to be shared
        (50, 0, 4, 1, 1),
        (100, 0, 4, 3, 3),
        (400, 0, 4, 4, 4),  # as much as a batch does
        (401, 0, 4, 8, 4),
        (801, 0, 4, 12, 4),
        (10**9, 0, 4, 12, 4),  # by then the next ones are due
        (10**9, 1, 4, 36, 4),
    ],
)
def test_large_groups_take_several_batches(
    rows: int, level: int, instances: int, pieces: int, at_a_time: int
) -> None:
    due = [segment("left", level, b, rows) for b in range(FAN_IN)]
    (portion,) = choose_compactions(SegmentSet(due), instances)
    assert (portion.rewriting.pieces, portion.rewriting.at_a_time) == (pieces, at_a_time)
    assert portion.pieces == range(at_a_time)


@pytest.mark.parametrize(
    ("rows", "level", "batches"), [(10, 0, 1), (400, 0, 1), (801, 0, 3), (10**9, 1, FAN_IN**2)]
)
def test_where_fetching_costs_too(rows: int, level: int, batches: int) -> None:
    due = [segment("left", level, b, rows) for b in range(FAN_IN)]
    segments, done = SegmentSet(due), 0
    while segments:
        (portion,) = choose_compactions(segments, instances=4, by_hash=True)
        assert len(portion.ranges) == len(portion.pieces)
        segments = segments.advanced(portion.after([]), batch_id=99)
        done += 1
    assert done == batches


def written(number: int) -> SegmentInfo:
    return segment("left", 1, 70 + number, part=number)


def test_what_is_under_way_is_gone_on_with_and_counts_when_all_is_done() -> None:
    due = [segment("left", 0, b, rows=300) for b in range(FAN_IN)]
    segments = SegmentSet(due)
    for number in range(3):
        (portion,) = choose_compactions(segments, 1)
        assert portion.pieces == range(number, number + 1)
        assert names([portion.segments]) == names([due])
        assert names([segments.of_generations("left", 0, range(FAN_IN))]) == names([due])
        segments = segments.advanced(portion.after([written(number)]), batch_id=99)
        segments = segments.added([segment("left", 0, 50 + number)])
        assert {written(n).name for n in range(number + 1)} <= segments.files
        segments = segments.kept({"left": 6})  # all have expired, but those in use stay
        assert len(segments) == (FAN_IN if number < 2 else 0)
    assert segments.under_way == () and segments.files == set()


def test_what_is_written_in_several_batches_is_one_generation() -> None:
    due = [segment("left", 0, b, rows=300) for b in range(FAN_IN)]
    segments = SegmentSet(due)
    for number in range(3):
        (portion,) = choose_compactions(segments, 1)
        segments = segments.advanced(portion.after([written(number)]), batch_id=90 + number)
    assert names([segments]) == [sorted(written(n).name for n in range(3))]
    assert {(s.level, s.batch_id) for s in segments} == {(1, 92)}


def test_of_too_many_segments_fewer_generations_are_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction, "GROUP_SEGMENTS_MAX", 6)
    few = [segment("left", 0, b, part=p) for b in range(FAN_IN) for p in range(2)]
    assert names(chosen(few)) == names([few])
    later = [segment("left", 0, b + 10) for b in range(FAN_IN)]
    assert names(chosen(few + later)) == names([few]), "the oldest of them"
    more = [*few, segment("left", 0, 0, part=2)]
    assert names(chosen(more)) == names([[s for s in more if s.batch_id < FAN_IN - 1]])
    assert chosen([segment("left", 0, b, part=p) for b in range(FAN_IN) for p in range(4)]) == []


def narrow(batch_id: int, part: int, parts: int) -> SegmentInfo:
    """One of so many equal ranges of hashes, as an instance stores them."""
    low, high = (HASH_MAX * p // parts for p in (part, part + 1))
    return replace(
        segment("left", 0, batch_id, part=part), hash_min=low + (part > 0), hash_max=high
    )


def test_however_many_instances_there_are_segments_are_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where they have narrow ranges of hashes, tasks are told of a few at a time."""
    monkeypatch.setattr(compaction, "GROUP_SEGMENTS_MAX", 20)
    instances = 50
    due = [narrow(b, part, instances) for b in range(FAN_IN) for part in range(instances)]
    segments, told, batches = SegmentSet(due), set(), 0
    while segments:
        (portion,) = choose_compactions(segments, instances, by_hash=True)
        assert 0 < len(portion.told.segments) <= 20
        told |= {s.name for s in portion.told.segments}
        segments = segments.advanced(portion.after([]), batch_id=99)
        batches += 1
    assert told == {s.name for s in due}
    assert batches <= -(-2 * len(due) // 20) + 1


@pytest.mark.parametrize(("keep_after_us", "gone"), [(4, False), (5, False), (6, True)])
def test_expired(keep_after_us: int, gone: bool) -> None:
    assert expired(segment("left", 0, 0), keep_after_us) == gone
