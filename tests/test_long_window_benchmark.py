"""The benchmark of long windows at toy sizes, by counts and bytes: no machine changes these."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from rich.console import Console

from benchmarks import long_window
from skewless.state import compaction, segment_set


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PIECE_ROWS_MIN", 100_000), ("PORTION_ROWS", 2_000_000)):
            patch.setattr(compaction, name, value)
        patch.setattr(segment_set, "MANIFEST_SEGMENTS", 256)
        measured: dict[str, Any] = json.loads(json.dumps(long_window.measure(640)))
    return measured


def test_what_is_alive_grows_with_the_logarithm(report: dict[str, Any]) -> None:
    join, unique, never = report["runs"]
    levels = math.ceil(math.log(704, compaction.FAN_IN)) + 1
    per_level = (compaction.FAN_IN + 1) * long_window.INSTANCES
    assert join["all"]["segments"] <= 2 * levels * per_level
    assert unique["all"]["segments"] <= levels * per_level + per_level
    assert never["all"]["segments"] >= 640, "here nothing is put together"


def test_commits_and_tasks_stay_small(report: dict[str, Any]) -> None:
    for run in report["runs"]:
        assert 1_000 < run["all"]["commit_bytes"] < 250_000, run["case"]
        assert run["all"]["task_bytes"] < 250_000, run["case"]
    never = report["runs"][-1]["over_time"]
    assert never[-1]["segments"] > 5 * never[0]["segments"]
    assert never[-1]["commit_bytes"] < 250_000


def test_it_says_all_it_promises(
    report: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(long_window, "measure", lambda batches: report)
    long_window.main(batches=640, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["benchmark"] == "long_window" and len(told["runs"]) == 3
    assert [judged["figure"] for judged in told["targets"]] == [
        target.figure for target in long_window.TARGETS
    ]
    console = Console(width=160, record=True)
    long_window.show(console, told)
    text = console.export_text()
    assert "join, nothing put together" in text and "largest commit, bytes" in text
