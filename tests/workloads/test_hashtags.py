"""Hashtags: the published figures at any scale, with any drift, and what drift does."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from skewless.errors import ArgumentError
from skewless.workloads.flows import BLOCK, expected_distinct
from skewless.workloads.hashtags import Hashtags

START_US = 1_700_000_000_000_000


@pytest.mark.parametrize(("scale", "drift"), [(0.001, 0.3), (0.01, 0.0), (0.01, 2.0), (0.02, 0.3)])
def test_the_published_figures_hold_at_every_scale_and_drift(scale: float, drift: float) -> None:
    hashtags = Hashtags(scale=scale, seed=2, drift=drift)
    assert hashtags.messages == round(67_000_000 * scale)
    counts = np.bincount(hashtags.keys(0, hashtags.messages))
    five_sigma = 5 * math.sqrt(0.085 * 0.915 / hashtags.messages)
    assert counts.argmax() == hashtags.hottest(1, day=0)[0]
    assert counts.max() / hashtags.messages == pytest.approx(0.085, abs=five_sigma)
    distinct = 2_200_000 * scale
    assert np.count_nonzero(counts) == pytest.approx(distinct, abs=5 * math.sqrt(distinct))


def test_at_full_size_the_law_gives_the_published_figures() -> None:
    law = Hashtags(scale=1.0).law
    assert law.share(1) == pytest.approx(0.085, rel=1e-4)
    assert expected_distinct(law.keys, law.exponent, 67e6) == pytest.approx(2_200_000, rel=1e-4)


def test_what_is_hot_changes_from_week_to_week() -> None:
    hashtags = Hashtags(scale=0.01, seed=1)
    first = hashtags.hottest(50, day=0)
    kept = [len(np.intersect1d(first, hashtags.hottest(50, day))) for day in (0, 1, 7, 60)]
    assert kept[0] == 50
    assert kept == sorted(kept, reverse=True)
    assert kept[1] >= 35
    assert kept[3] <= 15
    assert all(hashtags.hottest(1, day)[0] == first[0] for day in (1, 7, 60))


def test_without_drift_nothing_changes() -> None:
    hashtags = Hashtags(scale=0.001, drift=0.0)
    assert np.array_equal(hashtags.hottest(100, 0), hashtags.hottest(100, 89))


def test_ranks_are_one_to_one_with_tags_on_every_day() -> None:
    hashtags = Hashtags(scale=0.001, drift=1.0)
    for day in (0, 1, 45, 89):
        tags = hashtags.hottest(hashtags.law.keys, day)
        assert np.array_equal(np.sort(tags), np.arange(hashtags.law.keys))


def test_messages_of_a_day_follow_the_ranks_of_that_day() -> None:
    hashtags = Hashtags(scale=0.01, days=10, drift=1.0)
    per_day = hashtags.messages // 10
    for day in (0, 4, 9):
        counts = np.bincount(
            hashtags.keys(day * per_day, (day + 1) * per_day), minlength=hashtags.law.keys
        )
        for rank, tag in enumerate(hashtags.hottest(5, day).tolist(), 1):
            p = 0.085 * rank**-hashtags.law.exponent
            assert counts[tag] == pytest.approx(per_day * p, abs=5 * math.sqrt(per_day * p))


def test_a_stream_is_the_same_however_it_is_cut() -> None:
    hashtags = Hashtags(scale=0.01, seed=5, days=7)
    assert hashtags.messages > 2 * BLOCK
    whole = hashtags.table(0, hashtags.messages)
    cuts = [0, 1, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 7, hashtags.messages]
    again = Hashtags(scale=0.01, seed=5, days=7)
    parts = [again.table(*cut) for cut in reversed(list(pairwise(cuts)))]
    assert pa.concat_tables(reversed(parts)).combine_chunks().equals(whole.combine_chunks())
    other = Hashtags(scale=0.01, seed=6, days=7).keys(0, 1000)
    assert not np.array_equal(other, hashtags.keys(0, 1000))


def test_the_table_is_what_spark_can_read() -> None:
    hashtags = Hashtags(scale=0.001, days=3)
    table = hashtags.table(10, 20)
    assert table.schema == pa.schema(
        [("timestamp", pa.timestamp("us", tz="UTC")), ("hashtag", pa.string())]
    )
    ids = hashtags.keys(10, 20).tolist()
    assert table["hashtag"].to_pylist() == [f"#tag{tag}" for tag in ids]
    times = hashtags.times(0, hashtags.messages) - START_US
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert 2.99 * 86_400e6 < times[-1] < 3 * 86_400e6


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"scale": 0.0}, "scale"),
        ({"scale": math.inf}, "scale"),
        ({"seed": -1}, "seed"),
        ({"days": 0}, "days"),
        ({"days": 367}, "days"),
        ({"drift": -0.1}, "drift"),
        ({"drift": math.nan}, "drift"),
    ],
)
def test_refuses_what_cannot_work(arguments: dict[str, float], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        Hashtags(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("day", [-1, 90])
def test_refuses_a_day_outside_of_the_stream(day: int) -> None:
    with pytest.raises(ArgumentError, match="`day` must be between 0 and 89"):
        Hashtags().hottest(1, day)
