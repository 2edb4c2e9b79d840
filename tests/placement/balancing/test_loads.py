"""The three readings of load, on a case worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skewless.errors import ArgumentError
from skewless.placement.balancing.loads import MeasuredTime, StoredTimesProbing, WeightedResources
from skewless.placement.balancing.view import View
from skewless.placement.figures import Figures, WatchedKey
from skewless.placement.places import IsolatedKey, Placement


def figures(**arrays: list[float]) -> Figures:
    items = len(next(iter(arrays.values())))
    return replace(Figures.zeros(items), **{n: np.array(a, float) for n, a in arrays.items()})


# Three slots at instances 0, 0, 1. Key 5 is part of slot 0.
PLACEMENT = Placement(2, np.array([0, 0, 1]))
VIEW = View(
    0,
    PLACEMENT,
    figures(
        stored_left=[10, 2, 3], stored_right=[6, 0, 1], probing_left=[4, 0, 2],
        probing_right=[8, 1, 5], time_left_ms=[3, 0, 1], time_right_ms=[7, 1, 2],
    ),
    (WatchedKey(5, "five", 0),),
    figures(
        stored_left=[6], stored_right=[4], probing_left=[2], probing_right=[6], time_left_ms=[2],
        time_right_ms=[4],
    ),
    row_ms=0.5,
)  # fmt: skip
MOVED = PLACEMENT.with_isolated(IsolatedKey(5, "five", 0, (1,), (1,)))
SPLIT = PLACEMENT.with_isolated(IsolatedKey(5, "five", 0, (0, 1), (1,)))


def test_stored_times_probing() -> None:
    model = StoredTimesProbing()
    # 12 left rows probed by 9, 6 right rows by 4; and 3 by 5, 1 by 2.
    assert model.of_instances(VIEW, PLACEMENT).tolist() == [12 * 9 + 6 * 4, 3 * 5 + 1 * 2]
    assert model.of_instances(VIEW, MOVED).tolist() == [6 * 3 + 2 * 2, 9 * 11 + 5 * 4]
    # What left rows probe is halved: 2 stored right rows each, probed by 1 left row each.
    assert model.of_instances(VIEW, SPLIT).tolist() == [6 * 3 + 4 * 3, 9 * 11 + 3 * 3]


def test_measured_time() -> None:
    model = MeasuredTime()
    assert model.of_instances(VIEW, PLACEMENT).tolist() == [11, 3]
    assert model.of_instances(VIEW, MOVED).tolist() == [5, 9]
    assert model.of_instances(VIEW, SPLIT).tolist() == [6, 8]


def test_measured_time_counts_all_probers_of_cut_stored_rows() -> None:
    cut = PLACEMENT.with_isolated(IsolatedKey(5, "five", 0, (0, 1), (1,), left_of="stored"))
    # Both parts are probed by both left rows: half a row's price more each, 0.5 · 2 · (1 - 1/2).
    assert MeasuredTime().of_instances(VIEW, cut).tolist() == [6.5, 8.5]


def test_weighted_resources() -> None:
    # Slot by slot: memory 28, 3, 11; computing 10·8 + 6·4 = 104, 2, 3·5 + 1·2 = 17; key: 18, 44.
    assert WeightedResources(1.0).of_instances(VIEW, PLACEMENT).tolist() == [31, 11]
    assert WeightedResources(0.0).of_instances(VIEW, PLACEMENT).tolist() == [106, 17]
    assert WeightedResources(0.5).of_instances(VIEW, PLACEMENT).tolist() == [68.5, 14]
    assert WeightedResources(0.5).of_instances(VIEW, MOVED).tolist() == [37.5, 45]


def test_a_key_that_was_apart_goes_back_to_its_slot() -> None:
    """The same figures, measured while the key was apart."""
    apart = replace(
        VIEW,
        placement=MOVED,
        slots=VIEW.slots.plus(Figures.joined([VIEW.key_figures, Figures.zeros(2)]), -1),
        keys=(WatchedKey(5, "five", 0, isolated=True),),
    )
    for model in (StoredTimesProbing(), MeasuredTime()):
        for placement in (PLACEMENT, MOVED, SPLIT):
            expected = model.of_instances(VIEW, placement).tolist()
            assert model.of_instances(apart, placement).tolist() == expected


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_gamma_is_a_share(gamma: float) -> None:
    with pytest.raises(ArgumentError, match="`gamma` must be a number from 0 to 1"):
        WeightedResources(gamma)
