"""The evaluation of TriJoin: its clock, its judging, and a quick run of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.papers.model import Scale
from benchmarks.papers.running import measured
from benchmarks.papers.trijoin import PAPER, changes_item, judged, waiting_item
from benchmarks.papers.trijoin_cases import (
    AUTO,
    SMALL,
    TREE,
    TRIJOIN,
    Beside,
    check,
    latency,
    throughput,
    waiting_share,
    with_network,
    with_two_signals,
    with_waiting,
)
from benchmarks.papers.trijoin_data import Packets, Rides
from benchmarks.papers.trijoin_sheets import network_sheet, over_batches
from benchmarks.three_way_core import CHAIN, CYCLE, STRATEGIES, BatchFigures, Figures, measure

CASE = replace(SMALL, shape=CHAIN, batch_rows=300)  # a period of 100 ms
R, S, T = ([True, False, False], [False, True, False], [False, False, True])


def figures(
    out_ms: list[float],
    new: list[list[bool]],
    steps: list[list[float]],
    instances: list[int] | None = None,
    compared: list[list[int]] | None = None,
) -> Figures:
    """One batch: when triples were out, which of their rows are new, how long instances worked."""
    each = len(out_ms)
    batch = BatchFigures(
        out_ms=np.array(out_ms),
        instance=np.array(instances or [0] * each),
        is_new=np.array(new).reshape(each, 3),
        waited_ms=np.full(each, 50.0),
        work_ms=np.array(steps),
        whole_ms=np.array(steps) * 2,
        compared=np.array(compared or [[1] * len(step) for step in steps]),
        total_s=0.1,
        shipped=0,
        intermediates=0,
        intermediate_bytes=0,
        state_bytes=0,
    )
    return Figures(CASE, [batch])


TREES = figures(
    [14, 20], [R, T], [[10, 4, 0, 0], [0, 0, 6, 20]], [2, 3], [[5, 1, 0, 0], [0, 0, 9, 2]]
)
TRIS = figures([2, 4], [R, S], [[8, 8, 8, 8]])


# The clock -------------------------------------------------------------------------------------


def test_steps_wait_for_one_another_and_the_rate_is_that_of_the_busiest() -> None:
    (batch,) = TREES.batches
    assert batch.done_ms == 10 + 20
    assert batch.busiest_ms == 20
    assert (batch.on_the_way, batch.busiest_compared, batch.comparisons) == (5 + 9, 9, 17)
    assert TREES.rows_per_s == 1000 * 300 / 20
    assert TREES.rows_per_s_compacting == 1000 * 300 / 40
    assert TREES.latency_ms == 17
    assert TREES.is_saturated is False
    assert replace(TREES, case=replace(CASE, batch_rows=60)).is_saturated is True


def test_a_row_of_t_waits_for_the_first_join() -> None:
    """One triple is out of the pairs' group: 10 ms of waiting, 10 of joining."""
    assert waiting_share(TREES) == 50
    assert waiting_share(TREES, net_ms=20) == 100 * 30 / 40


def test_the_network_delays_all_triples_of_the_tree_and_those_of_a_new_s_in_trijoin() -> None:
    assert with_network(TREES, 10, tree=True) == 17 + 10
    assert with_network(TRIS, 10, tree=False) == 3 + 10 / 2
    cyclic = replace(TRIS, case=replace(CASE, shape=CYCLE))
    assert with_network(cyclic, 10, tree=False) == 3
    sheet = network_sheet({CHAIN: Beside([{TREE: TREES, TRIJOIN: TRIS}])})
    assert sheet.rows[0] == ("0", "-82 %", "50 %")


def test_waiting_for_the_batch_and_for_a_second_signal() -> None:
    assert with_waiting(TREES) == 50 + 17
    assert with_two_signals(TREES) == 50 + 17 + 100 - 10


@pytest.mark.slow
@pytest.mark.parametrize("shape", [CHAIN, CYCLE])
def test_a_measured_run_keeps_its_clock(shape: str) -> None:
    case = replace(SMALL, shape=shape, window=300, batch_rows=150, data=Rides(order=3), warmup=2)
    run = {name: measure(case, STRATEGIES[name]) for name in (TREE, TRIJOIN, AUTO)}
    check(run)
    for name, found in run.items():
        for batch in found.batches:
            steps = 2 if name == TREE else 1
            assert batch.work_ms.shape == batch.compared.shape == (steps, case.instances)
            assert (batch.work_ms <= batch.whole_ms).all()
            first_ms = float(batch.work_ms[:-1].max(initial=0.0))
            assert (batch.out_ms > first_ms).all()
            assert (batch.out_ms <= first_ms + batch.whole_ms[-1][batch.instance]).all()
            assert batch.is_new.any(axis=1).all(), "no triple of old rows alone"
            assert ((batch.waited_ms >= 0) & (batch.waited_ms <= case.period_ms)).all()
            assert batch.handed_over(CYCLE).sum() == 0
            assert (batch.handed_over(CHAIN) == batch.is_new[:, 1] & ~batch.is_new[:, 2]).all()


