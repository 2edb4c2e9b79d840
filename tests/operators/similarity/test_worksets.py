"""Worksets: what they promise of their members, who has to look into them, and how they end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.engine.report import BatchReport
from skewless.errors import CheckpointMismatchError, DataError, StateDamagedError
from skewless.operators.similarity.metrics import METRICS
from skewless.operators.similarity.points import Points, Sets, concat, take
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies import (
    S3J,
    AutoSimilarity,
    BruteForce,
    ClusterJoin,
    SimilarityStrategy,
)
from skewless.operators.similarity.strategies.looking import LookingStrategy
from skewless.operators.similarity.worksets import Worksets, read_worksets, write_worksets
from skewless.state.blobs import BLOBS
from skewless.state.files import Folder
from tests.crashes import DAMAGES
from tests.operators.similarity.driver import Setup, SimilarityDriver
from tests.operators.similarity.oracle import OneRow, Question
from tests.operators.similarity.test_metrics import VALUES as ANY_VALUES
from tests.operators.similarity.test_metrics import column_of
from tests.operators.similarity.test_properties import (
    LOOKING,
    THRESHOLDS,
    VALUES,
    Limited,
    batch_of,
    spec_of,
)
from tests.strategies import examples

FAR_OFF = st.tuples(st.sampled_from([1e8, -1e8]), st.integers(-3, 3), st.floats(0, 1)).map(
    lambda v: [v[0] + v[1], v[0] + v[2]]
)


UNLIMITED = Limited(None)


def question(metric: str, threshold: float, within: int = 10) -> Question:
    return Question(metric, threshold, (-within, within), None, (0, 0), True)


def points_of(metric: str, values: Sequence[Any]) -> Points:
    return METRICS[metric].points([column_of(metric, values)])


def worksets_around(
    spec: SimilaritySpec, strategy: LookingStrategy, parts: Sequence[Points]
) -> tuple[Points, np.ndarray, np.ndarray, Worksets]:
    """Rows that came in parts, one after the other: all points, their worksets and distances from
    the centers, and the worksets with their members."""
    known, ids, distances = None, [], []
    for part in parts:
        mine, apart, found = strategy.assign(spec, part, known)
        touched = found.with_members(mine, np.arange(len(part)), apart)
        known = Worksets.joined([w for w in (known, touched) if w is not None])
        ids.append(mine)
        distances.append(apart)
    assert known is not None
    return concat(list(parts)), np.concatenate(ids), np.concatenate(distances), known


@st.composite
def pools(draw: st.DrawFn) -> tuple[SimilaritySpec, list[Points], Points]:
    """A join, rows that are stored in one or two parts, and rows that look for them."""
    metric = draw(st.sampled_from(sorted(VALUES)))
    values = draw(st.sampled_from(
        [VALUES[metric], ANY_VALUES[metric], *([FAR_OFF] if metric == "euclidean" else [])]
    ))  # fmt: skip
    spec = spec_of(question(metric, draw(st.sampled_from(THRESHOLDS[metric]))))
    parts = draw(st.lists(st.lists(values, min_size=1, max_size=10), min_size=1, max_size=2))
    probing = draw(st.lists(values, min_size=1, max_size=8))
    probing += parts[0][:2]  # rows that are equal to stored ones
    return spec, [points_of(metric, part) for part in parts], points_of(metric, probing)


def between(spec: SimilaritySpec, a: Points, b: Points) -> np.ndarray:
    """The distances that decide, of all rows from all."""
    rows, others = np.repeat(np.arange(len(a)), len(b)), np.tile(np.arange(len(b)), len(a))
    return spec.metric.pairs(a, rows, b, others).reshape(len(a), len(b))


# What worksets promise -------------------------------------------------------------------------


@examples(150)
@given(pools(), st.sampled_from(LOOKING))
def test_rows_are_within_reach_of_their_center(
    pool: tuple[SimilaritySpec, list[Points], Points], strategy: LookingStrategy
) -> None:
    spec, parts, _ = pool
    points, ids, distances, worksets = worksets_around(spec, strategy, parts)
    assert len(set(worksets.ids.tolist())) == len(worksets)
    assert set(ids.tolist()) == set(worksets.ids.tolist()), "worksets without rows are not kept"
    if not worksets.bounded:  # one workset, into which everybody looks: its center says nothing
        assert strategy in (BruteForce(), AutoSimilarity()), "auto compares few rows with all"
        return
    place = {identity: n for n, identity in enumerate(worksets.ids.tolist())}
    homes = np.array([place[identity] for identity in ids.tolist()])
    from_centers = between(spec, points, worksets.centers)[np.arange(len(points)), homes]
    scale = 1e-9 * (1 + from_centers.max())
    np.testing.assert_allclose(distances, from_centers, rtol=1e-9, atol=scale)
    for number in range(len(worksets)):
        assert worksets.radius[number] == distances[homes == number].max()
    if strategy == UNLIMITED:
        assert (distances <= spec.threshold).all()


@examples(300)
@given(pools(), st.sampled_from(LOOKING))
def test_no_workset_with_a_partner_is_left_out(
    pool: tuple[SimilaritySpec, list[Points], Points], strategy: LookingStrategy
) -> None:
    spec, parts, probing = pool
    points, ids, _, worksets = worksets_around(spec, strategy, parts)
    rows, numbers = strategy.probe(spec, probing, worksets)
    looked = list(zip(rows.tolist(), worksets.ids[numbers].tolist(), strict=True))
    assert len(looked) == len(set(looked)), "a pair would be found twice"
    alike = np.argwhere(between(spec, probing, points) <= spec.threshold)
    assert {(row, int(ids[partner])) for row, partner in alike.tolist()} <= set(looked)


def test_worksets_out_of_reach_are_left_out() -> None:
    spec = spec_of(question("euclidean", 1.0))
    points = points_of("euclidean", [[10.0 * i, 0.5] for i in range(20)])
    _, _, _, worksets = worksets_around(spec, UNLIMITED, [points])
    rows, numbers = UNLIMITED.probe(spec, points, worksets)
    assert len(worksets) == 20
    assert sorted(rows.tolist()) == list(range(20)), "each row looks into its own alone"
    assert sorted(numbers.tolist()) == list(range(20))


def test_partners_opposite_to_the_center_are_found() -> None:
    spec = spec_of(question("haversine", 0.01))
    rng = np.random.default_rng(3)
    for center in rng.uniform((-60, -170), (60, 0), (200, 2)):
        x = np.array([-center[0], center[1] + 180])
        y = x + rng.uniform(-5e-8, 5e-8, 2)
        points = points_of("haversine", [list(center), list(x)])
        probing = points_of("haversine", [list(y)])
        if between(spec, probing, points)[0, 1] > spec.threshold:
            continue
        homes = np.zeros(2, np.uint64)
        apart = spec.metric.cross(points, take(points, np.zeros(1, np.int64)))[:, 0]
        one = Worksets.around(np.zeros(1, np.uint64), take(points, np.zeros(1, np.int64)))
        worksets = one.with_members(homes, np.zeros(2, np.int64), apart)
        assert len(UNLIMITED.probe(spec, probing, worksets)[0]) == 1


@pytest.mark.parametrize("most", [1, 3, 8])
def test_most_bounds_the_number_of_worksets(most: int) -> None:
    spec = spec_of(question("euclidean", 1.0))
    rng = np.random.default_rng(4)
    parts: list[Points] = [rng.uniform(-50, 50, (40, 2)) for _ in range(3)]
    _, ids, distances, worksets = worksets_around(spec, Limited(most), parts)
    assert len(worksets) == len(set(ids.tolist())) == most
    assert (distances > spec.threshold).any(), "rows stay with a center, however far it is"
    assert len(worksets_around(spec, UNLIMITED, parts)[3]) > 8
    # As long as there is room, a row that no center covers becomes one.
    assert len(worksets_around(spec, Limited(120), parts)[3]) == len(
        worksets_around(spec, UNLIMITED, parts)[3]
    )


def test_rows_go_to_the_nearest_of_known_centers() -> None:
    spec = spec_of(question("euclidean", 2.0))
    centers = points_of("euclidean", [[0.0, 0.0], [3.0, 0.0]])
    _, ids, _, known = worksets_around(spec, UNLIMITED, [centers])
    row = points_of("euclidean", [[1.6, 0.0], [1.4, 0.0], [9.0, 9.0]])
    homes, distances, found = UNLIMITED.assign(spec, row, known)
    assert homes[:2].tolist() == [ids[1], ids[0]]
    assert distances.tolist() == pytest.approx([1.4, 1.4, 0.0])
    assert homes[2] not in ids
    assert len(found) == 3


@examples(150)
@given(pools())
def test_centers_that_tasks_made_near_each_other_are_closed(
    pool: tuple[SimilaritySpec, list[Points], Points],
) -> None:
    """Each part by a task of its own: new centers stay open where no open one is near."""
    spec, parts, before = pool
    known = worksets_around(spec, UNLIMITED, [before])[3]
    made = [worksets_around(spec, UNLIMITED, [part])[3] for part in parts]
    every = Worksets.joined([known, *made])
    assert every is not None
    closed = UNLIMITED.close_redundant(spec, every, known, rows=0)
    assert closed.ids.tolist() == every.ids.tolist(), "none is lost"
    is_old = np.isin(closed.ids, known.ids)
    assert closed.is_open[is_old].all()
    apart = between(spec, closed.centers, closed.centers)
    slack = 1e-9 * (1 + apart.max())
    for n in np.flatnonzero(~is_old).tolist():
        others = np.flatnonzero(closed.is_open & (np.arange(len(closed)) != n))
        nearest = min(apart[n, others], default=math.inf)
        if closed.is_open[n]:
            assert nearest > spec.threshold - slack
        else:
            assert nearest <= spec.threshold + slack


def test_no_more_stay_open_than_there_may_be() -> None:
    strategy = Limited(5)
    spec = spec_of(question("euclidean", 1.0))
    rng = np.random.default_rng(8)
    made = [worksets_around(spec, strategy, [rng.uniform(-50, 50, (40, 2))])[3] for _ in range(3)]
    every = Worksets.joined(made)
    assert every is not None and len(every) == 15
    closed = strategy.close_redundant(spec, every, None, rows=120)
    assert closed.is_open.sum() == 5
    again = Worksets.joined([closed, worksets_around(spec, strategy, [np.ones((3, 2))])[3]])
    assert again is not None
    assert strategy.close_redundant(spec, again, closed, rows=123).is_open.sum() == 5


def test_no_row_goes_to_a_closed_workset() -> None:
    spec = spec_of(question("euclidean", 2.0))
    centers = points_of("euclidean", [[0.0, 0.0], [3.0, 0.0]])
    ids, known = worksets_around(spec, UNLIMITED, [centers])[1::2]
    known = replace(known, is_open=known.ids == ids[1])
    row = points_of("euclidean", [[1.4, 0.0]])
    assert UNLIMITED.assign(spec, row, known)[0].tolist() == [ids[1]]
    assert len(UNLIMITED.probe(spec, row, known)[0]) == 2, "but it looks into it"
    known = replace(known, is_open=np.zeros(2, np.bool_))
    assert UNLIMITED.assign(spec, row, known)[0][0] not in ids


# Files -----------------------------------------------------------------------------------------


def assert_equal(a: Worksets, b: Worksets) -> None:
    for name in ("ids", "last_us", "radius", "is_open"):
        assert getattr(a, name).tolist() == getattr(b, name).tolist()
        assert getattr(a, name).dtype == getattr(b, name).dtype
    if isinstance(a.centers, Sets):
        assert isinstance(b.centers, Sets)
        assert a.centers.offsets.tolist() == b.centers.offsets.tolist()
        assert a.centers.values.tolist() == b.centers.values.tolist()
    else:
        assert not isinstance(b.centers, Sets)
        assert a.centers.tolist() == b.centers.tolist()


CENTERS: dict[str, Points] = {
    "vectors": np.array([[1.5, -0.0, 1e300], [5e-324, 2.0, 3.0]]),
    "whole numbers": np.array([[1.0], [2.0]]),
    "no elements": np.empty((2, 0)),
    "sets": Sets(np.array([0, 2, 5]), np.array([-(2**63), 7, 1, 2, 2**63 - 1])),
    "empty sets": Sets(np.zeros(3, np.int64), np.empty(0, np.int64)),
}


@pytest.mark.parametrize("name", CENTERS)
def test_files_give_back_what_was_written(name: str, tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.make(BLOBS)
    ids = np.array([2**64 - 1, 5], np.uint64)
    last, radius = np.array([-(2**62), 12]), np.array([0.1 + 0.2, math.inf])
    worksets = Worksets(ids, CENTERS[name], last, radius, ids % 2 == 0)
    file = write_worksets(folder, worksets)
    assert file.bytes == (tmp_path / file.name).stat().st_size
    assert_equal(read_worksets(folder, file), worksets)
    none = worksets.take(np.empty(0, np.int64))
    assert len(read_worksets(folder, write_worksets(folder, none))) == 0


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_files_are_refused(
    damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    folder = Folder(str(tmp_path))
    folder.make(BLOBS)
    worksets = Worksets.around(np.arange(2, dtype=np.uint64), np.ones((2, 2)))
    file = write_worksets(folder, worksets)
    damage(tmp_path / file.name)
    with pytest.raises(StateDamagedError) as error:
        read_worksets(folder, file)
    assert str(error.value).startswith(f"{tmp_path / file.name} {message}")
    assert "restore the checkpoint folder" in str(error.value)


@examples(50)
@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9)), max_size=5), max_size=4))
def test_joined_worksets_know_the_latest_and_the_furthest(members_of: list[list[tuple]]) -> None:
    parts = []
    for part in members_of:
        ids = np.unique(np.array([i for i, _ in part], np.uint64))
        if len(ids):
            centers = ids[:, None].astype(float)
            mine = np.array([i for i, _ in part], np.uint64)
            numbers = np.array([n for _, n in part])
            members = (mine, numbers, np.abs(numbers).astype(float))
            parts.append(Worksets.around(ids, centers).with_members(*members))
    joined = Worksets.joined(parts)
    every = list(itertools.chain.from_iterable(members_of))
    if joined is None:
        assert every == []
        return
    assert joined.ids.tolist() == sorted({i for i, _ in every})
    assert joined.centers[:, 0].tolist() == joined.ids.tolist()
    for n, identity in enumerate(joined.ids.tolist()):
        mine = [number for i, number in every if i == identity]
        assert joined.last_us[n] == max(mine)
        assert joined.radius[n] == max(map(abs, mine))


# In a query ------------------------------------------------------------------------------------


def numbered(values: Sequence[Any], times: Sequence[int], first: int = 0) -> list[OneRow]:
    both = zip(times, values, strict=True)
    return [(first + n, time, list(value)) for n, (time, value) in enumerate(both)]


def run(driver: SimilarityDriver, batch: int, rows: list[OneRow]) -> BatchReport:
    report = driver.run(batch, {"left": [[batch_of(rows, driver.spec.left.schema)]]}).report
    assert report is not None
    return report


def test_worksets_leave_when_their_rows_have_expired(tmp_path: Path) -> None:
    driver = SimilarityDriver(tmp_path, spec_of(question("euclidean", 1.0)), Setup(UNLIMITED, 2))
    left = [(0.0, 0.0), (50.0, 0.0)]
    run(driver, 0, numbered(left, [0, 5]))
    assert len(driver.worksets()) == 2
    run(driver, 1, numbered([(50.2, 0.0)], [15]))  # the watermark is 5: both can have partners
    assert len(driver.worksets()) == 2
    # The watermark is 15: what is before 5 is gone. Its place is known for as long again.
    run(driver, 2, numbered([(99.0, 0.0)], [25]))
    assert sorted(driver.worksets().centers[:, 0].tolist()) == [0.0, 50.0, 99.0]
    run(driver, 3, numbered([(99.0, 0.0)], [26]))  # the watermark is 25: 15 and 5
    assert sorted(driver.worksets().centers[:, 0].tolist()) == [50.0, 99.0]
    run(driver, 4, numbered([(0.0, 0.0)], [100]))
    run(driver, 5, numbered([(0.5, 0.0)], [101]))
    assert driver.worksets().centers[:, 0].tolist() == [0.0]


def test_nobody_looks_into_worksets_without_rows(tmp_path: Path) -> None:
    driver = SimilarityDriver(tmp_path, spec_of(question("euclidean", 1.0)), Setup(UNLIMITED, 2))
    run(driver, 0, numbered([(0.0, 0.0), (1.5, 0.0)], [0, 5]))
    run(driver, 1, numbered([(1.0, 0.0)], [15]))
    report = run(driver, 2, numbered([(1.0, 0.0)], [25]))  # within reach of both
    assert len(driver.worksets()) == 2
    assert report.comparisons["probes"] == 1


def test_tasks_of_one_batch_end_up_with_the_worksets_of_one(tmp_path: Path) -> None:
    """Four tasks see rows of the same three places; in the end there are three worksets."""
    driver = SimilarityDriver(tmp_path, spec_of(question("euclidean", 1.0)), Setup(UNLIMITED, 2))
    schema = driver.spec.left.schema
    places = [(0.0, 0.0), (50.0, 0.0), (0.0, 50.0)]
    tasks = [[batch_of(numbered(places, [0] * 3, 3 * n), schema)] for n in range(4)]
    report = driver.run(0, {"left": tasks}).report
    assert report is not None and report.matches == 3 * 6
    assert len(driver.worksets()) == 12
    assert driver.worksets().is_open.sum() == 3
    for batch in (1, 2, 3):
        report = run(driver, batch, numbered(places, [9 * batch] * 3, 100 * batch))
        assert report.matches == (12 if batch == 1 else 3)
    assert len(driver.worksets()) == 3
    assert driver.worksets().is_open.all()


def clustered(rows: int, seed: int = 5) -> np.ndarray:
    """Rows around twelve places that are far from one another."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(-100, 100, (12, 3))
    return places[rng.integers(0, 12, rows)] + rng.normal(0, 0.4, (rows, 3))


