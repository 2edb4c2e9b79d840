"""The asof join against nested loops: row by row, batch by batch, however it is cut, placed and
started again."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays import keys
from skewless.operators.asof import partners, work
from skewless.operators.asof.operator import AsofOperator
from skewless.operators.asof.spec import DIRECTIONS, AsofSpec
from skewless.operators.join_type import JOIN_TYPES
from skewless.state import compaction
from tests import oracle as two_way
from tests.driver import Batch, Driver, Outcome, Setup, assert_right
from tests.operators.asof.oracle import Question, answers, in_all
from tests.operators.two_way.test_collisions import hash_badly
from tests.strategies import (
    BATCHES_MAX,
    COMPOSITES,
    EPOCH,
    EQUALITIES,
    Condition,
    batches_of,
    examples,
    setups,
    spec_of,
)

FORMS = [
    *((condition,) for condition in EQUALITIES),
    *(form for form in COMPOSITES if all(condition.width is None for condition in form)),
]
EVERY_FORM = pytest.mark.parametrize("form", FORMS, ids=lambda f: " and ".join(map(repr, f)))
# Where a hash cannot be a bijection, keys are compared.
COMPARED = [
    form
    for form in FORMS
    if not keys.is_exact(spec_of(form, two_way.Question(times=(0, 0), late=(0, 0))).left)
]


@dataclass(frozen=True)
class Case:
    question: Question
    spec: AsofSpec
    batches: tuple[Batch, ...]

    def answers(self) -> list[two_way.Answer]:
        return answers(self.question, [batch.tables() for batch in self.batches])


class AsofDriver(Driver):
    def operator(self) -> AsofOperator:
        setup: Setup = self.setup
        return AsofOperator(self.spec, setup.routing, setup.instances, setup.slots)


def asof_spec(conditions: tuple[Condition, ...], question: Question) -> AsofSpec:
    at = (question.keys, question.keys)
    pair = spec_of(conditions, two_way.Question(times=at, within=(0, 0), late=question.late))
    direction: Any = question.direction
    return AsofSpec.of(
        pair.left, pair.right, direction, question.tolerance, pair.output,
        exact=question.exact, how=JOIN_TYPES[question.how], drop_null_times=True,
    )  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, form: tuple[Condition, ...] | None = None) -> Case:
    conditions = form or draw(st.sampled_from(FORMS))
    exact, delays = draw(st.booleans()), st.integers(0, 6) | st.just(0)
    question = Question(
        len(conditions),
        draw(st.sampled_from(DIRECTIONS)),
        draw(st.integers(0 if exact else 1, 8)),
        exact,
        (draw(delays), draw(delays)),
        draw(st.sampled_from(["inner", "left"])),
        tuple(i for i, condition in enumerate(conditions) if condition.null_safe),
    )
    spec = asof_spec(conditions, question)
    count = draw(st.integers(1, BATCHES_MAX) | st.just(BATCHES_MAX))
    batches = draw(batches_of(conditions, spec, count, null_times=draw(st.booleans())))
    return Case(question, spec, batches)


def check(case: Case, setup: Setup) -> None:
    with tempfile.TemporaryDirectory() as root:
        outcomes = AsofDriver(root, case.spec, setup).run_all(case.batches)
    assert_right(outcomes, case.answers())
    for outcome in outcomes:
        check_lags(case, outcome)


def check_lags(case: Case, outcome: Outcome) -> None:
    """No time lies further behind the watermark than is told to operators above."""
    at, width = case.question.keys, len(case.spec.left.schema)
    assert outcome.report is not None
    watermark_us = outcome.report.watermark_us
    for lag_us, column in zip(case.spec.lags_us(), (at, width + at), strict=True):
        times = [two_way.microseconds(row[column]) for row in outcome.rows if row[column]]
        if times and watermark_us is not None:
            assert min(times) >= watermark_us - lag_us


def check_collisions(case: Case, setup: Setup) -> None:
    assert not keys.is_exact(case.spec.left)
    with mock.patch.object(keys, "hash_keys", hash_badly):
        check(case, setup)


def check_restarts(case: Case, first: Setup, later: list[Setup | None]) -> None:
    """Between any two batches the query may be stopped and started again otherwise; segments are
    compacted as soon as there are two."""
    outcomes = []
    with tempfile.TemporaryDirectory() as root, mock.patch.object(compaction, "FAN_IN", 2):
        driver = AsofDriver(root, case.spec, first)
        for number, batch in enumerate(case.batches):
            outcomes.append(driver.run(number, batch, twice=number % 2 == 1))
            if later[number] is not None:
                driver.reopen(later[number])
                assert driver.run(number, batch).report is None
    assert_right(outcomes, case.answers())


def check_tiny_pieces(case: Case, setup: Setup, piece: int) -> None:
    with (
        mock.patch.object(work, "ROWS_PER_CHUNK", piece),
        mock.patch.object(partners, "PAIRS_PER_CHUNK", piece),
    ):
        check(case, setup)


def check_another_tolerance(case: Case, setup: Setup, later: int, at: int) -> None:
    """A query goes on with another tolerance, which holds from a time on that no left row had
    reached. In the end, batches of a day later close everything."""
    question, begun = case.question, min(at, len(case.batches))
    later = max(later, 0 if question.exact else 1)
    closed = [EPOCH + timedelta(days=days) for days in (1, 2)]
    batches = [*case.batches, *(_closing(case, moment) for moment in closed)]
    with tempfile.TemporaryDirectory() as root:
        driver = AsofDriver(root, case.spec, setup)
        found = [driver.run(n, batch).rows for n, batch in enumerate(batches[:begun])]
        driver.reopen(spec=_with_tolerance(case, later))
        since_us = driver.coordinator._spec.epochs[-1].since_us
        for number in range(begun, len(batches)):
            found.append(driver.run(number, batches[number]).rows)

    def before_the_end(rows: Counter[Any]) -> Counter[Any]:
        return Counter({row: n for row, n in rows.items() if row[question.keys] < closed[0]})

    expected = in_all(question, [batch.tables() for batch in batches], since_us, later)
    assert before_the_end(sum(found, Counter())) == before_the_end(expected)


def _closing(case: Case, moment: datetime) -> Batch:
    sides: list[Any] = []
    for side in (case.spec.left, case.spec.right):
        row = {"at": moment, "n": 0}
        sides.append(([pa.RecordBatch.from_pylist([row], side.schema)],))
    return Batch(*sides)


def _with_tolerance(case: Case, tolerance: int) -> AsofSpec:
    spec, asked = case.spec, case.question
    return AsofSpec.of(
        spec.left, spec.right, spec.direction, tolerance, spec.output,
        exact=asked.exact, how=spec.how, drop_null_times=True,
    )  # fmt: skip


PROPERTIES: dict[str, tuple[Callable[..., None], tuple[st.SearchStrategy[Any], ...]]] = {
    "any join": (check, (cases(), setups())),
    "restarts": (
        check_restarts,
        (cases(), setups(), st.lists(st.none() | setups(), min_size=5, max_size=5)),
    ),
    "tiny pieces": (check_tiny_pieces, (cases(), setups(), st.integers(1, 3))),
    "another tolerance": (
        check_another_tolerance,
        (cases(), setups(), st.integers(0, 8), st.integers(0, 4)),
    ),
    "colliding keys": (check_collisions, (st.sampled_from(COMPARED).flatmap(cases), setups())),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_property(name: str) -> None:
    property_, strategies = PROPERTIES[name]
    examples(10)(given(*strategies)(property_))()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PROPERTIES)
def test_property_at_length(name: str) -> None:
    property_, strategies = PROPERTIES[name]
    examples(3000)(given(*strategies)(property_))()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@EVERY_FORM
def test_every_form_of_key_at_length(form: tuple[Condition, ...]) -> None:
    examples(200)(given(cases(form), setups())(check))()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("form", COMPARED, ids=lambda form: " and ".join(map(repr, form)))
def test_colliding_keys_at_length(form: tuple[Condition, ...]) -> None:
    examples(200)(given(cases(form), setups())(check_collisions))()
