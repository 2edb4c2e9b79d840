"""Reports: they travel unchanged, and what they say of a batch adds up."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.engine.operator import Arrival, HeavyKey
from skewless.engine.report import (
    HEAVY_KEYS_TOLD,
    BatchReport,
    InstanceLoad,
    InstanceReport,
    KeyShare,
    OperatorReport,
    heaviest,
)
from skewless.placement.figures import Decision, Figures, WatchedKey
from skewless.state.segments import SegmentInfo
from tests.strategies import examples

DECISION = Decision("move", "slot 3", "0", "1", "busier by half", True)
LOADS = (
    InstanceLoad(0, time_ms=3.0),
    InstanceLoad(1, 5, 6, 7, 8, 1.0, 2, 3, 0.5),
)
REPORT = BatchReport(
    name="join",
    batch_id=3,
    rows={"left": 10, "right": 20},
    dropped={"late": 1, "null keys": 2, "null times": 3, "NaN in a band": 4},
    counters={"matches": 5},
    duration_ms=6.5,
    phases_ms={"ingest": 2.5, "plan": 4.0},
    state_rows=30,
    state_bytes=4000,
    segments=2,
    watermark_us=None,
    instances=LOADS,
    heavy_keys=(KeyShare("a", 0.25),),
    decisions=(DECISION,),
)
LOWER = OperatorReport(
    name="join-1",
    rows={"left": 10, "right": 20},
    dropped={"late": 1, "null keys": 2},
    counters={"matches": 5},
    state_rows=30,
    state_bytes=4000,
    segments=2,
    watermark_us=7,
    instances=LOADS,
    decisions=(DECISION,),
    verdict="uneven",
)
UPPER = OperatorReport(
    name="aggregate-2",
    rows={"input": 5},
    dropped={"null keys": 1},
    counters={"matches": 4, "merged": 9},
    state_rows=3,
    state_bytes=200,
    segments=1,
    watermark_us=6,
    instances=(InstanceLoad(0, time_ms=1.0),),
    heavy_keys=(KeyShare("b", 0.5),),
    verdict="even",
)
STREAMS = {"join-1.left": 10, "join-1.right": 20}


def sent(data: object) -> dict[str, object]:
    return dict(json.loads(json.dumps(data)))


def test_reports_travel_as_json() -> None:
    told = sent(REPORT.to_json())
    assert told["busiest_over_mean"] == 1.5
    assert told["matches"] == 5
    assert BatchReport.from_json(told) == REPORT


def test_figures_travel_along() -> None:
    figures = Figures(*np.arange(22.0).reshape(11, 2))
    keys = (WatchedKey(2**64 - 1, "a", 3, True), WatchedKey(0, "ä, 'b'", 0))
    told = BatchReport.from_json(
        sent(replace(REPORT, slots=figures, keys=keys, key_figures=figures).to_json())
    )
    assert told.keys == keys
    for found in (told.slots, told.key_figures):
        assert found is not None
        assert found.to_json() == figures.to_json()


def test_a_report_says_who_it_is_of_and_what_it_came_to() -> None:
    assert repr(REPORT) == (
        "BatchReport(batch 3 of join: 10 left, 20 right rows, 5 matches, 10 dropped, 6 ms, "
        "busiest/mean 1.50)"
    )
    # An operator's report has hundreds of keys and instances, too.
    assert repr(UPPER) == "OperatorReport(aggregate-2: 5 input rows, 4 matches, 1 dropped)"


def test_causes_and_counters_by_name() -> None:
    assert (REPORT.late, REPORT.null_keys, REPORT.null_times, REPORT.nan_bands) == (1, 2, 3, 4)
    assert (REPORT.rows_left, REPORT.rows_right, REPORT.rows_third) == (10, 20, 0)
    assert (REPORT.matches, REPORT.intermediates, REPORT.comparisons) == (5, 0, {})
    other = replace(
        REPORT,
        rows={"r": 1, "s": 2, "t": 3},
        dropped={"not comparable": 6},
        counters={"inner": 1, "compared": 2, "probes": 3, "intermediates": 4},
    )
    assert (other.rows_left, other.rows_right, other.rows_third) == (1, 2, 3)
    assert (other.late, other.nan_bands, other.matches, other.intermediates) == (0, 6, 0, 4)
    assert list(other.comparisons.items()) == [("probes", 3), ("compared", 2), ("inner", 1)]


@pytest.mark.parametrize(
    ("times_ms", "expected"), [([], 1.0), ([0.0, 0.0], 1.0), ([3.0], 1.0), ([4.0, 0.0], 2.0)]
)
def test_busiest_over_mean(times_ms: list[float], expected: float) -> None:
    loads = tuple(InstanceLoad(i, time_ms=ms) for i, ms in enumerate(times_ms))
    assert replace(REPORT, instances=loads).busiest_over_mean == expected


def test_a_query_of_one_operator_has_its_figures() -> None:
    alone = BatchReport.of(3, [LOWER], STREAMS, {"plan": 1.25})
    assert alone.operators == ()
    assert (alone.name, alone.rows, alone.duration_ms) == ("join-1", LOWER.rows, 1.25)
    assert (alone.decisions, alone.verdict) == ((DECISION,), "uneven")
    assert alone.watermark_us == 7


def test_a_composed_query_sums_up_and_keeps_what_each_operator_says() -> None:
    both = BatchReport.of(3, [LOWER, UPPER], STREAMS, {"ingest": 2.0, "join-1: plan": 1.2344})
    assert both.operators == (LOWER, UPPER)
    assert both.name == "join-1 → aggregate-2"
    assert both.rows == STREAMS, "rows that came from outside"
    assert both.dropped == {"late": 1, "null keys": 3}
    assert (both.state_rows, both.state_bytes, both.segments) == (33, 4200, 3)
    assert both.counters == UPPER.counters, "what came out at the end"
    assert (both.instances, both.heavy_keys) == (UPPER.instances, UPPER.heavy_keys)
    assert both.watermark_us == 6
    assert [d.subject for d in both.decisions] == ["join-1: slot 3"]
    assert both.verdict == "join-1: uneven; aggregate-2: even"
    assert (both.duration_ms, both.phases_ms["join-1: plan"]) == (3.234, 1.234)
    assert BatchReport.from_json(sent(both.to_json())) == both


COUNTS = st.integers(0, 1 << 40)
LOAD = st.builds(
    InstanceLoad,
    instance=st.just(4),
    rows=COUNTS,
    pairs=COUNTS,
    matches=COUNTS,
    late=COUNTS,
    time_ms=st.integers(0, 1 << 30).map(lambda n: n / 8),
    isolated_rows=COUNTS,
    isolated_pairs=COUNTS,
    isolated_ms=st.integers(0, 1 << 30).map(lambda n: n / 8),
)


@examples(50)
@given(LOAD, LOAD)
def test_loads_add_up(one: InstanceLoad, other: InstanceLoad) -> None:
    both = one.plus(other)
    assert both.instance == 4
    for name in ("rows", "pairs", "matches", "late", "isolated_rows", "isolated_pairs"):
        assert getattr(both, name) == getattr(one, name) + getattr(other, name)
    for name in ("time_ms", "isolated_ms"):
        assert getattr(both, name) == pytest.approx(getattr(one, name) + getattr(other, name))


@examples(50)
@given(LOAD, COUNTS)
def test_what_an_instance_reports_travels_as_json(load: InstanceLoad, emitted: int) -> None:
    segment = SegmentInfo("segments/left-a.arrow", "left", 3, 400, 7, 0, 2**64 - 1, -5, 9)
    report = InstanceReport(load, emitted, (segment,), (segment, segment), {"slots": {"a": [1.5]}})
    assert InstanceReport.from_json(sent(report.to_json())) == report


def test_the_heaviest_keys_are_those_of_all_inputs() -> None:
    arrivals = [
        Arrival("left", 60, heavy_keys=(HeavyKey("a", 30), HeavyKey("b", 10))),
        Arrival("right", 40, heavy_keys=(HeavyKey("c", 12), HeavyKey("b", 10))),
    ]
    assert heaviest(arrivals) == (KeyShare("a", 0.3), KeyShare("b", 0.2), KeyShare("c", 0.12))
    many = Arrival("left", 100, heavy_keys=tuple(HeavyKey(f"{i:02}", 5) for i in range(20)))
    assert [k.value for k in heaviest([many])] == [f"{i:02}" for i in range(HEAVY_KEYS_TOLD)]
    assert heaviest([]) == ()
