"""FastJoin moves keys from the heaviest instance to the lightest, and knows when not to."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from skewless.errors import ArgumentError
from skewless.placement.balancing.changes import Move
from skewless.placement.balancing.fastjoin import FastJoin
from skewless.placement.balancing.view import View
from skewless.placement.figures import Figures, WatchedKey
from skewless.placement.places import IsolatedKey, Placement

KEYS = tuple(WatchedKey(10 + i, f"k{i}", 0) for i in range(4))


def view_of(key_rows: list[float], *, rest: float = 100, others: float = 100) -> View:
    """Two slots at each of three instances. The keys are in slot 0, which has `rest` rows besides;
    every other slot has `others`. As many rows are stored as probe, of one direction."""
    rows = np.array([sum(key_rows) + rest, *[others] * 5], float)
    keys = np.array(key_rows, float)
    return View(
        0,
        Placement.spread(6, 3),
        replace(Figures.zeros(6), stored_left=rows, probing_right=rows),
        KEYS[: len(keys)],
        replace(Figures.zeros(len(keys)), stored_left=keys, probing_right=keys),
    )


@pytest.mark.parametrize("selector", ["greedy", "annealing"])
def test_keys_move_from_the_heaviest_to_the_lightest(selector: str) -> None:
    view = view_of([150, 100, 50], others=80)
    view = replace(view, placement=view.placement.with_slot(3, 0))  # instance 1: 80, 2: 160
    strategy = FastJoin(selector=selector, decay=0.7)
    before = strategy.load.of_instances(view, view.placement)
    moves = list(strategy.propose(view))
    assert moves
    placement = view.placement
    for move in moves:
        assert isinstance(move, Move)
        assert (move.source, move.target, move.slot) == (0, 1, 0)
        assert move.key in KEYS
        placement = move.on(placement)
    after = strategy.load.of_instances(view, placement)
    assert after[0] < before[0]
    assert before[1] < after[1] <= after[0]


def test_the_reason_is_a_sentence_with_figures() -> None:
    # 600 rows times 600 beside 200 times 200; without the key, 500 times 500 of 600 times 600.
    [move] = FastJoin().propose(view_of([100], rest=400))
    assert move.reason == "instance 0 has 9.0 times the load of instance 1; key k0 has 31 % of it"
    [move] = FastJoin().propose(view_of([100], rest=400, others=0))
    assert move.reason == "instance 1 is idle beside instance 0; key k0 has 36 % of its load"


def test_nothing_is_done_below_theta_or_on_equal_loads() -> None:
    even = view_of([50, 25], rest=25)
    assert not FastJoin().wants_change(even)
    assert list(FastJoin(load_min=0).propose(even)) == []
    uneven = view_of([100], rest=400)  # nine times
    assert FastJoin(theta=8.9).wants_change(uneven)
    assert not FastJoin(theta=9.0).wants_change(uneven)


def test_a_nearly_empty_system_is_left_alone() -> None:
    few = view_of([40, 30], rest=29, others=0)  # 99 rows times 99 beside none
    assert not FastJoin().wants_change(few)
    assert list(FastJoin().propose(few)) == []
    assert FastJoin(load_min=99 * 99).wants_change(few)
    assert not FastJoin(load_min=0).wants_change(view_of([0], rest=0, others=0))
    assert FastJoin().wants_change(view_of([40, 31], rest=29, others=0))


def test_a_key_too_heavy_for_the_target_stays() -> None:
    assert list(FastJoin().propose(view_of([5000], rest=10))) == []


def test_own_keys_move_on_but_split_ones_and_those_elsewhere_stay() -> None:
    view = view_of([100, 100, 100, 100], rest=400)
    own = {
        10: (0,),  # at the heaviest instance, apart
        11: (0, 1),  # split
        12: (2,),  # elsewhere
    }
    placement = view.placement
    for hashed, places in own.items():
        placement = placement.with_isolated(IsolatedKey(hashed, "", 0, places, places))
    moves = list(FastJoin().propose(replace(view, placement=placement)))
    assert {move.key.hash for move in moves} <= {10, 13}
    assert moves


def test_gap_min_keeps_small_keys() -> None:
    view = view_of([100, 1], rest=400)
    assert {m.key.value for m in FastJoin().propose(view)} == {"k0", "k1"}
    assert {m.key.value for m in FastJoin(gap_min=5000).propose(view)} == {"k0"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("theta", 1), ("theta", "2"), ("theta", "Auto"), ("theta", float("nan")),
     ("selector", "best"), ("gap_min", -1),
     ("load_min", None), ("seed", -1), ("keys_watched", -1), ("temperature", 0), ("decay", 1),
     ("temperature_min", -1), ("rounds", 0)],
)  # fmt: skip
def test_what_cannot_work_is_refused(name: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` must be"):
        FastJoin(**{name: value})


def test_it_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(FastJoin(theta=3))) == FastJoin(theta=3) != FastJoin()
    view = view_of([100, 50], rest=400)
    assert list(FastJoin().propose(view)) == list(FastJoin().propose(view))