COMPARED: tuple[SimilarityStrategy, ...] = (
    BruteForce(), UNLIMITED, Limited(9), S3J(), S3J(partitions=1), ClusterJoin(9)
)  # fmt: skip


def test_worksets_save_comparisons(tmp_path: Path) -> None:
    values, rows = clustered(240), 240
    found = {}
    for strategy in COMPARED:
        spec = spec_of(question("euclidean", 1.5))
        driver = SimilarityDriver(tmp_path / repr(strategy), spec, Setup(strategy, 3))
        reports = [
            run(driver, batch, numbered(part, [batch] * len(part), 1000 * batch))
            for batch, part in enumerate(np.split(values, 3))
        ]
        counts = {
            name: sum(r.comparisons[name] for r in reports)
            for name in ("probes", "compared", "inner")
        }
        met = sum(load.pairs for r in reports for load in r.instances)
        assert counts["compared"] + counts["inner"] == met
        found[strategy] = counts | {"matches": sum(r.matches for r in reports)}
    all_pairs = rows * (rows - 1) // 2
    assert found[BruteForce()]["compared"] == all_pairs
    assert len({counts["matches"] for counts in found.values()}) == 1
    assert 500 < found[UNLIMITED]["matches"] < all_pairs // 4
    for strategy in COMPARED[1:]:
        compared = found[strategy]["compared"] + found[strategy]["inner"]
        assert compared >= found[strategy]["matches"]
        assert compared < all_pairs / 3, f"by {strategy}"
        assert (found[strategy]["inner"] > 0) == isinstance(strategy, S3J | Limited)
    assert found[UNLIMITED]["probes"] < rows * 12, "not every row looks into every workset"


