"""Auto's plans, on loads made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import ArgumentError
from skewless.placement.balancing import Auto
from skewless.placement.balancing.changes import Change, Merge, Move, Split
from skewless.placement.balancing.imbalance import max_over_mean
from skewless.placement.balancing.loads import MeasuredTime
from skewless.placement.balancing.view import View
from skewless.placement.places import Placement
from tests.placement.balancing.test_tally import growing
from tests.placement.balancing.views import key_in, own, view
from tests.strategies import examples

EAGER = Auto(floor_ms=0, noise=0)


def planned(seen: View, strategy: Auto = EAGER) -> tuple[list[Change], Placement, float]:
    """Proposals, where they lead, and how even the work is then."""
    changes = list(strategy.propose(seen))
    placement = seen.placement
    for change in changes:
        placement = change.on(placement)
    return changes, placement, max_over_mean(MeasuredTime().of_instances(seen, placement))


def reason_of(changes: list[Change], key: int) -> str:
    return next(c.reason for c in changes if isinstance(c, Split) and c.key_hash == key)


def test_slots_move_towards_the_mean() -> None:
    changes, _, ratio = planned(view([30.0] * 10 + [10.0] * 10, 2))
    assert ratio <= 1.05
    assert all(isinstance(c, Move) and c.key is None for c in changes)
    assert len(changes) <= 4


def test_a_key_in_a_slot_too_coarse_to_move_gets_a_place_of_its_own() -> None:
    keys = {key_in(0, 4, n): 30_000.0 for n in (1, 2, 3)}
    changes, placement, ratio = planned(view([90_000.0, 2_000.0, 2_000.0, 2_000.0], 3, keys))
    assert ratio <= 1.10
    assert placement.isolated
    assert all(not o.is_split for o in placement.isolated)
    assert any(isinstance(c, Move) and c.key is not None for c in changes)


def test_a_key_that_outweighs_an_instance_is_split_just_enough() -> None:
    hot = key_in(5, 64, 1)
    slots = [1000.0] * 64
    slots[5] += 64_000.0
    changes, placement, ratio = planned(view(slots, 8, {hot: 64_000.0}))
    split = placement.isolated_key(hot)
    assert split is not None
    assert split.left_of == "probers"
    assert ratio <= 1.04
    assert len(changes) == 1  # everything else can stay where it is
    assert reason_of(changes, hot) == "50.0% of the work, an even share is 12.5%"


def test_no_more_instances_share_a_key_than_it_needs() -> None:
    """Half of the instances are idle: they are enough."""
    hot = key_in(5, 64, 1)
    slots = [2000.0] * 32 + [0.0] * 32
    slots[5] += 64_000.0
    split = planned(view(slots, 8, {hot: 64_000.0}))[1].isolated_key(hot)
    assert split is not None
    assert split.instances == (4, 5, 6, 7)


def test_few_rows_that_probe_are_not_cut_but_the_stored_ones_they_meet() -> None:
    hot = key_in(5, 64, 1)
    seen = view([1000.0] * 64, 8, {hot: 64_000.0})
    slots, keys = seen.slots, seen.key_figures
    time_left = slots.time_left_ms.copy()
    time_left[5] += 64_000.0
    slots = replace(slots, time_left_ms=time_left)
    keys = replace(keys, probing_left=np.array([10.0]), time_left_ms=np.array([64_000.0]))
    split = planned(replace(seen, slots=slots, key_figures=keys))[1].isolated_key(hot)
    assert split is not None
    assert split.left_of == "stored"
    assert len(split.left) > 1
    assert len(split.right) == 1  # right rows have nothing to do


def test_cutting_stored_rows_must_pay_for_the_probing_it_repeats() -> None:
    """Each of 20 rows costs 300 to probe with at all, and what they meet 3000: four parts would
    pay 18,000 more for probing."""
    hot = key_in(5, 64, 1)
    seen = view([1000.0] * 64, 8, {hot: 64_000.0})
    time_left = seen.slots.time_left_ms.copy()
    time_left[5] += 64_000.0
    seen = replace(
        seen,
        slots=replace(seen.slots, time_left_ms=time_left),
        key_figures=replace(
            seen.key_figures, probing_left=np.array([20.0]), time_left_ms=np.array([64_000.0])
        ),
        row_ms=3_000.0,
    )
    split = planned(seen)[1].isolated_key(hot)
    assert split is None or len(split.left) <= 2


def test_a_key_whose_work_goes_up_and_down_is_shared_by_more() -> None:
    """Both have half of an instance's work; the one in 5 rows, the other in 8,000."""
    steady, unsteady = key_in(5, 64, 1), key_in(9, 64, 1)
    slots = [1000.0] * 64
    slots[5], slots[9], slots[60] = 9_000.0, 9_000.0, 20_000.0
    seen = view(slots, 8, {steady: 8_000.0, unsteady: 8_000.0})
    probing = np.array([8_000.0, 5.0])
    seen = replace(seen, key_figures=replace(seen.key_figures, probing_left=probing))
    changes, placement, _ = planned(seen)
    split = placement.isolated_key(unsteady)
    assert split is not None
    assert len(split.instances) == 8
    assert reason_of(changes, unsteady) == (
        "8.1% of the work and up and down by batch, an even share is 12.5%"
    )
    assert placement.isolated_key(steady) is None or not placement.isolated_by_hash[steady].is_split


