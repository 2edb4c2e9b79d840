"""Similarity joins of any times: nothing expires, nothing is late, and nothing has a watermark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skewless.arrays.types import FAR_US
from skewless.engine.watermark import EventTimes
from skewless.operators.similarity.copying.roles import HOME, INNER
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies import SimilarityStrategy
from skewless.state.segments import ROWS
from tests.operators.similarity.driver import Setup, SimilarityDriver
from tests.operators.similarity.oracle import FOREVER, OneRow, Question, answers
from tests.operators.similarity.test_properties import STRATEGIES, batch_of, spec_of

PLACES = ([0.0, 0.0], [1.0, 0.0], [9.0, 9.0], [0.0, 1.0], [-7.0, 3.0])
YEAR_US = 365 * 86_400 * 1_000_000
AT_HOME = (HOME, INNER)  # each row once: in its workset, or in its partition
YEARS = (2020, 10, 2024, 9990, 1000, 1970)  # of a batch each: back and forth


def question(*, self_join: bool) -> Question:
    """With the delays that `sk.similarity_join` takes for any times, unless it is given others."""
    return Question("euclidean", 1.2, FOREVER, None, (FAR_US, FAR_US), self_join)


def rows_of(batch: int, side: int) -> list[OneRow]:
    number = 100 * batch + 50 * side
    return [
        (number + i, (YEARS[batch] - 1970) * YEAR_US + i, list(PLACES[(batch + side + i) % 5]))
        for i in range(6)
    ]


def without_time(spec: SimilaritySpec) -> SimilaritySpec:
    right = None if spec.right is None else replace(spec.right, time=None)
    return replace(spec, left=replace(spec.left, time=None), right=right)


@pytest.mark.usefixtures("early_compaction")
@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize("self_join", [False, True], ids=["two streams", "one stream"])
@pytest.mark.parametrize("has_time", [True, False], ids=["with times", "without"])
def test_all_that_ever_came_is_compared(
    strategy: SimilarityStrategy, self_join: bool, has_time: bool, tmp_path: Path
) -> None:
    asked = question(self_join=self_join)
    spec = spec_of(asked) if has_time else without_time(spec_of(asked))
    sides = spec.sides
    batches = [[rows_of(n, side) for side in range(len(sides))] for n in range(len(YEARS))]
    driver, rows = SimilarityDriver(tmp_path, spec, Setup(strategy, 3)), 0
    for number, (batch, answer) in enumerate(zip(batches, answers(asked, batches), strict=True)):
        if number == 3:
            driver.reopen(Setup(strategy, 2))
        tasks = [[[batch_of(side, spec.left.schema)]] for side in batch]
        outcome = driver.run(number, dict(zip(sides, tasks, strict=True)))
        pairs = [(row[0], row[3]) for row in outcome.rows.elements()]
        found = {(min(p), max(p)) if self_join else p for p in pairs}
        assert len(pairs) == len(found)
        assert answer.certain == answer.possible == found
        assert found
        rows += sum(map(len, batch))
        assert outcome.report is not None
        assert outcome.report.dropped == {}
        assert outcome.report.watermark_us is None
        at_home = [s for s in driver.state.segments if s.kind in (ROWS, *AT_HOME)]
        assert sum(s.rows for s in at_home) == rows, "everything is kept"
        assert outcome.report.state_rows == sum(s.rows for s in driver.state.segments)
        if self_join and has_time:
            assert all(row[1] <= row[4] for row in outcome.rows), "the earlier one comes first"
    assert driver.operator().event_times([EventTimes.of_stream("at")] * len(sides)) == EventTimes()


def test_what_a_spec_says_of_any_times() -> None:
    spec = spec_of(question(self_join=True))
    assert (spec.lower_us, spec.upper_us) == (-FAR_US, FAR_US)
    assert spec.span_us == FAR_US
    for watermark_us in (-FAR_US, 0, 10**15):
        assert spec.keep_after_us("left", watermark_us) == -FAR_US
    assert spec.fingerprint()["within"] == "unbounded"
    assert without_time(spec).fingerprint()["left time"] == "none"
