"""What a join of two inputs is: its bounds, its schema, what a checkpoint is tied to."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import FAR_US, SIDES, BandColumn, KeyColumn, SideSpec
from skewless.operators.pair import JoinSpec, OutputColumn
from tests.strategies import examples

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("at", pa.timestamp("us", "UTC"))])
SIDE = SideSpec(SCHEMA, (KeyColumn(0, pa.int64()),), (BandColumn(1, pa.float64(), 0.5),), 2, 0)
OUTPUT = (OutputColumn("left", 0, "k"), OutputColumn("right", 2, "at_right"))
SPEC = JoinSpec(SIDE, SIDE, -60, 600, OUTPUT)


def test_specs_travel_as_pickle() -> None:
    assert pickle.loads(pickle.dumps(SPEC)) == SPEC


@examples(300)
@given(
    st.tuples(st.integers(-9, 9) | st.just(-FAR_US), st.integers(-9, 9) | st.just(FAR_US)).map(
        sorted
    ),
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


@pytest.mark.parametrize(
    ("lower_us", "upper_us", "kept", "within"),
    [(-60, FAR_US, "left", "-60 microseconds to unbounded"),
     (-FAR_US, 600, "right", "unbounded to 600 microseconds")],
)  # fmt: skip
def test_bounds_open_on_one_end_keep_one_side_for_ever(
    lower_us: int, upper_us: int, kept: str, within: str
) -> None:
    spec = replace(SPEC, lower_us=lower_us, upper_us=upper_us)
    assert spec.bounded
    assert spec.fingerprint()["within"] == within
    for side in SIDES:
        assert spec.is_decided(side) == (side != kept)
        assert (spec.keep_after_us(side, 1 << 60) == -FAR_US) == (side == kept)
        if side != kept:
            assert spec.keep_after_us(side, 1000) == SPEC.keep_after_us(side, 1000)


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


def test_a_fingerprint_tells_whether_null_is_a_key() -> None:
    null_safe = replace(SIDE, keys=(KeyColumn(0, pa.int64(), null_safe=True),))
    assert replace(SPEC, left=null_safe).fingerprint() != SPEC.fingerprint()


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