def test_a_key_that_grows_is_split_before_it_outweighs_an_instance() -> None:
    """100 ms of work in each slot; the key in the first has few of the stored rows it will have."""
    seen = growing(1_800.0)
    slots = replace(seen.slots, time_left_ms=np.full(4, 100.0))
    keys = replace(seen.key_figures, time_left_ms=np.array([50.0]))
    changes, placement, _ = planned(replace(seen, slots=slots, key_figures=keys))
    split = placement.isolated_key(1)
    assert split is not None and len(split.instances) == 2
    reason = reason_of(changes, 1)
    share = float(reason.partition("%")[0])
    assert 100 * 50 / 400 < share < 50, "a little ahead, and less than an even share"
    assert reason.endswith("% of the work and growing, an even share is 50.0%")


def test_what_has_cooled_is_undone() -> None:
    hot, warm = key_in(5, 64, 1), key_in(9, 64, 1)
    placement = (
        Placement.spread(64, 8)
        .with_isolated(own(hot, 64, 0, 1, 2, 3))
        .with_isolated(own(warm, 64, 4))
    )
    seen = view([1000.0] * 64, 8, {hot: 10.0, warm: 5.0}, placement)
    assert EAGER.wants_change(seen)
    changes, after, ratio = planned(seen)
    assert [type(c) for c in changes] == [Merge, Merge]
    assert after.isolated == ()
    assert ratio <= 1.04


def test_a_split_key_that_still_is_heavy_stays_split() -> None:
    hot = key_in(5, 64, 1)
    placement = Placement.spread(64, 8).with_isolated(own(hot, 64, 0, 1, 2, 3))
    slots = [500.0] * 32 + [1500.0] * 32
    seen = view(slots, 8, {hot: 32_000.0}, placement)
    assert not EAGER.wants_change(replace(seen, slots=view([500.0] * 32 + [1500.0] * 32, 8).slots))
    assert planned(seen)[0] == []


def test_no_more_is_done_than_chance_explains() -> None:
    cautious = Auto(floor_ms=0, noise=3.0)
    few = view([12.0, 12.0, 8.0, 8.0], 2)
    assert EAGER.wants_change(few)
    assert not cautious.wants_change(few)
    assert cautious.wants_change(view([12e6, 12e6, 8e6, 8e6], 2))


def test_what_takes_no_time_is_left_alone() -> None:
    assert not Auto(floor_ms=100.0, noise=0).wants_change(view([90.0, 1.0], 2))


def test_pinned_keys_stay() -> None:
    hot = key_in(5, 64, 1)
    slots = [1000.0] * 64
    slots[5] += 64_000.0
    seen = replace(view(slots, 8, {hot: 64_000.0}), pinned=frozenset([hot]))
    assert all(getattr(c, "key", None) is None for c in EAGER.propose(seen))
    assert not any(isinstance(c, Split | Merge) for c in EAGER.propose(seen))


@pytest.mark.parametrize(
    ("name", "value"),
    [("tolerance", 0), ("tolerance", "x"), ("floor_ms", -1), ("noise", -1), ("noise", True)],
)
def test_what_cannot_work_is_refused(name: str, value: object) -> None:
    with pytest.raises(ArgumentError) as error:
        Auto(**{name: value})  # type: ignore[arg-type]
    assert error.value.argument == name


@examples(150)
@given(st.integers(2, 40), st.floats(0.2, 2.0), st.integers(0, 10_000), st.booleans())
def test_any_zipf_over_any_instances(instances: int, z: float, seed: int, again: bool) -> None:
    """Keys of all weights, the heavy ones watched: the work ends up even within the tolerance, and
    what is even is then left alone."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, 20_001) ** -z
    weights *= 1e6 / weights.sum()
    slots = 16 * instances
    of = rng.integers(slots, size=len(weights))
    loads = np.bincount(of, weights, minlength=slots)
    watched = {key_in(int(of[i]), slots, i + 1): float(weights[i]) for i in range(32 * instances)}
    seen = view(loads.tolist(), instances, watched)
    _, placement, ratio = planned(seen)
    assert ratio <= 1.08
    if again:
        left = loads.copy()
        for o in placement.isolated:
            left[o.slot] -= watched[o.hash]
        assert not EAGER.wants_change(view(left.tolist(), instances, watched, placement))
