"""Batch reports on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skewless.engine.report import BatchReport, InstanceLoad, KeyShare
from skewless.placement.figures import Decision
from skewless.state.files import Folder
from skewless.state.history import HISTORY, read_reports, write_report

REPORT = BatchReport(
    name="join",
    batch_id=0,
    rows={"left": 1, "right": 2},
    dropped={"late": 3, "null keys": 4, "null times": 5, "NaN in a band": 6},
    counters={"matches": 7},
    duration_ms=8.5,
    phases_ms={"ingest": 8.5},
    state_rows=9,
    state_bytes=10,
    segments=11,
    watermark_us=-12,
    instances=(InstanceLoad(0, 1, 2, 3, 4, 5.5, 6, 7, 8.5),),
    heavy_keys=(KeyShare("ä, 'b'", 0.5),),
    decisions=(Decision("split", "a", "0", "0 and 1", "hot", False),),
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(str(tmp_path))
    made.make(HISTORY)
    return made


def write(folder: Folder, report: BatchReport) -> None:
    write_report(folder, report.batch_id, report.to_json())


def read(folder: Folder, last_batch_id: int) -> list[BatchReport]:
    return [BatchReport.from_json(told) for told in read_reports(folder, last_batch_id)]


def test_reports_are_read_as_they_were_written_oldest_first(folder: Folder) -> None:
    written = [replace(REPORT, batch_id=number) for number in (0, 9, 10, 100)]
    for report in reversed(written):
        write(folder, report)
    assert read(folder, 100) == written
    assert read(folder, 10) == written[:3]
    assert read(folder, -1) == []


def test_a_replayed_batch_replaces_its_report(folder: Folder) -> None:
    write(folder, REPORT)
    write(folder, replace(REPORT, counters={"matches": 8}))
    assert read(folder, 0) == [replace(REPORT, counters={"matches": 8})]


def test_other_files_are_no_reports(folder: Folder) -> None:
    write(folder, REPORT)
    for name in ("notes.json", ".000000000001.json.abc.tmp", "000000000001.txt"):
        folder.write(f"{HISTORY}/{name}", b"{")
    assert read(folder, 9) == [REPORT]


def test_there_may_be_no_history(tmp_path: Path) -> None:
    assert read(Folder(str(tmp_path)), 9) == []


def test_a_report_that_was_torn_is_left_out(folder: Folder) -> None:
    for number in (0, 1, 2):
        write(folder, replace(REPORT, batch_id=number))
    torn = f"{HISTORY}/{1:012d}.json"
    folder.write(torn, folder.read(torn)[:100])
    assert [report.batch_id for report in read(folder, 2)] == [0, 2]
