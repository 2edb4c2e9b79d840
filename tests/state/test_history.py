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
    batch_id=0,
    rows_left=1,
    rows_right=2,
    late=3,
    null_keys=4,
    null_times=5,
    nan_bands=6,
    matches=7,
    duration_ms=8.5,
    phases_ms={"ingest": 8.5},
    state_rows=9,
    state_bytes=10,
    segments=11,
    watermark_us=-12,
    instances=(InstanceLoad(0, 1, 2, 3, 4, 5, 6.5),),
    heavy_keys=(KeyShare("ä, 'b'", 0.5),),
    decisions=(Decision("split", "a", "0", "0 and 1", "hot", False),),
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(str(tmp_path))
    made.make(HISTORY)
    return made


def test_reports_are_read_as_they_were_written_oldest_first(folder: Folder) -> None:
    written = [replace(REPORT, batch_id=number) for number in (0, 9, 10, 100)]
    for report in reversed(written):
        write_report(folder, report)
    assert read_reports(folder, 100) == written
    assert read_reports(folder, 10) == written[:3]
    assert read_reports(folder, -1) == []


def test_a_replayed_batch_replaces_its_report(folder: Folder) -> None:
    write_report(folder, REPORT)
    write_report(folder, replace(REPORT, matches=8))
    assert read_reports(folder, 0) == [replace(REPORT, matches=8)]


def test_other_files_are_no_reports(folder: Folder) -> None:
    write_report(folder, REPORT)
    for name in ("notes.json", ".000000000001.json.abc.tmp", "000000000001.txt"):
        folder.write(f"{HISTORY}/{name}", b"{")
    assert read_reports(folder, 9) == [REPORT]


def test_there_may_be_no_history(tmp_path: Path) -> None:
    assert read_reports(Folder(str(tmp_path)), 9) == []
