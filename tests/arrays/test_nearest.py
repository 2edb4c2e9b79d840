"""Rows nearest in time, and the greatest of several, against plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.nearest import nearest_ranges
from skewless.arrays.ranking import greatest
from skewless.arrays.types import FAR_US, HASH_MAX, frozen
from tests.operators.asof.oracle import order_of
from tests.strategies import examples

Rows = list[tuple[int, int]]  # hash, time
ROWS = st.lists(
    st.tuples(st.sampled_from([0, 5, 6, 1 << 63, HASH_MAX]), st.integers(-8, 8)), max_size=40
).map(sorted)
FAR = st.sampled_from([-1, 0, 1, 3, FAR_US])


def nearest_by_hand(
    probe: tuple[int, int], run: Rows, floor: int, before: int, after: int, gap: int
) -> list[int]:
    h, t = probe
    times = {
        time
        for other, time in run
        if other == h
        and time >= floor
        and (t - before <= time <= t - gap or t + gap <= time <= t + after)
    }
    if not times:
        return []
    nearest = min(times, key=lambda time: (abs(time - t), time))
    return [i for i, row in enumerate(run) if row == (h, nearest)]


@examples(200)
@given(ROWS, ROWS, st.integers(-8, 8) | st.just(-FAR_US), FAR, FAR, st.integers(0, 1))
def test_nearest_ranges(
    probes: Rows, run: Rows, floor: int, before: int, after: int, gap: int
) -> None:
    (probe_hashes, probe_times), (hashes, times) = (
        (frozen(np.array([h for h, _ in rows], np.uint64)),
         frozen(np.array([t for _, t in rows], np.int64)))
        for rows in (probes, run)
    )  # fmt: skip
    reach = (floor, before, after, gap)
    first, last = nearest_ranges(probe_hashes, probe_times, hashes, times, *reach)
    found = [list(range(a, b)) for a, b in zip(first, last, strict=True)]
    assert found == [nearest_by_hand(probe, run, *reach) for probe in probes]


VALUES: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "integers": (pa.int32(), (0, -1, 7, -(2**31), 2**31 - 1)),
    "long integers": (pa.int64(), (0, -(2**63), 2**63 - 1)),
    "booleans": (pa.bool_(), (True, False)),
    "floats": (pa.float32(), (0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, -math.nan)),
    "doubles": (pa.float64(), (0.0, -0.0, 5e-324, -5e-324, 1e300, math.inf, math.nan)),
    "decimals": (pa.decimal128(38, 2),
                 (Decimal(0), Decimal("-0.01"), Decimal(1), Decimal(2**64 + 1), -Decimal(2**65))),
    "strings": (pa.string(), ("", "a", "ab", "b", "ä", "z", "a\0", "𝄞", "\uffff")),
    "binary": (pa.binary(), (b"", b"\0", b"a", b"\xff")),
    "dates": (pa.date32(), (date(1969, 12, 31), date(2024, 2, 29))),
    "times": (pa.timestamp("us"), (datetime(1969, 1, 1), datetime(2024, 1, 1))),
    "intervals": (pa.duration("us"), (timedelta(0), -timedelta(1))),
    "nothing": (pa.null(), (None,)),
    "lists": (pa.list_(pa.int64()), ([], [1], [1, 2], [1, None], [2], [None], [-1, 5, 7])),
    "lists of strings": (pa.large_list(pa.string()), ([], ["a"], ["", "a"], [None, "b"])),
    "structs": (pa.struct([("a", pa.int64()), ("b", pa.string())]),
                ({"a": 1, "b": "x"}, {"a": 1, "b": None}, {"a": None, "b": "z"})),
    "maps": (pa.map_(pa.string(), pa.float64()), ([], [("a", 1.0)], [("a", None)], [("b", -1.0)])),
    "lists of structs": (pa.list_(pa.struct([("a", pa.float64())])),
                         ([], [{"a": 1.0}], [{"a": 1.0}, None], [{"a": None}], [None])),
}  # fmt: skip


def check_greatest(kind: pa.DataType, rows: list[tuple[int, Any, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    numbers = sorted({group for group, _, _ in rows})
    groups = np.array([numbers.index(group) for group, _, _ in rows], np.int64)
    whole = pa.array([None, *(value for _, value, _ in rows)], kind)
    columns = [whole.slice(1), pa.array([n for _, _, n in rows], pa.int64())]
    places = greatest(groups, iter(columns)).tolist()
    expected = []
    for group in range(len(numbers)):
        mine = [i for i, g in enumerate(groups) if g == group]
        expected.append(max(mine, key=lambda i: (order_of(rows[i][1]), rows[i][2], -i)))
    assert places == expected


@pytest.mark.parametrize("name", VALUES)
def test_greatest(name: str) -> None:
    kind, values = VALUES[name]
    row = st.tuples(st.integers(0, 3), st.sampled_from((*values, None)), st.integers(0, 2))
    check: Callable[[list[Any]], None] = lambda rows: check_greatest(kind, rows)  # noqa: E731
    examples(20)(given(st.lists(row, min_size=1, max_size=12))(check))()


def test_columns_are_looked_at_as_long_as_it_matters() -> None:
    def columns() -> Any:
        yield pa.array([1, 1, 3, 2])
        yield pa.array([5, 6, 0, 0])
        raise AssertionError("all is decided")

    assert greatest(np.array([0, 0, 1, 1]), columns()).tolist() == [1, 2]
