"""Compaction: the same matches from fewer files."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import SIDES
from skewless.engine.batch import run_batch
from skewless.engine.executor import Collecting, InProcessExecutor
from skewless.engine.instance import StepTask
from skewless.engine.pipeline import Node
from skewless.operators.pair import JoinSpec, OutputColumn
from skewless.placement.routing import Broadcast, ContRand, Hash
from skewless.state import compaction, segments
from skewless.state import rewriting as compact
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SEGMENTS, SegmentInfo
from tests.driver import Batch, Driver, Setup, assert_right
from tests.oracle import Question, answers, multiset, rows_of
from tests.strategies import EQUALITIES, Case, cases, examples, setups, spec_of

INT64 = (EQUALITIES[0],)


def check_compacted(case: Case, setup: Setup, fan_in: int, piece: int) -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch.object(compaction, "FAN_IN", fan_in),
        mock.patch.object(segments, "SEGMENT_ROWS_MAX", piece),
        mock.patch.object(compaction, "PIECE_ROWS_MIN", piece),
        mock.patch.object(compaction, "PORTION_ROWS", 3 * piece),
    ):
        outcomes = Driver(root, case.spec, setup).run_all(case.batches)
    assert_right(outcomes, case.answers())


MANY_BATCHES = cases(batches_min=3, batches_max=9)
PIECES = st.sampled_from([1, 3, 1000])


@examples(40)
@given(MANY_BATCHES, setups(), st.integers(2, 3), PIECES)
def test_matches_stay_the_same(case: Case, setup: Setup, fan_in: int, piece: int) -> None:
    check_compacted(case, setup, fan_in, piece)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(2000)
@given(MANY_BATCHES, setups(), st.integers(2, 3), PIECES)
def test_matches_stay_the_same_at_length(case: Case, setup: Setup, fan_in: int, piece: int) -> None:
    check_compacted(case, setup, fan_in, piece)


@pytest.mark.parametrize("weight", ["rows", "bytes"])
@given(st.lists(st.integers(0, 90), max_size=6), st.integers(1, 5), st.sampled_from([1, 10]))
def test_groups_are_rewritten_once_by_as_many_as_they_need(
    weight: str, sizes: list[int], instances: int, least: int
) -> None:
    """Over as many batches as it takes, of which none has more to do than it should."""
    empty = SegmentInfo("", "", 0, 0, 0, 0, 0, 0, 0)
    sides = {f"{n}": size for n, size in enumerate(sizes)}
    some = [replace(empty, name=side, side=side, **{weight: sides[side]}) for side in sides]
    segments, done = SegmentSet(some), {side: [] for side in sides}
    with (
        mock.patch.object(compaction, "FAN_IN", 1),
        mock.patch.object(compaction, f"PIECE_{weight.upper()}_MIN", least),
        mock.patch.object(compaction, f"PORTION_{weight.upper()}", 4 * least),
    ):
        portions = compaction.choose_compactions(segments, instances)
    assert len(portions) == len(sides)
    by = [list(compact.pieces_for(portions, (i, instances))) for i in range(instances)]
    for instance, pieces in enumerate(by):
        for portion, piece in pieces:
            of = piece, portion.rewriting.pieces
            done[portion.segments[0].name].append((instance, of))
    for side, size in sides.items():
        pieces = min(instances, max(1, size // least))
        assert sorted(piece for _, piece in done[side]) == [(i, pieces) for i in range(pieces)]
        assert len({instance for instance, _ in done[side]}) == pieces
    if instances > 1 and len(sizes) > 1 and max(sizes[:2]) < 2 * least:
        assert done["0"][0][0] != done["1"][0][0], "small ones are for different instances"


Bounds = tuple[int, int] | None


def a_join(within: Bounds, late: Bounds) -> tuple[Question, JoinSpec]:
    question = Question(equal=((0, 0),), times=(1, 1), within=within, late=late)
    return question, spec_of(INT64, question)


def task(spec: JoinSpec, *rows: tuple[int, int]) -> list[pa.RecordBatch]:
    """One task's rows, given as (key, time)."""
    columns = [[k for k, _ in rows], [t for _, t in rows], range(len(rows))]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, spec.left.schema, strict=True)]
    return [pa.RecordBatch.from_arrays(arrays, schema=spec.left.schema)]


def steady(spec: JoinSpec, number: int, step: int) -> Batch:
    """A batch like any other: two tasks a side, one hot key, `step` microseconds later."""
    at = number * step
    tasks = tuple(task(spec, (0, at + i), (0, at), (number % 5, at + i)) for i in range(2))
    return Batch(tasks, tasks)


@pytest.mark.quick(1)
@pytest.mark.parametrize("routing", [Hash(), ContRand(2), Broadcast()], ids=repr)
def test_the_number_of_segments_grows_with_the_logarithm(routing: object, tmp_path: Path) -> None:
    fan_in, batches, instances, tasks = 3, 60, 3, 2
    _, spec = a_join(None, None)
    with mock.patch.object(compaction, "FAN_IN", fan_in):
        driver = Driver(tmp_path, spec, Setup(routing, instances, 9), keep_commits=2)
        for number in range(batches):
            driver.run(number, steady(spec, number, step=10))
            kept = {(s.side, s.level, s.batch_id) for s in driver.query.last.segments}
            generations = Counter((side, level) for side, level, _ in kept)
            levels_seen = max(level for _, level, _ in kept)
            assert max(generations.values()) <= fan_in + 1
            most = len(SIDES) * (fan_in + 1) * (tasks + levels_seen * instances)
            assert len(driver.query.last.segments) <= most
    assert 2 <= levels_seen <= math.log(batches, fan_in)
    stored = sum(s.rows for s in driver.query.last.segments)
    assert stored == batches * 2 * 2 * 3


