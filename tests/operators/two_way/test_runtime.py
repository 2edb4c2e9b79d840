"""The life of a join's state: opening, watermarks, retention, and what is refused."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from skewless import failpoints
from skewless.arrays.types import FAR_US
from skewless.engine import instance as instance_module
from skewless.engine.lifecycle import REPORTS
from skewless.engine.operator import Arrival, HeavyKey
from skewless.engine.report import BatchReport, KeyShare, heaviest
from skewless.errors import (
    CheckpointMismatchError,
    DataError,
    StateAccessError,
    StateDamagedError,
    StateFormatError,
)
from skewless.operators.pair import JoinSpec
from skewless.placement.routing import Broadcast, ContRand, Hash
from skewless.state import commits, compaction
from skewless.state.cache import SegmentCache
from skewless.state.commits import COMMITS, CommitLog
from skewless.state.files import Folder
from skewless.state.history import HISTORY, read_reports
from skewless.state.publish import STAGED
from skewless.state.segments import SCRATCH, SEGMENTS
from tests.crashes import CrashError, crash_at
from tests.driver import Batch, Driver, Outcome, Setup
from tests.oracle import Question, nested_loops
from tests.strategies import EQUALITIES, spec_of

INT64 = (EQUALITIES[0],)


def a_spec(
    within: tuple[int, int] | None = (-5, 5), late: tuple[int, int] | None = (0, 0)
) -> JoinSpec:
    return spec_of(INT64, Question(((0, 0),), (), (1, 1), within, late))


def task(*times: int | None, key: int | None = 7) -> list[pa.RecordBatch]:
    """One task's rows of one key, by their times."""
    schema = a_spec().left.schema
    columns = [[key] * len(times), list(times), range(len(times))]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return [pa.RecordBatch.from_arrays(arrays, schema=schema)]


def batch(left: list[int], right: list[int]) -> Batch:
    return Batch((task(*left),), (task(*right),))


def times(outcome: Outcome) -> list[tuple[int, int]]:
    """The matches of a batch as (left time, right time)."""
    return sorted((row[1].microsecond, row[4].microsecond) for row in outcome.rows.elements())


# Watermarks.


def test_a_row_at_the_watermark_counts_and_an_older_one_is_late(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec(within=(-9, 9), late=(3, 1)))
    driver.run(0, batch([20], [30]))
    outcome = driver.run(1, batch([17, 16], [17, 16, 28]))
    assert outcome.report.watermark_us == 17
    assert outcome.report.late == 2
    assert sum(load.late for load in outcome.report.instances) == 2
    assert times(outcome) == [(17, 17), (20, 17), (20, 28)]


