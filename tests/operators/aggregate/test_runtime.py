"""The life of an aggregation's state: when windows close, what is late, what is kept and told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from skewless.engine.batch import run_batch
from skewless.engine.executor import Collecting, InProcessExecutor
from skewless.engine.instance import StepTask
from skewless.engine.pipeline import Node
from skewless.engine.report import InstanceReport
from skewless.engine.watermark import NEVER_US, EventTimes
from skewless.errors import CheckpointMismatchError, DataError, StateDamagedError
from skewless.operators.aggregate import accumulate as accumulating
from skewless.operators.aggregate.groupers import DRIVER, label_of
from skewless.operators.aggregate.spec import AggregateSpec
from skewless.operators.aggregate.windows import Window
from skewless.placement.grouping import (
    PKG,
    BatchAware,
    Grouping,
    KeyGrouping,
    PdStream,
    ShuffleGrouping,
)
from skewless.state import compaction
from tests.operators.aggregate.driver import AggregateDriver, Batch, Outcome, Setup, Task
from tests.operators.aggregate.oracle import Question, Results, results_of
from tests.operators.aggregate.strategies import EPOCH, spec_of

COUNT = (("count", None, None),)


def a_spec(
    size: int | None = 10, slide: int | None = None, late: int = 0, **more: bool
) -> AggregateSpec:
    time = None if size is None else "at"
    return spec_of(Question(("whole",), time, size, slide or size, late, COUNT), **more)


def task(spec: AggregateSpec, *rows: tuple[int | None, int | None]) -> Task:
    """One task's rows, by key and time."""
    columns = {
        "whole": [key for key, _ in rows],
        "at": [None if t is None else EPOCH + timedelta(microseconds=t) for _, t in rows],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in spec.input.schema]
    return [pa.RecordBatch.from_arrays(arrays, schema=spec.input.schema)]


def at_times(spec: AggregateSpec, *times: int | None) -> Batch:
    """A batch of one task with rows of one key."""
    return [task(spec, *((7, t) for t in times))]


def counts(outcome: Outcome, *, windowed: bool = True) -> Results:
    """Results by (window, key)."""
    found = results_of(outcome.results, 1, windowed=windowed)
    return {group: value for group, (value,) in found.items()}


# Time.


def test_a_window_closes_with_the_batch_that_passes_its_end(tmp_path: Path) -> None:
    spec = a_spec(late=3)
    driver = AggregateDriver(tmp_path, spec)
    assert counts(driver.run(0, at_times(spec, 1, 9, 12))) == {}  # 12 - 3 is before 10
    assert counts(driver.run(1, at_times(spec, 5))) == {}
    outcome = driver.run(2, at_times(spec, 0, 13))  # 13 - 3 is the end
    assert counts(outcome) == {(0, 7): 4}
    assert outcome.report.late == 0
    # From now on, rows of that window are late.
    outcome = driver.run(3, at_times(spec, 9, 10))
    assert (counts(outcome), outcome.report.late) == ({}, 1)
    assert counts(driver.run(4, at_times(spec, 23))) == {(10, 7): 3}


def test_rows_of_a_batch_are_not_late_by_the_batch_itself(tmp_path: Path) -> None:
    spec = a_spec()
    outcome = AggregateDriver(tmp_path, spec).run(0, at_times(spec, 1000, 1, 2))
    assert (counts(outcome), outcome.report.late) == ({(0, 7): 2}, 0)


def test_a_row_is_late_only_if_all_its_windows_are_closed(tmp_path: Path) -> None:
    spec = a_spec(size=10, slide=5)
    driver = AggregateDriver(tmp_path, spec)
    assert counts(driver.run(0, at_times(spec, 10))) == {}  # closes the window from 0, had it rows
    outcome = driver.run(1, at_times(spec, 4, 7))
    assert outcome.report.late == 1  # 4 is in the windows from -5 and 0; 7 in that from 5, too
    assert counts(driver.run(2, at_times(spec, 100))) == {(5, 7): 2, (10, 7): 1}


