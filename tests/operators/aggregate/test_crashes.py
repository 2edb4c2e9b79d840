"""Exactly once through crashes: work ends at any point of the commit protocol, the query starts
again, and readers of the output folder see every closed window once and none twice."""

from __future__ import annotations

import tempfile
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

from skewless.engine.batch import run_batch
from skewless.engine.executor import Collecting, InProcessExecutor
from skewless.engine.lifecycle import DURABLE
from skewless.engine.operator import Arrival
from skewless.errors import StateDamagedError
from skewless.operators.aggregate.spec import AggregateSpec
from skewless.placement.grouping import BatchAware, Grouping, KeyGrouping, PdStream, ShuffleGrouping
from skewless.state import compaction
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
    go_back,
    leave_rubbish_and_repeat_tasks,
    listed_files,
    truncate,
)
from tests.operators.aggregate.driver import AggregateDriver, Batch, Setup
from tests.operators.aggregate.oracle import (
    Answer,
    Question,
    Results,
    answers,
    assert_alike,
    results_of,
)
from tests.operators.aggregate.strategies import (
    EPOCH,
    GROUPINGS,
    Anywhere,
    batches_of,
    questions,
    spec_of,
)
from tests.strategies import examples

CRASHED_BATCH = 4
CRASHED_GROUPINGS = (BatchAware(least=1), PdStream(), Anywhere(3))
# With three instances, the fourth visit of what all of them reach is in the merge of results, and
# the third segment is the first of partial results: two tasks have stored rows before.
LATER_VISITS = [(point, 2) for point in POINTS if point in OFTEN]
LATER_VISITS += [("segment.written", 3)]
LATER_VISITS += [(f"instance.{what}", 4) for what in ("begun", "worked", "reported")]
CRASH_CASES = [
    *((point, 1, grouping) for point in POINTS for grouping in CRASHED_GROUPINGS),
    *((*crash, CRASHED_GROUPINGS[i % 3]) for i, crash in enumerate(LATER_VISITS)),
]


@dataclass(frozen=True)
class Story:
    """An aggregation, and batches for it."""

    question: Question
    spec: AggregateSpec
    batches: Sequence[Batch]

    @cached_property
    def answers(self) -> list[Answer]:
        tables = [
            pa.Table.from_batches([b for task in batch for b in task], self.spec.input.schema)
            for batch in self.batches
        ]
        return answers(self.question, tables)

    def closed(self, batches: int) -> Results:
        """All groups that come with the first batches."""
        return {g: v for answer in self.answers[:batches] for g, v in answer.closed.items()}

    def assert_published(self, run: AggregateDriver, batches: int) -> None:
        found = results_of(run.published(), len(self.question.keys), windowed=True)
        assert_alike(found, self.closed(batches))


def story() -> Story:
    """Seven batches that compact, close windows and publish, so that every point is reached: most
    rows are of one key, and each batch has rows of every key."""
    aggs = (
        ("count", None, None), ("sum", "i", None), ("max", "s", None), ("variance", "x", None),
        ("quantile", "x", 0.5), ("approx_distinct", "i", None),
    )  # fmt: skip
    question = Question(("whole", "text"), "at", size=20, slide=10, late=5, aggs=aggs)
    spec = spec_of(question)

    def rows(batch: int, task: int) -> pa.RecordBatch:
        numbers = range(24)
        columns = {
            "whole": [7 if i % 2 else i for i in numbers],
            "text": [None if i % 3 else "a" for i in numbers],
            "i": [i * batch - task for i in numbers],
            "s": ["abc"[i % 3] for i in numbers],
            "x": [i / 4 + batch for i in numbers],
            "at": [EPOCH + timedelta(microseconds=10 * batch + (i * 7 + task) % 10)
                   for i in numbers],
        }  # fmt: skip
        arrays = [pa.array(columns[field.name], field.type) for field in spec.input.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=spec.input.schema)

    batches = [[[rows(number, task)] for task in range(2)] for number in range(7)]
    return Story(question, spec, batches)


STORY = story()
ALL = len(STORY.batches)


def rows_routed(driver: AggregateDriver) -> int:
    """How many rows the groupers of the last commit remember."""
    return sum(int(driver.grouper(label).loads.sum()) for label in driver.labels)


@pytest.mark.usefixtures("early_compaction")
@pytest.mark.slow  # the frame has every point; here are all ways to work
@pytest.mark.parametrize(("point", "visit", "grouping"), CRASH_CASES, ids=repr)
def test_a_crash_at(grouping: Grouping, point: str, visit: int, tmp_path: Path) -> None:
    setup = Setup(grouping, 3)
    driver = AggregateDriver(tmp_path / "state", STORY.spec, setup, output=tmp_path / "out")
    for number, batch in enumerate(STORY.batches[:CRASHED_BATCH]):
        driver.run(number, batch)
    crash_in(driver, STORY, CRASHED_BATCH, (point, visit))
    # What groupers have learned comes from the commits as well: no row counts twice in it.
    assert rows_routed(driver) == sum(b.num_rows for batch in STORY.batches for (b,) in batch)
    assert_starts_clean(driver, STORY, Setup(KeyGrouping(), 2))
    assert listed_files(driver.query.folder)


