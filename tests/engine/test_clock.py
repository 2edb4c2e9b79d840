"""What is asked of streams by the clock: silent ones hold nothing back, rows from the future are
put aside. A left join tells by its unmatched rows how far time has got."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from skewless.engine.clock import CLOCK_FILE, ClockRules
from skewless.engine.pipeline import Pipeline
from skewless.engine.report import BatchReport
from skewless.state.commits import COMMITS, read_checked, write_checked
from tests.crashes import CrashError, crash_at
from tests.frame.kits import KITS, PLACED
from tests.frame.streams import LATE_S, SECOND_US, schema_of
from tests.queries import PipelineRun

IDLE = ClockRules(idle_after_us=60 * SECOND_US)
DAY_S = 86_400
LEFT_JOIN = KITS["left join"].pipeline(PLACED[0])


def with_rules(*rules: ClockRules, of: Pipeline = LEFT_JOIN) -> Pipeline:
    [node] = of.nodes
    feeds = tuple(replace(f, rules=r) for f, r in zip(node.feeds, rules, strict=True))
    return Pipeline((replace(node, feeds=feeds),))


@dataclass
class Told:
    """A left join of a and b, a row (key 1, seconds, 0.0, id 0) a number; and a clock that is
    set."""

    root: Path
    pipeline: Pipeline
    now_s: int = 0
    batch: int = 0
    found: list[tuple[int, int | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run = PipelineRun(self.root, self.pipeline, clock=lambda: self.now_s * SECOND_US)

    def reopen(self, pipeline: Pipeline | None = None) -> None:
        self.run.start(pipeline or self.pipeline)

    def at(self, now_s: int, a: Sequence[int | None] = (), b: Sequence[int] = ()) -> BatchReport:
        """A batch at a moment; what came of it goes to `found`, as seconds."""
        self.now_s = now_s
        ran = self.run.run_streams(self.batch, [rows("a", a), rows("b", b)])
        times = [ran.results.column(name).cast(pa.int64()).to_pylist() for name in ("a_t", "b_t")]
        self.found += [(a // SECOND_US, b and b // SECOND_US) for a, b in zip(*times, strict=True)]
        self.batch += 1
        assert ran.report is not None
        return ran.report

    def clock_file(self) -> Path:
        return Path(self.run.root) / CLOCK_FILE


def rows(name: str, times: Sequence[int | None]) -> list[list[pa.RecordBatch]]:
    columns = [[1] * len(times), [None if t is None else t * SECOND_US for t in times],
               [0.0] * len(times), [0] * len(times)]  # fmt: skip
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema_of(name), strict=True)]
    return [[pa.RecordBatch.from_arrays(arrays, schema=schema_of(name))]]


def watermark_s(report: BatchReport) -> int | None:
    return None if report.watermark_us is None else report.watermark_us // SECOND_US


def test_a_silent_stream_holds_time_back_for_ever_unless_it_is_idle(tmp_path: Path) -> None:
    for name, rules, expected in (
        ("waits", ClockRules(), []),
        ("idle", IDLE, [(10, None), (50, None)]),
    ):
        told = Told(tmp_path / name, with_rules(ClockRules(), rules))
        told.at(0, a=[10])
        told.at(59, a=[50])
        assert told.found == []
        report = told.at(60, a=[90])
        assert told.found == expected
        assert report.idle == (("right",) if expected else ())
        assert watermark_s(told.at(61, a=[91])) == (90 - LATE_S if expected else None)


def test_it_counts_again_when_it_has_rows(tmp_path: Path) -> None:
    told = Told(tmp_path, with_rules(ClockRules(), IDLE))
    told.at(0, a=[100], b=[100])
    told.at(60, a=[200])  # b is idle: the watermark goes to 195
    report = told.at(61, a=[300], b=[150, 196])
    assert (watermark_s(report), report.late, report.idle) == (195, 1, ())
    assert watermark_s(told.at(62, a=[400])) == 195, "b is at 196 - 5 and counts again"
    assert told.found == [(100, 100), (200, 196)], "within 6 seconds"
    assert told.at(121, a=[410]).idle == ("right",)


def test_if_all_are_idle_time_stands_still(tmp_path: Path) -> None:
    told = Told(tmp_path, with_rules(IDLE, IDLE))
    told.at(0, a=[100], b=[50])
    report = told.at(1000)
    assert report.idle == ("left", "right")
    assert watermark_s(told.at(1001)) == 45
    assert told.at(1002, a=[101]).idle == ("right",)
    assert watermark_s(told.at(1003)) == 96


def test_time_without_rows_goes_on_while_a_query_is_stopped(tmp_path: Path) -> None:
    told = Told(tmp_path, with_rules(ClockRules(), IDLE))
    told.at(0, a=[10], b=[10])
    told.reopen()
    assert told.at(60, a=[90]).idle == ("right",)


def test_a_repeated_batch_goes_by_the_moment_of_its_first_try(tmp_path: Path) -> None:
    told = Told(tmp_path, with_rules(ClockRules(), replace(IDLE, max_ahead_us=0)))
    told.at(0, a=[10])
    with crash_at("sink.staged"), pytest.raises(CrashError):
        told.at(59, a=[50], b=[60])
    told.reopen()
    report = told.at(500, a=[50], b=[60])
    assert (report.idle, report.dropped) == ((), {"ahead": 1})
    assert told.at(501, a=[70]).idle == ("right",), "what was put aside was no row"


@pytest.mark.parametrize("harm", ["gone", "torn"])
def test_a_lost_moment_is_decided_on_anew(harm: str, tmp_path: Path) -> None:
    told = Told(tmp_path, with_rules(ClockRules(), IDLE))
    told.at(0, a=[10])
    with crash_at("sink.staged"), pytest.raises(CrashError):
        told.at(59, a=[50])
    told.clock_file().unlink() if harm == "gone" else told.clock_file().write_bytes(b"{")
    told.reopen()
    assert told.at(60, a=[50]).idle == ("right",)


def test_a_clock_that_is_put_back_begins_anew(tmp_path: Path) -> None:
    told = Told(tmp_path, with_rules(ClockRules(), IDLE))
    told.at(9_000_000, a=[10], b=[10])
    told.at(100, a=[20])
    assert told.at(159, a=[30]).idle == ()
    assert told.at(160, a=[40]).idle == ("right",)


def test_the_rules_may_change_on_a_checkpoint(tmp_path: Path) -> None:
    """As may the state of a version that knew of none."""
    told = Told(tmp_path, with_rules(ClockRules(), ClockRules()))
    told.at(0, a=[10], b=[10])
    assert not told.clock_file().exists(), "who does not ask for it pays nothing"
    folder = told.run.query.folder
    [name] = folder.list(COMMITS)
    commit = f"{COMMITS}/{name}"
    content = read_checked(folder, commit)
    assert content["operators"]["join"].pop("heard_us") == {}
    write_checked(folder, commit, content)
    told.reopen(with_rules(ClockRules(), IDLE))
    assert told.at(1000, a=[50]).idle == (), "it begins to count with the first batch"
    assert told.at(1060, a=[90]).idle == ("right",)
    assert told.found == [(10, 10), (50, None)]
    told.reopen(with_rules(ClockRules(), replace(IDLE, idle_after_us=61 * SECOND_US)))
    assert told.at(1060, a=[91]).idle == ()
    told.reopen(with_rules(ClockRules(), ClockRules()))
    assert told.at(5000, a=[92]).idle == ()
    [name] = [name for name in folder.list(COMMITS) if name.startswith(f"{4:012d}")]
    content = json.loads(folder.read(f"{COMMITS}/{name}"))["content"]
    assert content["operators"]["join"]["heard_us"] == {}


def test_a_row_from_the_future_moves_time_for_good_unless_it_is_put_aside(tmp_path: Path) -> None:
    now_s, far_s = 1_000_000, 1_000_000 + 400 * DAY_S
    day = ClockRules(max_ahead_us=DAY_S * SECOND_US)
    for name, rules, late, ahead in (("taken", ClockRules(), 2, 0), ("aside", day, 0, 2)):
        told = Told(tmp_path / name, with_rules(rules, rules))
        report = told.at(now_s, a=[now_s, far_s], b=[now_s, far_s])
        assert report.dropped == ({"ahead": ahead} if ahead else {})
        assert (report.rows_left, report.rows_right) == (2, 2)
        report = told.at(now_s + 1, a=[now_s + 1], b=[now_s + 1])
        assert report.late == late


def test_how_far_ahead_is_counted_from_the_moment_of_the_batch(tmp_path: Path) -> None:
    day = ClockRules(max_ahead_us=DAY_S * SECOND_US)
    told = Told(tmp_path, with_rules(day, day))
    report = told.at(100, a=[100 + DAY_S, 101 + DAY_S])
    assert report.dropped == {"ahead": 1}, "so far, and no further"
    assert told.at(101, a=[101 + DAY_S]).dropped == {}
    assert told.at(10**9, a=[200 + DAY_S]).dropped == {}, "old rows are not ahead"


def test_a_row_without_a_time_is_not_ahead(tmp_path: Path) -> None:
    kit = KITS["left join"].pipeline(PLACED[0])
    [node] = kit.nodes
    operator = replace(node.operator, spec=replace(node.operator.spec, drop_null_times=True))
    pipeline = Pipeline((replace(node, operator=operator),))
    rules = ClockRules(max_ahead_us=0)
    told = Told(tmp_path, with_rules(rules, rules, of=pipeline))
    report = told.at(100, a=[None, 50, 101, None])
    assert (report.dropped, report.rows_left) == ({"null times": 2, "ahead": 1}, 4)


def test_losing_rows_to_the_future_is_loud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = ClockRules(max_ahead_us=0)
    told = Told(tmp_path, with_rules(rules, rules))
    with caplog.at_level(logging.WARNING, "skewless"):
        told.at(100, a=[50, 101], b=[50])
    assert "1 of 3 rows (33.3%) were dropped: 1 ahead" in caplog.messages[0]


def test_rows_of_another_year_are_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(tmp_path, with_rules(ClockRules(), ClockRules()))
    with caplog.at_level(logging.WARNING, "skewless"):
        told.at(1000, a=[1000 + 366 * DAY_S])
        assert caplog.messages == []
        told.at(1000, a=[1000 + 367 * DAY_S])
        told.at(1000, a=[1000 + 368 * DAY_S])
    assert caplog.messages == [
        "join: a row of the left input is 367 days ahead of the clock (1971-01-03T00:16:40+00:00, "
        "column 'a_t'). Rows of today will be late from now on, once all inputs are so far; "
        'max_ahead="1 day" puts such rows aside'
    ]
