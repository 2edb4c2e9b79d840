"""Exactly once through crashes: work ends at any point of the commit protocol, the query starts
again, and readers of the output folder see every pair once and none twice."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skewless import failpoints
from skewless.engine.lifecycle import TRANSIENT
from skewless.errors import CheckpointMismatchError
from skewless.operators.similarity.copying.roles import HOME, INNER, named
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies import (
    S3J,
    BruteForce,
    ClusterJoin,
    SimilarityStrategy,
)
from skewless.state import compaction
from skewless.state.blobs import BLOBS
from tests.crashes import (
    DAMAGES,
    OFTEN,
    POINTS,
    Crash,
    assert_damage_is_refused,
    assert_starts_clean,
    assert_three_commits_are_kept,
    crash_in,
    crash_often,
    files_in,
    go_back,
    leave_rubbish_and_repeat_tasks,
)
from tests.operators.similarity.driver import Batch, Setup, SimilarityDriver
from tests.operators.similarity.oracle import Answer, OneRow, Pair, Question, answers
from tests.operators.similarity.test_properties import (
    STRATEGIES,
    Limited,
    batch_of,
    questions,
    spec_of,
    streams,
)
from tests.oracle import Row, rows_of
from tests.strategies import examples

CRASHED_BATCH = 4
INSTANCES = 3

Rows = list[list[list[list[OneRow]]]]  # per batch and side: tasks of rows


@dataclass(frozen=True)
class Story:
    """A similarity join, and rows for it. No distance is so near to the threshold that rounding
    could decide."""

    question: Question
    rows: Rows

    @cached_property
    def spec(self) -> SimilaritySpec:
        return spec_of(self.question)

    @cached_property
    def batches(self) -> list[Batch]:
        schema = self.spec.left.schema
        return [
            {
                side: [[batch_of(task, schema)] for task in tasks]
                for side, tasks in zip(("left", "right"), batch, strict=False)
            }
            for batch in self.rows
        ]

    @cached_property
    def answers(self) -> list[Answer]:
        flat = [[[r for task in side for r in task] for side in batch] for batch in self.rows]
        return answers(self.question, flat)

    @property
    def is_plain(self) -> bool:
        return all(answer.certain == answer.possible for answer in self.answers)

    def pairs(self, rows: Iterable[Row]) -> Counter[Pair]:
        """The numbers of the rows; in one stream either may come first."""
        found = [(row[0], row[3]) for row in rows]
        alone = self.question.self_join
        return Counter((min(p), max(p)) if alone else p for p in found)

    def assert_published(self, run: SimilarityDriver, batches: int) -> None:
        assert self.is_plain
        expected = [pair for answer in self.answers[:batches] for pair in answer.certain]
        assert self.pairs(rows_of(run.published())) == Counter(expected)


def story(question: Question, places: Sequence[Sequence[float]]) -> Story:
    """Six batches of two tasks per side that compact, expire and publish."""
    number = 0
    all_rows: Rows = []
    for batch in range(6):
        sides = []
        for side in range(1 if question.self_join else 2):
            tasks = []
            for task in range(2):
                rows = []
                for i in range(5):
                    place = places[(number + side + i * i) % len(places)]
                    rows.append((number, 10 * batch + 3 * task + i, list(place)))
                    number += 1
                tasks.append(rows)
            sides.append(tasks)
        all_rows.append(sides)
    return Story(question, all_rows)


PLACES = ([0.0, 0.0], [1.0, 0.0], [9.0, 9.0], [0.0, 1.0], [-7.0, 3.0], [8.0, 9.0], [30.0, 0.0])
SETS = ([1, 2, 3], [1, 2, 3, 4], [7], [], [5, 6], [2, 3, 1], [7, 8, 9])
TWO = story(Question("euclidean", 1.2, (-12, 12), None, (5, 5), False), PLACES)
ALONE = story(Question("jaccard", 0.3, (-12, 12), None, (5, 5), True), SETS)
ALL = len(TWO.rows)
# All worksets are in one partition, and so with one instance at first: some have to move.
MOVING = S3J(partitions=1, tolerance=0.0, migration_cost=0.0)
JOINS: dict[str, tuple[Story, SimilarityStrategy]] = {
    "two streams, looking": (TWO, Limited(None)),
    "two streams, S3J that moves": (TWO, MOVING),
    "one stream, ClusterJoin": (ALONE, ClusterJoin(3)),
    "one stream, S3J that moves": (ALONE, MOVING),
    "one stream, looking": (ALONE, Limited(2)),
    "two streams, S3J that stays": (TWO, S3J(partitions=4, tolerance=10.0)),
    "two streams, ClusterJoin": (TWO, ClusterJoin(3)),
}
# The others are crashed in the slow suite.
USUAL = tuple(JOINS)[:3]
CRASHES = [
    pytest.param(name, point, visit, marks=() if name in USUAL else pytest.mark.slow)
    for name in JOINS
    for point in POINTS
    for visit in ((1, 2) if point in OFTEN else (1,))
]


def driver_of(folder: Path, name: str, **options: int) -> SimilarityDriver:
    story, strategy = JOINS[name]
    setup = Setup(strategy, INSTANCES)
    return SimilarityDriver(folder / "state", story.spec, setup, folder / "out", **options)


def started_again(setup: Setup) -> Setup:
    """What may be changed at a restart, changed."""
    strategy = setup.strategy
    if isinstance(strategy, S3J):
        strategy = replace(strategy, seed=strategy.seed + 1, tolerance=0.5, migration_cost=0.1)
    elif isinstance(strategy, Limited):
        strategy = replace(strategy, most=5)
    elif isinstance(strategy, ClusterJoin):
        strategy = replace(strategy, seed=strategy.seed + 1)
    return Setup(strategy, setup.instances + 1)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folders of a join before the batch that crashes, made once."""
    made: dict[str, Path] = {}

    def folder_of(name: str) -> Path:
        if name not in made:
            root = tmp_path_factory.mktemp("prepared")
            driver = driver_of(root, name)
            for number, batch in enumerate(JOINS[name][0].batches[:CRASHED_BATCH]):
                driver.run(number, batch)
                assert files_in(driver.query.folder, TRANSIENT) == set()
            made[name] = root
        return made[name]

    return folder_of