def test_a_batch_without_rows_changes_nothing(tmp_path: Path) -> None:
    spec = a_spec()
    driver = AggregateDriver(tmp_path, spec, Setup(PdStream(), 3))
    driver.run(0, at_times(spec, 1))
    for number, batch in enumerate(([], [[]], [task(spec)]), 1):
        outcome = driver.run(number, batch)
        assert counts(outcome) == {}
        assert outcome.report.rows_left == 0
        assert outcome.report.state_rows == 1
        assert outcome.report.verdict == ""
    assert counts(driver.run(4, at_times(spec, 10))) == {(0, 7): 1}


def test_the_watermark_never_falls(tmp_path: Path) -> None:
    """A restart with more lateness does not open closed windows again: they would come twice."""
    spec = a_spec(late=0)
    driver = AggregateDriver(tmp_path, spec)
    assert counts(driver.run(0, at_times(spec, 5, 20))) == {(0, 7): 1}
    patient = replace(spec, input=replace(spec.input, late_us=1000))
    driver.reopen(spec=patient)
    outcome = driver.run(1, at_times(spec, 6, 21))
    assert (counts(outcome), outcome.report.late) == ({}, 1)
    assert outcome.report.watermark_us == 20


def test_rows_without_time_are_refused_or_dropped(tmp_path: Path) -> None:
    spec = a_spec()
    driver = AggregateDriver(tmp_path / "strict", spec)
    with pytest.raises(DataError, match=r"2 rows of the input without event time \(column 'at'"):
        driver.run(0, [*at_times(spec, 1, None), *at_times(spec, None)])
    assert driver.query.last is None
    tolerant = a_spec(drop_null_times=True)
    driver = AggregateDriver(tmp_path / "tolerant", tolerant)
    outcome = driver.run(0, [*at_times(spec, 1, None, 10), *at_times(spec, None)])
    assert counts(outcome) == {(0, 7): 1}
    assert (outcome.report.rows_left, outcome.report.null_times) == (4, 2)


def test_the_end_of_static_input_closes_every_window(tmp_path: Path) -> None:
    spec = a_spec(size=10, slide=5, late=100)
    driver = AggregateDriver(tmp_path, spec)
    found = counts(driver.run_to_the_end(at_times(spec, 3, 7)))
    assert found == {(-5, 7): 1, (0, 7): 2, (5, 7): 1}


def test_the_end_of_static_input_gives_totals_where_there_is_no_window(tmp_path: Path) -> None:
    spec = a_spec(size=None)
    driver = AggregateDriver(tmp_path, spec)
    rows = [task(spec, (1, None), (2, None), (1, None))]
    assert counts(driver.run_to_the_end(rows), windowed=False) == {(0, 1): 2, (0, 2): 1}


def test_a_window_lies_around_the_watermark(tmp_path: Path) -> None:
    operator = AggregateDriver(tmp_path / "a", a_spec(size=10, slide=5)).operator()
    below = [EventTimes.of_stream("at")]
    assert operator.event_times(below) == EventTimes(
        ("window.start", "window.end"), lag_us=(9, -1), behind_us=((0, 10), (-10, 0))
    )
    without = AggregateDriver(tmp_path / "b", a_spec(size=None)).operator()
    assert without.event_times([EventTimes()]) == EventTimes()


# State.


@pytest.mark.parametrize("mode", ["append", "update"])
def test_state_goes_when_windows_close(tmp_path: Path, mode: str) -> None:
    spec = a_spec()
    driver = AggregateDriver(tmp_path, spec, Setup(mode=mode))
    for number in range(20):
        report = driver.run(number, at_times(spec, *range(number * 10, number * 10 + 10))).report
        assert report.state_rows <= 2
        assert report.segments == len(driver.state.segments) <= 2


def test_compaction_merges_the_partial_results_of_a_group(tmp_path: Path) -> None:
    spec = a_spec(size=None)
    with mock.patch.object(compaction, "FAN_IN", 2):
        driver = AggregateDriver(tmp_path, spec, Setup(ShuffleGrouping(), 3, "update"))
        rows = [(k, None) for k in range(5) for _ in range(6)]
        for number in range(1, 17):
            outcome = driver.run(number - 1, [task(spec, *rows)])
            assert counts(outcome, windowed=False) == {(0, k): 6 * number for k in range(5)}
            # Uncompacted, there would be 15 more partial results after each batch.
            assert outcome.report.state_rows <= 15 * 5
    assert outcome.report.segments <= 15


