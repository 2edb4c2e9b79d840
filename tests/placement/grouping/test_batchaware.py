"""BatchAware: even batches, few splits, and a plan that can be made apart from the routing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import ArgumentError
from skewless.placement.grouping import BatchAware, GroupingMetrics, home_of
from skewless.placement.grouping.shares import divide, level_room
from tests.placement.grouping.references import most_along_places
from tests.placement.grouping.streams import STREAMS, UInts, zipf_stream
from tests.strategies import examples

COUNTS = st.lists(st.integers(0, 30), min_size=1, max_size=7)


def key_at(instance: int, instances: int, number: int = 0) -> int:
    """A key whose home is this instance."""
    return (instance << 64) // instances + number + 1


@examples(200)
@given(base=st.lists(st.integers(-20, 20), min_size=1, max_size=8), tuples=st.integers(0, 200))
def test_room_levels_the_loads(base: list[int], tuples: int) -> None:
    room = level_room(np.array(base), tuples)
    assert room.sum() == tuples
    assert room.min() >= 0
    poured = list(base)
    for _ in range(tuples):  # one tuple after the other to the least loaded
        poured[poured.index(min(poured))] += 1
    assert sorted((base + room).tolist()) == sorted(poured)


@examples(200)
@given(counts=COUNTS, data=st.data())
def test_division_is_complete_and_keeps_keys_where_they_are(
    counts: list[int], data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, 4))
    subsets = st.sets(st.integers(0, n - 1), min_size=1)
    places = [data.draw(subsets) for _ in counts]
    allowed = np.array([[i in place for i in range(n)] for place in places])
    room = level_room(np.array(data.draw(st.lists(st.integers(0, 40), min_size=n, max_size=n))), 0)
    room = level_room(room, sum(counts))
    order = np.lexsort((np.arange(len(counts)), np.array(counts)))
    before, filled = allowed.copy(), room.copy()
    shares = divide(np.array(counts), order, allowed, filled, 0, 1)
    assert shares.sum(axis=1).tolist() == counts
    assert shares.min() >= 0
    assert shares.sum(axis=0).tolist() == room.tolist()
    assert not (shares[~allowed]).any()
    assert (allowed >= before).all()
    kept = int(shares[before].sum())
    assert kept == most_along_places(counts, places, room.tolist())


@examples(100)
@given(hashes=STREAMS, instances=st.integers(1, 9), cut=st.integers(0, 120))
def test_only_keys_that_are_tracked_leave_home(hashes: UInts, instances: int, cut: int) -> None:
    grouper = BatchAware(least=2).build(instances)
    for batch in (hashes[:cut], hashes[cut:]):
        targets = grouper.assign(batch)
        away = batch[targets != home_of(batch, instances)]
        assert set(away.tolist()) <= set(grouper.tracked_keys.tolist())


@pytest.mark.parametrize("instances", [3, 16, 48])
@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0])
def test_every_batch_is_even_and_few_keys_are_split(instances: int, exponent: float) -> None:
    grouper, total = BatchAware().build(instances), GroupingMetrics(instances)
    for number in range(5):
        batch = GroupingMetrics(instances)
        hashes = zipf_stream(40_000, exponent, seed=8)[number::2]
        targets = grouper.assign(hashes)
        batch.update(hashes, targets)
        total.update(hashes, targets)
        assert batch.load_imbalance < 0.01
    assert total.load_imbalance <= 1e-3
    added = (total.replication_factor - 1) * total.distinct_keys
    assert added <= 2 * instances


def test_hot_keys_may_change_from_batch_to_batch() -> None:
    grouper, total = BatchAware().build(16), GroupingMetrics(16)
    for number in range(6):
        hashes = zipf_stream(40_000, 1.5, seed=number)
        targets = grouper.assign(hashes)
        loads = np.bincount(targets, minlength=16)
        assert loads.max() / loads.mean() < 1.01
        total.update(hashes, targets)
    assert (total.replication_factor - 1) * total.distinct_keys <= 6 * 2 * 16
    assert len(grouper.tracked_keys) <= 16 * 16


def test_a_key_stays_where_it_was() -> None:
    hot, cold = key_at(0, 4), [key_at(i, 4, 5) for i in range(4)]
    grouper = BatchAware().build(4)
    batch = np.array([hot] * 400 + cold * 100, np.uint64)
    first = grouper.assign(batch)
    second = grouper.assign(batch)
    assert first.tolist() == second.tolist()
    assert grouper.tracked_keys.tolist() == [hot]
    assert np.bincount(first).tolist() == [200] * 4
    assert set(first[400:].tolist()) == {0, 1, 2, 3}


def test_a_light_key_stays_and_the_heavy_one_gives_way() -> None:
    light, heavy = key_at(0, 2), key_at(0, 2, 9)
    shares = BatchAware().build(2).plan([0, 0], np.array([heavy, light]), [90, 10])
    assert shares.tolist() == [[40, 50], [10, 0]]


def test_a_key_that_moved_away_does_not_come_home_when_it_is_light() -> None:
    grouper, key = BatchAware().build(2), key_at(0, 2)
    assert grouper.plan([100, 0], np.array([key]), [60]).tolist() == [[0, 60]]
    assert grouper.tracked_keys.tolist() == [key]
    assert grouper.assign(np.array([key] * 5)).tolist() == [1] * 5
    assert grouper.assign(np.array([key + 1] * 5)).tolist() == [0] * 5


def test_tuples_of_a_split_key_stay_together() -> None:
    targets = BatchAware().build(3).assign(np.full(99, 7))
    assert targets.tolist() == [0] * 33 + [1] * 33 + [2] * 33


def test_small_keys_and_small_overloads_are_left_alone() -> None:
    grouper = BatchAware(least=16).build(4)
    assert set(grouper.assign(np.full(15, 7)).tolist()) == {0}
    grouper = BatchAware(tolerance=0.1).build(2)
    keys = np.array([key_at(0, 2), key_at(1, 2)], np.uint64)
    assert grouper.plan([0, 0], keys, [104, 96]).tolist() == [[104, 0], [0, 96]]
    assert BatchAware().build(2).plan([0, 0], keys, [104, 96]).tolist() == [[100, 4], [0, 96]]


def test_later_batches_make_up_for_earlier_ones_within_bounds() -> None:
    grouper = BatchAware().build(2)
    grouper.plan([1000, 0], np.array([], np.uint64), [])
    shares = grouper.plan([0, 0], np.array([7]), [1000])
    assert shares.tolist() == [[450, 550]]


@pytest.mark.parametrize("seed", [0, 5])
def test_planning_apart_is_what_assign_does(seed: int) -> None:
    whole, apart = BatchAware().build(8, seed), BatchAware().build(8, seed)
    for number in range(4):
        hashes = zipf_stream(5000, 1.5, seed=number % 2)
        targets = whole.assign(hashes)
        keys, counts = np.unique(hashes, return_counts=True)
        heavy = (counts >= 16) | np.isin(keys, apart.tracked_keys)
        light = hashes[np.isin(hashes, keys[~heavy])]
        homes = np.bincount(apart.first_places(light), minlength=8)
        shares = apart.plan(homes, keys[heavy], counts[heavy])
        for key, row in zip(keys[heavy], shares, strict=True):
            assert np.bincount(targets[hashes == key], minlength=8).tolist() == row.tolist()
        assert apart.snapshot() == whole.snapshot()


def test_the_table_forgets_the_lightest_keys() -> None:
    grouper = BatchAware(tracked=2, least=1, tolerance=0.0).build(4)
    keys = np.array([key_at(0, 4, i) for i in range(4)])
    grouper.plan([0] * 4, keys, [40, 30, 20, 10])
    assert grouper.tracked_keys.tolist() == keys[:2].tolist()  # of three that had to be split


BAD_PLANS = [
    ("light", [1], [7], [1]),
    ("light", [1, -1], [7], [1]),
    ("light", [0.5, 1.0], [7], [1]),
    ("keys", [0, 0], [7, 7], [1, 1]),
    ("keys", [0, 0], [7.5], [1]),
    ("counts", [0, 0], [7, 8], [1]),
    ("counts", [0, 0], [7], [-1]),
    ("counts", [0, 0], [7], [1.5]),
]


@pytest.mark.parametrize(("argument", "light", "keys", "counts"), BAD_PLANS)
def test_what_cannot_be_planned_is_refused(
    argument: str, light: list[float], keys: list[float], counts: list[float]
) -> None:
    grouper = BatchAware().build(2)
    before = grouper.snapshot()
    with pytest.raises(ArgumentError, match=f"`{argument}` must be"):
        grouper.plan(light, np.array(keys), counts)
    assert grouper.snapshot() == before
