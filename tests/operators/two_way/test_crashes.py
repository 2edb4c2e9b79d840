"""Exactly once through crashes: work ends at any point of the commit protocol, the query starts
again, and readers of the output folder see every match once and none twice."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.placement.routing import Broadcast, ContRand, Hash
from skewless.state import compaction
from tests.crashes import (
    COMMITTED_FROM,
    OFTEN,
    POINTS,
    Crash,
    CrashError,
    assert_nothing_is_left_over,
    crash_at,
    run_through,
)
from tests.driver import Batch, Driver, Setup
from tests.oracle import Question, answers
from tests.strategies import BANDS, EQUALITIES, Case, cases, examples, setups, spec_of

CRASHED_BATCH = 4
VISITS = [(point, visit) for point in POINTS for visit in ((1, 2) if point in OFTEN else (1,))]


def story(conditions: tuple, keys: list) -> Case:
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
    return Case(question, spec, batches)


EQUALITY = story((EQUALITIES[0],), [7, 7, 7, 0, -1, 8])
BAND = story((BANDS[0],), [10, 10, 11, 13, 0, -3])


def everything(case: Case) -> Counter:
    return sum((answer.rows for answer in case.answers()), Counter())


@pytest.mark.slow  # the frame has every point; here are all ways to work
@pytest.mark.parametrize("case", [EQUALITY, BAND], ids=["equality", "band"])
@pytest.mark.parametrize(("point", "visit"), VISITS)
def test_a_crash_at(point: str, case: Case, visit: int, tmp_path: Path) -> None:
    expected = [answer.rows for answer in case.answers()]
    with mock.patch.object(compaction, "FAN_IN", 2):
        driver = Driver(tmp_path / "state", case.spec, Setup(Hash(), 3), output=tmp_path / "out")
        for number, batch in enumerate(case.batches[:CRASHED_BATCH]):
            driver.run(number, batch)
        with crash_at(point, visit), pytest.raises(CrashError):
            driver.run(CRASHED_BATCH, case.batches[CRASHED_BATCH])
        driver.reopen(Setup(ContRand(2), 4))
        committed = POINTS.index(point) >= COMMITTED_FROM
        assert driver.query.is_done(CRASHED_BATCH) == committed
        done = CRASHED_BATCH + committed
        assert driver.published() == sum(expected[:done], Counter())
        # Spark repeats the batch that its log does not know to be done, and goes on from there.
        for number, batch in enumerate(case.batches[CRASHED_BATCH:], CRASHED_BATCH):
            driver.run(number, batch)
        assert driver.published() == sum(expected, Counter())
        driver.reopen(Setup(Broadcast(), 2))
        assert_nothing_is_left_over(driver)
        assert driver.published() == sum(expected, Counter())


def check_any_crashes(case: Case, setups: list[Setup], crashes: list[Crash]) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(compaction, "FAN_IN", 2):
        root, starts = Path(folder), iter(setups)
        driver = Driver(root / "state", case.spec, next(starts), output=root / "out")
        run_through(driver, case.batches, crashes, starts)
        assert driver.published() == everything(case)
        driver.reopen()
        assert driver.published() == everything(case)
        assert_nothing_is_left_over(driver)


CRASHES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(POINTS), st.integers(1, 4)), min_size=1, max_size=6
)
SETUPS = st.lists(setups(), min_size=7, max_size=7)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(3000)
@given(cases(batches_min=2), SETUPS, CRASHES)
def test_any_crashes_at_length(case: Case, setups: list[Setup], crashes: list) -> None:
    check_any_crashes(case, setups, crashes)


def test_the_oracles_see_matches_in_every_batch() -> None:
    for case in (EQUALITY, BAND):
        tables = [batch.tables() for batch in case.batches]
        assert all(answer.rows for answer in answers(case.question, tables))