def test_compaction_leaves_closed_windows_out(tmp_path: Path) -> None:
    spec = a_spec(size=100, slide=10)
    compacted = 0
    with mock.patch.object(compaction, "FAN_IN", 2):
        driver = AggregateDriver(tmp_path, spec)
        for number in range(12):
            watermark_us = driver.state.watermark_us if number else NEVER_US
            closed_to = spec.closed_to_us(watermark_us)
            driver.run(number, at_times(spec, *range(number * 10, number * 10 + 10)))
            for segment in driver.state.segments:
                if segment.level and segment.batch_id == number:
                    assert segment.time_min_us > closed_to
                    compacted += 1
    assert compacted > 2


def test_an_instance_works_on_some_rows_at_a_time(tmp_path: Path) -> None:
    spec = a_spec()
    with mock.patch.object(accumulating, "ROWS_AT_ONCE", 4):
        outcome = AggregateDriver(tmp_path, spec).run(0, at_times(spec, *range(10), 100))
    assert counts(outcome) == {(0, 7): 10}
    assert sum(load.rows for load in outcome.report.instances) == 11


class OneIsMissing(InProcessExecutor):
    def reports(self, task: StepTask) -> list[InstanceReport]:
        return super().reports(task)[1:]


class OneCameTwice(InProcessExecutor):
    def reports(self, task: StepTask) -> list[InstanceReport]:
        found = super().reports(task)
        return [*found, found[0]]


@pytest.mark.parametrize("kind", [OneIsMissing, OneCameTwice])
def test_an_instance_that_reported_nothing_stops_the_batch(
    kind: type[InProcessExecutor], tmp_path: Path
) -> None:
    spec = a_spec()
    driver = AggregateDriver(tmp_path, spec)
    executor = driver.executor(at_times(spec, 1, 20), kind)
    with pytest.raises(StateDamagedError, match="some instances of batch 0 reported nothing"):
        run_batch(driver.query, executor, Collecting(), 0)
    assert driver.query.last is None


class NobodyReads(InProcessExecutor):
    def rows(self, task: StepTask, node: Node) -> list[list[pa.RecordBatch]]:
        self.ran.append(task)
        return []


def test_a_sink_may_leave_results_unread(tmp_path: Path) -> None:
    """State comes from the partial results: reading the outcome is up to the sink."""
    spec = a_spec()
    driver = AggregateDriver(tmp_path, spec)
    executor = driver.executor(at_times(spec, 1, 15), NobodyReads)
    report = run_batch(driver.query, executor, Collecting(), 0)
    assert [task.step.name for task in executor.ran] == ["accumulate", "finish"]
    assert report.matches == 0
    assert counts(driver.run(1, at_times(spec, 16, 20))) == {(10, 7): 2}


def test_results_are_merged_only_where_some_are_due(tmp_path: Path) -> None:
    spec = a_spec()
    driver = AggregateDriver(tmp_path, spec)
    for number, (time, steps) in enumerate([(1, 1), (9, 1), (10, 2), (11, 1)]):
        executor = driver.executor(at_times(spec, time))
        run_batch(driver.query, executor, Collecting(), number)
        assert len(executor.ran) == steps


# Groupers.


def loads_of(driver: AggregateDriver, label: str) -> list[int]:
    """What a grouper has sent to each instance, as the last commit has it."""
    return [int(n) for n in driver.grouper(label).loads]


def rows_of_tasks(driver: AggregateDriver) -> list[int]:
    """How many rows the groupers of the first two tasks have seen."""
    return [sum(loads_of(driver, label_of(task))) for task in (0, 1)]


@pytest.mark.parametrize(
    "grouping", [PdStream(), PdStream(expected="auto"), PKG(), ShuffleGrouping()], ids=repr
)
def test_every_task_goes_on_with_its_grouper(grouping: Grouping, tmp_path: Path) -> None:
    spec = a_spec()
    driver = AggregateDriver(tmp_path, spec, Setup(grouping, 2))
    both = [task(spec, *((k, 1) for k in range(8))), task(spec, *((k, 1) for k in range(4)))]
    driver.run(0, both)
    assert rows_of_tasks(driver) == [8, 4]
    driver.reopen()
    driver.run(1, both[:1])  # the other task has nothing this time, but may have again
    assert rows_of_tasks(driver) == [16, 4]
    driver.run(2, both)
    assert rows_of_tasks(driver) == [24, 8]
    assert driver.labels == [label_of(0), label_of(1)]
    assert driver.state.facts == {"grouping": repr(grouping), "instances": 2}
    # Another number of instances, or another grouping, begins anew.
    driver.reopen(replace(driver.setup, instances=3))
    driver.run(3, both)
    assert rows_of_tasks(driver) == [8, 4]
    driver.reopen(Setup(KeyGrouping(), 3))
    driver.run(4, both[:1])
    assert driver.labels == [label_of(0)]


