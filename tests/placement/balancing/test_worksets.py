"""Which worksets move: by the definitions, and in a similarity join on skewed rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skewless.engine.report import BatchReport
from skewless.operators.similarity.strategies import S3J, AutoSimilarity, SimilarityStrategy
from skewless.placement.balancing.worksets import WorksetLoad, WorksetMove, balance_worksets
from tests.operators.similarity.driver import Setup, SimilarityDriver
from tests.operators.similarity.oracle import Question
from tests.operators.similarity.test_properties import batch_of, spec_of
from tests.strategies import examples

LOADS = st.integers(0, 40).map(float) | st.floats(0, 1e6, allow_subnormal=False)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[WorksetLoad], int]:
    instances = draw(st.integers(1, 5))
    count = draw(st.integers(0, 12))
    ids = draw(st.lists(st.integers(0, 99), min_size=count, max_size=count, unique=True))
    places = st.integers(0, instances - 1) | st.just(0)
    worksets = [WorksetLoad(i, draw(places), draw(LOADS), draw(st.integers(0, 20))) for i in ids]
    return worksets, instances


def loads_of(worksets: Sequence[WorksetLoad], instances: int) -> list[float]:
    loads = [0.0] * instances
    for workset in worksets:
        loads[workset.instance] += workset.load
    return loads


def imbalance(loads: Sequence[float]) -> float:
    mean = sum(loads) / len(loads)
    return sum(abs(load - mean) for load in loads)


# Loads are 6 + 5 + 1, 2 and 1 of 15, the mean is 5. The first is too heavy to go anywhere. The
# second takes 5 from the 7 that are too many: 2 are left. With the third instance it makes 1 too
# many of 4 too few, with the second only 2 too many of 3 too few. Then loads are 7, 2 and 6. Of the
# two light ones both gain 1 where they leave and 1 where they come; the lesser id goes first.
BY_HAND = [
    WorksetLoad(1, 0, 6), WorksetLoad(2, 0, 5), WorksetLoad(3, 0, 1), WorksetLoad(4, 1, 2),
    WorksetLoad(5, 2, 1),
]  # fmt: skip


def test_a_case_worked_by_hand() -> None:
    assert balance_worksets(BY_HAND, 3) == [
        WorksetMove(2, source=0, target=2, benefit=5 + 3),
        WorksetMove(3, source=0, target=1, benefit=1 + 1),
        WorksetMove(5, source=2, target=1, benefit=1 + 1),
    ]
    assert balance_worksets([], 3) == []
    assert balance_worksets(BY_HAND[:1], 1) == []


def test_what_moving_costs_stops_moves() -> None:
    costly = [WorksetLoad(w.id, w.instance, w.load, rows=10) for w in BY_HAND]
    assert [m.id for m in balance_worksets(costly, 3, cost_per_row=0.1)] == [2, 3, 5]
    (only,) = balance_worksets(costly, 3, cost_per_row=0.2)
    assert (only.id, only.benefit) == (2, 6)
    assert balance_worksets(costly, 3, cost_per_row=0.8) == []


def irremovable(worksets: Sequence[WorksetLoad], instances: int) -> set[int]:
    """Of every instance that is overloaded the heaviest, if it is heavier than the mean."""
    loads = loads_of(worksets, instances)
    mean, found = sum(loads) / instances, set()
    for instance, load in enumerate(loads):
        mine = [w for w in worksets if w.instance == instance]
        if load > mean:
            heaviest = max(mine, key=lambda w: (w.load, -w.id))
            found |= {heaviest.id} if heaviest.load > mean else set()
    return found


def test_the_second_that_is_too_heavy_goes() -> None:
    """Two of 9 on one of four instances, whose mean is 5: alone on another, one is 4 too heavy."""
    heavy = [WorksetLoad(1, 0, 9), WorksetLoad(2, 0, 9), WorksetLoad(3, 1, 2)]
    assert irremovable(heavy, 4) == {1}
    assert balance_worksets(heavy, 4) == [WorksetMove(2, source=0, target=2, benefit=9 + 1)]
    # Of 11 each, the mean is 5.5: where one came, it would be as much too heavy as it was idle.
    heavier = [WorksetLoad(1, 0, 11), WorksetLoad(2, 0, 11)]
    assert balance_worksets(heavier, 4) == []


@examples(300)
@given(problems(), st.sampled_from([0.0, 0.1, 3.0]))
def test_moves_even_the_load_out(
    problem: tuple[list[WorksetLoad], int], cost_per_row: float
) -> None:
    worksets, instances = problem
    by_id = {w.id: w for w in worksets}
    loads = loads_of(worksets, instances)
    mean = sum(loads) / instances
    slack = 1e-9 * (1 + sum(loads))
    moves, stays = balance_worksets(worksets, instances, cost_per_row), irremovable(*problem)
    assert len({m.id for m in moves}) == len(moves), "a workset goes once"
    for move in moves:
        workset = by_id[move.id]
        assert workset.load > 0
        is_tie = min(abs(workset.load - mean), abs(loads[move.source] - mean)) <= slack
        assert workset.id not in stays or is_tie, "what is too heavy stays"
        assert move.source == workset.instance
        assert loads[move.source] > mean - slack, "only what is overloaded gives"
        assert loads[move.target] < mean + slack, "only what is underloaded takes"
        before = imbalance(loads)
        loads[move.source] -= workset.load
        loads[move.target] += workset.load
        gained = before - imbalance(loads)
        assert gained >= -slack
        assert move.benefit == pytest.approx(gained - cost_per_row * workset.rows, abs=slack)
        assert move.benefit > 0
        assert gained + slack > cost_per_row * workset.rows


# One of instance 1 makes that underloaded by more than it was overloaded, and still gains.
LIGHT = [
    WorksetLoad(0, 1, 1), WorksetLoad(1, 1, 1), WorksetLoad(2, 0, 0), WorksetLoad(3, 0, 2),
    WorksetLoad(4, 0, 4),
]  # fmt: skip


@examples(200)
@given(problems())
@example((LIGHT, 5))
def test_nothing_that_gains_is_left(problem: tuple[list[WorksetLoad], int]) -> None:
    """Where nothing moves, no single workset would gain by it."""
    worksets, instances = problem
    if balance_worksets(worksets, instances):
        return
    loads = loads_of(worksets, instances)
    mean, slack = sum(loads) / instances, 1e-9 * (1 + sum(loads))
    for workset in worksets:
        is_left = workset.load > 0 and workset.id not in irremovable(worksets, instances)
        if not is_left or loads[workset.instance] <= mean:
            continue
        for target in range(instances):
            after = list(loads)
            after[workset.instance] -= workset.load
            after[target] += workset.load
            if abs(after[target] - mean) >= abs(loads[target] - mean) - slack:
                continue  # where it came, it would do no good
            assert imbalance(after) >= imbalance(loads) - slack


# In a join -------------------------------------------------------------------------------------

INSTANCES, CLUSTERS, BATCHES = 4, 40, 5


def skewed(batch: int) -> list[tuple[int, int, list[float]]]:
    """Rows around places of which some are six times as busy as others, the same in any batch."""
    rng = np.random.default_rng(100 + batch)
    weights = np.arange(1, CLUSTERS + 1) ** -0.5
    places = rng.choice(CLUSTERS, 400, p=weights / weights.sum())
    spread = rng.normal(0, 0.35, (400, 2))
    return [
        (1000 * batch + n, 10 * batch, [100.0 * place + dx, dy])
        for n, (place, (dx, dy)) in enumerate(zip(places.tolist(), spread.tolist(), strict=True))
    ]


def reports_of(folder: Path, strategy: SimilarityStrategy) -> list[BatchReport]:
    spec = spec_of(Question("euclidean", 1.0, (-25, 25), None, (0, 0), True))
    driver = SimilarityDriver(folder, spec, Setup(strategy, INSTANCES))
    reports = []
    for batch in range(BATCHES):
        report = driver.run(batch, {"left": [[batch_of(skewed(batch), spec.left.schema)]]}).report
        assert report is not None
        reports.append(report)
    return reports


def busiest_over_mean(report: BatchReport) -> float:
    pairs = [load.pairs for load in report.instances]
    return max(pairs) * len(pairs) / sum(pairs)


def test_worksets_of_a_busy_instance_move(tmp_path: Path) -> None:
    reports = reports_of(tmp_path, S3J(partitions=1))
    uneven = [busiest_over_mean(r) for r in reports]
    assert uneven[0] == INSTANCES, "one has all the work"
    assert uneven[-1] < 1.4
    decisions = reports[0].decisions
    assert 0 < len(decisions) <= 10
    for decision in decisions:
        assert (decision.kind, decision.accepted) == ("move", True)
        assert decision.subject.startswith("workset ")
        assert decision.source == "instance 0"
        assert decision.target in {f"instance {i}" for i in range(1, INSTANCES)}
        assert "pairs there, where the mean is" in decision.reason
    assert [r.matches for r in reports] == [
        r.matches for r in reports_of(tmp_path / "dealt", AutoSimilarity())
    ]


def test_what_is_tolerated_moves_nothing(tmp_path: Path) -> None:
    reports = reports_of(tmp_path, S3J(partitions=1, tolerance=10.0))
    assert busiest_over_mean(reports[-1]) == INSTANCES
    assert [r.decisions for r in reports] == [()] * BATCHES


def test_what_costs_more_than_it_gains_stays(tmp_path: Path) -> None:
    """Rows of an earlier batch weigh as much as new ones: at 100 comparisons a row nothing pays."""
    moved = reports_of(tmp_path / "cheap", S3J(partitions=1, migration_cost=1.0))
    assert any(r.decisions for r in moved)
    stayed = reports_of(tmp_path / "dear", S3J(partitions=1, migration_cost=100.0))
    assert [r.decisions for r in stayed] == [()] * BATCHES


def test_dealt_rows_need_no_moves(tmp_path: Path) -> None:
    reports = reports_of(tmp_path, AutoSimilarity())
    assert [r.decisions for r in reports] == [()] * BATCHES
    assert max(map(busiest_over_mean, reports[1:])) < 1.3