@pytest.mark.parametrize("fan_in", [2, 8])
def test_expired_segments_leave(fan_in: int, tmp_path: Path) -> None:
    question, spec = a_join(within=(-30, 30), late=(5, 5))
    with mock.patch.object(compaction, "FAN_IN", fan_in):
        driver = Driver(tmp_path, spec, Setup(Hash(), 2), keep_commits=2)
        batches = [steady(spec, number, step=10) for number in range(50)]
        outcomes = driver.run_all(batches)
        reports = [outcome.report for outcome in outcomes]
    assert_right(outcomes, answers(question, [batch.tables() for batch in batches]))
    rows_per_batch = 12
    assert max(report.state_rows for report in reports) <= rows_per_batch * (4 + fan_in + 1)
    assert max(report.state_rows for report in reports[25:]) <= max(
        report.state_rows for report in reports[:25]
    )
    files = driver.query.folder.list(SEGMENTS)
    assert len(files) <= 2 * max(report.segments for report in reports)


@pytest.mark.parametrize("compacting", [False, True])
def test_late_rows_never_match(compacting: bool, tmp_path: Path) -> None:
    """A late row is stored with the good ones of its task; that must not bring it to life.

    left    100   50 (late), 105    …   …   …
    right   100                     …   …   …   100: within reach of 50, 100 and 105
    """
    _, spec = a_join(within=(-98, 98), late=(0, 0))
    batches = [
        Batch((task(spec, (7, 100)),), (task(spec, (1, 100)),)),
        Batch((task(spec, (7, 50), (7, 105)),), (task(spec, (1, 100)),)),
        *[Batch((task(spec, (0, 100)),), (task(spec, (1, 100)),)) for _ in range(3)],
        Batch(([],), (task(spec, (7, 100)),)),
    ]
    with mock.patch.object(compaction, "FAN_IN", 2 if compacting else 100):
        driver = Driver(tmp_path, spec, Setup())
        outcomes = driver.run_all(batches)
        compacted = [s for s in driver.query.last.segments if s.side == "left" and s.level]
        assert bool(compacted) == compacting
        assert all(s.time_min_us >= 100 for s in compacted)
    assert [outcome.report.late for outcome in outcomes] == [0, 1, 0, 0, 0, 0]
    assert sorted(row[1].microsecond for row in outcomes[-1].rows.elements()) == [100, 105]


class Unread(InProcessExecutor):
    """Of three instances, the sink reads one to its end and one to its first rows."""

    def rows(self, task: StepTask, node: Node) -> list[list[pa.RecordBatch]]:
        self.ran.append(task)
        return [list(task.rows_of(0)), [next(task.rows_of(1))]]


def test_a_compaction_counts_only_if_every_instance_did_its_share(tmp_path: Path) -> None:
    """A sink may stop reading, so that an instance never comes to its compaction."""
    question, spec = a_join(None, None)
    with mock.patch.object(compaction, "FAN_IN", 2):
        driver = Driver(tmp_path, spec, Setup(Broadcast(), 3))
        batches = [steady(spec, number, step=1) for number in range(6)]
        for number in range(2):
            driver.run(number, batches[number])
        executor = Unread(driver.pipeline, driver.root, driver.streams(batches[2]), faithful=True)
        report = run_batch(driver.query, executor, Collecting(), 2)
        assert report is not None
        assert executor.ran[0].step.compaction is not None
        assert [load.instance for load in report.instances] == [0, 1, 2]
        assert {s.level for s in driver.query.last.segments} == {0}
        referred = {s.name for s in driver.query.last.segments}
        assert {f"{SEGMENTS}/{name}" for name in driver.query.folder.list(SEGMENTS)} == referred
        outcomes = [driver.run(number, batches[number]) for number in range(3, 6)]
        assert {s.level for s in driver.query.last.segments} > {0}
    expected = answers(question, [batch.tables() for batch in batches])
    assert_right(outcomes, expected[3:])


def test_every_kind_of_column_survives_merging_and_compaction(tmp_path: Path) -> None:
    kinds = {
        "text": pa.array(["a", None, "ccc"]),
        "nested": pa.array([[{"x": 1}], [], None], pa.list_(pa.struct([("x", pa.int64())]))),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "null": pa.nulls(3),
        "bool": pa.array([True, None, False]),
        "money": pa.array([None, 1, 2], pa.decimal128(12, 2)),
        "bytes": pa.array([b"", None, b"\0"], pa.large_binary()),
    }
    keyed = {"k": pa.array([1, 1, 2]), "at": pa.array([1, 2, 3], pa.timestamp("us", "UTC"))}
    rows = pa.record_batch({**keyed, **kinds})
    _, narrow = a_join(None, None)
    output = [OutputColumn("left", i, name) for i, name in enumerate(rows.schema.names)]
    spec = replace(
        narrow,
        left=replace(narrow.left, schema=rows.schema),
        right=replace(narrow.right, schema=rows.schema),
        output=(*output, OutputColumn("right", 0, "k_right")),
    )
    with mock.patch.object(compaction, "FAN_IN", 2):
        driver = Driver(tmp_path, spec, Setup(Hash(), 2))
        once = Batch(tuple([rows.slice(i, 1)] for i in range(3)) * 2, ())
        for number in range(4):
            driver.run(number, once)
        assert max(s.level for s in driver.query.last.segments) == 1
        probing = Batch((), ([rows.slice(0, 1)],))
        found = driver.run(4, probing)
    assert found.rows == multiset([(*row, 1) for row in rows_of(rows.slice(0, 2)) * 8])
