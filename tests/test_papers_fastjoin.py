"""FastJoin's evaluation: contests are what they say, verdicts follow the figures."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers import fastjoin
from benchmarks.papers.contest import Contest, Ground, city_stream, spread
from benchmarks.papers.document import all_items
from benchmarks.papers.fastjoin_city import hot_share, rank_correlation
from benchmarks.papers.fastjoin_memory import scaling
from benchmarks.papers.fastjoin_settings import bound_told, grows, inner_best
from benchmarks.papers.fastjoin_sweeps import never_behind
from benchmarks.papers.model import Scale
from benchmarks.papers.running import measured
from skewless.placement.routing import Broadcast, Hash
from skewless.simulation.workloads import Zipf


def test_verdicts_follow_the_figures() -> None:
    assert inner_best({1.1: 1.0, 2.2: 5.0, 4.0: 2.0}) == "trend only"
    assert inner_best({1.1: 5.0, 2.2: 4.0, 4.0: 2.0}) == "opposite"
    assert inner_best({1.1: 1.0, 2.2: 2.0, 4.0: 5.0}) == "opposite"
    assert grows([0.0, 2.0, 1.0])
    assert not grows([2.0, 1.0])
    assert not grows([-1.0, 3.0])
    ahead = {f"G{i}": [10.0, 12.0] for i in range(7)}
    assert never_behind(ahead | {"G8": [-50.0]}) == "trend only"
    assert never_behind(ahead | {f"H{i}": [-1.0] for i in range(3)}) == "opposite"
    assert never_behind({"G00": [0.0], "G01": [0.1]}) == "opposite"
    assert "at most +40 % at 16, and less than at 48 on 1 of 1" in bound_told(
        {64: {16: [40.0, 20.0], 48: [90.0]}}
    )


def test_skew_and_correlation_are_counted() -> None:
    assert hot_share(np.array([0, 8, 1, 1]), 0.5) == 0.9
    assert rank_correlation([3, 1, 2], [30, 10, 20]) == 1
    assert abs(rank_correlation([1, 2, 3, 4], [1, 4, 2, 3])) < 1


def test_the_city_has_its_seed_and_its_skew() -> None:
    first, again, other = (city_stream(seed, order=5).batch(0) for seed in (0, 0, 1))
    assert np.array_equal(first.left, again.left)
    assert not np.array_equal(first.left, other.left)
    assert hot_share(first.left, 0.2) == pytest.approx(0.8, abs=0.02)


def small(rows: int) -> Ground:
    def stream(seed: int) -> Zipf:
        return Zipf(keys=50, left=1.0, right=1.0, rows_left=rows, rows_right=rows, seed=seed)

    return Ground(stream, 4, 12, warm=6)


def test_a_contest_is_about_the_same_rows() -> None:
    contest = Contest.held(small(500), {"one": Hash(), "other": Hash()}, 2)
    assert contest.gains("one", "other") == [0, 0]
    assert contest.later("one", "other") == [0, 0]
    assert contest.latency("one") is not None
    assert spread(contest.gains("one", "other")) == "+0.0 % (+0.0 % … +0.0 %)"


def test_the_slowest_sets_the_pace_and_keeps_up() -> None:
    contest = Contest.held(small(500), {"hash": Hash(), "all": Broadcast()}, 1)
    for name in ("hash", "all"):
        assert contest.latency(name) is not None
        (run,) = contest.runs[name]
        assert run.steady[-1].backlog_ms == 0
    assert contest.throughput("hash") > contest.throughput("all")


def test_the_scaling_gain_ratio_is_shown() -> None:
    """Equation 13, for the paper's two streams and for the city's."""
    (sheet,) = scaling(Scale(quick=True)).sheets
    least = {name: float(ratio) for name, _, ratio, _ in sheet.rows}
    assert least["passengers, the paper's"] == pytest.approx(14 / 15, abs=1e-4)
    assert len(least) == 5
    assert all(ratio > 0.9 for ratio in least.values()), "more than ten rows per key"


@pytest.mark.slow
def test_every_figure_has_its_item() -> None:
    items = all_items(measured(fastjoin.PAPER, Scale(quick=True)))
    assert [item.item for item in items] == sorted(
        fastjoin.PAPER.expected, key=[item.item for item in items].index
    )
    assert not [item.item for item in items if item.verdict == "not attempted"]
    same = sum(item.verdict in ("reproduced", "trend only") for item in items)
    assert same >= 0.8 * len(items)