def test_the_story_closes_windows_and_compacts_in_the_batch_that_crashes(tmp_path: Path) -> None:
    assert STORY.answers[CRASHED_BATCH].closed
    assert len(STORY.closed(ALL)) > len(STORY.closed(CRASHED_BATCH + 1))
    driver = AggregateDriver(tmp_path, STORY.spec, Setup(BatchAware(least=1), 3))
    with mock.patch.object(compaction, "FAN_IN", 2):
        for number, batch in enumerate(STORY.batches[:CRASHED_BATCH]):
            driver.run(number, batch)
        executor = driver.executor(STORY.batches[CRASHED_BATCH])
        run_batch(driver.query, executor, Collecting(), CRASHED_BATCH)
    assert [task.step.name for task in executor.ran] == ["accumulate", "finish"]
    assert executor.ran[0].step.compaction is not None


@st.composite
def stories(draw: st.DrawFn) -> Story:
    timed = questions().filter(lambda question: question.size is not None)
    question = draw(timed)
    spec = spec_of(question)
    return Story(question, spec, draw(batches_of(spec)))


def check_any_crashes(story: Story, setups: list[Setup], crashes: list[Crash]) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(compaction, "FAN_IN", 2):
        root, starts = Path(folder), iter(setups)
        driver = AggregateDriver(root / "state", story.spec, next(starts), output=root / "out")
        crash_often(driver, story, crashes, starts)
        assert listed_files(driver.query.folder)


CRASHES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(POINTS), st.integers(1, 6)), min_size=1, max_size=6
)
SETUPS = st.lists(st.builds(Setup, GROUPINGS, st.integers(1, 5)), min_size=7, max_size=7)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@examples(2000)
@given(stories(), SETUPS, CRASHES)
def test_any_crashes_at_length(story: Story, setups: list[Setup], crashes: list[Crash]) -> None:
    check_any_crashes(story, setups, crashes)


# Damage, leftovers and retention.


@pytest.mark.parametrize(("damage", "told"), DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("grouping", [BatchAware(least=1), PdStream()], ids=repr)
def test_a_damaged_grouper_is_refused(
    grouping: Grouping, damage: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    driver = AggregateDriver(tmp_path / "state", STORY.spec, Setup(grouping, 3), tmp_path / "out")
    for number, batch in enumerate(STORY.batches[:2]):
        driver.run(number, batch)
    assert_damage_is_refused(driver, STORY, driver.state.blobs[-1].name, damage, told)
    assert driver.query.last.batch_id == 1
    # Results do not depend on groupers: the query goes on with another grouping.
    driver.reopen(Setup(ShuffleGrouping(), 3))
    for number, batch in enumerate(STORY.batches[2:], 2):
        driver.run(number, batch)
    STORY.assert_published(driver, ALL)


@pytest.mark.parametrize(("damage", "told"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_partial_results_are_refused(
    damage: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    driver = AggregateDriver(tmp_path, STORY.spec)
    driver.run(0, STORY.batches[0])
    assert_damage_is_refused(driver, STORY, driver.state.segments[0].name, damage, told)


class LosingBytes(InProcessExecutor):
    def arrivals(self) -> list[Arrival]:
        found = super().arrivals()
        truncate(Path(self.root) / found[0].scratch[0].name)
        return found


def test_rows_that_got_lost_before_they_were_worked_on_are_refused(tmp_path: Path) -> None:
    """A disk that is full, or a folder that not all machines share, must not lose rows unseen."""
    driver = AggregateDriver(tmp_path, STORY.spec)
    executor = driver.executor(STORY.batches[0], LosingBytes)
    with pytest.raises(StateDamagedError, match="bytes"):
        run_batch(driver.query, executor, Collecting(), 0)
    assert driver.query.last is None


def test_leftovers_of_crashes_are_removed_when_the_query_opens(tmp_path: Path) -> None:
    driver = AggregateDriver(tmp_path, STORY.spec, Setup(PdStream(), 3))
    leave_rubbish_and_repeat_tasks(driver, STORY, ALL)
    assert listed_files(driver.query.folder)


@pytest.mark.usefixtures("early_compaction")
@pytest.mark.parametrize("grouping", CRASHED_GROUPINGS, ids=repr)
def test_old_commits_go_with_their_groupers_and_partial_results(
    grouping: Grouping, tmp_path: Path
) -> None:
    driver = AggregateDriver(tmp_path, STORY.spec, Setup(grouping, 3), keep_commits=3)
    listed = assert_three_commits_are_kept(driver, STORY.batches)
    gone = set().union(*listed) - set().union(*listed[-3:])
    assert {name.partition("/")[0] for name in gone} == set(DURABLE)


@pytest.mark.usefixtures("early_compaction")
def test_any_kept_commit_can_be_gone_back_to(tmp_path: Path) -> None:
    """Restoring a checkpoint to an earlier batch by deleting what came after it."""
    driver = AggregateDriver(tmp_path / "state", STORY.spec, Setup(PdStream(), 3), keep_commits=3)
    told = [driver.run(number, batch).results for number, batch in enumerate(STORY.batches)]
    go_back(driver, STORY, 2, replace(driver.setup, instances=2))
    for number in (ALL - 2, ALL - 1):
        again = results_of(driver.run(number, STORY.batches[number]).results, 2, windowed=True)
        assert_alike(again, results_of(told[number], 2, windowed=True))