# Judging ---------------------------------------------------------------------------------------


def test_who_finds_other_triples_or_none_or_cannot_keep_up_is_refused() -> None:
    check({TREE: TREES, TRIJOIN: TRIS})
    more = figures([1, 2, 3], [R, S, T], [[1]])
    with pytest.raises(AssertionError, match="different numbers of triples"):
        check({TREE: TREES, TRIJOIN: more})
    none = figures([], [], [[1]])
    with pytest.raises(AssertionError, match="or none"):
        check({TREE: none, TRIJOIN: none})
    busy = figures([1, 2], [R, S], [[101.0]])
    with pytest.raises(AssertionError, match="cannot keep up"):
        check({TREE: TREES, TRIJOIN: busy})


def test_changes_are_over_all_seeds() -> None:
    slow = figures([8, 8], [R, S], [[16, 8]])
    pair = Beside([{TREE: TREES, TRIJOIN: TRIS}, {TREE: TREES, TRIJOIN: slow}])
    assert pair.more(latency) == pytest.approx(100 * (5.5 / 17 - 1))
    assert pair.spread(latency) == "-82 … -53 %"
    assert pair.more(throughput) == pytest.approx(100 * (20 / 12 - 1))


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ({CYCLE: -60, CHAIN: -44}, "reproduced"),
        ({CYCLE: -60, CHAIN: -20}, "trend only"),
        ({CYCLE: -60, CHAIN: 3}, "opposite"),
    ],
)
def test_a_verdict_is_that_of_the_worst(ours: Mapping[str, float], verdict: str) -> None:
    paper = {CYCLE: -63, CHAIN: -45}
    assert judged(paper, ours) == verdict
    item = changes_item("fig. 0", "what", paper, ours, "because", {CYCLE: -80})
    assert item.verdict == verdict
    assert item.paper_value == "cycle -63 %, chain -45 %"
    assert item.defaults == '"auto" over Tree: cycle -80 %'


@pytest.mark.parametrize(
    ("cycle", "chain", "verdict"),
    [(60, 51, "reproduced"), (60, 49, "trend only"), (40, 49, "opposite")],
)
def test_most_of_the_latency_of_t_is_waiting_or_not(
    cycle: float, chain: float, verdict: str
) -> None:
    told = waiting_item({0: {CYCLE: cycle, CHAIN: chain}, 10: {CYCLE: 90, CHAIN: 91}})
    assert told.verdict == verdict, "by what is measured"
    assert "10 ms: 90 % and 91 %" in told.why


def test_figures_over_time_are_of_each_batch() -> None:
    two = Figures(CASE, [*TREES.batches, *TRIS.batches])
    assert over_batches(two, latency) == [(0.1, 17.0), (0.2, 3.0)]


# Data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [Rides(order=4), Packets(hosts=100)])
def test_streams_have_the_papers_fields_and_are_the_same_again(data: Rides | Packets) -> None:
    tables = [data.table(stream, 50, 1.0, 2.0, stretch=3) for stream in range(3)]
    assert tables[1].column_names == ["s_S", "s_D", "s_L", "s_I", "s_Int", "s_Str", "at"]
    assert tables[0].equals(data.table(0, 50, 1.0, 2.0, stretch=3))
    ints = [
        tuple(table.column(name).to_pylist())
        for table, x in zip(tables, "rst", strict=True)
        for name in (f"{x}_I", f"{x}_Int")
    ]
    assert len(set(ints)) == 6, "each is drawn for itself"
    assert not tables[0].equals(replace(data, seed=2).table(0, 50, 1.0, 2.0, stretch=3))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_quick_run_tells_of_every_figure() -> None:
    found = {item.item: item for e in measured(PAPER, Scale(quick=True)) for item in e.items}
    assert set(found) == set(PAPER.expected)
    assert not {i.verdict for i in found.values()} & {"not attempted", "not comparable"}
    # What does not depend on the machine: packs are fewer than pairs.
    assert all(found[name].verdict != "opposite" for name in ("fig. 18", "fig. 19"))
