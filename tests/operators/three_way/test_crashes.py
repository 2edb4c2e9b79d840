"""Exactly once through crashes: work ends at any point of the commit protocol, the query starts
again, and readers of the output folder see every triple once and none twice."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.engine.lifecycle import TRANSIENT
from skewless.errors import CheckpointMismatchError
from skewless.operators.three_way.materialization import MaterializationPolicy
from skewless.operators.three_way.packs import PACKS, kinds_of
from skewless.operators.three_way.spec import STREAMS, ThreeSpec
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy, Tree, TriJoin
from skewless.state import compaction
from skewless.state.segments import ROWS
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
from tests.operators.three_way.driver import Batch, Setup, ThreeDriver
from tests.operators.three_way.oracle import Pair, Question, answers
from tests.operators.three_way.strategies import EPOCH, batches_of, cases, setups, spec_of
from tests.operators.three_way.test_properties import tables_of
from tests.oracle import Row
from tests.strategies import examples

CRASHED_BATCH = 4
STARTED = Setup(instances=3)
TASKS = 2


@dataclass(frozen=True)
class Story:
    """A join of three streams, and batches for it."""

    question: Question
    spec: ThreeSpec
    batches: Sequence[Batch]

    @cached_property
    def expected(self) -> list[Counter[Row]]:
        """The triples of each batch."""
        tables = [tables_of(batch, self.spec) for batch in self.batches]
        return [answer.rows for answer in answers(self.question, tables)]

    def assert_published(self, run: ThreeDriver, batches: int) -> None:
        assert run.published() == sum(self.expected[:batches], Counter())


def story(pairs: tuple[Pair, ...], columns: list[list[str]]) -> Story:
    """Six batches that compact, expire and publish, so that every point is reached."""
    question = Question(pairs, 0, (5, 5, 5))
    spec = spec_of(question, columns)

    def rows(stream: int, batch: int, task: int) -> pa.RecordBatch:
        arrays = []
        for number, field in enumerate(spec.streams[stream].schema):
            values: list[object] = [1, 1, 2 + (batch + number + stream) % 2]
            if field.name == "at":
                values = [EPOCH + timedelta(microseconds=10 * batch + 3 * task + 2 * i)
                          for i in range(3)]  # fmt: skip
            arrays.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=spec.streams[stream].schema)

    batches = [
        [[[rows(stream, number, task)] for task in range(TASKS)] for stream in STREAMS]
        for number in range(6)
    ]
    return Story(question, spec, batches)


WITHIN = (-12, 12)
CHAIN = story(
    (Pair(0, 1, ((2, 2),), (), WITHIN), Pair(1, 2, ((3, 2),), (), WITHIN)),
    [["whole"], ["whole", "whole"], ["whole"]],
)
CYCLE = story(
    (
        Pair(0, 1, ((2, 2),), (), WITHIN),
        Pair(0, 2, (), ((2, 2, 1),), WITHIN),
        Pair(1, 2, ((3, 3),), (), WITHIN),
    ),
    [["whole"], ["whole", "whole"], ["whole", "whole"]],
)
ALL = len(CHAIN.batches)
INTERMEDIATE = {
    "chain, TriJoin": (CHAIN, TriJoin()),
    "cycle, TriJoin": (CYCLE, TriJoin()),
    "chain, Tree": (CHAIN, Tree()),
    "cycle, Tree": (CYCLE, Tree(("t", "s", "r"), subgroups=2)),
}
JOINS: dict[str, tuple[Story, ThreeStrategy]] = {
    "chain, AutoThree": (CHAIN, AutoThree()),
    "cycle, AutoThree": (CYCLE, AutoThree()),
    **INTERMEDIATE,
}
# The others are crashed in the slow suite, as are second visits of all but TriJoin.
USUAL = ("chain, AutoThree", "cycle, TriJoin", "chain, Tree")
# Every task stores its rows once per edge; what comes after is an intermediate result.
ROW_SEGMENTS = {id(CHAIN): 4 * TASKS, id(CYCLE): 6 * TASKS}
VISITS = [
    (name, point, visit)
    for name in JOINS
    for point in POINTS
    for visit in ((1, 2) if point in OFTEN else (1,))
]
VISITS += [
    (name, "segment.written", ROW_SEGMENTS[id(story)] + after)
    for name, (story, _) in JOINS.items()
    for after in (1, 2)
]
CRASHES = [
    pytest.param(
        name,
        point,
        visit,
        marks=()
        if name in USUAL and (visit != 2 or name == "cycle, TriJoin")
        else pytest.mark.slow,
    )
    for name, point, visit in VISITS
]


def started_again(setup: Setup) -> Setup:
    """What may be changed at a restart, changed."""
    strategy = TriJoin(packing=False) if isinstance(setup.strategy, TriJoin) else setup.strategy
    return Setup(strategy, setup.instances + 1)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folders of a join before the batch that crashes, made once."""
    made: dict[str, Path] = {}

    def folder_of(name: str) -> Path:
        if name not in made:
            (story, strategy), root = JOINS[name], tmp_path_factory.mktemp("prepared")
            setup = replace(STARTED, strategy=strategy)
            driver = ThreeDriver(root / "state", story.spec, setup, root / "out")
            for number, batch in enumerate(story.batches[:CRASHED_BATCH]):
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
    story, strategy = JOINS[name]
    shutil.copytree(prepared(name), tmp_path, dirs_exist_ok=True)
    setup = replace(STARTED, strategy=strategy)
    driver = ThreeDriver(tmp_path / "state", story.spec, setup, tmp_path / "out")
    if isinstance(strategy, AutoThree):
        # Pairs are materialized from this batch on: those of all older rows are made before.
        driver.coordinator.running.policy.materialized = kinds_of(story.spec)[-1]
    crash_in(driver, story, CRASHED_BATCH, (point, visit), started_again(driver.setup))
    assert_starts_clean(driver, story)


