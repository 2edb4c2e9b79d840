"""Any similarity join of any rows, by any strategy, however cut and restarted, is right."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.engine.operator import Batch
from skewless.engine.watermark import EventTimes
from skewless.operators.pair import OutputColumn
from skewless.operators.similarity import metrics, screening
from skewless.operators.similarity.copying import forming, space
from skewless.operators.similarity.copying.way import RunningCopies
from skewless.operators.similarity.looking import centers
from skewless.operators.similarity.metrics import METRICS
from skewless.operators.similarity.spec import SimilaritySpec, VectorSide
from skewless.operators.similarity.strategies import (
    S3J,
    AutoSimilarity,
    BruteForce,
    ClusterJoin,
    SimilarityStrategy,
)
from skewless.operators.similarity.strategies.looking import LookingStrategy, OnTheFly
from skewless.state import compaction, segments
from tests.operators.similarity.driver import Outcome, Setup, SimilarityDriver
from tests.operators.similarity.oracle import FOREVER, OneRow, Question, answers
from tests.strategies import examples

TIME = pa.timestamp("us", "UTC")
WHOLE = st.integers(-3, 3).map(float)  # so that distances tie with thresholds all the time
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "euclidean": st.lists(WHOLE, min_size=2, max_size=2),
    "manhattan": st.lists(WHOLE, min_size=3, max_size=3),
    "hamming": st.lists(st.integers(0, 2).map(float), min_size=4, max_size=4),
    "angular": st.lists(WHOLE, min_size=2, max_size=2).filter(any),
    "jaccard": st.lists(st.integers(0, 4), max_size=4),
    "haversine": st.tuples(st.integers(-90, 90), st.integers(-180, 180)).map(
        lambda p: [float(p[0]), float(p[1])]
    ),
}
THRESHOLDS: dict[str, tuple[float, ...]] = {
    "euclidean": (0.0, 1.0, 2.0, 5.0),
    "manhattan": (0.0, 1.0, 3.0),
    "hamming": (0.0, 0.25, 0.5),
    "angular": (0.0, 0.1, 0.25, 0.5),
    "jaccard": (0.0, 0.5, 0.75),
    "haversine": (0.0, 1e6, 5e6),
}


@dataclass(frozen=True)
class Limited(OnTheFly):
    """Worksets that tasks make, `most` of them."""

    most: int | None

    def limit(self, rows: int, dimension: int) -> int | None:
        return self.most


STRATEGIES: list[SimilarityStrategy] = [
    S3J(),
    S3J(tolerance=0.0, migration_cost=0.0),
    S3J(partitions=1, tolerance=0.0),
    S3J(partitions=3, tolerance=0.0, migration_cost=0.0, seed=1),
    S3J(partitions=200),
    AutoSimilarity(),
    Limited(None),
    Limited(2),
    ClusterJoin(partitions=1),
    ClusterJoin(partitions=3),
    ClusterJoin(partitions=200),
    BruteForce(),
]
LOOKING = [s for s in STRATEGIES if isinstance(s, LookingStrategy)]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    metric = draw(st.sampled_from(sorted(VALUES)))
    alone = draw(st.booleans())
    window = draw(st.one_of(st.none(), st.integers(1, 9)))
    lower = draw(st.integers(-8, 4))
    upper = draw(st.integers(max(lower, 0), 9))
    within = (-upper, upper) if alone else (lower, upper)
    if window is None and draw(st.sampled_from([False, False, False, True])):
        within = FOREVER
    late = (draw(st.integers(0, 6)), draw(st.integers(0, 6)))
    threshold = draw(st.sampled_from(THRESHOLDS[metric]))
    return Question(metric, threshold, within, window, late, alone)


def spec_of(question: Question) -> SimilaritySpec:
    """The description that `sk.similarity_join` would make of a question."""
    element = pa.int64() if question.metric == "jaccard" else pa.float64()
    schema = pa.schema([("n", pa.int64()), ("at", TIME), ("v", pa.list_(element))])
    sides = [VectorSide(schema, (2,), 1, late) for late in question.late]
    window = question.window
    within = question.within if window is None else (-window, window)
    output = tuple(OutputColumn(side, i, f"{side}{i}") for side in ("left", "right")
                   for i in range(3))  # fmt: skip
    return SimilaritySpec(
        sides[0],
        None if question.self_join else sides[1],
        METRICS[question.metric],
        question.threshold,
        *within,
        window,
        output,
    )


def batch_of(rows: list[OneRow], schema: pa.Schema) -> pa.RecordBatch:
    columns = [[r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]]
    arrays = [
        pa.array(columns[0], pa.int64()),
        pa.array(columns[1], pa.int64()).cast(TIME),
        pa.array(columns[2], schema.field(2).type),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@st.composite
def streams(draw: st.DrawFn, question: Question) -> list[list[list[list[OneRow]]]]:
    """Per batch and side: tasks of rows, numbered through."""
    number = 0
    batches = []
    for b in range(draw(st.integers(1, 4))):
        sides = []
        for _ in range(1 if question.self_join else 2):
            tasks = []
            for _ in range(draw(st.integers(0, 2))):
                times = draw(st.lists(st.integers(4 * b - 5, 4 * b + 5), max_size=6))
                values = [draw(VALUES[question.metric]) for _ in times]
                both = zip(times, values, strict=True)
                rows = [(number + i, t, v) for i, (t, v) in enumerate(both)]
                number += len(rows)
                tasks.append(rows)
            sides.append(tasks)
        batches.append(sides)
    return batches


def run_all(
    data: st.DataObject,
    *,
    restart: bool = False,
    twice: bool = False,
    strategies: Sequence[SimilarityStrategy] = STRATEGIES,
) -> None:
    question = data.draw(questions())
    spec = spec_of(question)
    batches = data.draw(streams(question))
    setup = Setup(data.draw(st.sampled_from(strategies)), data.draw(st.integers(1, 4)))
    flat = [[[row for task in side for row in task] for side in batch] for batch in batches]
    expected = answers(question, flat)
    with tempfile.TemporaryDirectory() as root:
        driver = SimilarityDriver(root, spec, setup)
        for number, (batch, answer) in enumerate(zip(batches, expected, strict=True)):
            if restart and number and data.draw(st.booleans()):
                driver.reopen(replace(setup, instances=data.draw(st.integers(1, 4))))
            tasks = {
                side: [[batch_of(task, spec.left.schema)] for task in of_side]
                for side, of_side in zip(("left", "right"), batch, strict=False)
            }
            outcome = driver.run(number, tasks, twice=twice)
            found = [(r[0], r[3]) for r in outcome.rows.elements()]
            if question.self_join:
                found = [(min(p), max(p)) for p in found]
            assert len(found) == len(set(found)), "a pair came twice"
            assert answer.certain <= set(found) <= answer.possible, f"batch {number} by {setup}"
            assert outcome.report is not None
            assert outcome.report.matches == len(found)
            assert outcome.report.late == answer.late
            check_event_times(driver, outcome)


def check_event_times(driver: SimilarityDriver, outcome: Outcome) -> None:
    """No row is further behind the watermark, nor its times further apart, than is promised."""
    operator = driver.operator()
    streams = [EventTimes.of_stream(str(i.time_name)) for i in operator.inputs]
    promised = operator.event_times(streams)
    is_bounded = (operator.spec.lower_us, operator.spec.upper_us) != FOREVER
    assert promised.columns == (("left1", "right1") if is_bounded else ())
    assert outcome.table is not None and outcome.report is not None
    times = [outcome.table[name].cast(pa.int64()).to_pylist() for name in promised.columns]
    for i, mine in enumerate(times):
        if outcome.report.watermark_us is not None:
            assert min(mine, default=math.inf) >= outcome.report.watermark_us - promised.lag_us[i]
        for j, theirs in enumerate(times):
            lags = [b - a for a, b in zip(mine, theirs, strict=True)]
            assert max(lags, default=-math.inf) <= promised.behind_us[i][j]


@pytest.mark.parametrize(
    ("within", "window", "alone", "lag_us", "behind_us"),
    [
        ((-3, 8), None, False, (8, 3), ((0, 8), (3, 0))),
        ((2, 8), None, False, (8, 0), ((0, 8), (-2, 0))),
        ((-8, 8), None, True, (8, 0), ((0, 8), (0, 0))),
        ((0, 0), 5, False, (5, 5), ((0, 5), (5, 0))),
        ((0, 0), 5, True, (5, 0), ((0, 5), (0, 0))),
        (FOREVER, None, True, (), ()),
    ],
)
def test_how_far_times_of_a_pair_lie_behind(
    within: tuple[int, int],
    window: int | None,
    alone: bool,
    lag_us: tuple[int, ...],
    behind_us: tuple[tuple[int, ...], ...],
) -> None:
    spec = spec_of(Question("euclidean", 1.0, within, window, (1, 2), alone))
    found = spec.event_times([EventTimes.of_stream("at")] * len(spec.sides))
    assert found == EventTimes(("left1", "right1") if lag_us else (), lag_us, behind_us)


@examples(100)
@given(st.data())
def test_any_similarity_join_is_right(data: st.DataObject) -> None:
    run_all(data)


@st.composite
def trickles(draw: st.DrawFn) -> tuple[Question, list[list[OneRow]]]:
    """Rows of one stream that come one or two at a time, so that worksets come one by one; where
    partitions meet, partners of a new one have long been there."""
    threshold = draw(st.sampled_from([1.0, 2.0]))
    values = st.tuples(st.integers(0, 8).map(float), st.integers(0, 1).map(lambda y: 9.0 * y))
    batches = draw(st.lists(st.lists(values, min_size=1, max_size=2), min_size=2, max_size=8))
    numbers = iter(range(100))
    rows = [[(next(numbers), 0, list(value)) for value in batch] for batch in batches]
    return Question("euclidean", threshold, (-9, 9), None, (0, 0), True), rows


@examples(100)
@given(trickles(), st.integers(1, 3), st.integers(2, 4), st.integers(0, 3))
def test_worksets_that_come_late_find_what_was_there(
    drawn: tuple[Question, list[list[OneRow]]], instances: int, partitions: int, seed: int
) -> None:
    question, batches = drawn
    strategy = S3J(partitions=partitions, tolerance=0.0, migration_cost=0.0, seed=seed)
    # The first batch is one row of every place: the space is divided somewhere between them.
    places = [(1000 + x, 0, [float(x), 0.0]) for x in range(0, 9, 2)]
    batches = [places, *batches]
    expected = answers(question, [[batch] for batch in batches])
    spec = spec_of(question)
    with tempfile.TemporaryDirectory() as root:
        driver = SimilarityDriver(root, spec, Setup(strategy, instances))
        for number, (batch, answer) in enumerate(zip(batches, expected, strict=True)):
            outcome = driver.run(number, {"left": [[batch_of(batch, spec.left.schema)]]})
            found = [(min(r[0], r[3]), max(r[0], r[3])) for r in outcome.rows.elements()]
            assert Counter(found) == Counter(answer.certain)


@examples(30)
@given(st.data())
def test_restarts_change_nothing(data: st.DataObject) -> None:
    run_all(data, restart=True)


@examples(20)
@given(st.data())
def test_repeated_tasks_change_nothing(data: st.DataObject) -> None:
    run_all(data, twice=True)


@examples(30)
@given(st.data())
def test_compaction_and_small_pieces_change_nothing(data: st.DataObject) -> None:
    with (
        mock.patch.object(compaction, "FAN_IN", 2),
        mock.patch.object(segments, "SEGMENT_ROWS_MAX", 2),
        mock.patch.object(metrics, "PAIRS_PER_CHUNK", 2),
        mock.patch.object(metrics, "NEAR_PER_CHUNK", 2),
        mock.patch.object(centers, "ROWS_AT_ONCE", 2),
        mock.patch.object(forming, "ROWS_AT_ONCE", 2),
        mock.patch.object(space, "ROWS_AT_ONCE", 2),
    ):
        run_all(data, restart=True)


@examples(30)
@given(st.data())
def test_worksets_that_move_at_random_change_nothing(data: st.DataObject) -> None:
    def scatter(self: RunningCopies, batch: Batch) -> tuple[Any, ...]:
        ids = [i for report in batch.received() for i, _, _ in report.detail["sets"]]
        self.owners = {i: data.draw(st.integers(0, batch.instances - 1)) for i in ids}
        return ()

    with mock.patch.object(RunningCopies, "_balance", scatter):
        run_all(data, restart=True)


@examples(50)
@given(st.data())
def test_matrix_products_rule_nothing_out_that_is_near(data: st.DataObject) -> None:
    with (
        mock.patch.object(screening, "SCREENED_FROM_DIMENSION", 1),
        mock.patch.object(metrics, "PRODUCT_FROM", 1),
        mock.patch.object(screening, "SCREENED_FROM_PAIRS", 1),
        mock.patch.object(screening, "BLOCK_ROWS", 2),
        mock.patch.object(screening, "BLOCK_STORED", 3),
    ):
        run_all(data)


PROPERTIES = {
    "products": test_matrix_products_rule_nothing_out_that_is_near,
    "any": test_any_similarity_join_is_right,
    "restarts": test_restarts_change_nothing,
    "compaction": test_compaction_and_small_pieces_change_nothing,
    "moves": test_worksets_that_move_at_random_change_nothing,
}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PROPERTIES)
def test_property_at_length(name: str) -> None:
    examples(3000)(given(st.data())(PROPERTIES[name].hypothesis.inner_test))()