def test_a_restart_changes_nothing_that_a_grouper_knows(tmp_path: Path) -> None:
    """Down to the rung that "auto" is on, and how long it has been there."""
    spec, setup = a_spec(), Setup(PdStream(expected="auto"), 3)
    steady, restarted = (AggregateDriver(tmp_path / name, spec, setup) for name in "ab")
    for number in range(6):
        rows = [task(spec, *((k * k % (5 + number), 1) for k in range(60)))]
        steady.run(number, rows)
        restarted.run(number, rows)
        restarted.reopen()
        one, other = (driver.grouper(label_of(0)) for driver in (steady, restarted))
        assert one.snapshot() == other.snapshot()
    assert sum(one.loads) == 6 * 60


def test_the_driver_plans_a_batch_for_all_tasks(tmp_path: Path) -> None:
    spec = a_spec()
    driver = AggregateDriver(tmp_path, spec, Setup(BatchAware(), 4))
    hot = [task(spec, *((7, 1) for _ in range(500)), *((k, 1) for k in range(100, 130)))] * 2
    for number in range(3):
        report = driver.run(number, hot).report
        loads = [load.rows for load in report.instances]
        assert sum(loads) == 1060
        assert max(loads) < 1.05 * 1060 / 4
        assert report.verdict.startswith("even")
        (split,) = report.decisions
        assert (split.kind, split.subject, split.rows) == ("split", "key 7", 1000)
        assert split.target == "0, 1, 2, 3"
        assert report.heavy_keys[0].value == "7"
        assert report.heavy_keys[0].share == pytest.approx(1000 / 1060, abs=0.001)
    driver.reopen()
    driver.run(3, hot)
    assert sum(loads_of(driver, DRIVER)) == 4 * 1060
    assert driver.labels == [DRIVER]
    driver.reopen(Setup(KeyGrouping(), 4))
    report = driver.run(4, hot).report
    assert report.decisions == ()
    assert max(load.rows for load in report.instances) >= 1000
    assert report.verdict.startswith("instance ")


def test_null_and_split_keys_are_told_by_their_values(tmp_path: Path) -> None:
    spec = a_spec()
    driver = AggregateDriver(tmp_path, spec, Setup(BatchAware(), 2))
    report = driver.run(0, [task(spec, *((None, 1) for _ in range(200)), (1, 1))]).report
    assert report.heavy_keys[0].value == "null"
    assert report.decisions[0].subject == "key null"


# What belongs together.


def test_another_aggregation_is_refused_by_name(tmp_path: Path) -> None:
    spec = a_spec()
    AggregateDriver(tmp_path, spec).run(0, at_times(spec, 1))
    summed = spec_of(Question(("whole",), "at", 10, 10, 0, (("sum", "whole", None),)))
    others = {
        "window": (replace(spec, window=Window(10, 5)), "10 microseconds every 5 microseconds"),
        "aggregates": (summed, "a0 = IntegerSum() of (whole int64)"),
        "by": (spec_of(Question((), "at", 10, 10, 0, COUNT)), "by: the checkpoint has 'whole as"),
        "time": (a_spec(size=None), "'none'"),
    }
    for name, (other, told) in others.items():
        with pytest.raises(CheckpointMismatchError) as error:
            AggregateDriver(tmp_path, other)
        assert f"\n  {name}: the checkpoint has " in str(error.value)
        assert told in str(error.value)
    # The grouping, the number of instances and how late rows may be are not part of it.
    late = replace(spec, input=replace(spec.input, late_us=5))
    AggregateDriver(tmp_path, late, Setup(PKG(), 5)).run(1, at_times(spec, 2))