def test_there_is_no_watermark_before_both_sides_have_rows(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    reports = [
        driver.run(0, batch([100], [])).report,
        driver.run(1, batch([1], [])).report,
        driver.run(2, batch([], [1])).report,
        driver.run(3, batch([0, 1], [])).report,
    ]
    assert [r.watermark_us for r in reports] == [None, None, None, 1]
    assert [r.late for r in reports] == [0, 0, 0, 1]
    assert [r.matches for r in reports] == [0, 0, 1, 1]


def test_the_watermark_is_the_lesser_of_both_sides_and_never_falls(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec(late=(2, 10)))
    arriving = [([50], [40]), ([60], [45]), ([], []), ([20], [50]), ([], [])]
    told = [driver.run(i, batch(*rows)).report.watermark_us for i, rows in enumerate(arriving)]
    assert told == [None, 30, 35, 35, 40]


def test_rows_of_one_batch_do_not_make_each_other_late(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    assert times(driver.run(0, batch([0, 900], [0, 900]))) == [(0, 0), (900, 900)]


def test_rows_without_a_key_move_the_watermark(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    keyless = Batch((task(50, key=None),), (task(50, key=None),))
    assert driver.run(0, keyless).report.null_keys == 2
    assert driver.run(1, batch([49], [])).report.late == 1


def test_a_task_that_came_wholly_too_late_leaves_no_segment(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec(within=None, late=(0, 0)))
    driver.run(0, batch([50], [50]))
    report = driver.run(1, Batch((task(1, 2), task(50)), ())).report
    assert (report.late, report.state_rows) == (2, 3)
    assert len(driver.query.folder.list(SEGMENTS)) == 3


@pytest.mark.parametrize("tasks", [1, 2])
def test_the_watermark_stays_where_it_was_when_lateness_grows(tmp_path: Path, tasks: int) -> None:
    """A batch decides the watermark of the next, and by that watermark its rows expire. A query
    that is started again with more patience has it for what comes, not for what is gone: else its
    matches would depend on which rows happened to share a segment.

    left    0, 101    95 (late)
    right   101       100 (late): would be a partner of 0
    """
    question = Question(((0, 0),), (), (1, 1), (0, 100), (0, 0))
    driver = Driver(tmp_path, spec_of(INT64, question))
    left = (task(0, 101),) if tasks == 1 else (task(0), task(101))
    driver.run(0, Batch(left, (task(101),)))
    driver.reopen(spec=spec_of(INT64, replace(question, late=(50, 50))))
    second = driver.run(1, batch([95], [100])).report
    assert (second.late, second.matches, second.watermark_us) == (2, 0, 101)


def test_less_lateness_moves_the_watermark_on(tmp_path: Path) -> None:
    question = Question(((0, 0),), (), (1, 1), (0, 100), (50, 50))
    driver = Driver(tmp_path, spec_of(INT64, question))
    driver.run(0, batch([100], [100]))
    assert driver.state.watermark_us == 50
    driver.reopen(spec=spec_of(INT64, replace(question, late=(10, 0))))
    assert driver.run(1, batch([], [])).report.watermark_us == 90


def test_the_watermark_survives_a_restart(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec(late=(1, 2)))
    driver.run(0, batch([10], [20]))
    driver.run(1, batch([], []))
    driver.reopen()
    assert driver.run(2, batch([8, 9], [])).report.late == 1


@pytest.mark.parametrize(("within", "kept"), [((0, None), "left"), ((None, 0), "right")])
def test_bounds_open_on_one_end_forget_one_side(
    tmp_path: Path, within: tuple[int | None, int | None], kept: str
) -> None:
    driver = Driver(tmp_path, spec_of(INT64, Question(((0, 0),), (), (1, 1), within, (0, 0))))
    for number in range(6):
        driver.run(number, batch([number * 100], [number * 100]))
    sides = [segment.side for segment in driver.state.segments for _ in range(segment.rows)]
    other = "right" if kept == "left" else "left"
    assert (sides.count(kept), sides.count(other)) == (6, 1)
    last = driver.run(6, batch([600], [600]))
    expected = [(t, 600) for t in range(0, 700, 100)]
    assert times(last) == (expected if kept == "left" else [(b, a) for a, b in expected])


@pytest.mark.xfail(strict=True, reason="times beyond 2^62 microseconds are taken for no bound")
@pytest.mark.parametrize(
    ("left_us", "right_us", "within"),
    [
        pytest.param(1, (1 << 62) + 5, None, id="unbounded, the year 148,109"),
        pytest.param((1 << 63) - 5, (1 << 63) - 5, (-10, 10), id="the last microseconds"),
        pytest.param(-(1 << 62) - 5, -(1 << 62) - 5, (-10, 10), id="before the year -144,168"),
    ],
)
def test_every_timestamp_that_spark_knows_can_match(
    tmp_path: Path, left_us: int, right_us: int, within: tuple[int, int] | None
) -> None:
    driver = Driver(tmp_path, a_spec(within, late=None if within is None else (0, 0)))
    report = driver.run(0, batch([left_us], [right_us])).report
    assert report.matches == 1


# Rows that are refused.


def test_rows_without_a_time_stop_the_query(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    with pytest.raises(DataError, match=r"3 rows of the right input.*'at' is null.*on_null_time"):
        driver.run(0, Batch((task(1),), (task(None, 1, None), task(None))))
    assert not driver.query.is_done(0)
    driver.reopen()
    assert driver.query.folder.list(SEGMENTS) == []


# What is kept, and what is deleted.


def referred(driver: Driver) -> set[str]:
    log = CommitLog(driver.query.folder)
    return {s.name for number in log.batch_ids() for s in log.read(number).segments}


def files(driver: Driver, part: str) -> set[str]:
    return {f"{part}/{name}" for name in driver.query.folder.list(part)}


def reports(driver: Driver, last: int) -> list[BatchReport]:
    return [BatchReport.from_json(r) for r in read_reports(driver.query.folder, last)]


@pytest.mark.parametrize(("asked", "kept"), [(1, 2), (2, 2), (5, 5)])
def test_so_many_commits_are_kept_with_all_they_refer_to(
    tmp_path: Path, asked: int, kept: int
) -> None:
    with mock.patch.object(compaction, "FAN_IN", 2):
        driver = Driver(tmp_path, a_spec(within=(-20, 20)), keep_commits=asked)
        for number in range(12):
            driver.run(number, batch([10 * number], [10 * number]))
            expected = list(range(max(0, number + 1 - kept), number + 1))
            assert CommitLog(driver.query.folder).batch_ids() == expected
            assert files(driver, SEGMENTS) == referred(driver)
    assert files(driver, SCRATCH) | files(driver, REPORTS) | files(driver, STAGED) == set()


def test_a_kept_commit_can_be_gone_back_to(tmp_path: Path) -> None:
    """Whoever sets the query back removes the newer commits; the batches then run again."""
    question = Question(((0, 0),), (), (1, 1), (-20, 20), (0, 0))
    arriving = [batch([10 * n, 10 * n], [10 * n + 5]) for n in range(10)]
    expected = nested_loops(question, [b.tables() for b in arriving])
    with mock.patch.object(compaction, "FAN_IN", 2):
        driver = Driver(tmp_path, spec_of(INT64, question), keep_commits=4)
        driver.run_all(arriving)
        for number in (7, 8, 9):
            CommitLog(driver.query.folder).delete(number)
        driver.reopen()
        again = [driver.run(number, arriving[number]).rows for number in (7, 8, 9)]
    assert again == [answer.rows for answer in expected[7:]]


def test_orphans_are_removed_on_opening(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    driver.run(0, batch([1], [1]))
    before = files(driver, SEGMENTS)
    with crash_at("instance.begun"), pytest.raises(CrashError):
        driver.run(1, batch([2], [2]))
    folder = driver.query.folder
    for part in (SEGMENTS, SCRATCH, STAGED):
        folder.write(f"{part}/left-orphan.arrow", b"x")
    assert files(driver, SEGMENTS) > before
    assert list(Path(folder.path(REPORTS)).iterdir()) != []
    driver.reopen()
    assert files(driver, SEGMENTS) == before == referred(driver)
    for part in (SCRATCH, REPORTS, STAGED):
        assert folder.list(part) == []


def test_failing_to_clean_up_does_not_stop_the_query(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver(tmp_path, a_spec(), keep_commits=2)
    with mock.patch.object(Folder, "delete", side_effect=OSError(errno.EIO, "no")):
        for number in range(4):
            driver.run(number, batch([number], [number]))
    assert "could not clean up behind batch 2" in caplog.text
    driver.run(4, batch([4], [4]))
    driver.reopen()
    assert files(driver, SEGMENTS) == referred(driver)


def test_reports_are_kept_longer_than_commits(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec(), keep_commits=2, keep_history=4)
    told = [driver.run(number, batch([number], [number])).report for number in range(7)]
    assert reports(driver, 6) == told[3:]
    assert len(driver.query.folder.list(HISTORY)) == 4


def test_the_report_of_a_batch_that_never_committed_is_not_told(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    driver.run(0, batch([1], [1]))
    with crash_at("history.written"), pytest.raises(CrashError):
        driver.run(1, batch([2], [2]))
    driver.reopen()
    assert [r.batch_id for r in reports(driver, 0)] == [0]
    again = driver.run(1, batch([3], [3])).report
    assert reports(driver, 1)[1] == again


# Opening.


def test_the_slots_of_stored_state_win(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(tmp_path, a_spec(), Setup(Hash(), 2, 8))
    driver.run(0, batch([1], [1]))
    with caplog.at_level(logging.WARNING, "skewless"):
        driver.reopen(Setup(Broadcast(), 3, 8))
        assert caplog.text == ""
        driver.reopen(Setup(ContRand(2), 3, 5))
    assert "the checkpoint has 8 slots, 5 were asked for: 8 are used" in caplog.text
    table = driver.coordinator.placing.table
    assert (table.slots, table.instances, table.strategy) == (8, 3, "ContRand(groups=2)")


def test_another_join_is_refused_and_told_what_differs(tmp_path: Path) -> None:
    Driver(tmp_path, a_spec(within=(-5, 5)))
    with pytest.raises(CheckpointMismatchError) as refusal:
        Driver(tmp_path, a_spec(within=(-FAR_US, FAR_US)))
    text = str(refusal.value)
    assert str(tmp_path) in text
    assert "within: the checkpoint has '-5 microseconds to 5 microseconds'" in text
    assert "this query has 'unbounded' (a bound without limit cannot be changed)" in text
    assert "left keys" not in text


def test_another_lateness_strategy_or_size_is_accepted(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec(late=(0, 0)))
    driver.reopen(Setup(Broadcast(), 5), a_spec(late=(9, 9)))


def test_a_checkpoint_ahead_of_its_state_is_refused(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    with pytest.raises(StateDamagedError, match=r"at batch 3, but .* holds no commit"):
        driver.query.is_done(3)
    driver.run(0, batch([1], [1]))
    assert driver.query.is_done(0)
    assert not driver.query.is_done(1)
    with pytest.raises(StateDamagedError, match=r"at batch 2, but the last commit .* of batch 0"):
        driver.query.is_done(2)


@pytest.mark.parametrize("damage", ["truncate", "alter", "delete"])
def test_a_damaged_segment_is_found_before_it_is_used(tmp_path: Path, damage: str) -> None:
    """One that is missing on opening; what is in the others when they are first read."""
    driver = Driver(tmp_path, a_spec())
    driver.run(0, batch([1], [1]))
    name = driver.query.last.segments[0].name
    path = tmp_path / name
    content = path.read_bytes()
    if damage == "delete":
        path.unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes(content[:-9] if damage == "truncate" else flipped)
    with pytest.raises(StateDamagedError, match=name) as refusal:
        driver.reopen()
        assert damage != "delete"
        driver.run(1, batch([1], [1]))
    assert "restore the checkpoint" in str(refusal.value)
    assert driver.query.last is None or driver.query.last.batch_id == 0


def test_a_segment_that_vanishes_while_the_query_runs_is_told(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    driver.run(0, batch([1], [1]))
    os.unlink(tmp_path / driver.query.last.segments[0].name)
    another_worker = mock.patch.object(instance_module, "CACHE", SegmentCache())
    with another_worker, pytest.raises(StateDamagedError, match="is missing"):
        driver.run(1, batch([1], [1]))


def test_a_damaged_commit_is_found_on_opening(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "skewless", a_spec())
    driver.run(0, batch([1], [1]))
    (commit,) = (tmp_path / "skewless" / COMMITS).iterdir()
    commit.write_text(commit.read_text().replace('"batch_id":0', '"batch_id":1', 1))
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1")  # Spark will not repeat it
    with pytest.raises(StateDamagedError, match=commit.name):
        driver.reopen()


def test_the_state_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    with mock.patch.object(commits, "FORMAT", 5):
        driver.run(0, batch([1], [1]))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(StateFormatError, match=r"of format 5; .*knows formats 2, 3 and 4"):
        driver.reopen()
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StateAccessError, match=r"cannot create the folder .*/file/state"):
        Driver(tmp_path / "file" / "state", a_spec())


def test_a_folder_that_cannot_be_written_is_told_on_opening(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        mock.patch("builtins.open", side_effect=full),
        pytest.raises(StateAccessError, match="No space left on device"),
    ):
        Driver(tmp_path, a_spec())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_loses_what_is_written_is_told(tmp_path: Path) -> None:
    with (
        mock.patch.object(Folder, "size", return_value=0),
        pytest.raises(StateAccessError, match="is the disk full"),
    ):
        Driver(tmp_path, a_spec())
    assert list(tmp_path.iterdir()) == []


@contextmanager
def full_disk_from(point: str) -> Iterator[None]:
    """No file can be written any more once a point is reached."""
    full = mock.patch("builtins.open", side_effect=OSError(errno.ENOSPC, "No space left on device"))

    def hit(name: str, root: str, batch_id: int = -1) -> None:
        if name == point:
            full.start()

    with mock.patch.object(failpoints, "hit", hit):
        try:
            yield
        finally:
            full.stop()


@pytest.mark.parametrize("step", ["ingest", "join", "commit"])
def test_a_full_disk_stops_the_batch_and_the_next_start_goes_on(tmp_path: Path, step: str) -> None:
    driver = Driver(tmp_path, a_spec())
    driver.run(0, batch([1], [1]))
    begins = {"ingest": "segment.begun", "join": "instance.worked", "commit": "sink.staged"}
    with (
        full_disk_from(begins[step]),
        pytest.raises(StateAccessError, match=r"cannot write .*No space left.*Free or"),
    ):
        driver.run(1, batch([2], [3]))
    driver.reopen()
    assert not driver.query.is_done(1)
    assert times(driver.run(1, batch([2], [3]))) == [(1, 3), (2, 1), (2, 3)]


# Output.


def test_a_batch_without_matches_shows_no_files_save_the_first(tmp_path: Path) -> None:
    """The first file tells readers the schema; later ones without rows would only be in the way."""
    driver = Driver(tmp_path / "state", a_spec(), Setup(Hash(), 2), output=tmp_path / "out")
    shown = []
    for number, rows in enumerate([([1], []), ([2], []), ([], [2]), ([], [])]):
        driver.run(number, batch(*rows))
        shown.append({file.name[0] for file in (tmp_path / "out").iterdir()})
        assert files(driver, STAGED) == set()
    assert shown == [{"0"}, {"0"}, {"0", "2"}, {"0", "2"}]


# Reports.


def test_a_report_tells_what_happened(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec(), Setup(Broadcast(), 3))
    driver.run(0, batch([1, 2], [3]))
    report = driver.run(1, batch([1, 2, 3], [4])).report
    assert (report.rows_left, report.rows_right, report.late, report.matches) == (3, 1, 1, 6)
    assert report.batch_id == 1
    assert report.state_rows == 7  # a late row lies among the others of its task
    assert report.segments == len(driver.query.last.segments) == 4
    assert report.state_bytes == sum(s.bytes for s in driver.query.last.segments)
    assert sum(load.pairs for load in report.instances) == 6
    assert [load.instance for load in report.instances] == [0, 1, 2]
    assert report.heavy_keys == (KeyShare("7", 0.75),)
    assert report.busiest_over_mean >= 1.0


def test_heavy_keys_are_ranked_over_tasks_and_sides() -> None:
    arrivals = [
        Arrival("left", rows=60, heavy_keys=(HeavyKey("a", 30), HeavyKey("b", 20))),
        Arrival("right", rows=40, heavy_keys=(HeavyKey("b", 20), HeavyKey("c", 5))),
    ]
    assert heaviest(arrivals) == (KeyShare("b", 0.4), KeyShare("a", 0.3), KeyShare("c", 0.05))
    assert heaviest([]) == ()
    many = tuple(HeavyKey(f"k{i:02}", 2) for i in range(30))
    assert [k.value for k in heaviest([Arrival("left", rows=60, heavy_keys=many)])] == [
        f"k{i:02}" for i in range(10)
    ]


def test_an_empty_batch_commits_too(tmp_path: Path) -> None:
    driver = Driver(tmp_path, a_spec())
    report = driver.run(0, Batch((), ())).report
    assert (report.rows_left, report.matches, report.watermark_us) == (0, 0, None)
    assert driver.query.is_done(0)