@pytest.mark.parametrize("most", [None, 4])
def test_inner_pairs_are_counted_apart_and_alike(most: int | None, tmp_path: Path) -> None:
    threshold, values = 1.0, clustered(120)
    spec = spec_of(question("euclidean", threshold))
    driver = SimilarityDriver(tmp_path, spec, Setup(Limited(most), 2))
    report = run(driver, 0, numbered(values, [0] * 120))
    # A task finds the same worksets again, if under other names.
    _, ids, distances, _ = worksets_around(spec, Limited(most), [values])
    inner = 0
    for a, b in itertools.combinations(range(120), 2):
        if ids[a] == ids[b] and distances[a] + distances[b] <= threshold:
            inner += 1
            assert np.linalg.norm(values[a] - values[b]) <= threshold
    assert report.comparisons["inner"] == inner > 10
    apart = np.linalg.norm(values[:, None] - values[None], axis=2)
    matches = ((apart <= threshold).sum() - 120) // 2
    assert report.matches == matches > inner
    assert report.comparisons["compared"] >= matches - inner


# Vectors of other lengths ----------------------------------------------------------------------


def test_the_first_vector_says_how_long_they_are(tmp_path: Path) -> None:
    spec = spec_of(question("euclidean", 1.0))
    driver = SimilarityDriver(tmp_path, spec)
    run(driver, 0, numbered([(0.0, 0.0)], [0]))
    with pytest.raises(DataError, match=r"1 row of the left input cannot be compared"):
        run(driver, 1, numbered([(0.0, 0.0, 0.0), (1.0, 0.0)], [1, 1]))
    driver = SimilarityDriver(tmp_path, replace(spec, drop_bad=True))
    report = run(driver, 1, numbered([(0.0, 0.0, 0.0), (1.0, 0.0)], [1, 1]))
    assert (report.dropped, report.matches) == ({"not comparable": 1}, 1)


def test_two_tasks_that_disagree_on_the_length(tmp_path: Path) -> None:
    driver = SimilarityDriver(tmp_path, spec_of(question("euclidean", 1.0)))
    tasks = [[batch_of(numbered([value], [0]), driver.spec.left.schema)]
             for value in ((0.0, 0.0), (1.0,))]  # fmt: skip
    with pytest.raises(DataError, match="vectors of 1 and 2 elements cannot be compared"):
        driver.run(0, {"left": tasks})


def test_another_dimension_at_a_restart_is_refused(tmp_path: Path) -> None:
    spec = spec_of(question("euclidean", 1.0))
    driver = SimilarityDriver(tmp_path, spec)
    run(driver, 0, numbered([(0.0, 0.0)] * 4, [0] * 4))
    with pytest.raises((DataError, CheckpointMismatchError)):
        driver = SimilarityDriver(tmp_path, replace(spec, dimension=3))
        run(driver, 1, numbered([(0.0, 0.0, 0.0)], [1]))
