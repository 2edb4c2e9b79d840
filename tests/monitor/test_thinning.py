"""Buckets against plain loops; and what one has stays what it is as batches come."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skewless.monitor.thinning import Buckets, plain
from tests.strategies import examples

IDS = st.lists(st.integers(0, 3_000), min_size=1, max_size=60, unique=True).map(sorted)
VALUES = st.one_of(st.floats(-1e6, 1e6), st.just(math.nan))


def slowly(ids: list[int], values: list[float], width: int, first: int) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for batch, value in zip(ids, values, strict=True):
        if batch // width >= first // width:
            found.setdefault(batch // width * width, []).append(value)
    return found


@examples(60)
@given(st.data(), IDS, st.integers(10, 100))
def test_every_bucket_has_its_batches(data: st.DataObject, ids: list[int], points: int) -> None:
    values = data.draw(st.lists(VALUES, min_size=len(ids), max_size=len(ids)))
    first = data.draw(st.sampled_from(ids))
    buckets = Buckets.of(np.array(ids), first, points)
    assert buckets.width & (buckets.width - 1) == 0
    assert len(buckets) <= points + 1
    expected = slowly(ids, values, buckets.width, first)
    assert buckets.firsts == list(expected)
    column = np.array(values)
    for which, here in enumerate(expected.values()):
        there = [v for v in here if not math.isnan(v)]
        told = [float(f(column)[which]) for f in (buckets.least, buckets.most, buckets.mean)]
        if there:
            assert told[:2] == [min(there), max(there)], "peaks stay visible"
            assert math.isclose(told[2], sum(there) / len(there), rel_tol=1e-9, abs_tol=1e-6)
        else:
            assert all(map(math.isnan, told))
        assert math.isclose(float(buckets.total(column)[which]), sum(there), abs_tol=1e-6)


@examples(60)
@given(st.data(), IDS, st.integers(10, 100))
def test_what_is_new_goes_behind_what_one_has(
    data: st.DataObject, ids: list[int], points: int
) -> None:
    """All points equal those one has, up to the first new one, and the new ones."""
    since = data.draw(st.sampled_from(ids))
    column = np.array(data.draw(st.lists(st.floats(0, 9), min_size=len(ids), max_size=len(ids))))
    before = [i for i in ids if i <= since]
    old = Buckets.of(np.array(before), ids[0], points)
    whole = Buckets.of(np.array(ids), ids[0], points)
    if old.width != whole.width:
        return  # who has points of another width asks for all
    new = Buckets.of(np.array(ids), ids[0], points, since)
    kept = [
        p for p in points_of(old, column[: len(before)]) if not new.firsts or p[0] < new.firsts[0]
    ]
    assert kept + points_of(new, column) == points_of(whole, column)


def points_of(buckets: Buckets, column: Any) -> list[tuple[int, float]]:
    return list(zip(buckets.firsts, buckets.most(column).tolist(), strict=True))


@examples(100)
@given(st.lists(st.one_of(st.floats(-1e300, 1e300), st.just(math.nan)), max_size=5))
def test_numbers_are_told_in_few_digits(values: list[float]) -> None:
    for value, told in zip(values, plain(np.array(values, float)), strict=True):
        if math.isnan(value):
            assert told is None
        elif abs(value) > 1e-290:
            assert math.isclose(told, float(f"{value:.4e}"), rel_tol=1.01e-4)


def test_nothing_is_no_bucket() -> None:
    buckets = Buckets.of(np.zeros(0, np.int64), 0, 100)
    assert (len(buckets), buckets.firsts) == (0, [])
    assert buckets.mean(np.zeros(0)).tolist() == []
