"""Keys: equal values hash alike and compare equal, and a band never loses a partner."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skewless.arrays import keys
from skewless.arrays.telling import hidden
from skewless.arrays.types import BandColumn, KeyColumn, SideSpec
from tests.oracle import same
from tests.strategies import EQUALITIES, Condition, examples

WIDTH_MAX = 1 << 61  # what sk.band accepts
I64_MIN, I64_MAX = -(1 << 63), (1 << 63) - 1


def side_of(kinds: list[pa.DataType], common: list[pa.DataType]) -> SideSpec:
    schema = pa.schema([(f"k{i}", kind) for i, kind in enumerate(kinds)])
    columns = tuple(KeyColumn(i, kind) for i, kind in enumerate(common))
    return SideSpec(schema, columns, (), None, 0)


@pytest.mark.parametrize("condition", EQUALITIES, ids=repr)
def test_equal_values_hash_alike_and_compare_equal(condition: Condition) -> None:
    left = pa.array(condition.left_pool, condition.left)
    right = pa.array(condition.right_pool, condition.right)
    left_hash = keys.hash_keys([left], side_of([left.type], [condition.common]), None)
    right_hash = keys.hash_keys([right], side_of([right.type], [condition.common]), None)
    for i, a in enumerate(left.to_pylist()):
        for j, b in enumerate(right.to_pylist()):
            equal = keys.keys_equal(
                [left.slice(i, 1)], [right.slice(j, 1)], (KeyColumn(0, condition.common),)
            )
            assert equal.tolist() == [same(a, b)], (a, b)
            assert (left_hash[i] == right_hash[j]) == same(a, b), (a, b)


@pytest.mark.parametrize("condition", EQUALITIES, ids=repr)
def test_a_slice_hashes_as_its_rows_do(condition: Condition) -> None:
    """Slices share buffers with what lies before and behind them."""
    column = pa.array(condition.left_pool * 5, condition.left)
    side = side_of([column.type], [condition.common])
    whole = keys.hash_keys([column], side, None)
    for begin in (1, 3, 8):
        piece = keys.hash_keys([column.slice(begin, 2)], side, None)
        assert piece.tolist() == whole[begin : begin + 2].tolist()


def test_the_order_and_the_cut_of_composite_keys_matter() -> None:
    text = pa.string()
    side = side_of([text, text], [text, text])
    rows = [("a", "bc"), ("ab", "c"), ("bc", "a"), ("abc", ""), ("", "abc")]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    assert len(set(keys.hash_keys(columns, side, None).tolist())) == len(rows)


def test_all_strings_empty() -> None:
    side = side_of([pa.string()], [pa.string()])
    for column in (pa.array(["", ""]), pa.array(["x", "", "", "y"]).slice(1, 2)):
        hashes = keys.hash_keys([column], side, None)
        assert hashes[0] == hashes[1]


@pytest.mark.parametrize("condition", EQUALITIES, ids=repr)
def test_exact_are_single_keys_of_64_bits(condition: Condition) -> None:
    side = side_of([condition.left], [condition.common])
    words = ("string", "binary", "decimal", "struct", "list")
    compared = any(word in str(condition.common) for word in words)
    assert keys.is_exact(side) == (not compared)
    null_safe = replace(side.keys[0], null_safe=True)
    assert not keys.is_exact(replace(side, keys=(null_safe,)))
    assert not keys.is_exact(side_of([condition.left] * 2, [condition.common] * 2))
    band = BandColumn(0, pa.int64(), 1)
    assert not keys.is_exact(SideSpec(side.schema, side.keys, (band,), None, 0))


FAR = {  # what Python's calendar does not have
    pa.date32(): (4_000_000, "12921-08-18"),
    pa.timestamp("us", "UTC"): (253_402_318_799_000_000, "10000-01-01 04:59:59.000000Z"),
    pa.timestamp("us"): (-65_000_000_000_000_000, "-0090-03-27 04:26:40.000000"),
}


@pytest.mark.parametrize("kind", FAR, ids=str)
def test_years_that_python_does_not_have_are_told(kind: pa.DataType) -> None:
    number, written = FAR[kind]
    whole = pa.int32() if pa.types.is_date(kind) else pa.int64()
    column = pa.array([0, number], whole).cast(kind)
    side = side_of([kind], [kind])
    assert keys.describe([column], side, 1) == written
    near = replace(side, keys=(), bands=(BandColumn(0, kind, 1),))
    assert keys.describe([column], near, 1) == f"near {written}"
    inside = pa.StructArray.from_arrays([column], ["a"])
    assert written in keys.describe([inside], side_of([inside.type], [inside.type]), 1)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.list_(pa.string())], ids=str)
def test_long_keys_are_told_in_short(kind: pa.DataType) -> None:
    texts = ["x" * 100_000 + end for end in "ab"]
    column = pa.array([[t] for t in texts] if pa.types.is_list(kind) else texts, kind)
    side = side_of([kind], [kind])
    told = [keys.describe([column], side, row) for row in (0, 1)]
    assert all(len(text) <= 250 and "xxx… (100" in text for text in told)
    assert told[0] != told[1], "they differ at their ends"
    short = pa.array(["y" * 250])
    assert keys.describe([short], side_of([short.type], [short.type]), 0) == short[0].as_py()


def test_long_keys_are_hidden_as_a_whole() -> None:
    column = pa.array(["x" * 1000 + end for end in "ab"])
    side, salt = side_of([column.type], [column.type]), b"salt"
    before = keys.HIDDEN_BY.set(salt)
    try:
        told = [keys.describe([column], side, row) for row in (0, 1)]
    finally:
        keys.HIDDEN_BY.reset(before)
    assert told == [hidden(text, salt) for text in column.to_pylist()]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_rows(kind: pa.DataType) -> None:
    column = pa.array([0.0, math.nan, math.inf], kind)
    assert keys.nan_rows(column).tolist() == [False, True, False]
    assert keys.nan_rows(pa.array([1])) is None
    assert keys.nan_rows(pa.array([Decimal(1)])) is None


def assert_band_is_right(
    a: Any, b: Any, band: BandColumn, kinds: tuple[pa.DataType, pa.DataType], expected: bool
) -> None:
    """What is near compares as near, and a prober finds it: in both directions, and once."""
    left, right = pa.array([a], kinds[0]), pa.array([b], kinds[1])
    assert keys.within_band(left, right, band).tolist() == [expected]
    assert keys.within_band(right, left, band).tolist() == [expected]
    of_left, of_right = keys.cells_of(left, band), keys.cells_of(right, band)
    for cell, other in ((of_left, of_right), (of_right, of_left)):
        probed = [int(c[0]) for c in keys.probed_cells(cell, band)]
        assert len(set(probed)) == len(probed)
        if expected:
            assert int(other[0]) in probed


INTEGERS = (
    st.sampled_from([I64_MIN, I64_MIN + 1, -1, 0, 1, I64_MAX - 1, I64_MAX])
    | st.integers(-20, 20)
    | st.integers(I64_MIN, I64_MAX)
)
WHOLE_WIDTHS = st.sampled_from([0, 1, 2, 3, 1 << 31, WIDTH_MAX - 1, WIDTH_MAX]) | st.integers(0, 30)


def check_integers(x: int, y: int | None, offset: int, width: int) -> None:
    """`y`, or a number that lies just inside or outside the band around `x`."""
    if y is None:
        y = min(max(x + width + offset, I64_MIN), I64_MAX)
    band = BandColumn(0, pa.int64(), width)
    assert_band_is_right(x, y, band, (pa.int64(), pa.int64()), abs(x - y) <= width)


def to_floats(values: st.SearchStrategy[float]) -> st.SearchStrategy[float]:
    special = [0.0, -0.0, math.inf, -math.inf, 1e300, -1e300, 5e-324, -5e-324, 2.0**48, 0.1, 0.3]
    return st.sampled_from(special) | values


FLOAT_VALUES = to_floats(st.floats(allow_nan=False)) | st.floats(-10, 10)
FLOAT_WIDTHS = (
    st.sampled_from([0.0, 5e-324, 1.5e-323, 1e-310, 2.3e-308, 1e-16, 0.1, 1.0, 2.0**61])
    | st.floats(0, 2.0**61)
    | st.floats(0, 10)
)


def check_floats(x: float, y: float | None, steps: int, width: float) -> None:
    """`y`, or the float a few steps beside the edge of the band around `x`."""
    if y is None:
        y = x + width
        for _ in range(abs(steps)):
            y = math.nextafter(y, math.inf if steps > 0 else -math.inf)
    band = BandColumn(0, pa.float64(), width)
    assert_band_is_right(x, y, band, (pa.float64(), pa.float64()), abs(x - y) <= width)


DIGITS = st.integers(-(10**18) + 1, 10**18 - 1) | st.integers(-999, 999)
MANY_DIGITS = DIGITS | st.integers(-(10**38) + 1, 10**38 - 1)
DECIMAL_WIDTHS = st.sampled_from(
    [Decimal(0), Decimal("0.01"), Decimal("0.005"), Decimal("1E-30"), Decimal("1E+2"), 0.1, 7]
) | st.decimals(0, WIDTH_MAX, places=6)


def check_decimals(
    x: int, y: int | None, offset: int, scales: tuple[int, int], width: Decimal | float
) -> None:
    """Numbers of digits `x` and `y` with scales of their own."""
    with localcontext(prec=100):
        a, scale = Decimal(x).scaleb(-scales[0]), max(scales)
        if y is None:
            b = a + Decimal(str(width)) + Decimal(offset).scaleb(-scales[1])
            b = b.quantize(Decimal(1).scaleb(-scales[1]))
        else:
            b = Decimal(y).scaleb(-scales[1])
    if len(b.as_tuple().digits) > 38:
        return
    expected = abs(Fraction(a) - Fraction(b)) <= Fraction(str(width))
    kinds = pa.decimal128(38, scales[0]), pa.decimal128(38, scales[1])
    band = BandColumn(0, pa.decimal128(38, scale), width)
    assert_band_is_right(a, b, band, kinds, expected)


SCALES = st.tuples(st.sampled_from([0, 2, 6, 18]), st.sampled_from([0, 2, 6, 18]))
OFFSETS = st.integers(-2, 2)


@examples(300)
@given(INTEGERS, INTEGERS | st.none(), OFFSETS, WHOLE_WIDTHS)
def test_bands_of_integers(x: int, y: int | None, offset: int, width: int) -> None:
    check_integers(x, y, offset, width)


@examples(400)
@given(FLOAT_VALUES, FLOAT_VALUES | st.none(), OFFSETS, FLOAT_WIDTHS)
@example(x=0.1, y=0.2, steps=0, width=0.1)
@example(x=0.1, y=0.30000000000000004, steps=0, width=0.2)
@example(x=-0.0, y=0.0, steps=0, width=0.0)
@example(x=math.inf, y=math.inf, steps=0, width=2.0**61)
def test_bands_of_floats(x: float, y: float | None, steps: int, width: float) -> None:
    check_floats(x, y, steps, width)


@examples(300)
@given(MANY_DIGITS, DIGITS | st.none(), OFFSETS, SCALES, DECIMAL_WIDTHS)
@example(x=48344709, y=483447090000, offset=0, scales=(2, 6), width=Decimal(0))
def test_bands_of_decimals(
    x: int, y: int | None, offset: int, scales: tuple[int, int], width: Decimal | float
) -> None:
    check_decimals(x, y, offset, scales, width)


@pytest.mark.slow
@examples(20_000)
@given(INTEGERS, INTEGERS | st.none(), OFFSETS, WHOLE_WIDTHS)
def test_bands_of_integers_at_length(x: int, y: int | None, offset: int, width: int) -> None:
    check_integers(x, y, offset, width)


@pytest.mark.slow
@examples(20_000)
@given(FLOAT_VALUES, FLOAT_VALUES | st.none(), OFFSETS, FLOAT_WIDTHS)
def test_bands_of_floats_at_length(x: float, y: float | None, steps: int, width: float) -> None:
    check_floats(x, y, steps, width)


@pytest.mark.slow
@examples(20_000)
@given(MANY_DIGITS, DIGITS | st.none(), OFFSETS, SCALES, DECIMAL_WIDTHS)
def test_bands_of_decimals_at_length(
    x: int, y: int | None, offset: int, scales: tuple[int, int], width: Decimal | float
) -> None:
    check_decimals(x, y, offset, scales, width)


@pytest.mark.parametrize("power", [46, 47, 48, 49, 53])
def test_bands_of_floats_where_cells_end(power: int) -> None:
    """Around the last cell numbers, where the quotient is least exact."""
    width = 0.1
    rng = np.random.default_rng(power)
    x = 2.0**power * width * keys.FLOAT_CELL * rng.uniform(0.999999, 1.000001, 20_000)
    y = x + rng.choice([-width, width, 0.0], len(x))
    band = BandColumn(0, pa.float64(), width)
    near = keys.within_band(pa.array(x), pa.array(y), band)
    assert near.any()
    apart = np.abs(keys.cells_of(pa.array(x), band) - keys.cells_of(pa.array(y), band))
    assert apart[near].max() <= 1


@pytest.mark.parametrize("number", [2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, I64_MIN, I64_MAX])
def test_an_integer_that_no_float_holds_is_compared_as_its_nearest_float(number: int) -> None:
    """As Spark compares a bigint with a double."""
    band = BandColumn(0, pa.float64(), 0.5)
    assert_band_is_right(number, float(number), band, (pa.int64(), pa.float64()), True)


@examples(200)
@given(MANY_DIGITS, st.sampled_from([0, 2, 6, 18, 38]))
@example(digits=3, scale=1)
def test_a_decimal_is_compared_with_a_double_as_its_nearest_float(digits: int, scale: int) -> None:
    with localcontext(prec=100):
        number = Decimal(digits).scaleb(-scale)
    kinds = pa.decimal128(38, scale), pa.float64()
    assert_band_is_right(number, float(number), BandColumn(0, pa.float64(), 0.0), kinds, True)
