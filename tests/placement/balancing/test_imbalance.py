"""How uneven loads are, in the papers' own numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skewless.placement.balancing.imbalance import deviation_from_mean, max_over_mean, max_over_min
from skewless.placement.balancing.loads import WeightedResources
from skewless.placement.balancing.view import View
from skewless.placement.figures import Figures
from skewless.placement.places import Placement

# LS-Stream's Fig. 4: partitions 0 and 1 at instance 0, 2 and 3 at instance 1; S stored, R probing.
FIG_4 = View(
    0,
    Placement(2, np.array([0, 0, 1, 1])),
    replace(
        Figures.zeros(4),
        stored_left=np.array([4.0, 4, 2, 1]),
        probing_right=np.array([3.0, 4, 2, 3]),
    ),
    (),
    Figures.zeros(0),
)


def loads_of_fig_4(gamma: float) -> list[float]:
    return WeightedResources(gamma).of_instances(FIG_4, FIG_4.placement).tolist()


def test_figure_4_of_ls_stream() -> None:
    memory, computing = loads_of_fig_4(1.0), loads_of_fig_4(0.0)
    assert (memory, computing) == ([15, 8], [28, 7])
    unweighted = np.add(memory, computing)
    assert unweighted.tolist() == [43, 15]
    weighted = np.array(loads_of_fig_4(0.5))
    assert weighted.tolist() == [21.5, 7.5]
    for loads in (unweighted, weighted):
        assert deviation_from_mean(loads) == pytest.approx(14 / 29)
        assert f"{deviation_from_mean(loads):.5f}" == "0.48276"


def test_the_larger_deviation_counts() -> None:
    assert deviation_from_mean(np.array([0.0, 10, 11])) == pytest.approx(1.0)
    assert deviation_from_mean(np.array([9.0, 10, 20])) == pytest.approx(7 / 13)


def test_the_two_papers_mean_different_things() -> None:
    loads = np.array([43.0, 15])
    assert max_over_min(loads) == pytest.approx(43 / 15)
    assert max_over_mean(loads) == pytest.approx(43 / 29)


def test_idle_beside_busy_is_the_strongest_imbalance_but_finite() -> None:
    idle = max_over_min(np.array([1.0, 0]))
    assert np.isfinite(idle)
    assert idle > max_over_min(np.array([1e6, 1]))


@pytest.mark.parametrize("loads", [np.zeros(0), np.zeros(3), np.full(3, 7.0)])
def test_even_loads_are_balanced(loads: np.ndarray) -> None:
    assert max_over_min(loads) == max_over_mean(loads) == 1.0
    assert deviation_from_mean(loads) == 0.0
