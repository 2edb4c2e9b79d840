"""The benchmarks at toy sizes: that they run, agree and say all they promise, not how fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import native, state_growth
from benchmarks.data import SIDES, Streams, stream_files
from benchmarks.measure import ContestantError, batch_figures
from benchmarks.tables import Target, console, verdict

ROOT = Path(__file__).resolve().parents[1]

# So short a run spends most of its time on compiling code that is then hardly used.
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}

REPORT = {"benchmark", "machine", "settings", "ratios", "targets"}
SPEED = {"batches", "rows_per_s", "median_ms", "mean_ms", "p99_ms", "phases_median_ms", "batch_ms"}
PEAKS = {"rss_peak_bytes", "anonymous_peak_bytes", "uss_peak_bytes"}
OWN = {"late_rows", "own_phases_median_ms", "memory"}
RUN = {
    "rows_per_batch", "zipf", "keys", "batches", "warmup", "matches_per_row", "same_result_rows",
    "contestants", "ratios", "targets",
}  # fmt: skip
SIZE = SPEED | OWN | {
    "state_rows", "rows_per_batch", "keys", "warmup", "fill_s", "matches_per_arriving_row", "state",
}  # fmt: skip
STATE = {"rows_median", "rows_max", "bytes_median", "segments_median", "segments_max"}


def run_json(module: str, data: Path, *arguments: str) -> dict[str, Any]:
    """What a benchmark prints with --json; nothing but that may be on stdout."""
    command = [sys.executable, "-m", module, "--json", "--data", str(data), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | QUICK_JAVA
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def shown(report: dict[str, Any], show: Any) -> str:
    out = Console(width=140)
    with out.capture() as captured:
        show(out, report)
    return captured.get()


@pytest.mark.slow
@pytest.mark.spark
def test_from_json_says_all_it_promises(tmp_path: Path) -> None:
    report = run_json(
        "benchmarks.from_json", tmp_path,
        "--rows-per-batch", "2000", "--batches", "1", "--warmup", "1",
    )  # fmt: skip
    (run,) = report["runs"]
    assert run["same_result_rows"] is True
    results = run["contestants"]
    assert list(results) == ["skewless", "in_front", "spark", "parsing"]
    assert all(results[name]["result_rows"] > 0 for name in ("skewless", "in_front", "spark"))
    assert results["parsing"]["s_per_million"].keys() == {"spark", "skewless"}
    assert len(run["ratios"]) == 3 and all(ratio > 0 for ratio in run["ratios"].values())


@pytest.mark.slow
@pytest.mark.spark
def test_native_says_all_it_promises(tmp_path: Path) -> None:
    report = run_json(
        "benchmarks.native", tmp_path,
        "--rows-per-batch", "2000", "--zipf", "1.5", "--batches", "1", "--warmup", "1",
    )  # fmt: skip
    assert report.keys() == {"benchmark", "machine", "settings", "runs"}
    (run,) = report["runs"]
    assert run.keys() == RUN
    assert run["same_result_rows"] is True
    results = run["contestants"]
    assert list(results) == ["skewless", "spark", "floor", "polars", "duckdb"]
    assert results["skewless"].keys() == SPEED | OWN | {"result_rows", "busiest_over_mean"}
    assert results["spark"].keys() == SPEED | {"result_rows", "late_rows", "memory"}
    assert results["floor"].keys() == {"rows", "rows_per_s", "stream", "memory"}
    assert results["floor"]["stream"].keys() == SPEED
    for name in ("polars", "duckdb"):
        assert results[name].keys() == {"rows", "rows_per_s", "result_rows", "memory"}
    for result in results.values():
        assert result["memory"].keys() == PEAKS
        assert all(peak > 0 for peak in result["memory"].values())
    assert results["skewless"]["late_rows"] == results["spark"]["late_rows"] == 0
    assert [target["figure"] for target in run["targets"]] == [native.MEDIAN]
    table = shown(run, native.show)
    assert "all agree" in table and "floor, streamed" in table and native.OF_FLOOR in table


@pytest.mark.slow
@pytest.mark.spark
def test_state_growth_says_all_it_promises(tmp_path: Path) -> None:
    report = run_json(
        "benchmarks.state_growth", tmp_path,
        "--rows", "2000,1000", "--rows-per-batch", "500", "--batches", "1", "--warmup", "0",
    )  # fmt: skip
    assert report.keys() == REPORT | {"sizes"}
    assert [size["state_rows"] for size in report["sizes"]] == [1000, 2000]
    for size in report["sizes"]:
        assert size.keys() == SIZE
        assert size["state"].keys() == STATE
        assert size["memory"].keys() == PEAKS
        assert size["state"]["rows_max"] >= size["state_rows"]
        assert size["late_rows"] == 0
        assert 0.5 < size["matches_per_arriving_row"] < 1.5
    assert report["ratios"].keys() == {state_growth.MEDIAN, state_growth.MEAN}
    assert [target["figure"] for target in report["targets"]] == [state_growth.MEDIAN]
    assert state_growth.MEDIAN in shown(report, state_growth.show)


def batch(number: int, rows: int, took_ms: int) -> dict[str, Any]:
    duration = {"triggerExecution": took_ms, "addBatch": took_ms // 2}
    return {"batchId": number, "numInputRows": rows, "durationMs": duration}


def test_figures_leave_out_warmup_and_empty_batches() -> None:
    progress = [batch(0, 10, 9000), batch(1, 10, 100), batch(2, 10, 300), batch(3, 0, 70)]
    figures = batch_figures(progress, warmup=1, rows_per_batch=10)
    assert figures.keys() == SPEED
    assert figures["batch_ms"] == [100, 300]
    assert figures["rows_per_s"] == 50
    assert figures["median_ms"] == 200
    assert figures["phases_median_ms"] == {"addBatch": 100}


@pytest.mark.parametrize("rows", [[10, 7], [10]])
def test_figures_refuse_other_batches_than_asked_for(rows: list[int]) -> None:
    progress = [batch(number, size, 100) for number, size in enumerate(rows)]
    with pytest.raises(ContestantError, match="batches of 10 rows expected"):
        batch_figures(progress, warmup=1, rows_per_batch=10)


def test_targets_are_judged_in_their_sense() -> None:
    at_least, at_most = Target("speed", ">=", 8, aim=12), Target("time", "<=", 0.5)
    assert [at_least.judge(v)["met"] for v in (7.9, 8)] == [False, True]
    assert [at_most.judge(v)["met"] for v in (0.5, 0.51)] == [True, False]
    assert verdict(at_least.judge(9)) == ">= 8 (aim 12): [green]met[/]"


def test_every_default_run_has_a_target() -> None:
    assert set(native.TARGETS) == set(native.SIZES)


def test_streams_are_made_once(tmp_path: Path) -> None:
    streams = Streams(zipf=1.5, files=2, rows=10, keys=5, seconds=1.0)
    folder = streams.make(tmp_path)
    files = stream_files(folder)
    assert len(files) == 2 * len(SIDES)
    made = [file.stat().st_ino for file in files]
    assert [file.stat().st_ino for file in stream_files(streams.make(tmp_path))] == made
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    ("module", "arguments", "told"),
    [
        ("benchmarks.native", ["--only", "skewless,flink"], "'flink' is none of"),
        ("benchmarks.state_growth", ["--rows", "many"], "no list of whole numbers"),
    ],
)
def test_bad_arguments_are_refused(module: str, arguments: list[str], told: str) -> None:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.replace("│", " ").split())


def test_tables_are_wide_enough_for_a_pipe() -> None:
    assert console().width >= 80
