"""Sets with copies: who is in which, by the definitions of the S3J paper, and that every pair
within the threshold meets in exactly one of them."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.engine.batch import run_batch
from skewless.engine.executor import Collecting, InProcessExecutor
from skewless.engine.instance import StepTask
from skewless.engine.pipeline import Node
from skewless.operators.similarity.copying.covering import evenest
from skewless.operators.similarity.copying.dividing import (
    SENT_MOST,
    costs,
    divided,
    worksets_of,
)
from skewless.operators.similarity.copying.forming import Former
from skewless.operators.similarity.copying.owning import Owners
from skewless.operators.similarity.copying.roles import (
    COPY,
    HOME,
    INNER,
    OUTER,
    ids_of,
    in_role,
    partitions_of,
)
from skewless.operators.similarity.copying.space import (
    Space,
    choose_centroids,
    sample_of,
    sends,
)
from skewless.operators.similarity.metrics import OwnMetric
from skewless.operators.similarity.points import Points, concat, take
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies import S3J, ClusterJoin
from skewless.operators.similarity.strategies.copying import CopyingStrategy
from tests.operators.similarity.driver import Setup, SimilarityDriver
from tests.operators.similarity.oracle import Question
from tests.operators.similarity.test_metrics import VALUES as ANY_VALUES
from tests.operators.similarity.test_properties import THRESHOLDS, VALUES, batch_of, spec_of
from tests.operators.similarity.test_worksets import (
    FAR_OFF,
    between,
    numbered,
    points_of,
    question,
    run,
)
from tests.strategies import examples

NO_IDS = np.empty(0, np.uint64)


# The space -------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_of_two_partitions_one_sends(i: int, j: int) -> None:
    there, back = sends(np.array([i]), np.array([j]))[0], sends(np.array([j]), np.array([i]))[0]
    assert i == j or there != back
    if i != j:
        assert there == ((i < j) != ((i + j) % 2 == 1)), "as ClusterJoin has it"


def test_every_partition_sends_to_about_half_of_the_others() -> None:
    """The rule of the lesser number would have the first partition send to all."""
    numbers = np.arange(9)
    for i in numbers:
        others = numbers[numbers != i]
        assert sends(np.full(8, i), others).sum() == 4


@st.composite
def spaces(draw: st.DrawFn, far_off: bool = True) -> tuple[SimilaritySpec, Space, Points]:
    """A join, centroids, and rows, some of which are centroids themselves."""
    metric = draw(st.sampled_from(sorted(VALUES)))
    more = [FAR_OFF] if metric == "euclidean" and far_off else []
    values = draw(st.sampled_from([VALUES[metric], ANY_VALUES[metric], *more]))
    rows = draw(st.lists(values, min_size=1, max_size=14))
    partitions = draw(st.integers(1, len(rows)))
    spec = spec_of(question(metric, draw(st.sampled_from(THRESHOLDS[metric]))))
    points = points_of(metric, rows)
    return spec, Space(take(points, np.arange(partitions))), points


@examples(200)
@given(spaces())
def test_rows_are_placed_by_criterion_1(drawn: tuple[SimilaritySpec, Space, Points]) -> None:
    spec, space, points = drawn
    placed = space.place(spec, points)
    apart = between(spec, points, space.centroids)
    slack = 1e-4 * (1 + apart.max() + spec.threshold)
    rows = np.arange(len(points))
    assert (apart[rows, placed.inner] <= apart.min(axis=1) + slack).all()
    copies = Counter(zip(placed.rows.tolist(), placed.outer.tolist(), strict=True))
    assert max(copies.values(), default=1) == 1
    for row, j in itertools.product(rows.tolist(), range(len(space))):
        i = int(placed.inner[row])
        beyond = apart[row, j] - (apart[row, i] + 2 * spec.threshold)
        one_way = i != j and bool(sends(np.array([i]), np.array([j]))[0])
        if not one_way or beyond > slack:
            assert (row, j) not in copies
        elif beyond <= 0:
            assert (row, j) in copies


@examples(300)
@given(spaces())
def test_every_pair_meets_in_one_partition(drawn: tuple[SimilaritySpec, Space, Points]) -> None:
    spec, space, points = drawn
    placed = space.place(spec, points)
    inner = placed.inner.tolist()
    outer = set(zip(placed.rows.tolist(), placed.outer.tolist(), strict=True))
    apart = between(spec, points, points)
    for x, y in itertools.combinations(range(len(points)), 2):
        met = (inner[x] == inner[y]) + ((x, inner[y]) in outer) + ((y, inner[x]) in outer)
        assert met <= 1
        assert met == 1 or apart[x, y] > spec.threshold


def test_centroids_are_rows_of_the_batch_whoever_had_them() -> None:
    """Of a hundred rows in three tasks, ten: each as likely as any other."""
    parts = [
        np.arange(90.0)[:, None],
        np.arange(90.0, 91.0)[:, None],
        np.arange(91.0, 100.0)[:, None],
    ]
    drawn: Counter[float] = Counter()
    for seed in range(300):
        samples: list[Points] = [sample_of(part, 10, seed + n) for n, part in enumerate(parts)]
        space = choose_centroids(samples, [len(part) for part in parts], 10, seed)
        values = np.asarray(space.centroids)[:, 0].tolist()
        assert len(set(values)) == 10
        drawn.update(values)
    assert set(drawn) <= set(np.arange(100.0).tolist())
    assert 10 <= drawn[90.0] <= 60, "the only row of its task: 30 of 300 are expected"
    assert len(choose_centroids([parts[0], parts[1]], [3 * 10**9, 1], 10, 0)) == 10
    few = choose_centroids([parts[1]], [1], 10, 0)
    assert len(few) == 1, "fewer rows than partitions"
    again = [choose_centroids([sample_of(parts[0], 5, 3)], [90], 5, 3) for _ in range(2)]
    assert np.array_equal(np.asarray(again[0].centroids), np.asarray(again[1].centroids))


@pytest.mark.parametrize("partitions", [1, 2, 5, 20])
def test_centroids_divide_the_space_evenly(partitions: int) -> None:
    """The work grows with the squares of partitions' sizes; drawn blindly, it is half as much
    again as of even ones."""
    spec = spec_of(Question("euclidean", 0.01, (0, 0), 9, (0, 0), False))
    sample = np.random.default_rng(7).uniform(size=(1000, 1)) ** 2
    for seed in range(5):
        centroids = evenest(spec, sample, partitions, seed)
        assert np.isin(centroids, sample).all() and len(np.unique(centroids)) == partitions
        sizes = np.bincount(np.abs(sample - centroids.T).argmin(axis=1), minlength=partitions)
        assert (sizes**2).sum() <= 1.2 * len(sample) ** 2 / partitions
    few = sample[:partitions]
    assert np.array_equal(np.sort(evenest(spec, few, partitions, 0), axis=0), np.sort(few, axis=0))


def line_of(threshold: float) -> tuple[SimilaritySpec, np.ndarray]:
    """Rows that are spread evenly over a line of length 1, and how near they have to be."""
    spec = spec_of(Question("euclidean", threshold, (0, 0), 9, (0, 0), False))
    return spec, np.random.default_rng(5).uniform(size=(1024, 1))


@pytest.mark.parametrize(
    ("threshold", "least", "partitions"),
    [
        (0.0005, 5, 20),  # about 680 worksets: the fewest distances are at their root
        (0.0005, 20, 20),
        (0.0005, 40, 40),  # one per instance, at least
        (0.05, 5, 5),  # with ten partitions, most rows would be near a border
        (2.0, 5, 5),  # one workset
        (0.0005, 100, 100),  # so few rows in each that the sample does not tell
    ],
)
def test_the_space_is_divided_where_that_saves_distances(
    threshold: float, least: int, partitions: int
) -> None:
    spec, sample = line_of(threshold)
    assert len(divided(spec, sample, least, 0)) == partitions


def test_what_a_division_costs_is_what_it_takes() -> None:
    """By hand: two partitions with two and three worksets, of which one is near the border."""
    spec = spec_of(Question("euclidean", 1.0, (0, 0), 9, (0, 0), False))
    sample = np.array([[0.0], [4.0], [5.5], [8.0], [10.0], [10.5]])
    centers = worksets_of(spec, sample)
    assert np.asarray(centers)[:, 0].tolist() == [0.0, 4.0, 5.5, 8.0, 10.0]
    sent, distances = costs(spec, Space(np.array([[0.0], [10.0]])), sample, centers)
    # The border is at 5. Criterion 1 has 4.0 and 5.5 on both sides; one of them is sent.
    assert sent == pytest.approx(7 / 6)
    received = (3, 4) if sends(np.array([1]), np.array([0]))[0] else (2, 5)
    assert distances == pytest.approx(2 + ((received[0] * 2) + received[1] * 3) / 6)


def test_hardly_a_row_is_sent_to_a_second_partition_for_it() -> None:
    for threshold in (0.0002, 0.001, 0.002, 0.005, 0.02):
        spec, sample = line_of(threshold)
        space = divided(spec, sample, 4, 1)
        sent, _ = costs(spec, space, sample, worksets_of(spec, sample))
        assert sent <= SENT_MOST or len(space) == 4


def test_with_many_dimensions_there_is_one_partition_per_instance() -> None:
    spec = spec_of(Question("euclidean", 1.0, (0, 0), 9, (0, 0), False))
    sample = np.random.default_rng(5).uniform(size=(256, 64))
    assert len(worksets_of(spec, sample)) == 256
    assert len(divided(spec, sample, 3, 0)) == 3


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "angular"])
def test_a_divided_space_finds_what_one_partition_finds(tmp_path: Path, metric: str) -> None:
    rng = np.random.default_rng(3)
    threshold, area = (0.002, (1.0, 1.0)) if metric == "angular" else (0.01, (5.0, 0.05))
    spec, found = spec_of(question(metric, threshold)), {}
    batches = [[tuple(p) for p in rng.uniform(0, area, (300, 2)).tolist()] for _ in range(3)]
    for strategy in (S3J(), S3J(partitions=1)):
        driver = SimilarityDriver(tmp_path / str(strategy.partitions), spec, Setup(strategy, 2))
        reports = [
            run(driver, n, numbered(places, [n] * 300, 300 * n)) for n, places in enumerate(batches)
        ]
        found[strategy] = [report.matches for report in reports]
        made = {i >> 40 for i in driver.worksets().ids.tolist()}
        assert (len(made) > 2) == (strategy.partitions is None)
    assert found[S3J()] == found[S3J(partitions=1)]
    assert sum(found[S3J()]) > 100


# Worksets --------------------------------------------------------------------------------------


def formed(
    spec: SimilaritySpec, parts: Sequence[Points]
) -> tuple[Former, np.ndarray, np.ndarray, set]:
    """Rows that came in parts: the homes of all, their distances from these, and all copies."""
    former = nothing_formed(spec, 3, parts[0])
    ids, from_center, copies, before = NO_IDS, [], set(), take(parts[0], np.empty(0, np.int64))
    for part in parts:
        former = next_batch(spec, 3, former)
        home = former.take_in(part)
        from_center.append(home.from_center)
        found = list(zip((home.rows + len(ids)).tolist(), home.copies.tolist(), strict=True))
        found += owed(former, ids, before)
        assert len(found) == len(set(found))
        assert not copies & set(found), "nothing is copied twice"
        copies |= set(found)
        ids, before = np.concatenate([ids, home.ids]), concat([before, part])
    return former, ids, np.concatenate(from_center), copies


def nothing_formed(spec: SimilaritySpec, partition: int, points: Points) -> Former:
    nobody = take(points, np.empty(0, np.int64))
    return Former(spec, partition, NO_IDS, nobody, np.empty(0), 0)


def next_batch(spec: SimilaritySpec, partition: int, former: Former) -> Former:
    """The same worksets, as the next batch finds them."""
    state = former.ids, former.centers, former.reach, former.made
    return Former(spec, partition, *state)


def owed(former: Former, ids: np.ndarray, points: Points) -> list[tuple[int, int]]:
    """Rows that were at home before, and the worksets that owe copies of them."""
    targets, homes = former.between()
    pairs = [
        (row, number)
        for number, home in zip(targets.tolist(), homes.tolist(), strict=True)
        for row in np.flatnonzero(ids == former.ids[home]).tolist()
    ]
    if not pairs:
        return []
    rows, numbers = np.array(pairs).T
    owes = former.owes(numbers, take(points, rows))
    return [(row, int(former.ids[n])) for (row, n), yes in zip(pairs, owes, strict=True) if yes]


@st.composite
def rows_in_parts(draw: st.DrawFn) -> tuple[SimilaritySpec, list[Points]]:
    spec, _, points = draw(spaces())
    cut = draw(st.integers(1, len(points)))
    cuts = [np.arange(cut), np.arange(cut, len(points))]
    return spec, [take(points, some) for some in cuts if len(some)]


@examples(200)
@given(rows_in_parts())
def test_definitions_8_to_10(drawn: tuple[SimilaritySpec, list[Points]]) -> None:
    spec, parts = drawn
    former, ids, from_center, copies = formed(spec, parts)
    t, points = spec.threshold, concat(parts)
    apart = between(spec, points, former.centers)
    slack = 1e-9 * (1 + apart.max() + t) + 4 * spec.metric.cross_error(points, points)
    assert former.ids.tolist() == sorted(set(former.ids.tolist()))
    assert (partitions_of(former.ids) == 3).all()
    centers = between(spec, former.centers, former.centers) + np.diag(np.full(len(former), np.inf))
    assert (centers > t - slack).all(), "criterion 2: centers are further than t from one another"
    homes = np.searchsorted(former.ids, ids)
    np.testing.assert_allclose(from_center, apart[np.arange(len(points)), homes], rtol=1e-12)
    assert (from_center <= t).all()
    first, _, _, _ = formed(spec, parts[:1])
    for row in range(len(points)):
        known = len(first) if row < len(parts[0]) else len(former)  # when the row came
        close = np.flatnonzero(apart[row, :known] <= t / 2 - slack)
        assert set(close.tolist()) <= {int(homes[row])}, "within t/2 of a center: its inner set"
        for number in range(len(former)):
            is_copy = (row, int(former.ids[number])) in copies
            bound = t + from_center[homes == number].max()
            assert bound == t + former.reach[number] <= 2 * t
            if is_copy:
                assert number < homes[row] and apart[row, number] <= bound + slack
            elif number < homes[row]:
                assert apart[row, number] > bound


@examples(300)
@given(rows_in_parts())
def test_every_pair_of_a_partition_meets_in_one_workset(
    drawn: tuple[SimilaritySpec, list[Points]],
) -> None:
    spec, parts = drawn
    _, ids, _, copies = formed(spec, parts)
    points, homes = concat(parts), ids.tolist()
    apart = between(spec, points, points)
    for x, y in itertools.combinations(range(len(points)), 2):
        met = (homes[x] == homes[y]) + ((x, homes[y]) in copies) + ((y, homes[x]) in copies)
        assert met <= 1
        assert met == 1 or apart[x, y] > spec.threshold


@examples(200)
@given(rows_in_parts(), st.data())
def test_rows_of_the_outer_partition_meet_all_in_reach(
    drawn: tuple[SimilaritySpec, list[Points]], data: st.DataObject
) -> None:
    """Some come before the last worksets are made, or reach as far as they do in the end: these get
    their copies then."""
    spec, parts = drawn
    points = concat(parts)
    outer = take(points, np.array(data.draw(st.lists(st.integers(0, len(points) - 1), min_size=1))))
    former = nothing_formed(spec, 0, points)
    homes, copies = [], Counter[tuple[int, int]]()
    for number, part in enumerate(parts):
        former = next_batch(spec, 0, former)
        homes += former.take_in(part).ids.tolist()
        rows, ids = former.owed(outer) if number else former.copies(outer)
        copies.update(zip(rows.tolist(), ids.tolist(), strict=True))
    assert max(copies.values(), default=1) == 1, "nowhere twice"
    for y, x in np.argwhere(between(spec, outer, points) <= spec.threshold).tolist():
        assert (y, homes[x]) in copies


def test_worksets_by_hand() -> None:
    """A threshold of 2: 0 and 5 are centers; 1 is in the inner set of 0, 1.5 an outlier of it, so
    that the workset reaches 1.5 far; 3.2 is an outlier of 5, within 3.5 of 0, and so copied there;
    9.5 makes a workset, and is not within 3.8 of 5."""
    spec = spec_of(question("euclidean", 2.0))
    values = [0.0, 5.0, 1.0, 1.5, 3.2, 9.5]
    former, ids, from_center, copies = formed(spec, [np.array(values)[:, None]])
    first = int(ids_of(np.array([3]))[0])
    assert (ids - np.uint64(first)).tolist() == [1, 2, 1, 1, 2, 3]
    assert from_center.tolist() == pytest.approx([0, 0, 1, 1.5, 1.8, 0])
    assert copies == {(4, first + 1)}
    assert former.made == 3
    assert former.distances == 6 * 3
    assert former.reach.tolist() == pytest.approx([1.5, 1.8, 0])
    outer, where = former.copies(np.array([[7.0], [7.6]]))
    assert (outer.tolist(), (where - np.uint64(first)).tolist()) == ([0, 1, 1], [2, 2, 3])
    # The worksets of another batch go on counting, whatever has been forgotten.
    later = Former(spec, 3, former.ids[2:], former.centers[2:], former.reach[2:], former.made)
    assert later.take_in(np.array([[0.0]])).ids.tolist() == [first + 4]


def test_a_workset_that_reaches_further_gets_the_copies_that_it_owes() -> None:
    """A threshold of 2: 3.4 is at home around 5 and not within 2 of the rows around 0, until 1.6
    comes; so it is copied then, and only then. 3.9 is never within 2 of any."""
    spec = spec_of(question("euclidean", 2.0))
    parts = [np.array(part)[:, None] for part in ([0.0, 5.0, 3.4, 3.9], [1.6], [1.2, -1.6])]
    former, _, _, copies = formed(spec, parts[:1])
    assert not copies
    _, ids, _, copies = formed(spec, parts[:2])
    assert copies == {(2, int(ids[0]))}
    _, _, _, after = formed(spec, parts)
    assert after == copies
    later = next_batch(spec, 3, former)
    later.take_in(parts[1])
    outer, where = later.owed(np.array([[3.5], [3.7], [1.0]]))
    assert (outer.tolist(), where.tolist()) == ([0], [int(ids[0])]), "1 was copied when it came"


# Owners ----------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=30),
    st.integers(1, 5),
    st.data(),
)
def test_every_row_has_one_owner(
    members: list[tuple[int, int]], instances: int, data: st.DataObject
) -> None:
    made = [int(ids_of(np.array([p]))[0]) + n for p, n in sorted(members)]
    moved = {
        i: data.draw(st.integers(0, instances - 1))
        for i in sorted({*made, 77})
        if data.draw(st.booleans())
    }
    ids = np.array(made, np.uint64)
    for n in range(instances):
        mine = [
            row
            for row, i in enumerate(made)
            if moved.get(i, (i >> 40) % instances) == n
        ]  # fmt: skip
        assert Owners.of(moved, instances).rows_of(n, ids).tolist() == mine


# In a query ------------------------------------------------------------------------------------


def segments(driver: SimilarityDriver, *roles: str) -> int:
    return sum(s.rows for s in in_role(driver.state.segments, *roles))


def test_what_is_counted(tmp_path: Path) -> None:
    """One partition, and the rows that were worked out by hand; each meets those of its home, and
    the one copy those in its workset."""
    spec = spec_of(question("euclidean", 2.0))
    driver = SimilarityDriver(tmp_path, spec, Setup(S3J(partitions=1), 2))
    values = [[v, 0.0] for v in (0.0, 5.0, 1.0, 1.5, 3.2, 9.5)]
    report = run(driver, 0, numbered(values, [0] * 6))
    expected = {
        "sent": 6, "space_distances": 6, "memberships": 7, "workset_distances": 18, "probes": 7,
        # At home 0, 1 and 1.5 meet, and 5 and 3.2; the copy of 3.2 meets 0, 1 and 1.5.
        "inner": 1, "compared": 2 + 1 + 3,
    }  # fmt: skip
    assert {name: report.counters[name] for name in expected} == expected
    assert report.matches == 3 + 1 + 1  # the copy is alike to 1.5 only
    assert segments(driver, HOME) == 6
    assert segments(driver, COPY) == 1
    assert segments(driver, INNER, OUTER) == 0
    assert sum(load.rows for load in report.instances) == 6


def test_copies_of_the_outer_partition_wait_for_worksets(tmp_path: Path) -> None:
    """The space is divided between 0 and 10. Of two rows on the two sides of the middle, one is in
    the outer partition of the other, whichever side that is: once it comes before the other row,
    which then makes a workset and has to find it there."""
    spec = spec_of(question("euclidean", 1.0, within=100))
    driver = SimilarityDriver(tmp_path, spec, Setup(S3J(partitions=2), 2))
    run(driver, 0, numbered([(0.0, 0.0), (10.0, 0.0)], [0, 0]))
    assert run(driver, 1, numbered([(4.7, 0.0), (5.3, 50.0)], [1, 1], 10)).matches == 0
    assert (segments(driver, OUTER), segments(driver, COPY)) == (1, 0), "it is kept, in no workset"
    driver.reopen()
    report = run(driver, 2, numbered([(5.3, 0.0), (4.7, 50.0)], [2, 2], 20))
    assert report.matches == 2
    assert segments(driver, COPY) == 2, "one for the workset that was there, one for the new one"
    assert segments(driver, OUTER) == 2
    for batch, time in ((3, 500), (4, 1000), (5, 1001)):
        run(driver, batch, numbered([(0.0, 0.0)], [time], 30 * batch))
    assert segments(driver, OUTER) == 0, "what has expired is gone"


def test_centroids_come_with_the_first_rows_and_stay(tmp_path: Path) -> None:
    """Batches without rows have none; a task that comes late changes nothing."""
    spec = spec_of(question("euclidean", 1.0))
    driver = SimilarityDriver(tmp_path, spec, Setup(ClusterJoin(2), 3))
    run(driver, 0, [])
    assert driver.state.blobs == ()
    values = [(0.0, 0.0), (50.0, 0.0), (60.0, 0.0)]
    run(driver, 1, numbered(values, [0, 0, 0]))
    blobs = driver.state.blobs
    assert len(blobs) == 1
    for batch in (2, 3):
        run(driver, batch, numbered([(0.0, 0.0), (99.0, 0.0)], [1000 * batch] * 2))
        assert driver.state.blobs == blobs
    driver.reopen(Setup(ClusterJoin(2, seed=9), 1))
    report = run(driver, 4, numbered([(0.0, 0.0), (99.0, 0.0)], [3000] * 2, 9))
    assert report.matches == 2
    assert driver.state.blobs == blobs


def test_partitions_stay_when_there_are_more_instances(tmp_path: Path) -> None:
    spec = spec_of(question("euclidean", 1.0, within=100))
    driver = SimilarityDriver(tmp_path, spec, Setup(S3J(), 2))
    places = [(10.0 * i, 0.0) for i in range(8)]
    run(driver, 0, numbered(places, [0] * 8))
    ids = driver.worksets().ids.tolist()
    assert len(ids) == 8
    assert {i >> 40 for i in ids} <= {0, 1}
    driver.reopen(Setup(S3J(), 5))
    report = run(driver, 1, numbered(places, [1] * 8, 10))
    assert report.matches == 8
    assert driver.worksets().ids.tolist() == ids
    assert [load.rows for load in report.instances][2:] == [0, 0, 0], "nobody moves by itself"


def test_a_new_workset_is_with_who_made_it(tmp_path: Path) -> None:
    """What is skewed in space is skewed at first: the paper's figure 6."""
    spec = spec_of(question("euclidean", 1.0))
    strategy = S3J(partitions=2, tolerance=1e9)
    driver = SimilarityDriver(tmp_path, spec, Setup(strategy, 4))
    values = [(0.01 * i, 0.0) for i in range(50)] + [(1000.0, 0.0)]
    report = run(driver, 0, numbered(values, [0] * 51))
    with_rows = [load.instance for load in report.instances if load.rows]
    assert set(with_rows) <= {0, 1}


