"""What every fixed routing must do, checked for every one in the registry."""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import FrozenInstanceError, dataclass, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import HASH_MAX, SIDES
from skewless.errors import ArgumentError
from skewless.placement.routing import Broadcast, ContRand, Hash, Routing
from skewless.placement.units import WHOLE, Cut, RoutingTable, WorkUnit, slot_bounds
from skewless.strategies import FAMILIES
from tests.strategies import examples

STRATEGIES: list[type[Routing]] = [
    strategy for strategy in FAMILIES["join"].classes().values() if issubclass(strategy, Routing)
]
CONFIGURATIONS = [strategy() for strategy in STRATEGIES] + [ContRand(n) for n in (1, 2, 3, 7, 99)]
SLOTS = st.integers(1, 9) | st.integers(1, 65_536)
INSTANCES = st.integers(1, 6) | st.integers(1, 300)


def units_of(strategy: Routing, slots: int, instances: int) -> list[WorkUnit]:
    return [unit for mine in strategy.table(slots, instances).units for unit in mine]


def test_every_strategy_is_found() -> None:
    assert {Hash, ContRand, Broadcast} <= set(STRATEGIES)


def assert_every_pair_meets_once(units: list[WorkUnit]) -> None:
    """Hash ranges cover all hashes without overlap, and what each side has to probe in one is
    divided into parts 0 to n-1 of one kind."""
    for side in SIDES:
        cuts: dict[tuple[int, int], list[Cut]] = defaultdict(list)
        for unit in units:
            cut = unit.cut(side)
            if cut is not None:
                cuts[unit.hash_min, unit.hash_max].append(cut)
        for divided in cuts.values():
            assert len({cut.of for cut in divided}) == 1
            parts = sorted((cut.part, cut.parts) for cut in divided)
            assert parts == [(part, len(divided)) for part in range(len(divided))]
        reached = -1
        for first, last in sorted(cuts):
            assert first == reached + 1
            assert last >= first
            reached = last
        assert reached == HASH_MAX


@pytest.mark.parametrize("strategy", CONFIGURATIONS, ids=repr)
@examples(60)
@given(slots=SLOTS, instances=INSTANCES)
def test_every_pair_meets_in_one_unit(strategy: Routing, slots: int, instances: int) -> None:
    table = strategy.table(slots, instances)
    assert table.instances == instances
    assert table.slots == slots
    assert_every_pair_meets_once(units_of(strategy, slots, instances))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", CONFIGURATIONS, ids=repr)
@examples(5000)
@given(slots=SLOTS, instances=INSTANCES)
def test_every_pair_meets_in_one_unit_at_length(
    strategy: Routing, slots: int, instances: int
) -> None:
    assert_every_pair_meets_once(units_of(strategy, slots, instances))


@pytest.mark.parametrize("strategy", CONFIGURATIONS, ids=repr)
def test_configurations_are_frozen_comparable_and_pure(strategy: Routing) -> None:
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    assert hash(strategy) == hash(pickle.loads(pickle.dumps(strategy)))
    assert strategy.table(64, 4) == strategy.table(64, 4)
    assert pickle.loads(pickle.dumps(strategy.table(64, 4))) == strategy.table(64, 4)
    for field in fields(strategy):  # type: ignore[arg-type]
        with pytest.raises(FrozenInstanceError):
            setattr(strategy, field.name, 1)


@pytest.mark.parametrize("strategy", CONFIGURATIONS, ids=repr)
def test_a_table_tells_the_name_of_its_strategy(strategy: Routing) -> None:
    assert strategy.table(8, 2).strategy.startswith(type(strategy).__name__)
    assert strategy.__doc__


def test_hash_gives_a_key_to_one_instance() -> None:
    units = units_of(Hash(), 8, 3)
    assert len(units) == 3
    assert {(unit.left, unit.right) for unit in units} == {(WHOLE, WHOLE)}
    sizes = [unit.hash_max - unit.hash_min + 1 for unit in units]
    assert sum(sizes) == 1 << 64
    assert max(sizes) <= 2 * min(sizes)


def test_with_fewer_slots_than_instances_some_are_idle() -> None:
    table = Hash().table(slots=2, instances=5)
    assert [len(mine) for mine in table.units].count(1) == 2


def test_broadcast_gives_every_instance_a_part_of_everything() -> None:
    cuts = [Cut(part, 3) for part in range(3)]
    assert units_of(Broadcast(), 8, 3) == [WorkUnit(0, HASH_MAX, cut, cut) for cut in cuts]


def test_contrand_lies_between_the_two() -> None:
    assert units_of(ContRand(1), 8, 4) == units_of(Broadcast(), 8, 4)
    assert units_of(ContRand(4), 8, 4) == units_of(Hash(), 8, 4)
    cuts = [unit.left for unit in units_of(ContRand(2), 8, 5)]
    assert [cut and cut.parts for cut in cuts] == [2, 2, 3, 3, 3]


@pytest.mark.parametrize("groups", [0, -1, 1.5, "2", None, True])
def test_contrand_refuses_what_is_no_number_of_groups(groups: object) -> None:
    with pytest.raises(ArgumentError, match="`groups` must be a whole number of at least 1"):
        ContRand(groups)


@dataclass(frozen=True)
class Given(Routing):
    """A routing of somebody else, by its units."""

    units: tuple[tuple[WorkUnit, ...], ...]

    def table(self, slots: int, instances: int) -> RoutingTable:
        return RoutingTable("Given", slots, self.units)


HALF, OTHER_HALF = (WorkUnit(*slot_bounds(slot, slot, 2)) for slot in range(2))
WRONG: dict[str, tuple[tuple[WorkUnit, ...], str]] = {
    "a hole": ((HALF, WorkUnit(OTHER_HALF.hash_min + 1)), f"hashes from {OTHER_HALF.hash_min} on"),
    "no end": ((HALF, WorkUnit(1, 0, None, None)), f"nobody has the hashes from {1 << 63} on"),
    "twice": ((WorkUnit(), WorkUnit()), "must be parts 0 to 1 of one kind"),
    "overlap": ((WorkUnit(), OTHER_HALF), "left rows: the hashes from"),
    "one side": ((WorkUnit(), WorkUnit(right=None, left=None)), ""),
    "one side only": ((WorkUnit(right=None), WorkUnit(left=None)), ""),
    "right rows": ((WorkUnit(right=None), WorkUnit(left=None, hash_min=1)), "right rows: the hash"),
    "two kinds": (
        (WorkUnit(left=Cut(0, 2, "stored")), WorkUnit(left=Cut(1, 2, "probers"), right=None)),
        "of one kind",
    ),
    "fewer": ((WorkUnit(),), "for 8 slots and 2 instances"),
}


@pytest.mark.parametrize(("units", "why"), WRONG.values(), ids=list(WRONG))
def test_a_wrong_table_is_refused_before_rows_are_lost(
    units: tuple[WorkUnit, ...], why: str
) -> None:
    routing = Given(tuple((unit,) for unit in units))
    if not why:
        assert routing.begin(8, 2).table.units == routing.units
        return
    with pytest.raises(ArgumentError, match=why) as caught:
        routing.begin(8, 2)
    assert caught.value.argument == "strategy"
