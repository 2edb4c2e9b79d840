"""Figures about groupings: exact, however the stream is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import ArgumentError
from skewless.placement.grouping import (
    PKG,
    GroupingMetrics,
    KeyGrouping,
    ShuffleGrouping,
    load_imbalance,
    measure,
    replication_factor,
)
from tests.placement.grouping.references import imbalance, replication
from tests.placement.grouping.streams import STREAMS, UInts, zipf_stream
from tests.strategies import examples


def test_figure_1_of_the_pd_stream_paper() -> None:
    """Nine tuples of three keys: instances get 4, 3 and 2 tuples of 3, 2 and 1 keys."""
    keys = np.array([1, 2, 3, 3, 1, 1, 2, 1, 1])
    targets = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    metrics = GroupingMetrics(3)
    metrics.update(keys, targets)
    assert metrics.loads.tolist() == [4, 3, 2]
    assert round(metrics.load_imbalance, 2) == 0.33
    assert metrics.replication_factor == replication_factor(keys, targets) == 2


@examples(100)
@given(hashes=STREAMS, instances=st.integers(1, 9), data=st.data())
def test_metrics_are_exact(hashes: UInts, instances: int, data: st.DataObject) -> None:
    places = st.integers(0, instances - 1)
    drawn = data.draw(st.lists(places, min_size=len(hashes), max_size=len(hashes)))
    targets = np.array(drawn, np.int32)
    metrics = GroupingMetrics(instances)
    cut = data.draw(st.integers(0, len(hashes)))
    metrics.update(hashes[:cut], targets[:cut])
    metrics.update(hashes[cut:], targets[cut:])
    assert metrics.tuples == len(hashes)
    assert metrics.distinct_keys == len(set(hashes.tolist()))
    if len(hashes):
        assert metrics.load_imbalance == pytest.approx(float(imbalance(drawn, instances)))
        expected = float(replication(hashes.tolist(), drawn))
        assert metrics.replication_factor == replication_factor(hashes, targets) == expected


def test_metrics_are_exact_while_the_table_grows() -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**63, 60_000)[rng.integers(0, 60_000, 150_000)]
    targets = rng.integers(0, 5, len(keys))
    metrics = GroupingMetrics(5)
    metrics.update(keys, targets)
    pairs = np.unique(np.stack([keys, targets]), axis=1).shape[1]
    assert metrics.distinct_keys == len(np.unique(keys))
    assert metrics.replication_factor == pairs / len(np.unique(keys))


def test_without_tuples_all_is_even_and_nothing_split() -> None:
    metrics = GroupingMetrics(4)
    assert (metrics.load_imbalance, metrics.replication_factor) == (0, 1)
    assert load_imbalance([]) == load_imbalance([0, 0]) == 0
    assert replication_factor(np.array([], np.int64), np.array([], np.int32)) == 1


def test_a_grouper_is_measured() -> None:
    hashes = zipf_stream(10_000, 1.5)
    even, unsplit = (measure(g.build(8), hashes, 999) for g in (ShuffleGrouping(), KeyGrouping()))
    assert even.load_imbalance == 0
    assert unsplit.replication_factor == 1
    assert even.replication_factor > 1
    assert unsplit.load_imbalance > 1
    assert even.tuples == unsplit.tuples == 10_000
    assert even.distinct_keys == unsplit.distinct_keys == len(np.unique(hashes))
    assert unsplit.ns_per_tuple > 0
    assert even.memory_bytes == ShuffleGrouping().build(8).memory_bytes


def test_a_hot_key_makes_the_imbalance_of_two_choices() -> None:
    hashes = zipf_stream(100_000, 2.0)
    share = np.unique(hashes, return_counts=True)[1].max() / len(hashes)
    assert measure(PKG().build(64), hashes).load_imbalance == pytest.approx(
        share * 32 - 1, rel=0.05
    )


@pytest.mark.parametrize(
    ("targets", "complaint"),
    [
        ([0], "`targets` must be as many as hashes"),
        ([0, 3], "`targets` must be instances 0 to 2"),
        ([-1, 0], "`targets` must be instances 0 to 2"),
    ],
)
def test_wrong_targets_are_refused(targets: list[int], complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        GroupingMetrics(3).update(np.array([5, 6]), np.array(targets))


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(ArgumentError, match="`instances`"):
        GroupingMetrics(0)
    with pytest.raises(ArgumentError, match="`batch`"):
        measure(PKG().build(2), np.array([1]), batch=0)
