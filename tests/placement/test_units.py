"""Who works on what: slots are ranges of hashes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import HASH_MAX
from skewless.placement.units import slot_bounds, slot_ends, slot_of
from tests.strategies import examples

SLOTS = st.integers(1, 9) | st.integers(1, 65_536)


@examples(100)
@given(slots=SLOTS)
def test_slots_are_equal_neighbouring_ranges(slots: int) -> None:
    some = sorted({0, slots // 3, slots // 2, slots - 1})
    for slot in some:
        low, high = slot_bounds(slot, slot, slots)
        assert abs((high - low + 1) - (1 << 64) / slots) <= 1 + (1 << 12)
        if slot + 1 < slots:
            assert slot_bounds(slot + 1, slot + 1, slots)[0] == high + 1
        assert slot_bounds(0, slot, slots) == (0, high)
    assert slot_bounds(0, slots - 1, slots) == (0, HASH_MAX)


@examples(30)
@given(slots=st.integers(1, 300))
def test_a_hash_belongs_to_the_slot_whose_range_it_is_in(slots: int) -> None:
    low, high = slot_ends(slots)
    assert (int(low[0]), int(high[-1])) == (0, HASH_MAX)
    for slot in range(slots):
        assert (int(low[slot]), int(high[slot])) == slot_bounds(slot, slot, slots)
        assert slot_of(int(low[slot]), slots) == slot_of(int(high[slot]), slots) == slot
