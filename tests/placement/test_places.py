"""Whatever is moved and split, every pair of rows meets in exactly one unit of work."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import HASH_MAX
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.units import slot_bounds
from tests.placement.routing.test_contract import assert_every_pair_meets_once
from tests.strategies import examples


def slot_of(key: int, slots: int) -> int:
    return key * slots >> 64


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    slots, instances = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    placement = Placement.spread(slots, instances)
    somewhere = st.integers(0, instances - 1)
    for slot in draw(st.lists(st.integers(0, slots - 1), max_size=8)):
        placement = placement.with_slot(slot, draw(somewhere))
    edges = [bound for slot in range(slots) for bound in slot_bounds(slot, slot, slots)]
    hashes = st.sampled_from([*edges, *(edge + 1 for edge in edges if edge < HASH_MAX)])
    places = st.lists(somewhere, min_size=1, unique=True).map(tuple)
    cut_of = st.sampled_from(["probers", "stored"])
    for key in draw(st.lists(hashes | st.integers(0, HASH_MAX), max_size=6)):
        own = IsolatedKey(key, str(key), slot_of(key, slots), draw(places), draw(places),
                     draw(cut_of), draw(cut_of))  # fmt: skip
        placement = placement.with_isolated(own)
    for own in (
        draw(st.lists(st.sampled_from(placement.isolated), max_size=2))
        if placement.isolated
        else ()
    ):
        placement = placement.without_isolated(own.hash)
    return placement


@examples(300)
@given(placement=placements())
def test_every_pair_meets_in_one_unit(placement: Placement) -> None:
    table = placement.table("any")
    assert (table.instances, table.slots) == (placement.instances, placement.slots)
    assert_every_pair_meets_once([unit for mine in table.units for unit in mine])


@examples(100)
@given(placement=placements())
def test_a_placement_survives_json(placement: Placement) -> None:
    again = Placement.from_json(json.loads(json.dumps(placement.to_json())))
    assert again == placement
    assert hash(again) == hash(placement)
    assert again.table("any") == placement.table("any")


def test_changing_a_placement_leaves_the_old_one_alone() -> None:
    before = Placement.spread(4, 2)
    after = before.with_slot(0, 1).with_isolated(IsolatedKey(7, "7", 0, (0,), (0, 1)))
    assert list(before.instance_of) == [0, 0, 1, 1]
    assert list(after.instance_of) == [1, 0, 1, 1]
    assert (before.isolated, len(after.isolated)) == ((), 1)
    assert after != before
    assert after.without_isolated(7).with_slot(0, 0) == before