def test_late_rows_are_no_members(tmp_path: Path) -> None:
    spec = spec_of(question("euclidean", 1.0))
    for strategy in (S3J(partitions=2), ClusterJoin(2)):
        driver = SimilarityDriver(tmp_path / repr(strategy), spec, Setup(strategy, 2))
        run(driver, 0, numbered([(0.0, 0.0), (1.0, 0.0)], [100, 100]))
        report = run(driver, 1, numbered([(0.0, 0.0), (77.0, 0.0), (0.5, 0.0)], [101, 3, 99]))
        assert report.late == 2
        assert report.matches == 2
        if isinstance(strategy, S3J):
            assert 77.0 not in np.asarray(driver.worksets().centers)[:, 0].tolist()
            assert segments(driver, HOME) == 3


@pytest.mark.parametrize("strategy", [S3J(partitions=2), ClusterJoin(2)], ids=repr)
def test_rows_that_are_late_when_the_space_is_divided(
    strategy: CopyingStrategy, tmp_path: Path
) -> None:
    """Time has passed before there was a row that could be compared."""
    spec = spec_of(question("euclidean", 1.0))
    driver = SimilarityDriver(tmp_path, spec, Setup(strategy, 2))
    assert run(driver, 0, [(0, 100, None)]).null_keys == 1
    report = run(driver, 1, numbered([(0.0, 0.0), (0.5, 0.0), (0.2, 0.0)], [101, 3, 102], 1))
    assert (report.late, report.matches) == (1, 1)
    assert segments(driver, HOME, INNER) == 2


