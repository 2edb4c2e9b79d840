"""S3J's evaluation: what is counted, how it is judged, and a quick run of all of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.papers import s3j
from benchmarks.papers.document import all_items
from benchmarks.papers.model import Scale
from benchmarks.papers.s3j_figures import BOTH, SELECTIVITIES, STILL, judge_4
from benchmarks.papers.s3j_latency import (
    Prices,
    busy,
    keeps_up,
    price_for,
    throughput,
    waiting,
)
from benchmarks.papers.s3j_runs import EACH, Ran, Streams, named, run
from benchmarks.papers.s3j_tables import CLUSTER, TABLE_2, TABLE_3, Line, Published, Seeds, judged
from benchmarks.similarity_core import STRATEGIES, WINDOW_S
from skewless.operators.similarity.metrics import METRICS

SECOND = Prices(1e6)  # a distance takes a second


def a_run(load: list[list[float]], batch_s: int = 1, rows: int = 100, **counted: int) -> Ran:
    counts = {"probes": 0, "compared": 0, "inner": 0, "memberships": rows} | counted
    found = np.ones((len(load), len(load[0])))
    return Ran(rows, 100, counts, np.array(load), 2 * found, found, 1.0, batch_s, 0)


def test_a_queue_grows_while_more_comes_than_is_served_and_shrinks_after() -> None:
    wait = waiting(a_run([[3.0, 0.5], [2.0, 0.5], [0.0, 0.5]]), SECOND)
    assert wait.p99_s[:, 0] == pytest.approx([0.99 * 2, 2 + 0.99, 3 - 0.01])
    assert wait.p99_s[:, 1].tolist() == [0, 0, 0], "half of the time it waits for rows"
    assert wait.left_s.tolist() == [2.0, 0.0]
    assert (wait.done_s, wait.late) == (5.0, pytest.approx(5 / 3))
    assert [len(line) for line in wait.lines(1).values()] == [3, 3]


def test_how_a_window_is_cut_does_not_change_what_pairs_wait() -> None:
    fine = waiting(a_run([[1.5]] * WINDOW_S), SECOND)
    coarse = waiting(a_run([[7.5]] * (WINDOW_S // 5), batch_s=5), SECOND)
    assert fine.peaks_s()[0] == pytest.approx(coarse.peaks_s()[0], rel=0.01)
    assert fine.done_s == pytest.approx(coarse.done_s)


def test_emitted_pairs_have_a_price_of_their_own() -> None:
    ran = a_run([[2.0]])
    assert Prices(1e6, 0.0).work_s(ran).tolist() == [[2.0]]
    assert Prices(1e6, 4.0).work_s(ran).tolist() == [[6.0]]


def test_who_keeps_up() -> None:
    even, busy_one = a_run([[2.0], [0.0]]), a_run([[2.0, 0.1], [0.1, 0.1]])
    assert keeps_up(even, SECOND)
    assert not keeps_up(busy_one, SECOND), "the busiest worker counts"
    assert throughput(even, SECOND) == 50
    assert throughput(busy_one, SECOND) == pytest.approx(100 / 2.1)


def test_the_price_is_that_which_gives_the_peak() -> None:
    ran = a_run([[float(n)] for n in range(WINDOW_S)])
    for emitted in (0.0, 4.0):
        prices = price_for(ran, 3.0, emitted)
        assert waiting(ran, prices).peaks_s()[0] == pytest.approx(3.0, rel=1e-3)


def test_load_over_the_mean_by_window() -> None:
    ran = a_run([[1.0, 3.0]] * WINDOW_S + [[2.0, 2.0]] * WINDOW_S)
    assert busy(ran, 0).tolist() == [0.5, 1.5]
    assert busy(ran, 1).tolist() == [1.0, 1.0]
    assert busy(ran, 0, "met").tolist() == [1.0, 1.0]


def figure_4(loads: dict[str, list[float]]) -> dict[tuple[str, float], Ran]:
    return {
        (name, s): a_run([[load] * 5] * WINDOW_S)
        for name in BOTH
        for s, load in zip(SELECTIVITIES, loads[name], strict=True)
    }


@pytest.mark.parametrize(
    ("s3j_loads", "cluster_loads", "ahead", "verdict"),
    [
        ([4, 2, 0.9], [6, 3, 1.1], 1.5, "reproduced"),
        ([4, 2, 0.9], [6, 3, 1.1], 2.5, "trend only"),
        ([4, 0.9, 0.5], [6, 3, 1.1], 1.5, "trend only"),
        ([4, 2, 1.2], [6, 3, 1.1], 1.5, "opposite"),
    ],
)
def test_figure_4_is_judged_by_what_was_measured(
    s3j_loads: list[float], cluster_loads: list[float], ahead: float, verdict: str
) -> None:
    runs = figure_4({BOTH[0]: s3j_loads, BOTH[1]: cluster_loads})
    assert judge_4(runs, SECOND, ahead) == verdict


def table(scale: float = 1.0, turned: bool = False) -> list[Line]:
    """A table as the paper's, or off by a factor, or with the selectivities turned round."""

    def seeds(duplication: float, comparisons: float) -> Seeds:
        counts = {"memberships": round(duplication * 1000), "compared": round(comparisons * 1000)}
        return Seeds((replace(a_run([[1.0]], rows=1000, **counts), pairs=1000),))

    published = list(TABLE_2.values())
    ours = published[::-1] if turned else published
    found = []
    for paper, p in zip(published, ours, strict=True):
        cluster = (p.cluster_duplication or 9.0, p.cluster_comparisons or 9.0)
        by = {
            STILL: seeds(p.duplication, p.comparisons),
            EACH: seeds(scale * p.duplication, scale * p.comparisons),
            CLUSTER: seeds(scale * cluster[0], scale * cluster[1]),
        }
        found.append(Line("x", paper, by))
    return found


