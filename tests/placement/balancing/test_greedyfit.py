"""GreedyFit, against a case worked by hand and against the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.placement.balancing.greedyfit import (
    Direction,
    benefits,
    gap,
    greedy_fit,
    loads_after,
    stored_rows,
)
from skewless.placement.balancing.imbalance import max_over_min
from tests.strategies import examples

COUNTS = st.integers(0, 50) | st.floats(0, 1e4, allow_subnormal=False)


@st.composite
def problems(draw: st.DrawFn, keys_max: int = 8) -> tuple[Direction, Direction]:
    keys = draw(st.integers(0, keys_max))

    def direction() -> Direction:
        stored, probing = (
            np.array(draw(st.lists(COUNTS, min_size=keys, max_size=keys)), float) for _ in range(2)
        )
        rest = [float(draw(COUNTS)) for _ in range(4)]
        return Direction(
            float(stored.sum()) + rest[0], rest[1], float(probing.sum()) + rest[2], rest[3],
            stored, probing,
        )  # fmt: skip

    return direction(), direction()


# Source: 20 stored, 10 probing; target: 4 stored, 2 probing. Gap 200 - 8 = 192.
# F = (20 + 4)·probing + (10 + 2)·stored; factor F / stored:
#   key 0: stored 10, probing 4: F = 96 + 120 = 216, factor 21.6: does not fit into 192
#   key 1: stored  4, probing 1: F = 24 +  48 =  72, factor 18
#   key 2: stored  2, probing 2: F = 48 +  24 =  72, factor 36
#   key 3: stored  0, probing 1: F = 24,             factor infinite
#   key 4: stored  0, probing 0: F = 0: nothing to gain
#   key 5: stored  1, probing 0: F = 12,             factor 12
# Order 3, 2, 0, 1, 5: 192 - 24 = 168, - 72 = 96, not 216, - 72 = 24, - 12 = 12.
BY_HAND = Direction(
    20, 4, 10, 2, np.array([10.0, 4, 2, 0, 0, 1]), np.array([4.0, 1, 2, 1, 0, 0])
)  # fmt: skip


def test_a_case_worked_by_hand() -> None:
    assert benefits([BY_HAND]).tolist() == [216, 72, 72, 24, 0, 12]
    chosen = greedy_fit([BY_HAND])
    assert chosen.tolist() == [3, 2, 1, 5]
    # 20 - 7 = 13 stored and 10 - 4 = 6 probing stay; 4 + 7 = 11 and 2 + 4 = 6 are there.
    assert loads_after([BY_HAND], chosen) == (78, 66)


def test_keys_with_little_benefit_stay() -> None:
    assert greedy_fit([BY_HAND], gap_min=24).tolist() == [3, 2, 1]
    assert greedy_fit([BY_HAND], gap_min=25).tolist() == [2, 1]
    assert greedy_fit([BY_HAND], gap_min=1000).tolist() == []


def test_nothing_moves_between_equals_or_uphill() -> None:
    stored, probing = np.array([1.0, 2]), np.array([1.0, 2])
    assert greedy_fit([Direction(5, 5, 5, 5, stored, probing)]).tolist() == []
    assert greedy_fit([Direction(5, 9, 5, 9, stored, probing)]).tolist() == []


def test_both_directions_count() -> None:
    other = Direction(0, 0, 10, 0, np.zeros(2), np.array([9.0, 0]))
    both = [Direction(10, 0, 10, 0, np.array([2.0, 2]), np.array([1.0, 1])), other]
    assert benefits(both).tolist() == [30, 30]
    assert stored_rows(both).tolist() == [2, 2]
    stored_right = [both[0], Direction(4, 0, 4, 0, np.array([0.0, 1]), np.array([0.0, 1]))]
    assert benefits(stored_right).tolist() == [30, 38]
    assert stored_rows(stored_right).tolist() == [2, 3]


@examples(200)
@given(problem=problems(), data=st.data())
def test_benefit_is_what_its_definition_says(
    problem: tuple[Direction, Direction], data: st.DataObject
) -> None:
    """Eq. (8) is definition (7): the product term cancels, of one key and of a set."""
    keys = len(problem[0].stored)
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, keys - 1)))) if keys else [], int)
    source, target = loads_after(problem, chosen)
    by_definition = gap(problem) - (source - target)
    scale = sum(loads_after(problem, np.zeros(0, int))) + 1
    assert benefits(problem)[chosen].sum() == pytest.approx(by_definition, abs=1e-9 * scale)


@examples(200)
@given(problem=problems(), others=st.lists(st.floats(0, 1), max_size=4))
def test_imbalance_never_grows(problem: tuple[Direction, Direction], others: list[float]) -> None:
    """Section IV-B: between the heaviest and the lightest of several instances, whatever loads the
    others have, a plan leaves LI as it was or lowers it."""
    heavy, light = loads_after(problem, np.zeros(0, int))
    if heavy <= light:
        return
    rest = [light + share * (heavy - light) for share in others]
    after = loads_after(problem, greedy_fit(problem))
    before = max_over_min(np.array([heavy, light, *rest]))
    assert max_over_min(np.array([*after, *rest])) <= before * (1 + 1e-9)


@examples(300)
@given(problem=problems(), gap_min=st.sampled_from([0.0, 10.0, 1e4]))
def test_the_target_never_ends_up_heavier(
    problem: tuple[Direction, Direction], gap_min: float
) -> None:
    chosen = greedy_fit(problem, gap_min)
    assert len(set(chosen.tolist())) == len(chosen)
    if len(chosen):
        source, target = loads_after(problem, chosen)
        assert target <= source
        assert (benefits(problem)[chosen] >= gap_min).all()
