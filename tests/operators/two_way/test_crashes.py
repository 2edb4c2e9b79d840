"""Exactly once through crashes: work ends at any point of the commit protocol, the query starts
again, and readers of the output folder see every match once and none twice."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.placement.routing import Broadcast, ContRand, Hash
from skewless.state import compaction
from tests.crashes import (
    OFTEN,
    POINTS,
    Crash,
    assert_starts_clean,
    crash_in,
    crash_often,
)
from tests.driver import Batch, Driver, Setup
from tests.oracle import Question, answers
from tests.strategies import BANDS, EQUALITIES, Case, cases, examples, setups, spec_of

CRASHED_BATCH = 4
VISITS = [(point, visit) for point in POINTS for visit in ((1, 2) if point in OFTEN else (1,))]


@dataclass(frozen=True)
class Story:
    """A join, with what must come of its batches."""

    case: Case

    @property
    def batches(self) -> Sequence[Batch]:
        return self.case.batches

    @cached_property
    def expected(self) -> list[Counter]:
        return [answer.rows for answer in self.case.answers()]

    def assert_published(self, run: Driver, batches: int) -> None:
        assert run.published() == sum(self.expected[:batches], Counter())


def story(conditions: tuple, keys: list) -> Story:
    """Seven batches that compact, expire and publish, so that every point is reached."""
    question = Question(
        equal=tuple((i, i) for i, c in enumerate(conditions) if c.width is None),
        near=tuple((i, i, c.width) for i, c in enumerate(conditions) if c.width is not None),
        times=(1, 1),
        within=(-20, 20),
        late=(5, 5),
    )
    spec = spec_of(conditions, question)

    def rows(schema: pa.Schema, batch: int, task: int) -> list[pa.RecordBatch]:
        columns = [keys, [10 * batch + task + i for i in range(len(keys))], range(len(keys))]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return [pa.RecordBatch.from_arrays(arrays, schema=schema)]

    batches = tuple(
        Batch(
            left=tuple(rows(spec.left.schema, n, task) for task in range(2)),
            right=tuple(rows(spec.right.schema, n, task) for task in range(3)),
        )
        for n in range(7)
    )
    return Story(Case(question, spec, batches))


EQUALITY = story((EQUALITIES[0],), [7, 7, 7, 0, -1, 8])
BAND = story((BANDS[0],), [10, 10, 11, 13, 0, -3])


@pytest.mark.slow  # the frame has every point; here are all ways to work
@pytest.mark.parametrize("story", [EQUALITY, BAND], ids=["equality", "band"])
@pytest.mark.parametrize(("point", "visit"), VISITS)
def test_a_crash_at(point: str, story: Story, visit: int, tmp_path: Path) -> None:
    setup = Setup(Hash(), 3)
    with mock.patch.object(compaction, "FAN_IN", 2):
        driver = Driver(tmp_path / "state", story.case.spec, setup, output=tmp_path / "out")
        for number, batch in enumerate(story.batches[:CRASHED_BATCH]):
            driver.run(number, batch)
        crash_in(driver, story, CRASHED_BATCH, (point, visit), Setup(ContRand(2), 4))
        assert_starts_clean(driver, story, Setup(Broadcast(), 2))


def check_any_crashes(story: Story, setups: list[Setup], crashes: list[Crash]) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(compaction, "FAN_IN", 2):
        root, starts = Path(folder), iter(setups)
        driver = Driver(root / "state", story.case.spec, next(starts), output=root / "out")
        crash_often(driver, story, crashes, starts)


CRASHES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(POINTS), st.integers(1, 4)), min_size=1, max_size=6
)
SETUPS = st.lists(setups(), min_size=7, max_size=7)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(3000)
@given(cases(batches_min=2).map(Story), SETUPS, CRASHES)
def test_any_crashes_at_length(story: Story, setups: list[Setup], crashes: list[Crash]) -> None:
    check_any_crashes(story, setups, crashes)


def test_the_oracles_see_matches_in_every_batch() -> None:
    for story in (EQUALITY, BAND):
        tables = [batch.tables() for batch in story.batches]
        assert all(answer.rows for answer in answers(story.case.question, tables))
