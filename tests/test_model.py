"""The values that the parts hand to one another: they travel unchanged and say what they mean."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import FAR_US, HASH_MAX, SIDES, BandColumn, KeyColumn, SideSpec
from skewless.conditions import UNBOUNDED, band
from skewless.engine.operator import Arrival, HeavyKey
from skewless.engine.report import BatchReport, InstanceLoad, KeyShare
from skewless.operators.pair import JoinSpec, OutputColumn
from skewless.placement.figures import Decision
from skewless.state.segments import SegmentInfo
from tests.strategies import examples

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("at", pa.timestamp("us", "UTC"))])
SIDE = SideSpec(SCHEMA, (KeyColumn(0, pa.int64()),), (BandColumn(1, pa.float64(), 0.5),), 2, 0)
OUTPUT = (OutputColumn("left", 0, "k"), OutputColumn("right", 2, "at_right"))
SPEC = JoinSpec(SIDE, SIDE, -60, 600, OUTPUT)

WHOLE = st.integers(0, 1 << 62)
TIMES = st.integers(-FAR_US, FAR_US)
SEGMENTS = st.builds(
    SegmentInfo,
    name=st.text(max_size=9),
    side=st.sampled_from(SIDES),
    rows=WHOLE,
    bytes=WHOLE,
    crc32=st.integers(0, (1 << 32) - 1),
    hash_min=st.integers(0, HASH_MAX),
    hash_max=st.integers(0, HASH_MAX),
    time_min_us=TIMES,
    time_max_us=TIMES,
    floor_us=TIMES,
    level=st.integers(0, 9),
    batch_id=st.integers(-1, 1 << 40),
)
ARRIVALS = st.builds(
    Arrival,
    side=st.sampled_from(SIDES),
    segment=st.none() | SEGMENTS,
    probe_file=st.none() | st.text(max_size=9),
    rows=WHOLE,
    null_keys=WHOLE,
    null_times=WHOLE,
    nan_bands=WHOLE,
    time_max_us=st.none() | TIMES,
    heavy_keys=st.lists(st.builds(HeavyKey, st.text(max_size=9), WHOLE), max_size=3).map(tuple),
)
REPORT = BatchReport(
    batch_id=3,
    rows_left=10,
    rows_right=20,
    late=1,
    null_keys=2,
    null_times=3,
    nan_bands=4,
    matches=5,
    duration_ms=6.5,
    phases_ms={"ingest": 2.5, "plan": 4.0},
    state_rows=30,
    state_bytes=4000,
    segments=2,
    watermark_us=None,
    instances=(InstanceLoad(0, time_ms=3.0), InstanceLoad(1, 5, 6, 7, 8, 9, 1.0)),
    heavy_keys=(KeyShare("a", 0.25),),
    decisions=(Decision("move", "slot 3", "0", "1", "busier by half", True),),
)


@examples(100)
@given(ARRIVALS)
def test_arrivals_travel_as_json(arrival: Arrival) -> None:
    assert Arrival.from_json(json.loads(json.dumps(arrival.to_json()))) == arrival


@examples(100)
@given(SEGMENTS)
def test_segments_travel_as_json(segment: SegmentInfo) -> None:
    assert SegmentInfo.from_json(json.loads(json.dumps(segment.to_json()))) == segment


def test_reports_travel_as_json() -> None:
    told = json.loads(json.dumps(REPORT.to_json()))
    assert told["busiest_over_mean"] == 1.5
    assert BatchReport.from_json(told) == REPORT


def test_specs_travel_as_pickle() -> None:
    assert pickle.loads(pickle.dumps(SPEC)) == SPEC
    assert pickle.loads(pickle.dumps(UNBOUNDED)) is UNBOUNDED


@pytest.mark.parametrize(
    ("times_ms", "expected"), [([], 1.0), ([0.0, 0.0], 1.0), ([3.0], 1.0), ([4.0, 0.0], 2.0)]
)
def test_busiest_over_mean(times_ms: list[float], expected: float) -> None:
    loads = tuple(InstanceLoad(i, time_ms=ms) for i, ms in enumerate(times_ms))
    assert replace(REPORT, instances=loads).busiest_over_mean == expected


@examples(300)
@given(
    st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(sorted),
    st.integers(-20, 20),
    st.integers(-20, 20),
    st.integers(-20, 20),
)
def test_bounds_and_expiry_agree_with_the_condition(
    bounds: list[int], left_us: int, right_us: int, watermark_us: int
) -> None:
    spec = replace(SPEC, lower_us=bounds[0], upper_us=bounds[1])
    meet = left_us + bounds[0] <= right_us <= left_us + bounds[1]
    lower, upper = spec.partner_bounds("left")
    assert meet == (lower <= right_us - left_us <= upper)
    lower, upper = spec.partner_bounds("right")
    assert meet == (lower <= left_us - right_us <= upper)
    if meet and right_us >= watermark_us:
        assert left_us >= spec.keep_after_us("left", watermark_us)
    if meet and left_us >= watermark_us:
        assert right_us >= spec.keep_after_us("right", watermark_us)


def test_the_row_before_the_one_that_is_kept_can_meet_nothing() -> None:
    assert SPEC.keep_after_us("left", 1000) == 400
    assert SPEC.keep_after_us("right", 1000) == 940
    assert SPEC.keep_after_us("left", -FAR_US) == -FAR_US


def test_unbounded() -> None:
    spec = replace(SPEC, lower_us=-FAR_US, upper_us=FAR_US)
    assert SPEC.bounded
    assert not spec.bounded
    assert spec.fingerprint()["within"] == "unbounded"
    assert spec.keep_after_us("left", 1000) <= -(1 << 61)
    assert repr(UNBOUNDED) == "sk.UNBOUNDED"


def test_the_output_schema_is_nullable_and_bare() -> None:
    field = pa.field("k", pa.int64(), nullable=False, metadata={"a": "b"})
    side = replace(SIDE, schema=SCHEMA.set(0, field))
    schema = replace(SPEC, left=side).output_schema()
    assert schema.names == ["k", "at_right"]
    assert schema.field(0).nullable
    assert schema.field(0).metadata is None


WIDER = SCHEMA.append(pa.field("z", pa.int8()))
CHANGES = {
    "left columns": replace(SPEC, left=replace(SIDE, schema=WIDER)),
    "right keys": replace(SPEC, right=replace(SIDE, bands=(BandColumn(1, pa.float64(), 0.6),))),
    "left keys": replace(SPEC, left=replace(SIDE, keys=(KeyColumn(0, pa.decimal128(20, 0)),))),
    "right time": replace(SPEC, right=replace(SIDE, time=None)),
    "within": replace(SPEC, upper_us=601),
}


@pytest.mark.parametrize("fact", CHANGES)
def test_a_fingerprint_tells_what_must_stay_the_same(fact: str) -> None:
    before, after = SPEC.fingerprint(), CHANGES[fact].fingerprint()
    assert [k for k in before if before[k] != after[k]] == [fact]


def test_a_fingerprint_leaves_out_what_may_change() -> None:
    other = replace(
        SPEC,
        left=replace(SIDE, late_us=99),
        output=OUTPUT[:1],
        drop_null_times=True,
    )
    assert other.fingerprint() == SPEC.fingerprint()
    assert all(isinstance(v, str) for v in SPEC.fingerprint().values())


def test_band_keeps_what_was_written() -> None:
    made = band("price", "quote", width="5 seconds")
    assert (made.left, made.right, made.width) == ("price", "quote", "5 seconds")
