"""Any three-way join of any rows, by any strategy, however cut and restarted, is right."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays import keys
from skewless.operators.three_way import bindings, reader
from skewless.operators.three_way.materialization import MaterializationPolicy
from skewless.operators.three_way.packs import kinds_of
from skewless.operators.three_way.spec import ThreeSpec
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy, Tree, TriJoin
from skewless.state import compaction, segments
from tests.operators.three_way.driver import Batch, ThreeDriver
from tests.operators.three_way.oracle import answers
from tests.operators.three_way.strategies import batches_of, cases, setups
from tests.operators.two_way.test_collisions import hash_badly
from tests.strategies import examples


def tables_of(batch: Batch, spec: ThreeSpec) -> list[pa.Table]:
    return [
        pa.Table.from_batches([b for task in batch[x] for b in task], spec.streams[x].schema)
        for x in range(3)
    ]


def run_all(
    data: st.DataObject,
    *,
    restart: bool = False,
    twice: bool = False,
    strategy: ThreeStrategy | None = None,
) -> None:
    case = data.draw(cases())
    batches = data.draw(batches_of(case.spec))
    setup = data.draw(setups(case.spec))
    if strategy is not None:
        setup = replace(setup, strategy=strategy)
    expected = answers(case.question, [tables_of(b, case.spec) for b in batches])
    with (
        tempfile.TemporaryDirectory() as root,
        # Rows are few here: they are to be dealt out like many, too, and runs to be cut anywhere.
        mock.patch.object(reader, "FEW_ROWS", data.draw(st.sampled_from([0, reader.FEW_ROWS]))),
        mock.patch.object(reader, "RUN_COST", data.draw(st.sampled_from([0, 1, reader.RUN_COST]))),
    ):
        driver = ThreeDriver(root, case.spec, setup)
        for number, (batch, answer) in enumerate(zip(batches, expected, strict=True)):
            if restart and number and data.draw(st.booleans()):
                other = replace(setup, instances=data.draw(st.integers(1, 9)))
                if isinstance(setup.strategy, TriJoin):
                    other = replace(other, strategy=TriJoin(packing=data.draw(st.booleans())))
                elif isinstance(setup.strategy, Tree):
                    subgroups = data.draw(st.integers(1, 3))
                    other = replace(other, strategy=replace(setup.strategy, subgroups=subgroups))
                driver.reopen(other)
            outcome = driver.run(number, batch, twice=twice)
            assert outcome.rows == answer.rows, f"batch {number} by {setup}"
            assert outcome.report is not None
            assert outcome.report.matches == answer.rows.total()
            assert outcome.report.late == answer.late


@examples(80)
@given(st.data())
def test_any_join_is_right(data: st.DataObject) -> None:
    run_all(data)


@examples(25)
@given(st.data())
def test_restarts_change_nothing(data: st.DataObject) -> None:
    run_all(data, restart=True)


@examples(20)
@given(st.data())
def test_repeated_tasks_change_nothing(data: st.DataObject) -> None:
    run_all(data, twice=True)


@examples(25)
@given(st.data())
def test_compaction_and_small_pieces_change_nothing(data: st.DataObject) -> None:
    with (
        mock.patch.object(compaction, "FAN_IN", 2),
        mock.patch.object(segments, "SEGMENT_ROWS_MAX", 2),
        mock.patch.object(bindings, "PAIRS_PER_CHUNK", 2),
        mock.patch.object(bindings, "ROWS_TOGETHER", 3),
    ):
        run_all(data, restart=True)


@examples(25)
@given(st.data())
def test_keys_that_share_a_hash_are_told_apart(data: st.DataObject) -> None:
    with (
        mock.patch.object(keys, "hash_keys", hash_badly),
        mock.patch.object(keys, "is_exact", lambda side: False),
    ):
        run_all(data)


@examples(40)
@given(st.data())
def test_materializing_and_dropping_pairs_changes_nothing(data: st.DataObject) -> None:
    def decide(self: MaterializationPolicy, *_: object) -> list[object]:
        self.materialized = data.draw(st.sampled_from([None, *kinds_of(self._spec)]))
        return []

    with (
        mock.patch.object(MaterializationPolicy, "observe", decide),
        mock.patch.object(compaction, "FAN_IN", 2),
    ):
        run_all(data, restart=True, strategy=AutoThree())


PROPERTIES = {
    "materializing": test_materializing_and_dropping_pairs_changes_nothing,
    "any": test_any_join_is_right,
    "restarts": test_restarts_change_nothing,
    "compaction": test_compaction_and_small_pieces_change_nothing,
}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PROPERTIES)
def test_property_at_length(name: str) -> None:
    examples(3000)(given(st.data())(PROPERTIES[name].hypothesis.inner_test))()