def test_tables_are_judged_by_what_was_measured() -> None:
    assert judged(table()) == ("reproduced", {STILL: 10, EACH: 10})
    assert judged(table(1.1)) == ("reproduced", {STILL: 10, EACH: 0})
    assert judged(table(1.5)) == ("trend only", {STILL: 10, EACH: 0})
    assert judged(table(turned=True))[0] == "opposite"


def test_the_paper_s_tables_are_those_of_the_paper() -> None:
    assert TABLE_2[0.001] == Published(1.92, 5.82, 1.49, 24.51)
    assert TABLE_2[0.1].cluster_duplication is None


@pytest.mark.parametrize("whole", [False, True])
def test_the_wanted_share_of_pairs_is_within_the_threshold(whole: bool) -> None:
    streams = Streams(0.01, rate=50, whole=whole)
    (tables,) = list(streams.batches(1, WINDOW_S))
    metric = METRICS["angular"]
    left, right = (metric.points([t["vector"].combine_chunks()]) for t in tables)
    alike = (metric.cross(left, right) <= streams.threshold).mean()
    assert alike == pytest.approx(0.01, rel=0.05)
    assert all(
        (np.asarray(t["vector"].combine_chunks().flatten()) < 0).any() == whole for t in tables
    )


def test_what_is_counted_adds_up() -> None:
    streams = Streams(0.05, rate=8, instances=3)
    by = {name: run(streams, named(name, 3), batch_s=20) for name in (*STRATEGIES, EACH)}
    assert len({ran.pairs for ran in by.values()}) == 1
    for name, ran in by.items():
        assert ran.rows == 2 * 8 * WINDOW_S
        assert ran.load.shape == ran.found.shape == (3, 3)
        assert ran.found.sum() == ran.pairs
        assert ran.load.sum() == pytest.approx(ran.comparisons * ran.pairs), name
        assert ran.compared + ran.inner >= 1
    assert by["ClusterJoin"].inner == by["BruteForce"].inner == 0
    assert by["BruteForce"].centers == 0
    assert by["S3J"].duplication > 1 == by["auto"].duplication
    cluster, first = by["ClusterJoin"], 2 * 8 * 20  # rows of the first batch: each is a centroid
    assert cluster.centers * cluster.pairs == pytest.approx(first * cluster.rows)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("streams", "paper"),
    [
        (Streams(0.1, 500), TABLE_2[0.1]),
        (Streams(0.01, 500), TABLE_2[0.01]),
        (Streams(0.005, 2000), TABLE_2[0.005]),
        (Streams(0.001, 2000), TABLE_2[0.001]),
        *((Streams(0.001, 4000, workers), paper) for workers, paper in TABLE_3.items()),
    ],
    ids=lambda given: (
        f"{given.selectivity:g}-{given.instances}" if isinstance(given, Streams) else ""
    ),
)
def test_s3j_copies_and_compares_no_more_than_the_paper_s(
    streams: Streams, paper: Published
) -> None:
    """Counted as the paper counts, at its rates (at 1 and 10 % a quarter of them: the fewer rows,
    the more distances from centers for a pair)."""
    ran = run(streams, STRATEGIES[STILL], batch_s=15)
    assert ran.duplication <= paper.duplication
    assert ran.comparisons <= paper.comparisons


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_quick_run_tells_of_everything() -> None:
    items = all_items(list(s3j.run(Scale(quick=True))))
    assert {item.item for item in items} == set(s3j.PAPER.expected)
    assert all(item.verdict not in ("not attempted", "not comparable") for item in items)