@pytest.mark.usefixtures("early_compaction")
@pytest.mark.slow  # the frame has every point; here are all ways to work
@pytest.mark.parametrize(("name", "point", "visit"), CRASHES)
def test_a_crash_at(
    name: str, point: str, visit: int, prepared: Callable[[str], Path], tmp_path: Path
) -> None:
    story = JOINS[name][0]
    shutil.copytree(prepared(name), tmp_path, dirs_exist_ok=True)
    driver = driver_of(tmp_path, name)
    crash_in(driver, story, CRASHED_BATCH, (point, visit), started_again(driver.setup))
    assert_starts_clean(driver, story)
    assert driver.query.folder.list(BLOBS)


@pytest.mark.usefixtures("early_compaction")
@pytest.mark.parametrize("name", JOINS)
def test_the_stories_have_all_that_a_crash_can_hit(name: str, tmp_path: Path) -> None:
    story = JOINS[name][0]
    assert all(answer.certain for answer in story.answers)
    driver = driver_of(tmp_path, name)
    reports = [driver.run(n, batch).report for n, batch in enumerate(story.batches[:CRASHED_BATCH])]
    assert any(r.decisions for r in reports) == ("that moves" in name)
    sides = ("left", named("left", HOME), named("left", INNER))
    kept = sum(s.rows for s in driver.state.segments if s.side in sides)
    assert 0 < kept < sum(r.rows_left for r in reports), "what came first can meet nothing any more"
    hits: Counter[str] = Counter()
    with mock.patch.object(failpoints, "hit", lambda point, *_: hits.update([point])):
        driver.run(CRASHED_BATCH, story.batches[CRASHED_BATCH])
    assert set(hits) == set(POINTS)
    assert all(hits[point] > 1 for point in OFTEN)


@st.composite
def stories(draw: st.DrawFn) -> tuple[Story, list[Setup]]:
    question = draw(questions())
    found = Story(question, draw(streams(question)))
    assume(found.is_plain)
    strategy = draw(st.sampled_from(STRATEGIES))
    return found, [Setup(strategy, draw(st.integers(1, 5))) for _ in range(7)]


def check_any_crashes(story: Story, setups: list[Setup], crashes: list[Crash]) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(compaction, "FAN_IN", 2):
        root, starts = Path(folder), iter(setups)
        driver = SimilarityDriver(root / "state", story.spec, next(starts), root / "out")
        crash_often(driver, story, crashes, starts)


ANY_CRASHES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(POINTS), st.integers(1, 6)), min_size=1, max_size=6
)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@examples(3000)
@given(stories(), ANY_CRASHES)
def test_any_crashes_at_length(drawn: tuple[Story, list[Setup]], crashes: list[Crash]) -> None:
    check_any_crashes(*drawn, crashes)


# Leftovers, damage, and checkpoints of another strategy.