@pytest.mark.usefixtures("early_compaction")
@pytest.mark.parametrize("name", JOINS)
def test_the_stories_have_all_that_a_crash_can_hit(name: str, tmp_path: Path) -> None:
    story, strategy = JOINS[name]
    assert all(story.expected)
    driver = ThreeDriver(tmp_path, story.spec, Setup(strategy, 3))
    reports = [driver.run(n, batch).report for n, batch in enumerate(story.batches[:CRASHED_BATCH])]
    assert all(bool(r.intermediates) == (name in INTERMEDIATE) for r in reports)
    step = driver.steps(CRASHED_BATCH, story.batches[CRASHED_BATCH])[-1]
    assert step.compaction is not None
    compacted = {
        (portion.segments[0].kind, portion.segments[0].side[0])
        for portion in step.compaction.portions
    }
    assert (ROWS, "r") in compacted
    assert any(kind == PACKS for kind, _ in compacted) == (name in INTERMEDIATE)
    kept = sum(s.rows for s in driver.state.segments if s.side == "r-rs")
    arrived = sum(r.rows_left for r in reports)
    assert 0 < kept < arrived, "what came first can meet nothing any more"


@st.composite
def stories(draw: st.DrawFn) -> tuple[Story, list[Setup]]:
    case = draw(cases())
    batches = draw(batches_of(case.spec))
    first = draw(setups(case.spec))
    starts = [replace(first, instances=draw(st.integers(1, 7))) for _ in range(6)]
    return Story(case.question, case.spec, batches), [first, *starts]


def check_any_crashes(story: Story, setups: list[Setup], crashes: list[Crash]) -> None:
    """A join that may choose materializes other pairs in every batch."""
    choices = itertools.cycle([*kinds_of(story.spec), None])

    def decide(self: MaterializationPolicy, *_: object) -> list[object]:
        self.materialized = next(choices)
        return []

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(compaction, "FAN_IN", 2),
        mock.patch.object(MaterializationPolicy, "observe", decide),
    ):
        root, starts = Path(folder), iter(setups)
        driver = ThreeDriver(root / "state", story.spec, next(starts), root / "out")
        crash_often(driver, story, crashes, starts)


ANY_CRASHES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(POINTS), st.integers(1, 8)), min_size=1, max_size=6
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
    story, strategy = JOINS[name]
    driver = ThreeDriver(tmp_path, story.spec, Setup(strategy, 3))
    leave_rubbish_and_repeat_tasks(driver, story, 3)


@pytest.mark.parametrize(("damage", "told"), DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("name", USUAL[1:])
def test_damaged_packs_are_refused(
    name: str, damage: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    story, strategy = INTERMEDIATE[name]
    driver = ThreeDriver(tmp_path, story.spec, Setup(strategy, 3))
    for number, batch in enumerate(story.batches[:2]):
        driver.run(number, batch)
    packs = [s for s in driver.state.segments if s.kind == PACKS]
    assert_damage_is_refused(driver, story, packs[-1].name, damage, told)


OTHERS = (
    (AutoThree(), TriJoin(), "packs of all pairs"),
    (TriJoin(), AutoThree(), "where they pay"),
    (TriJoin(packing=False), Tree(), "pairs, s-r"),
    (Tree(), TriJoin(), "packs of all pairs"),
    (Tree(), AutoThree(), "where they pay"),
    (Tree(("r", "s", "t")), Tree(("t", "s", "r")), "pairs, s-t"),
)


@pytest.mark.parametrize(("first", "then", "told"), OTHERS, ids=repr)
def test_the_checkpoint_of_another_strategy_is_refused(
    first: ThreeStrategy, then: ThreeStrategy, told: str, tmp_path: Path
) -> None:
    driver = ThreeDriver(tmp_path, CHAIN.spec, Setup(first, 3))
    driver.run(0, CHAIN.batches[0])
    with pytest.raises(CheckpointMismatchError) as error:
        ThreeDriver(tmp_path, CHAIN.spec, Setup(then, 3))
    assert "intermediate results" in str(error.value)
    assert first.intermediates(CHAIN.spec) in str(error.value)
    assert told in str(error.value)
    # What is not changed goes on.
    driver.reopen()
    driver.run(1, CHAIN.batches[1])
    assert driver.query.last.batch_id == 1


@pytest.mark.usefixtures("early_compaction")
@pytest.mark.parametrize("name", USUAL[1:])
def test_any_kept_commit_can_be_gone_back_to(name: str, tmp_path: Path) -> None:
    """Restoring a checkpoint to an earlier batch by deleting what came after it."""
    story, strategy = INTERMEDIATE[name]
    driver = ThreeDriver(tmp_path, story.spec, Setup(strategy, 3), keep_commits=3)
    assert_three_commits_are_kept(driver, story.batches)
    go_back(driver, story, 2, Setup(strategy, 2))
    for number in (ALL - 2, ALL - 1):
        assert driver.run(number, story.batches[number]).rows == story.expected[number]