@pytest.mark.parametrize("strategy", [S3J(), S3J(partitions=3), ClusterJoin(3)], ids=repr)
def test_a_new_row_that_no_later_one_can_meet_meets_those_before(
    strategy: CopyingStrategy, tmp_path: Path
) -> None:
    """Right rows are 1 or 2 after left ones. One at the watermark is too early for all to come."""
    spec = spec_of(Question("euclidean", 1.0, (1, 2), None, (4, 0), False))
    driver = SimilarityDriver(tmp_path, spec, Setup(strategy, 2))
    left = [numbered([(0.0, 0.0), (1.5, 0.0), (9.0, 0.0)], [3, 3, 9]), []]
    right = [numbered([(5.0, 0.0)], [9], 10), numbered([(0.4, 0.0), (1.1, 0.0)], [5, 5], 20)]
    found = []
    for number, sides in enumerate(zip(left, right, strict=True)):
        tasks = [[[batch_of(rows, spec.left.schema)]] for rows in sides]
        outcome = driver.run(number, {"left": tasks[0], "right": tasks[1]})
        assert outcome.report.late == 0
        found += [(r[0], r[3]) for r in outcome.rows.elements()]
    assert sorted(found) == [(0, 20), (1, 21)]


def chebyshev(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(a - b).max(axis=1)


@examples(20)
@given(
    st.lists(st.lists(VALUES["manhattan"], max_size=9), min_size=1, max_size=3),
    st.sampled_from([S3J(), S3J(partitions=3, tolerance=0.0), ClusterJoin(4)]),
)
def test_a_metric_of_ones_own(batches: list[list[list[float]]], strategy: CopyingStrategy) -> None:
    """Nothing but distances of rows from rows is ever asked for."""
    spec = replace(spec_of(question("euclidean", 1.0)), metric=OwnMetric(chebyshev))
    rows = list(itertools.chain.from_iterable(batches))
    near = [max(map(abs, np.subtract(a, b))) <= 1 for a, b in itertools.combinations(rows, 2)]
    with tempfile.TemporaryDirectory() as folder:
        driver = SimilarityDriver(folder, spec, Setup(strategy, 3))
        found = 0
        for number, batch in enumerate(batches):
            found += run(driver, number, numbered(batch, [0] * len(batch), 10 * number)).matches
    assert found == sum(near)


def test_nothing_is_lost_if_the_sink_reads_nothing(tmp_path: Path) -> None:
    """Worksets are formed, whoever asks for pairs: what comes later finds its partners."""
    spec = spec_of(question("euclidean", 1.0))
    driver = SimilarityDriver(tmp_path, spec, Setup(S3J(tolerance=0.0), 2))
    for batch in (0, 1):
        rows = batch_of(
            numbered([(0.0, 0.0), (9.0, 0.0)], [batch] * 2, 5 * batch), spec.left.schema
        )
        executor = Unasked(driver.pipeline, driver.root, [[[rows]]])
        report = run_batch(driver.query, executor, Collecting(), batch)
        assert report is not None and report.matches == 0
    assert run(driver, 2, numbered([(0.5, 0.0)], [2], 20)).matches == 2


class Unasked(InProcessExecutor):
    """Nobody reads the results, so that they are not even made."""

    def rows(self, task: StepTask, node: Node) -> list[list[pa.RecordBatch]]:
        return []


def test_two_streams_are_in_the_same_worksets(tmp_path: Path) -> None:
    two = spec_of(Question("euclidean", 1.0, (-10, 10), None, (0, 0), False))
    driver = SimilarityDriver(tmp_path, two, Setup(S3J(partitions=1), 2))
    left = batch_of(numbered([(0.0, 0.0)], [0]), two.left.schema)
    right = batch_of(numbered([(0.9, 0.0)], [0], 1), two.left.schema)
    assert driver.run(0, {"left": [[left]], "right": [[right]]}).report.matches == 1
    assert len(driver.worksets()) == 1
