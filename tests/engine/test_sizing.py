"""How many instances a batch gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skewless.engine.operator import Arrival, Batch
from skewless.engine.report import InstanceLoad, InstanceReport
from skewless.engine.sizing import PATIENCE, Sizing
from skewless.operators.two_way.operator import JoinOperator
from skewless.placement.balancing import Auto
from skewless.placement.routing import Hash
from skewless.state import compaction
from skewless.state.commits import OperatorState
from skewless.state.compaction import FAN_IN
from skewless.state.segments import SegmentInfo
from tests.frame.kits import joined

ELASTIC = JoinOperator(joined("a", "b", "a_k", "a_t"), Hash(), 8, slots=64, elastic=True)


def batch(rows: int, segments: tuple[SegmentInfo, ...] = ()) -> Batch:
    return Batch(0, "", OperatorState(0, {}, segments), [Arrival("left", rows)], 0, 0)


def worked(sizing: Sizing, rows: int, spent_ms: float) -> None:
    done = batch(rows)
    load = InstanceLoad(0, time_ms=spent_ms)
    done.reports = [[InstanceReport(load)]]
    sizing.learn(done, [load])


@pytest.mark.parametrize(("rows", "expected"), [(0, 1), (2_000, 1), (8_000, 2), (10**7, 8)])
def test_as_many_as_rows_need_at_first(rows: int, expected: int) -> None:
    assert Sizing().choose(ELASTIC, batch(rows), 8) == expected


def test_what_rows_have_cost_counts_from_then_on() -> None:
    sizing = Sizing()
    assert sizing.choose(ELASTIC, batch(2_000), 8) == 1
    worked(sizing, rows=2_000, spent_ms=1_000)
    assert sizing.choose(ELASTIC, batch(2_000), 8) == 8
    assert sizing.notes() == ("instances: 8 (2,000 rows, about 1,000 ms; 8 cores)",)


def test_fewer_only_after_a_while() -> None:
    sizing = Sizing()
    assert sizing.choose(ELASTIC, batch(10**6), 8) == 8
    found = [sizing.choose(ELASTIC, batch(2_000), 8) for _ in range(PATIENCE)]
    assert found == [8] * (PATIENCE - 1) + [1]
    assert sizing.choose(ELASTIC, batch(10**6), 8) == 8, "more at once"


def test_the_cluster_is_followed() -> None:
    sizing = Sizing()
    found = [sizing.choose(ELASTIC, batch(10**6), cores) for cores in (8, 2, 16)]
    assert found == [8, 2, 16]


def test_a_large_compaction_is_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "PORTION_ROWS", 2_000_000)
    stored = SegmentInfo("s", "left", 100_000, 1, 0, 0, 1, 0, 0)
    many = tuple(replace(stored, name=f"s{i}", batch_id=i) for i in range(FAN_IN))
    assert Sizing().choose(ELASTIC, batch(10, many), 16) == 8


def test_what_was_asked_for_stays() -> None:
    asked = replace(ELASTIC, elastic=False, instances=5)
    sizing = Sizing()
    assert [sizing.choose(asked, batch(rows), 8) for rows in (1, 10**7)] == [5, 5]
    assert sizing.notes() == ()


def test_pinned_keys_have_their_instances() -> None:
    pinned = replace(ELASTIC, strategy=Auto(pin={1: 9}))
    assert Sizing().choose(pinned, batch(1), 8) == 10
