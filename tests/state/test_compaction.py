"""Which segments are put together, and which have expired."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from skewless.arrays.types import HASH_MAX, Side
from skewless.state import compaction
from skewless.state.compaction import choose_compactions, expired
from skewless.state.segments import SegmentInfo

FAN_IN = 3


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", FAN_IN)
    monkeypatch.setattr(compaction, "GENERATION_ROWS_MAX", 300)


def segment(side: Side, level: int, batch_id: int, rows: int = 10, part: int = 0) -> SegmentInfo:
    name = f"{side}-{level}-{batch_id}-{part}"
    return SegmentInfo(name, side, rows, 1, 0, 0, HASH_MAX, 0, 5, 0, level, batch_id)


def names(groups: Iterable[Iterable[SegmentInfo]]) -> list[list[str]]:
    return [sorted(s.name for s in group) for group in groups]


def test_nothing_is_due_of_too_few_generations() -> None:
    assert choose_compactions([]) == ()
    few = [segment("left", 0, b, part=p) for b in range(FAN_IN - 1) for p in range(9)]
    assert choose_compactions(few) == ()


def test_segments_of_one_batch_are_one_generation() -> None:
    due = [segment("left", 0, b, part=p) for b in range(FAN_IN) for p in range(2)]
    assert names(choose_compactions(due)) == [sorted(s.name for s in due)]


def test_sides_are_put_together_apart() -> None:
    left = [segment("left", 0, b) for b in range(FAN_IN)]
    right = [segment("right", 0, b) for b in range(FAN_IN)]
    assert names(choose_compactions(left + right[1:])) == names([left])
    assert names(choose_compactions(left + right)) == names([left, right])


def test_levels_do_not_mix_and_the_lowest_goes_first() -> None:
    low = [segment("left", 0, b) for b in range(FAN_IN)]
    high = [segment("left", 1, b + 10) for b in range(FAN_IN)]
    assert choose_compactions(low[1:] + high[1:]) == ()
    assert names(choose_compactions(high + low)) == names([low])
    assert names(choose_compactions(high + low[1:])) == names([high])


def test_what_waited_goes_along() -> None:
    waiting = [segment("left", 0, b) for b in range(FAN_IN + 2)]
    assert names(choose_compactions(waiting)) == names([waiting])


def test_large_generations_stay() -> None:
    large = [segment("left", 0, b, rows=101) for b in range(9)]
    assert choose_compactions(large) == ()
    split = [segment("left", 0, b, rows=60, part=p) for b in range(9) for p in range(2)]
    assert choose_compactions(split) == ()
    small = [segment("left", 0, b + 20, rows=100) for b in range(FAN_IN)]
    assert names(choose_compactions(large + small)) == names([small])


@pytest.mark.parametrize(("keep_after_us", "gone"), [(4, False), (5, False), (6, True)])
def test_expired(keep_after_us: int, gone: bool) -> None:
    assert expired(segment("left", 0, 0), keep_after_us) == gone
