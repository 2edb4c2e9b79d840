"""When `auto` forms worksets, and that rows are found whatever it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.operators.similarity.looking.partners import Partners, partners_in_time
from skewless.operators.similarity.points import Points
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies import AutoSimilarity, BruteForce, auto
from skewless.operators.similarity.strategies.looking import TaskView
from skewless.operators.similarity.worksets import BOUNDLESS, Worksets
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SegmentInfo
from tests.operators.similarity.driver import Batch, Setup, SimilarityDriver
from tests.operators.similarity.oracle import FOREVER, Question
from tests.operators.similarity.test_properties import batch_of, run_all, spec_of
from tests.strategies import examples

AUTO = AutoSimilarity()


def a_spec(metric: str = "euclidean", threshold: float = 0.01) -> SimilaritySpec:
    return spec_of(Question(metric, threshold, (0, 0), 9, (0, 0), False))


def a_line(rows: int, seed: int = 0) -> Points:
    """Points on a line: worksets rule out nearly everything."""
    return np.random.default_rng(seed).uniform(0, 10, (rows, 1))


def a_cloud(rows: int, seed: int = 0) -> Points:
    """Points that are all about equally far apart: worksets rule out nothing."""
    return np.random.default_rng(seed).normal(size=(rows, 12))


def chosen(points: Points, known: Worksets | None = None, stored: int = 0) -> Worksets | None:
    """The worksets that rows are put into; None: everything is compared."""
    ids, distances, worksets = AUTO.assign(a_spec(), points, known, TaskView(stored))
    if (ids == BOUNDLESS).all():
        assert np.isinf(distances).all()
        return None
    assert BOUNDLESS not in ids
    return worksets.with_members(ids, np.zeros(len(ids), np.int64), distances)


def test_worksets_are_formed_where_they_rule_something_out() -> None:
    found = chosen(a_line(5000))
    assert found is not None and len(found) > 10
    assert chosen(a_cloud(5000)) is None


def test_few_pairs_are_compared() -> None:
    assert chosen(a_line(200)) is None
    assert chosen(a_line(200), stored=100_000) is not None, "there are many to compare with"


def test_worksets_are_given_up_where_they_have_become_useless() -> None:
    """What is known is judged as it is: by its true radius, not by that of a small sample."""
    line = chosen(a_line(5000))
    assert line is not None
    assert chosen(a_line(5000, seed=1), line, stored=5000) is not None
    wide = Worksets(line.ids, line.centers, line.last_us, line.radius + 10, line.is_open)
    assert chosen(a_line(5000, seed=1), wide, stored=5000) is None


def test_worksets_that_there_are_take_fewer_pairs() -> None:
    """To ask whether they pay is all that it costs."""
    line, few = chosen(a_line(5000)), a_line(300, seed=1)
    assert chosen(few, stored=20_000) is None
    assert chosen(few, line, stored=20_000) is not None


def test_worksets_must_not_cost_much_until_what_lies_in_none_has_gone() -> None:
    spec, line = a_spec(), a_line(5000)
    stored = {share: Partners(2000.0, 2000.0 * share) for share in (0.0, 1.0)}
    assert AUTO._pays(spec, line, None, TaskView(5000, stored[0.0]))
    assert not AUTO._pays(spec, line, None, TaskView(5000, stored[1.0]))
    many = Partners(20_000.0, 20_000.0)
    assert AUTO._pays(spec, line, None, TaskView(40_000, many)), "there it costs little"


def test_rows_in_no_workset_are_told_apart() -> None:
    """A segment of nothing but such rows has the one hash."""
    spec, new = (
        spec_of(Question("euclidean", 0.01, (-5000, 5000), None, (0, 0), False)),
        np.arange(1000, 1100),
    )
    bounded = replace(stored("right", 300, 0, 999), hash_max=7)
    found = partners_in_time(spec, "left", new, SegmentSet([stored("right", 100, 0, 999), bounded]))
    assert found == pytest.approx((450, 100))


def test_a_dear_metric_is_worth_worksets_sooner() -> None:
    spec = a_spec()
    few = a_line(500)
    assert not AUTO._pays(spec, few, None, TaskView(3000))
    with mock.patch.object(type(spec.metric), "price", 16.0):
        assert AUTO._pays(spec, few, None, TaskView(3000))


def test_the_workset_without_bounds_is_looked_into_by_all_and_taken_by_none() -> None:
    spec, points = a_spec(), a_line(50)
    ids, distances, worksets = BruteForce().assign(spec, points, None)
    alone = worksets.with_members(ids, np.zeros(50, np.int64), distances)
    assert alone.open_ones() is None
    rows, numbers = AUTO.probe(spec, a_line(7, seed=3) + 1e6, alone)
    assert rows.tolist() == list(range(7)) and numbers.tolist() == [0] * 7
    line = chosen(a_line(5000))
    both = Worksets.joined([line, alone])
    assert both is not None and line is not None
    kept = AUTO.close_redundant(spec, both, line, 5050)
    assert not kept.is_open[kept.ids == BOUNDLESS].any()
    assert kept.is_open.sum() == len(line), "and it covers no other"
    rows, numbers = AUTO.probe(spec, a_line(7, seed=3) + 1e6, both)
    assert both.ids[numbers].tolist() == [BOUNDLESS] * 7


def test_only_some_tasks_make_worksets() -> None:
    """All would make the same, each with a few rows. Others wait for those that there will be, or
    use what is there without making it wider."""
    waiting = AUTO.assign(a_spec(), a_line(5000), None, TaskView(5000, founds=False))
    assert (waiting.ids == BOUNDLESS).all()
    line = chosen(a_line(5000))
    assert line is not None
    found = AUTO.assign(a_spec(), a_line(5000, seed=1), line, TaskView(100_000, founds=False))
    assert set(found.ids.tolist()) <= {*line.ids.tolist(), int(BOUNDLESS)}
    near = found.ids != BOUNDLESS
    assert near.mean() > 0.9
    homes = np.searchsorted(line.ids, found.ids[near])
    assert (found.from_center[near] <= np.maximum(line.radius[homes], 0.01)).all()
    made = AUTO.assign(a_spec(), a_line(5000, seed=1), line, TaskView(100_000))
    assert len(made.worksets) > len(line), "those that do make more"


def test_many_tasks_make_hardly_more_worksets_than_one(tmp_path: Path) -> None:
    spec = replace(a_spec(threshold=0.001), window_us=100, lower_us=-100, upper_us=100)
    looks = []
    for tasks in (1, 16):
        driver = SimilarityDriver(tmp_path / str(tasks), spec, Setup(AUTO, 2))
        with mock.patch.object(auto, "FEW_PAIRS", 100_000), mock.patch.object(auto, "LOOK", 1.0):
            for at in range(4):
                whole = rows_at(a_line(4000, seed=at), at)
                batch = {side: cut(of, tasks) for side, of in whole.items()}
                report = driver.run(at, batch).report
        assert report is not None
        looks.append(report.counters["probes"])
    assert 4000 < looks[1] < 2 * looks[0], "worksets are used, and not a hundred times as many"


def cut(tasks: Sequence[list[pa.RecordBatch]], pieces: int) -> list[list[pa.RecordBatch]]:
    """The rows of a task as those of several."""
    ((rows,),) = tasks
    each = -(-rows.num_rows // pieces)
    return [[rows.slice(at, each)] for at in range(0, rows.num_rows, each)]


def test_distances_from_centers_are_counted_where_there_are_bounds() -> None:
    line = chosen(a_line(5000))
    assert line is not None and line.bounded == len(line)
    assert Worksets.boundless(a_line(1)).bounded == 0


@examples(60)
@given(st.data())
def test_any_choice_by_any_task_finds_the_same(data: st.DataObject) -> None:
    """Tasks choose at random, batch by batch, over restarts."""

    def at_random(self: AutoSimilarity, *given: Any) -> bool:
        return data.draw(st.booleans())

    with mock.patch.object(AutoSimilarity, "_pays", at_random):
        run_all(data, restart=True, strategies=[AUTO])


def rows_at(values: Points, at: int) -> Batch:
    """A batch of both streams, a second later than the one before; ids tell rows apart."""
    schema, half = a_spec().left.schema, len(values) // 2
    parts = {"left": values[:half], "right": values[half:]}
    return {
        side: [[batch_of([(at * 10_000 + n, at, v.tolist()) for n, v in enumerate(part)], schema)]]
        for side, part in parts.items()
    }


def test_it_changes_its_mind_and_finds_the_same(tmp_path: Path) -> None:
    """A line, a cloud over it, and the line again, all within a window."""
    line, cloud = np.zeros((900, 12)), a_cloud(900)
    line[:, :1] = a_line(900)
    batches = [rows_at(values, at) for at, values in enumerate((line, cloud, line + 0.001, cloud))]
    spec = replace(a_spec(threshold=0.05), window_us=100, lower_us=-100, upper_us=100)
    found, bounds = {}, []
    with mock.patch.object(auto, "FEW_PAIRS", 0), mock.patch.object(auto, "LOOK", 1.0):
        for strategy in (AUTO, BruteForce()):
            driver = SimilarityDriver(tmp_path / repr(strategy), spec, Setup(strategy, 2))
            found[strategy] = [driver.run(n, batch).rows for n, batch in enumerate(batches)]
            bounds.append(set(np.isinf(driver.worksets().radius).tolist()))
    assert bounds == [{True, False}, {True}], "both ways were taken, and by one only the one"
    assert found[AUTO] == found[BruteForce()]
    assert sum(len(rows) for rows in found[AUTO]) > 1000


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_any_choice_at_length() -> None:
    test = test_any_choice_by_any_task_finds_the_same.hypothesis.inner_test
    examples(2000)(given(st.data())(test))()


def stored(side: str, rows: int, first_us: int, last_us: int) -> SegmentInfo:
    return SegmentInfo("a", side, rows, 0, 0, 0, 0, first_us, last_us)


def partners(within: tuple[int, int], *old: SegmentInfo, window: int | None = None) -> float:
    """Of a hundred new left rows, a microsecond apart from 1,000 on."""
    spec = spec_of(Question("euclidean", 0.01, within, window, (0, 0), False))
    return partners_in_time(spec, "left", np.arange(1000, 1100), SegmentSet(old)).every


def test_partners_are_those_that_are_near_in_time() -> None:
    """A pair of two new rows is one comparison for both: they count half."""
    before = stored("right", 1000, 0, 999)
    assert partners((-5000, 5000), before) == pytest.approx(1050)
    assert partners((-5000, 5000), before, stored("left", 500, 0, 999)) == pytest.approx(1050)
    assert partners((0, 0), before) == pytest.approx(0.5)
    assert partners((-10, 0), before) == pytest.approx(5.5, rel=0.1)
    assert partners((-200, -100), before) == pytest.approx(101, rel=0.01)
    assert partners((0, 0), before, window=500) == pytest.approx(50)
    assert partners((0, 0), before, window=2000) == pytest.approx(1050)
    assert partners(FOREVER, before) == pytest.approx(1050)


def test_as_many_worksets_as_the_rows_that_can_meet_call_for() -> None:
    """What is stored for late rows only is no reason for more."""
    few = TaskView(stored=1_000_000, partners=Partners(5000.0))
    assert few.rows(a_line(100)) == 10_000
    assert TaskView(stored=900).rows(a_line(100)) == 1000
    found = AUTO.assign(a_spec(threshold=1e-6), a_line(8000), None, few)
    assert len(found.worksets) == AUTO.limit(10_000, 1) == 50


def test_worksets_whose_rows_all_came_too_early_are_not_asked(tmp_path: Path) -> None:
    """Rows are kept, as others may come late. One does, and finds its partners there."""
    side = replace(a_spec().left, late_us=1_000_000)
    spec = replace(
        a_spec(threshold=0.001), window_us=None, lower_us=-5, upper_us=5, left=side, right=side
    )
    drivers = [
        SimilarityDriver(tmp_path / repr(strategy), spec, Setup(strategy, 2))
        for strategy in (AUTO, BruteForce())
    ]
    batches = [rows_at(a_line(4000, seed=at), 1000 * at) for at in range(4)]
    ((rows,),) = batches[3]["left"]
    late = batch_of([(0, 2, [5.0])], side.schema)
    batches[3]["left"] = [[pa.concat_batches([late, rows])]]
    asked = []
    for at, batch in enumerate(batches):
        with mock.patch.object(AutoSimilarity, "_pays", lambda *given, at=at: at == 0):
            found, every = (driver.run(at, batch) for driver in drivers)
        assert found.rows == every.rows and found.report is not None
        asked.append(found.report.counters["workset_distances"])
    sets = drivers[0].worksets().bounded
    assert asked[0] > 4000 and asked[1:] == [0, 0, sets], "of all the late row alone"


def test_a_late_row_does_not_make_a_segment_long() -> None:
    """Its rows are where the last are, and about as dense as new ones."""
    assert partners((-99, 99), stored("right", 100, -1_000_000, 999)) > 90


def test_nothing_is_looked_into_where_few_rows_are_near_in_time(tmp_path: Path) -> None:
    """Much is stored, as rows may come late, but a row meets only a handful."""
    spec = replace(
        a_spec(threshold=0.3),
        window_us=None,
        lower_us=-10,
        upper_us=10,
        left=replace(a_spec().left, late_us=1_000_000),
        right=replace(a_spec().left, late_us=1_000_000),
    )
    batches = []
    for at in range(5):
        line = a_line(6000, seed=at)
        rows = [(n, 10_000 * at + n, [float(x), 0.0]) for n, x in enumerate(line[:, 0])]
        task = [[batch_of(rows[side::2], spec.left.schema)] for side in (0, 1)]
        batches.append({"left": [task[0]], "right": [task[1]]})
    with mock.patch.object(auto, "FEW_PAIRS", 0):
        driver = SimilarityDriver(tmp_path, spec, Setup(AUTO, 2))
        reports = [driver.run(n, batch).report for n, batch in enumerate(batches)]
    assert all(r is not None and r.counters["workset_distances"] == 0 for r in reports)
    assert all(r is not None and r.matches > 100 for r in reports)