@pytest.mark.parametrize("name", USUAL)
def test_leftovers_are_removed_when_the_query_opens(name: str, tmp_path: Path) -> None:
    story = JOINS[name][0]
    driver = driver_of(tmp_path, name)
    leave_rubbish_and_repeat_tasks(driver, story, 3)
    assert driver.query.folder.list(BLOBS)
    story.assert_published(driver, 3)


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("part", ["segments", "worksets"])
@pytest.mark.parametrize("name", [USUAL[0], USUAL[2]])
def test_damaged_state_is_refused(
    name: str, part: str, damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    story = JOINS[name][0]
    driver = driver_of(tmp_path, name)
    for number, batch in enumerate(story.batches[:2]):
        driver.run(number, batch)
    listed = driver.state.segments if part == "segments" else driver.state.blobs
    assert_damage_is_refused(driver, story, listed[-1].name, damage, message)
    story.assert_published(driver, 2)


OTHERS = (
    (S3J(), ClusterJoin(3), "3 partitions"),
    (S3J(), BruteForce(), "all in one"),
    (S3J(), S3J(partitions=3), "3"),
    (Limited(None), S3J(), "rows copied"),
    (ClusterJoin(3), S3J(partitions=3), "formed in partitions"),
    (ClusterJoin(3), ClusterJoin(4), "4 partitions"),
    (BruteForce(), Limited(None), "formed on the fly"),
)


@pytest.mark.parametrize(("first", "then", "rule"), OTHERS, ids=repr)
def test_the_checkpoint_of_another_strategy_is_refused(
    first: SimilarityStrategy, then: SimilarityStrategy, rule: str, tmp_path: Path
) -> None:
    driver = SimilarityDriver(tmp_path, TWO.spec, Setup(first, 3))
    driver.run(0, TWO.batches[0])
    with pytest.raises(CheckpointMismatchError) as error:
        SimilarityDriver(tmp_path, TWO.spec, Setup(then, 3))
    assert "worksets" in str(error.value)
    assert first.workset_rule in str(error.value)
    assert rule in str(error.value)
    # What is not changed goes on.
    driver.reopen()
    assert driver.run(1, TWO.batches[1]).report is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"metric": "manhattan"},
        {"threshold": 1.3},
        {"within": (-12, 13)},
        {"window": 5},
        {"self_join": True},
    ],
    ids=str,
)
def test_the_checkpoint_of_another_question_is_refused(
    changed: dict[str, object], tmp_path: Path
) -> None:
    driver = SimilarityDriver(tmp_path, TWO.spec)
    driver.run(0, TWO.batches[0])
    with pytest.raises(CheckpointMismatchError):
        SimilarityDriver(tmp_path, spec_of(replace(TWO.question, **changed)))  # type: ignore[arg-type]


@pytest.mark.usefixtures("early_compaction")
@pytest.mark.parametrize("name", USUAL)
def test_any_kept_commit_can_be_gone_back_to(name: str, tmp_path: Path) -> None:
    """Restoring a checkpoint to an earlier batch by deleting what came after it."""
    story = JOINS[name][0]
    driver = driver_of(tmp_path, name, keep_commits=3)
    assert_three_commits_are_kept(driver, story.batches)
    go_back(driver, story, 2, replace(driver.setup, instances=2))
    for number in (ALL - 2, ALL - 1):
        rows = driver.run(number, story.batches[number]).rows
        assert story.pairs(rows.elements()) == Counter(story.answers[number].certain)


# What is remembered of places.


def owners_of(driver: SimilarityDriver) -> dict[str, int]:
    owners: dict[str, int] = driver.state.facts["owners"]
    return owners


def moved(tmp_path: Path) -> SimilarityDriver:
    """A join some of whose worksets have moved."""
    driver = driver_of(tmp_path, "two streams, S3J that moves")
    for number, batch in enumerate(TWO.batches):
        driver.run(number, batch)
    assert owners_of(driver)
    return driver


def test_places_survive_a_restart_with_as_many_instances(tmp_path: Path) -> None:
    driver = moved(tmp_path)
    owners = {int(i): place for i, place in owners_of(driver).items()}
    driver.reopen()
    assert driver.coordinator.running.owners == owners
    driver.reopen(replace(driver.setup, instances=INSTANCES + 1))
    running = driver.coordinator.running
    with mock.patch.object(running, "_balance", lambda batch: ()):
        driver.run(len(TWO.batches), TWO.batches[-1])
    assert {i: place for i, place in running.owners.items() if owners.get(i) == place} == {}


def test_places_of_worksets_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    driver = moved(tmp_path)
    schema = TWO.spec.left.schema
    for number in range(ALL, ALL + 3):
        row = batch_of([(1000 + number, 10_000 * number, [500.0, 500.0])], schema)
        driver.run(number, {"left": [[row]], "right": [[row]]})
    assert len(owners_of(driver)) <= 1
