"""What every strategy that balances must be, checked for every one in the registry."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest

from skewless.errors import ArgumentError
from skewless.placement.balancing import Auto, Balancing, FastJoin, LSStream, NoBalancing
from skewless.placement.balancing.changes import Change, Merge, Move, Split
from skewless.placement.balancing.view import View
from skewless.placement.places import Placement
from skewless.strategies import FAMILIES
from tests.placement.balancing.views import key_in, own, view

STRATEGIES: list[type[Balancing]] = [
    strategy for strategy in FAMILIES["join"].classes().values() if issubclass(strategy, Balancing)
]
CONFIGURED: list[Balancing] = [
    *(strategy() for strategy in STRATEGIES),
    FastJoin(selector="annealing"),
    FastJoin(paper=True, keys_watched="all"),
    FastJoin(theta="auto"),
    LSStream(paper=True),
    LSStream(alpha="auto"),
    Auto(tolerance=0.02, floor_ms=0, noise=0),
]
SLOTS = 32


def skewed(seed: int = 0) -> View:
    """Eight instances, slots of all weights, a few heavy keys, one of them apart, one split."""
    rng = np.random.default_rng(seed)
    slots = (1000 * rng.pareto(1.1, SLOTS)).round() + 100
    heavy = {key_in(s, SLOTS, 7): float(slots[s] // 2) for s in range(0, SLOTS, 3)}
    apart = {key_in(1, SLOTS, 3): 800.0, key_in(2, SLOTS, 3): 6000.0}
    placement = Placement.spread(SLOTS, 8)
    for key, homes in zip(apart, ((4,), (1, 5, 6)), strict=True):
        placement = placement.with_isolated(own(key, SLOTS, *homes))
    return view(slots.tolist(), 8, heavy | apart, placement)


def test_every_strategy_is_found() -> None:
    assert set(STRATEGIES) >= {Auto, FastJoin, LSStream, NoBalancing}


@pytest.mark.parametrize("strategy", CONFIGURED, ids=repr)
def test_it_is_a_frozen_value(strategy: Balancing) -> None:
    again = pickle.loads(pickle.dumps(strategy))
    assert again == strategy
    assert hash(again) == hash(strategy)
    for field in fields(strategy):
        with pytest.raises(FrozenInstanceError):
            setattr(strategy, field.name, 1)


def ids_of(change: Change) -> list[int]:
    return [change.source, *change.targets]


@pytest.mark.parametrize("strategy", CONFIGURED, ids=repr)
@pytest.mark.parametrize("seed", range(5))
def test_proposals_are_pure_and_valid(strategy: Balancing, seed: int) -> None:
    seen = skewed(seed)
    proposed = list(strategy.propose(seen))
    assert proposed == list(pickle.loads(pickle.dumps(strategy)).propose(skewed(seed)))
    assert seen.placement == skewed(seed).placement
    placement = seen.placement
    for change in proposed:
        assert change.reason.strip()
        assert change.subject
        assert all(0 <= i < seen.instances for i in ids_of(change))
        if isinstance(change, Move):
            assert 0 <= change.slot < SLOTS
            assert change.source != change.target
        if isinstance(change, Split):
            assert change.isolated.hash in seen.key_index
        if isinstance(change, Merge):
            assert placement.isolated_key(change.isolated.hash) == change.isolated
        placement = change.on(placement)


@pytest.mark.parametrize("strategy", CONFIGURED, ids=repr)
@pytest.mark.parametrize("instances", [1, 2, 8])
def test_even_load_is_left_alone(strategy: Balancing, instances: int) -> None:
    even = view([100_000.0] * SLOTS, instances, {key_in(3, SLOTS, 5): 50.0})
    assert not strategy.wants_change(even)
    nothing = view([0.0] * SLOTS, instances)
    assert not strategy.wants_change(nothing)
    assert list(strategy.propose(nothing)) == []


@pytest.mark.parametrize("strategy", [s for s in CONFIGURED if not isinstance(s, NoBalancing)],
                         ids=repr)  # fmt: skip
def test_skew_is_noticed_and_answered(strategy: Balancing) -> None:
    slots = [1000.0] * 28 + [60_000.0] * 4
    keys = {key_in(s, SLOTS, n): 5_000.0 for s in range(28, 32) for n in range(12)}
    seen = view(slots, 8, keys)
    seen = replace(seen, rent_ms=strategy.rent_ms(seen))  # as the governor does in every batch
    assert strategy.wants_change(seen)
    placement = seen.placement
    before = strategy.load.of_instances(seen, placement)
    for change in strategy.propose(seen):
        placement = change.on(placement)
    assert strategy.load.of_instances(seen, placement).max() < before.max()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window", 0), ("window", 1.5), ("patience", 0), ("cooldown", -1), ("horizon", 0),
        ("keys_watched", -1), ("keys_watched", True), ("keys_watched", "some"),
        ("pin", {"a": -1}), ("pin", {"a": 0.5}),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(strategy: type[Balancing], name: str, value: Any) -> None:
    with pytest.raises(ArgumentError) as error:
        strategy(**{name: value})
    assert error.value.argument == name
