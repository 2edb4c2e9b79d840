"""A placement over another number of instances, or of slots: still a division of all work."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import HASH_MAX, SIDES
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.units import RoutingTable, slot_bounds, slot_of


def assert_divides_all(table: RoutingTable) -> None:
    """(R): for each side, cuts cover every hash and are the parts 0 … n-1 of one kind."""
    for side in SIDES:
        ranges = defaultdict(list)
        for unit in (unit for units in table.units for unit in units):
            if (cut := unit.cut(side)) is not None:
                ranges[unit.hash_min, unit.hash_max].append(cut)
        at = 0
        for (low, high), cuts in sorted(ranges.items()):
            assert low == at
            assert sorted(cut.part for cut in cuts) == list(range(len(cuts)))
            assert {(cut.parts, cut.of) for cut in cuts} == {(len(cuts), cuts[0].of)}
            at = high + 1
        assert at == HASH_MAX + 1


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    instances, slots = draw(st.integers(1, 9)), draw(st.integers(1, 40))
    here = st.integers(0, instances - 1)
    of = draw(st.lists(here, min_size=slots, max_size=slots))
    some = st.lists(here, min_size=1, unique=True).map(tuple)
    keys = draw(st.lists(st.integers(0, HASH_MAX), max_size=4, unique=True))
    isolated = [
        IsolatedKey(key, str(key), slot_of(key, slots), draw(some), draw(some))
        for key in sorted(keys)
    ]
    return Placement(instances, np.array(of), tuple(isolated))


@given(placements(), st.integers(1, 20))
def test_any_other_number_of_instances(placement: Placement, instances: int) -> None:
    resized = placement.resized(instances)
    assert resized.instances == len(resized.table("").units) == instances
    assert_divides_all(resized.table(""))
    for before, after in zip(placement.isolated, resized.isolated, strict=True):
        assert after.is_split <= before.is_split, "what was whole stays whole"


@given(placements(), st.integers(1, 5))
def test_finer_slots_are_the_same_division(placement: Placement, factor: int) -> None:
    refined = placement.refined(factor)
    assert refined.slots == factor * placement.slots
    assert refined.table("").units == placement.table("").units
    for own in refined.isolated:
        low, high = slot_bounds(own.slot, own.slot, refined.slots)
        assert low <= own.hash <= high


@given(st.integers(1, 8), st.integers(1, 8))
def test_even_work_stays_even(few: int, factor: int) -> None:
    spread = Placement.spread(16 * few * factor, few)
    more = spread.resized(few * factor)
    assert set(np.bincount(more.instance_of)) == {16}
    assert more.resized(few) == spread
