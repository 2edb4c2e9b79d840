"""Kernels that are more than a call of Arrow, against plain Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    localcontext,
)
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skewless.expressions import decimals
from skewless.expressions.apply import Fails
from skewless.expressions.letters import lower, upper
from skewless.expressions.texts import equals_text
from skewless.expressions.tree import flags_of
from skewless.expressions.zones import CYCLE, Zone

WIDE = Context(prec=200)
TEXT = st.text(st.sampled_from("abä\U0001f600"), max_size=20)


@settings(deadline=None)  # it is compiled
@given(st.lists(st.none() | TEXT), TEXT, st.integers(0, 5))
def test_texts_are_equal_as_in_python(values: list[str | None], text: str, start: int) -> None:
    array = pa.array([*values, text], pa.string())[start:]
    expected = [None if value is None else value == text for value in array.to_pylist()]
    assert equals_text(array, text).to_pylist() == expected


@given(st.lists(st.booleans()), st.integers(0, 9))
def test_flags_of_slices(values: list[bool], start: int) -> None:
    assert flags_of(pa.array(values, pa.bool_())[start:]).tolist() == values[start:]


PRECISIONS = st.integers(1, 38).flatmap(
    lambda precision: st.tuples(st.just(precision), st.integers(0, precision))
)


def decimals_of(precision: int, scale: int) -> st.SearchStrategy[Decimal | None]:
    """Also numbers of which few digits are kept: those are beside multiples of 2^32, where Arrow
    divides wrongly."""
    most = 10**precision - 1
    beside = st.builds(
        lambda bits, many, digits, more: (many << bits) * 10**digits + more,
        st.sampled_from([32, 64, 96]),
        st.integers(-3, 3),
        st.integers(0, 20),
        st.integers(-1, 1),
    )
    whole = st.integers(-most, most) | beside | st.sampled_from([0, 5, -5, 50, most, -most])
    return st.none() | whole.filter(lambda n: abs(n) <= most).map(
        lambda n: Decimal(n).scaleb(-scale, WIDE)
    )


def fitted(value: Decimal, precision: int, scale: int) -> Decimal | None:
    with localcontext(WIDE):
        rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        return rounded if abs(rounded) < Decimal(10) ** (precision - scale) else None


@given(st.data(), PRECISIONS, PRECISIONS)
def test_decimals_fit_or_overflow(
    data: st.DataObject, source: tuple[int, int], target: tuple[int, int]
) -> None:
    values = data.draw(st.lists(decimals_of(*source), min_size=1, max_size=5))
    array, type = pa.array(values, pa.decimal128(*source)), pa.decimal128(*target)
    with localcontext(WIDE):
        expected = [None if value is None else fitted(value, *target) for value in values]
    assert decimals.fitted(array, type, False).to_pylist() == expected
    if expected.count(None) > values.count(None):
        with pytest.raises(Fails):
            decimals.fitted(array, type, True)
    else:
        assert decimals.fitted(array, type, True).to_pylist() == expected


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@given(data=st.data(), left=PRECISIONS, right=PRECISIONS, target=PRECISIONS)
def test_decimal_arithmetic_is_exact_before_it_is_rounded(
    name: str,
    data: st.DataObject,
    left: tuple[int, int],
    right: tuple[int, int],
    target: tuple[int, int],
) -> None:
    types = pa.decimal128(*left), pa.decimal128(*right)
    if name == "multiply" and not decimals.can_multiply(*types):
        return
    # Results of Spark have no more digits behind the point than exact ones.
    digits = left[1] + right[1] if name == "multiply" else max(left[1], right[1])
    target = (target[0], min(target[1], digits))
    a, b = data.draw(decimals_of(*left)), data.draw(decimals_of(*right))
    arrays = pa.array([a, None], types[0]), pa.array([b, b], types[1])
    made = getattr(decimals, name)(*arrays, pa.decimal128(*target), False)
    with localcontext(WIDE):
        exact = None
        if a is not None and b is not None:
            exact = {"add": a + b, "subtract": a - b, "multiply": a * b}[name]
    expected = None if exact is None else fitted(exact, *target)
    assert made.to_pylist() == [expected, None]


ROUNDINGS = {decimals.HALF_UP: ROUND_HALF_UP, decimals.HALF_EVEN: ROUND_HALF_EVEN}


@given(st.data(), PRECISIONS, st.integers(-41, 38), st.sampled_from(list(ROUNDINGS)))
def test_decimals_are_rounded_behind_the_point_and_before_it(
    data: st.DataObject, source: tuple[int, int], digits: int, mode: str
) -> None:
    values = data.draw(st.lists(decimals_of(*source), min_size=1, max_size=5))
    kept = min(digits, source[1])
    type = pa.decimal128(38, max(kept, 0))
    with localcontext(WIDE):
        whole = [v and v.scaleb(kept).quantize(Decimal(1), ROUNDINGS[mode]) for v in values]
        expected = [v if v is None else fitted(v.scaleb(-kept), 38, type.scale) for v in whole]
    array = pa.array(values, pa.decimal128(*source))
    assert decimals.rounded(array, type, digits, mode, False).to_pylist() == expected


@given(st.data(), PRECISIONS)
def test_decimals_go_down_and_up(data: st.DataObject, source: tuple[int, int]) -> None:
    values = data.draw(st.lists(decimals_of(*source).filter(bool), min_size=1, max_size=5))
    array, type = pa.array(values, pa.decimal128(*source)), pa.decimal128(38, 0)
    for function, way in ((decimals.floor, ROUND_FLOOR), (decimals.ceil, ROUND_CEILING)):
        expected = [v.quantize(Decimal(1), way, WIDE) for v in values if v is not None]
        assert function(array, type).to_pylist() == expected


@given(st.data(), PRECISIONS)
def test_decimals_are_the_nearest_doubles_and_whole_numbers(
    data: st.DataObject, source: tuple[int, int]
) -> None:
    values = data.draw(st.lists(decimals_of(*source), min_size=1, max_size=4))
    array = pa.array(values, pa.decimal128(*source))
    expected = [None if value is None else float(value) for value in values]
    assert decimals.to_double(array).to_pylist() == expected
    whole = [None if v is None else int(v.quantize(Decimal(1), ROUND_DOWN, WIDE)) for v in values]
    fits = [v if v is None or abs(v) < 1 << 63 else None for v in whole]
    assert decimals.to_integer(array, pa.int64(), "try").to_pylist() == fits


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)) // timedelta(microseconds=1)


HOUR = 3_600_000_000
SPRING = micros(datetime(2020, 3, 8, 7, tzinfo=UTC))
AUTUMN = micros(datetime(2020, 11, 1, 6, tzinfo=UTC))
NEW_YORK = Zone((SPRING, AUTUMN), (-5 * HOUR, -4 * HOUR, -5 * HOUR))


@given(st.datetimes(datetime(2020, 1, 1), datetime(2020, 12, 31)))
@example(datetime(2020, 3, 8, 2))
@example(datetime(2020, 11, 1, 1))
def test_zones_are_as_in_python(clock: datetime) -> None:
    """Python too takes the earlier of two moments, and counts on where there is none, unless a
    clock says by its fold that the later one is meant. Spark's clocks have no fold."""
    clock = clock.replace(fold=0)
    there = clock.replace(tzinfo=ZoneInfo("America/New_York"))
    utc = NEW_YORK.utc(np.array([micros(clock)]))
    assert utc.tolist() == [micros(there.astimezone(UTC))]
    local = NEW_YORK.local(np.array([micros(clock)]))
    shown = clock.replace(tzinfo=UTC).astimezone(ZoneInfo("America/New_York"))
    assert local.tolist() == [micros(shown.replace(tzinfo=None))]


DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("began", "to", "ends"),
    [
        # Half past one is there twice on the first of November.
        (AUTUMN + DAY + HOUR // 2, -DAY, AUTUMN + HOUR // 2),
        (AUTUMN - DAY - HOUR // 2, DAY, AUTUMN - HOUR // 2),
        (AUTUMN + DAY // 2, -7 * HOUR, AUTUMN + 5 * HOUR),
        # Half past two is not there on the eighth of March.
        (SPRING - DAY + HOUR // 2, DAY, SPRING + HOUR // 2),
        (SPRING + DAY - HOUR // 2, -DAY, SPRING + HOUR // 2),
    ],
)
def test_clocks_keep_their_distance_to_utc_where_they_can(began: int, to: int, ends: int) -> None:
    moments = np.array([began])
    moved = NEW_YORK.moved(moments, NEW_YORK.local(moments) + to)
    assert moved.tolist() == [ends]
    assert Zone((), (HOUR,)).moved(moments, moments + HOUR + to).tolist() == [began + to]


def test_rules_of_a_zone_go_on_forever() -> None:
    yearly = Zone((SPRING, AUTUMN), (-5 * HOUR, -4 * HOUR, -5 * HOUR), AUTUMN + HOUR)
    for cycles in (0, 1, 50):
        moments = np.array([SPRING - 1, SPRING, AUTUMN - 1, AUTUMN]) + cycles * CYCLE
        distances = (yearly.local(moments) - moments) // HOUR
        assert distances.tolist() == [-5, -4, -4, -5]
        assert yearly.utc(yearly.local(moments))[:2].tolist() == moments[:2].tolist()


LETTERS = "aAzßäÄΣσΑΒİ.\u0301'ﬁ "
UPPER = tuple((c, c.upper()) for c in LETTERS if c != c.upper())
LOWER = tuple((c, c.lower()) for c in LETTERS if c != c.lower())


@given(st.lists(st.none() | st.text(st.sampled_from(LETTERS))))
def test_letters_change_as_in_python(words: list[str | None]) -> None:
    """Python's tables are given, so only how they are used can differ: Σ at the end of a word."""
    array = pa.array(words, pa.string())
    assert upper(array, UPPER).to_pylist() == [w and w.upper() for w in words]
    assert lower(array, LOWER).to_pylist() == [w and w.lower() for w in words]
