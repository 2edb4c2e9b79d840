"""The evaluation of Pd-Stream: its judging, its virtual clock, its application, and a quick run."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.grouping import DS, HT, Run, hashed
from benchmarks.papers import pdstream
from benchmarks.papers import pdstream_application as application
from benchmarks.papers import pdstream_costs as costs
from benchmarks.papers import pdstream_queues as queues
from benchmarks.papers.model import Scale
from benchmarks.papers.pdstream_expected import Choice, once_only
from benchmarks.papers.pdstream_streams import PD, WC, Swept, Where
from benchmarks.papers.pdstream_traversals import anywhere, popularity, scored
from benchmarks.papers.running import measured
from skewless.placement.grouping import (
    DAGreedy,
    PdStream,
    ShuffleGrouping,
    WChoices,
    load_imbalance,
)
from tests.placement.grouping.streams import zipf_stream


def a_run(imbalance: float = 0.0, replication: float = 1.0) -> Run:
    return Run(imbalance, replication, 1000, 100.0, np.zeros(4, np.int32))


# Judging ----------------------------------------------------------------------------------------


def test_formulas_are_the_papers_and_a_wrong_digit_shows() -> None:
    assert [item.verdict for item in pdstream.formulas().items] == ["reproduced", "reproduced"]
    assert pdstream._digits([36.79, 13.5], [36.78, 13.53]) == "reproduced"
    assert pdstream._digits([0.64, 0.24], [0.67, 0.24]) == "trend only"
    assert pdstream._digits([0.2, 0.7], [0.67, 0.24]) == "opposite"


@pytest.mark.parametrize(
    ("greedy", "mine", "verdict"),
    [
        ((0.1, 1.0), 1e-5, "reproduced"),
        ((0.02, 1.0), 1e-5, "trend only"),
        ((0.02, 1.0), 1e-2, "opposite"),
        ((0.2, 1.1), 1e-5, "opposite"),
    ],
)
def test_dagreedy_is_judged(greedy: tuple[float, float], mine: float, verdict: str) -> None:
    points = [Where("DAGreedy", DS, n) for n in (16, 128)]
    runs = {where: a_run(value) for where, value in zip(points, greedy, strict=True)}
    runs |= {where._replace(system=PD): a_run(mine) for where in points}
    assert pdstream.greedy(Swept(1000, [], runs, {}), points) == verdict


def test_balance_is_judged_in_tuples() -> None:
    where = Where(PD, DS, 10)
    told = Swept(1000, [{"stream": DS, "messages": 1000}], {where: a_run(0.08)}, {})
    assert told.tuples_ahead(where) == pytest.approx(8)
    assert pdstream.even(told, [where]) == "reproduced"
    assert pdstream.even(replace(told, runs={where: a_run(0.09)}), [where]) == "trend only"
    assert pdstream.even(replace(told, runs={where: a_run(0.9)}), [where]) == "opposite"


def of_data_sets(mine: float, rivals: float) -> Swept:
    runs = {
        Where(system, stream, n): a_run(mine if system == PD else rivals)
        for system in (PD, "PKG", "DAGreedy", WC, "PdStream auto", "BatchAware")
        for stream in (DS, HT)
        for n in (16, 128)
    }
    facts = [{"stream": stream, "messages": 10_000_000} for stream in (DS, HT)]
    return Swept(10_000_000, facts, runs, {})


def test_figure_9_needs_few_tuples_and_rivals_that_are_uneven() -> None:
    assert pdstream.balance_data(of_data_sets(3e-6, 0.5)).verdict == "reproduced"
    assert pdstream.balance_data(of_data_sets(3e-4, 0.5)).verdict == "trend only"
    assert pdstream.balance_data(of_data_sets(3e-6, 2e-6)).verdict == "opposite"


def test_figure_11_that_comes_out_the_other_way_round_shows() -> None:
    told = of_data_sets(0, 0)
    runs = dict(told.runs)
    for where, value in pdstream.PD_REPLICATION.items():
        runs[where] = a_run(replication=value * 1.05)
    assert pdstream.splitting_data(replace(told, runs=runs)).verdict == "reproduced"
    for where, value in pdstream.PD_REPLICATION.items():
        runs[where] = a_run(replication=3 - value)
    assert pdstream.splitting_data(replace(told, runs=runs)).verdict == "opposite"


def test_grouping_times_are_judged_by_their_order() -> None:
    times = {
        ("published", stream, n, system): 1000.0 * n / (1 - saving)
        for stream, savings in costs.TIME_SAVED.items()
        for n in (16, 128)
        for system, saving in {PD: 0.0, **savings}.items()
    }
    assert costs.judged_times(times, "published") == "reproduced"
    slower = times | {("published", DS, 128, WC): 130_000.0}
    assert costs.judged_times(slower, "published") == "trend only"
    fastest = times | {("published", DS, 128, WC): 1000.0}
    assert costs.judged_times(fastest, "published") == "opposite"


def test_auto_is_compared_with_the_best_that_is_even() -> None:
    fixed = {0.9: (40.0, 1.0), 0.95: (2.0, 1.5), 0.99: (1.0, 2.0)}
    assert Choice(1.0, 16, fixed, (1.0, 1.2)).over_best == pytest.approx(0.8)


# The virtual clock ------------------------------------------------------------------------------


def routed(targets: list[int], keys: list[int], instances: int) -> queues.Routed:
    return queues.Routed(hashed(np.array(keys, np.int64)), np.array(targets, np.int32), instances)


def test_a_partial_result_is_made_by_the_first_tuple_of_a_key_on_an_instance() -> None:
    made = routed([0, 0, 1, 0, 1], [7, 7, 7, 8, 8], 2).makes_partial
    assert made.tolist() == [True, False, True, True, True]


def test_every_window_makes_its_partial_results_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "WINDOW", 2)
    assert routed([0] * 5, [7] * 5, 1).makes_partial.tolist() == [True, False, True, False, True]


def test_throughput_is_that_of_the_busiest_queue() -> None:
    tuples = routed([0, 0, 0, 1], [1, 2, 3, 4], 2)
    assert tuples.throughput(queues.Prices(10.0, 0.0)) == pytest.approx(1000 * 4 / 30)
    dear = tuples.throughput(queues.Prices(10.0, 100.0))
    assert tuples.throughput(queues.Prices(10.0, 0.0), slice(2, 4)) == pytest.approx(200)
    most = int(np.bincount(tuples.aggregators, minlength=4).max())
    assert dear == pytest.approx(1000 * 4 / (100 * most))


def test_queues_wait_as_theory_says() -> None:
    """One queue is M/M/1: service over what is left of its time; and a saturated one has none."""
    tuples = routed([0] * 200_000, [1] * 200_000, 1)
    found = queues.latencies(tuples, queues.Prices(10.0, 0.0), rate=60.0)
    assert found is not None
    assert found.mean() == pytest.approx(25.0, rel=0.05)
    assert queues.latencies(tuples, queues.Prices(10.0, 0.0), rate=99.0) is None


def test_tuples_are_served_in_order() -> None:
    done = queues._through_queues(
        np.array([0.0, 1.0, 1.5]), np.array([0, 0, 1]), np.array([5.0, 2.0, 1.0]), 2
    )
    assert done.tolist() == [5.0, 7.0, 2.5]


# The same algorithms with traversals ------------------------------------------------------------


@pytest.mark.parametrize("instances", [3, 16])
def test_traversals_give_the_same_targets(instances: int) -> None:
    hashes = zipf_stream(8000, 1.3)
    hashes.flags.writeable = False
    for flag in (True, False):
        own = PdStream(expected=0.99, count_arriving=flag).build(instances)
        found = popularity(hashes, instances, count_arriving=flag)
        assert found.tolist() == own.assign(hashes).tolist()
    own_anywhere = WChoices().build(instances).assign(hashes)
    assert anywhere(hashes, instances).tolist() == own_anywhere.tolist()
    mine, theirs = (
        load_imbalance(np.bincount(targets, minlength=instances))
        for targets in (scored(hashes, instances), DAGreedy().build(instances).assign(hashes))
    )
    assert mine == pytest.approx(theirs, abs=0.02)


def test_hashtags_of_which_so_many_come_up_once() -> None:
    counts = np.unique(once_only(20_000, 1000, 0.085, 0.9), return_counts=True)[1]
    assert (counts == 1).sum() >= 890
    assert counts.max() / 20_000 == pytest.approx(0.085, abs=0.02)


# The application --------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [DS, HT])
@pytest.mark.parametrize("grouping", [PdStream(expected="auto"), ShuffleGrouping()], ids=repr)
def test_the_application_counts_as_a_loop_does(stream: str, grouping: PdStream) -> None:
    events = application.Events.of(stream, 3000)
    ran = application.run(events, grouping, instances=5, batches=3)
    assert ran.counts == application.expected_counts(events)
    assert ran.join_rows.sum() == (events.kinds == 0).sum()
    assert ran.partials_per_result >= 1


def test_wrong_results_of_the_application_show() -> None:
    events = application.Events.of(DS, 2000)
    ran = application.run(events, PdStream(), instances=2, batches=1)
    assert application.judged(False, {(DS, PD, 2): ran}) == "opposite"
    uneven = replace(ran, join_rows=np.array([9, 1]))
    even = replace(ran, join_rows=np.array([5, 5]))
    assert application.judged(True, {(DS, PD, 2): even}) == "reproduced"
    assert application.judged(True, {(DS, PD, 2): uneven, (DS, "PKG", 2): even}) == "opposite"


# All of it --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_quick_run_tells_of_every_figure() -> None:
    found = measured(pdstream.PAPER, Scale(quick=True))
    verdicts = {item.item: item.verdict for experiment in found for item in experiment.items}
    assert set(verdicts) == set(pdstream.PAPER.expected)
    assert "not attempted" not in verdicts.values()
    assert verdicts["table II"] == verdicts["table III"] == verdicts["table VI"] == "reproduced"
    assert all(re.search(r"\d", item.ours) for experiment in found for item in experiment.items)
