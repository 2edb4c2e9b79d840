"""Any aggregation of any rows, however they are cut, grouped and restarted, equals DuckDB's."""

from __future__ import annotations

import tempfile
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.operators import groups
from skewless.operators.aggregate import accumulate
from skewless.operators.aggregate.spec import AggregateSpec
from skewless.state import compaction, segments
from tests.operators.aggregate.driver import AggregateDriver, Batch, Outcome
from tests.operators.aggregate.oracle import Answer, Question, answers, assert_alike, results_of
from tests.operators.aggregate.strategies import batches_of, questions, setups, spec_of
from tests.strategies import examples


def table_of(batch: Batch, spec: AggregateSpec) -> pa.Table:
    return pa.Table.from_batches([b for task in batch for b in task], spec.input.schema)


def assert_right(
    outcome: Outcome, answer: Answer, question: Question, mode: str, spec: AggregateSpec
) -> None:
    found = results_of(outcome.results, len(question.keys), windowed=spec.window is not None)
    assert_alike(found, answer.closed if mode == "append" else answer.touched)
    assert outcome.report is not None
    assert outcome.report.late == answer.late
    assert outcome.report.matches == len(found)
    if spec.window is not None and outcome.report.watermark_us is not None:
        lag_us = spec.event_times([]).lag_of("window.start")
        assert all(start >= outcome.report.watermark_us - lag_us for start, *_ in found)


def run_all(data: st.DataObject, *, restart: bool = False, twice: bool = False) -> None:
    question = data.draw(questions())
    spec = spec_of(question)
    batches = data.draw(batches_of(spec))
    setup = data.draw(setups(question))
    expected = answers(question, [table_of(b, spec) for b in batches])
    with tempfile.TemporaryDirectory() as root:
        driver = AggregateDriver(root, spec, setup)
        for number, (batch, answer) in enumerate(zip(batches, expected, strict=True)):
            if restart and number and data.draw(st.booleans()):
                other = data.draw(setups(question))
                # Changing the mode would change what has been told already.
                driver.reopen(type(other)(other.grouping, other.instances, setup.mode))
            outcome = driver.run(number, batch, twice=twice)
            assert_right(outcome, answer, question, setup.mode, spec)


@examples(80)
@given(st.data())
def test_any_aggregation_equals_duckdb(data: st.DataObject) -> None:
    run_all(data)


@examples(25)
@given(st.data())
def test_restarts_and_other_groupings_change_nothing(data: st.DataObject) -> None:
    run_all(data, restart=True)


@examples(20)
@given(st.data())
def test_repeated_tasks_change_nothing(data: st.DataObject) -> None:
    run_all(data, twice=True)


@examples(25)
@given(st.data())
def test_compaction_changes_nothing(data: st.DataObject) -> None:
    with mock.patch.object(compaction, "FAN_IN", 2):
        run_all(data, restart=True)


@examples(25)
@given(st.data())
def test_small_pieces_change_nothing(data: st.DataObject) -> None:
    with (
        mock.patch.object(accumulate, "ROWS_AT_ONCE", 3),
        mock.patch.object(segments, "SEGMENT_ROWS_MAX", 2),
    ):
        run_all(data)


@examples(25)
@given(st.data())
def test_keys_that_share_a_hash_are_told_apart(data: st.DataObject) -> None:
    def few_hashes(columns: object, side: object, cells: object) -> np.ndarray:
        return real(columns, side, cells) & np.uint64(1)

    real = groups.hash_keys
    with (
        mock.patch.object(groups, "hash_keys", few_hashes),
        mock.patch.object(groups, "is_exact", lambda side: False),
    ):
        run_all(data, restart=True)


PROPERTIES = {
    "any": test_any_aggregation_equals_duckdb,
    "restarts": test_restarts_and_other_groupings_change_nothing,
    "compaction": test_compaction_changes_nothing,
    "shared hashes": test_keys_that_share_a_hash_are_told_apart,
}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PROPERTIES)
def test_property_at_length(name: str) -> None:
    examples(3000)(given(st.data())(PROPERTIES[name].hypothesis.inner_test))()
