"""The command-line tool: what it prints, how it fails, and that Ctrl-C loses nothing."""

from __future__ import annotations

import doctest
import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

import skewless as sk
from skewless.cli import app, totals, units, view
from skewless.cli.display import LiveDisplay, PlainDisplay, make_display
from skewless.cli.failures import explain, root_cause
from skewless.cli.inspect import verdict
from skewless.cli.interrupt import StopRequest
from skewless.cli.view import Labels
from skewless.engine.report import BatchReport, InstanceLoad, KeyShare, OperatorReport
from skewless.errors import DataError, StateError
from skewless.placement.figures import Decision
from skewless.state.commits import Commit, CommitLog, OperatorState, claim
from skewless.state.files import Folder
from skewless.state.history import write_report
from tests.tool import output_rows, run_here, run_tool

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
QUERY = {
    "kind": "two-way join",
    "left keys": "cell as int64",
    "within": "-1 minute to 1 minute",
}
COMPOSED = {
    "kind": "join-1 → aggregate-2",
    "join-1: kind": "two-way join",
    "join-1: left keys": "cell as int64, x ± 5",
    "join-1: within": "-1 minute to 1 minute",
    "aggregate-2: kind": "aggregation",
    "aggregate-2: by": "city as string",
    "aggregate-2: input is": "join-1",
}
COMMANDS = (
    "demo", "run", "validate", "new", "schema", "inspect", "dashboard", "report", "metrics",
    "rollback", "version",
)  # fmt: skip


def invoke(*args: str, width: int = 200) -> Any:
    return CliRunner().invoke(app, args, env={"COLUMNS": str(width), "SKEWLESS_TRACEBACK": ""})


DECISIONS = (
    Decision("split", "key 2279", "instance 0", "instances 0, 1", "61% of the work", True, 4_200),
    Decision("move", "slot 5", "instance 1", "instance 0", "no gain; proposed as x", False, 7),
)


def report(
    batch_id: int, *, heavy: float = 0.12, times: tuple[float, ...] = (30, 10), **changes: Any
) -> BatchReport:
    told = BatchReport(
        name="join",
        batch_id=batch_id,
        rows={"left": 1_000, "right": 9_000},
        dropped={"null keys": 1, "null times": 1, "late": 3},
        counters={"matches": 1_234_567},
        duration_ms=500.0,
        phases_ms={"ingest": 200.0, "plan": 0.5, "join and write": 299.5},
        state_rows=41_250,
        state_bytes=2_345_678,
        segments=2,
        watermark_us=None,
        instances=tuple(
            InstanceLoad(i, rows=5_000, pairs=7_000, time_ms=ms) for i, ms in enumerate(times)
        ),
        heavy_keys=(KeyShare("2279", heavy), KeyShare("[bold]x", 0.01)),
        verdict="key 2279 carries 61% of the work; busiest/mean 1.50",
        decisions=DECISIONS if batch_id == 3 else (),
    )
    return replace(told, **changes)


def composed(batch_id: int) -> BatchReport:
    """A batch of a query of two operators, as the engine puts their reports together."""
    lower = OperatorReport(
        name="join-1",
        rows={"left": 1_000, "right": 9_000},
        dropped={"late": 3},
        counters={"matches": 500},
        state_rows=10_000,
        state_bytes=300_000,
        instances=(InstanceLoad(0, time_ms=30.0), InstanceLoad(1, time_ms=10.0)),
        heavy_keys=(KeyShare("2279", 0.12),),
        verdict="even",
    )
    upper = OperatorReport(
        name="aggregate-2",
        rows={"input": 500},
        dropped={"null keys": 7},
        counters={"matches": 41, "merged": 90},
        state_rows=41,
        instances=(InstanceLoad(0, time_ms=5.0),),
        heavy_keys=(KeyShare("Chengdu", 0.5),),
    )
    streams = {"join-1.left": 1_000, "join-1.right": 9_000}
    phases = {"ingest": 200.0, "join-1: plan": 0.5, "aggregate-2: write": 99.5}
    return BatchReport.of(batch_id, [lower, upper], streams, phases)


def written_checkpoint(root: Path, query: dict[str, str], reports: list[BatchReport]) -> Path:
    """A checkpoint of so many batches, as the engine leaves it."""
    folder = Folder(str(root / "skewless"))
    for name in ("commits", "history"):
        folder.make(name)
    claim(folder, query)
    for told in reports:
        write_report(folder, told.batch_id, told.to_json())
    state = OperatorState(0, {"left": 0, "right": 0})
    CommitLog(folder).write(Commit(len(reports) - 1, {"join": state}))
    return root


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint of a query of five batches."""
    return written_checkpoint(tmp_path / "ckpt", QUERY, [report(i) for i in range(5)])


# Help and versions


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    assert command in invoke("--help").stdout
    told = invoke(command, "--help")
    assert told.exit_code == 0
    assert "--json" in told.stdout and "--traceback" in told.stdout


def test_help_says_where_paths_start_and_what_goes_on_after_ctrl_c() -> None:
    told = " ".join(invoke("run", "--help").stdout.split())
    assert "relative to the current folder" in told
    assert "the same command again continues" in told


def test_help_loads_neither_pyspark_nor_numba() -> None:
    code = (
        "import sys; from skewless.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print('heavy:', *sorted({m.split('.')[0] for m in sys.modules}"
        " & {'pyspark', 'py4j', 'numba', 'pandas'}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1].strip() == "heavy:"


def test_reading_a_job_file_loads_neither_pyspark_nor_numba() -> None:
    code = (
        "import sys; from skewless.jobfile import load_jobs\n"
        f"load_jobs({str(EXAMPLES / 'orders_and_tracks.toml')!r})\n"
        "print('heavy:', *sorted({m.split('.')[0] for m in sys.modules}"
        " & {'pyspark', 'py4j', 'numba', 'pandas'}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1].strip() == "heavy:"


def test_version() -> None:
    told = json.loads(invoke("version", "--json").stdout)
    assert list(told) == ["skewless", "pyspark", "pyarrow", "numpy", "numba", "python", "java"]
    assert told["skewless"] == sk.__version__
    assert all(told[name] for name in ("pyspark", "pyarrow", "numpy", "numba", "python"))
    assert f"skewless  {sk.__version__}" in invoke("version").stdout


def test_version_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert json.loads(invoke("version", "--json").stdout)["java"] is None
    assert "java      not found" in invoke("version").stdout


# Inspect


def test_inspect_shows_batches_load_keys_and_a_verdict(checkpoint: Path) -> None:
    told = invoke("inspect", str(checkpoint)).stdout
    lines = told.splitlines()
    assert "1 minute, earlier or later" in told
    first = next(line.split() for line in lines if line.strip().startswith("0  "))
    assert first == [
        "0", "1,000", "9,000", "3", "1", "1", "1.23", "M", "1.50", "500", "ms", "200", "ms", "0.5",
        "ms", "300", "ms", "41.2", "k", "2.35", "MB",
    ]  # fmt: skip
    assert "load per instance" in told and "150 ms" in told and "█" in told
    assert "2279" in told and "12.0 %" in told
    assert "[bold]x" in told  # a key is shown as it is, never as markup
    assert lines[-1] == (
        "key 2279 carries 61% of the work; busiest/mean 1.50; 1.50 over all shown (1 change)"
    )


def test_inspect_shows_every_input_cause_and_counter(tmp_path: Path) -> None:
    counted = report(
        0,
        rows={"r": 11, "s": 12, "t": 13},
        dropped={"NaN in a band": 14, "not comparable": 15},
        counters={"matches": 16, "probes": 17, "intermediates": 18},
    )
    query = {"kind": "three-way join", "r-s within": "-5 seconds to 5 seconds"}
    told = invoke("inspect", str(written_checkpoint(tmp_path, query, [counted]))).stdout
    lines = [line.split() for line in told.splitlines()]
    first = next(line for line in lines if line and line[0] == "0")
    assert first[:10] == ["0", "11", "12", "13", "0", "14", "15", "16", "1.50", "17"]
    assert first[10] == "18"
    assert "5 seconds, earlier or later" in told
    heading = next(line for line in lines if line and line[0] == "batch")
    assert heading[:10] == [
        "batch", "r", "s", "t", "late", "in", "a", "band", "comparable", "triples"
    ]  # fmt: skip
    assert heading[10:13] == ["mean", "probes", "intermediates"]
    assert "heaviest by key" in told


def test_inspect_shows_each_operator_of_a_composed_query(tmp_path: Path) -> None:
    checkpoint = written_checkpoint(tmp_path, COMPOSED, [composed(i) for i in range(2)])
    told = invoke("inspect", str(checkpoint)).stdout
    lines = [" ".join(line.split()) for line in told.splitlines()]
    names = list(dict.fromkeys(line.partition(" ")[0] for line in lines[: len(COMPOSED)]))
    assert names == ["kind", "join-1:", "aggregate-2:"]
    assert "join-1: within 1 minute, earlier or later" in lines
    assert "join-1 2,000 left, 18,000 right 6 late 1,000 matches 1.50 10.0 k 300 kB" in lines, (
        "sums over the batches, and the state as it is"
    )
    assert "aggregate-2 1,000 input 14 null keys 82 results, 180 merged 1.00 41 0 B" in lines
    assert next(line for line in lines if line.startswith("0 ")).split()[:7] == [
        "0", "1,000", "9,000", "3", "7", "41", "1.00"
    ]  # fmt: skip
    assert "join-1: load per instance" in told and "aggregate-2: load per instance" in told
    assert "heaviest by cell, x ± 5" in told and "heaviest by city" in told
    assert lines[-1] == "join-1: even; 1.00 over all shown"
    told = json.loads(invoke("inspect", str(checkpoint), "--json").stdout)
    assert [BatchReport.from_json(b) for b in told["batches"]] == [composed(0), composed(1)]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_composed_query_fits(tmp_path: Path, width: int) -> None:
    checkpoint = written_checkpoint(tmp_path, COMPOSED, [composed(0)])
    told = invoke("inspect", str(checkpoint), width=width).stdout
    assert max(map(len, told.splitlines())) <= width


def test_inspect_shows_decisions(checkpoint: Path) -> None:
    assert "61% of the work" not in "".join(
        line for line in invoke("inspect", str(checkpoint)).stdout.splitlines()[:-1]
    )
    told = invoke("inspect", str(checkpoint), "--decisions").stdout
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert "3 split key 2279 0 0, 1 4,200 61% of the work" in lines
    assert "3 move slot 5 1 0 7 refused: no gain; proposed as x" in lines
    told = invoke("inspect", str(checkpoint), "--decisions", "--last", "1").stdout
    assert "No change of balance was proposed." in told
    told = json.loads(invoke("inspect", str(checkpoint), "--json").stdout)
    assert [d["accepted"] for d in told["batches"][3]["decisions"]] == [True, False]


def test_inspect_shows_the_last_batches(checkpoint: Path) -> None:
    told = invoke("inspect", str(checkpoint), "--last", "2").stdout
    assert "the last 2 of 5 batches" in told
    told = json.loads(invoke("inspect", str(checkpoint), "--last", "2", "--json").stdout)
    assert [batch["batch_id"] for batch in told["batches"]] == [3, 4]


@pytest.mark.parametrize("width", [70, 80, 120, 200])
def test_inspect_fits(checkpoint: Path, width: int) -> None:
    told = invoke("inspect", str(checkpoint), width=width).stdout
    assert max(map(len, told.splitlines())) <= width
    assert told.count("batch ") + told.count("batch\n") == (1 if width >= 120 else 2)
    assert "1.23 M" in told and "2.35 MB" in told


def test_inspect_as_json(checkpoint: Path) -> None:
    told = json.loads(invoke("inspect", str(checkpoint), "--json").stdout)
    assert told["query"] == QUERY
    assert [BatchReport.from_json(b) for b in told["batches"]] == [report(i) for i in range(5)]


def test_inspect_goes_on_without_a_torn_commit(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(str(checkpoint / "skewless"))
    last = sk.history(str(checkpoint))[-1].batch_id
    state = OperatorState(0, {"left": 0, "right": 0})
    CommitLog(folder).write(Commit(last + 1, {"join": state}))
    torn = folder.path(f"commits/{last + 1:012d}.json")
    os.truncate(torn, 40)
    told = invoke("inspect", str(checkpoint), "--json")
    assert told.exit_code == 0
    assert json.loads(told.stdout)["batches"][-1]["batch_id"] == last
    assert torn in caplog.text and f"skewless rollback {checkpoint} --to {last}" in caplog.text


def test_inspect_before_the_first_batch(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "skewless"))
    folder.make()
    claim(folder, QUERY)
    told = invoke("inspect", str(tmp_path))
    assert told.exit_code == 0
    assert "No batch has been committed yet" in told.stdout


# Sums and units


def test_totals_add_up() -> None:
    both = totals.total([report(0), report(1, heavy=0.02, times=(10, 30, 20))])
    assert (both.rows, both.matches, both.late, both.nulls) == (20_000, 2_469_134, 6, 4)
    assert [load.time_ms for load in both.instances] == [40, 40, 20]
    assert both.busiest_over_mean == pytest.approx(1.2)
    assert both.heavy_keys[0] == KeyShare("2279", 0.07)
    assert both.rows_per_second == both.median_rows_per_second == 20_000
    assert (both.inputs, both.dropped) == (
        {"left": 2_000, "right": 18_000},
        {"null keys": 2, "null times": 2, "late": 6},
    )
    nothing = totals.total([]).to_json()
    assert (nothing["rows"], nothing["rows_left"], nothing["rows_right"]) == (0, 0, 0)


def test_totals_forget_no_stream_and_no_counter() -> None:
    rows, counters = {"r": 1, "s": 2, "t": 3}, {"matches": 4, "shipped": 5, "intermediates": 6}
    reports = [report(i, rows=rows, counters=counters) for i in range(2)]
    both = totals.total([*reports, report(2, rows=rows, counters={**counters, "intermediates": 7})])
    assert both.rows == 18
    assert both.counters == {"matches": 12, "shipped": 15, "intermediates": 7}, "which lie in state"
    told = both.to_json()
    assert (told["rows_r"], told["rows_t"], told["counters"]["shipped"]) == (3, 9, 15)
    assert told["dropped"] == {"null keys": 3, "null times": 3, "late": 9}


def test_the_summary_names_every_input_and_every_cause() -> None:
    told = dict(view.summary_facts(totals.total([report(0)]), Labels("orders", "tracks", "cell")))
    assert told["rows"] == "10,000  (1,000 orders, 9,000 tracks)"
    assert (told["late, dropped"], told["null keys, dropped"]) == ("3", "1")
    assert told["heaviest cell"].startswith("2279 (12.0 %)")


LOSSY: dict[str, Any] = {
    "dropped": {"late": 300, "null keys": 1},
    "lateness": {"3000000": 295, "90000000": 5},
}
LOST = "602 of 20,000 rows (3.0%) were dropped: 600 late, 2 null keys"


def test_lost_rows_are_told_by_the_summary_and_the_verdict() -> None:
    reports = [report(i, **LOSSY) for i in range(2)]
    both, text = (
        totals.total(reports),
        f'{LOST}; late="90 seconds" would have kept 99 % of the late',
    )
    assert dict(view.summary_facts(both, Labels()))["loses rows"].startswith(text)
    assert both.to_json()["late_needed_us"] == 90_000_000
    assert f"busiest/mean 1.50; 1.50 over all shown. Rows are lost: {text}" in verdict(reports)


def test_idle_inputs_of_the_last_batch_are_told_by_the_verdict() -> None:
    busy, silent = report(0), report(1, idle=("right",))
    assert verdict([busy, silent]).endswith("over all shown; right is idle")
    assert "idle" not in verdict([silent, busy])


def test_few_lost_rows_are_only_counted() -> None:
    few = [report(0)]
    assert "loses rows" not in dict(view.summary_facts(totals.total(few), Labels()))
    assert "lost" not in verdict(few)
    assert totals.total(few).to_json()["late_needed_us"] is None


@pytest.mark.parametrize("module", [units, view])
def test_docstrings(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


# Displays


def test_live_view() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    display = make_display(screen, "orders ⋈ tracks", Labels("orders", "tracks", "cell"))
    assert isinstance(display, LiveDisplay)
    with display:
        display.status("Starting Spark")
        display.batch(report(0), earlier=True)
        display.batch(report(1))
        display.status("Joining")
    told = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.file.getvalue())
    frame = told[told.rindex("orders ⋈ tracks") :]
    assert "2 batches" in frame
    assert "20.0 k rows   2.47 M matches   20.0 k rows/s" in frame
    assert "busiest/mean 1.50" in frame
    assert "heaviest by cell" in frame and "2279" in frame
    assert "Joining" not in frame, "at the end nothing goes on any more"


@pytest.mark.parametrize("height", [10, 24, 60])
def test_live_view_fits(height: int) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, height=height)
    display = LiveDisplay(screen, "title", Labels())
    for batch_id in range(100):
        display.batch(report(batch_id, times=(1.0,) * 40))
    lines = screen.render_lines(display._render(), pad=False)
    assert len(lines) <= max(height, 36)


def test_plain_lines() -> None:
    pipe = Console(file=io.StringIO(), force_terminal=False, width=40)
    display = make_display(pipe, "title", Labels("orders", "tracks"))
    assert isinstance(display, PlainDisplay)
    with display:
        display.status("Writing", "1 of 9")
        display.status("Writing", "2 of 9")
        display.batch(report(0), earlier=True)
        display.batch(report(1))
    assert pipe.file.getvalue().splitlines() == [
        "title",
        "Writing",
        "batch 1: 1,000 orders + 9,000 tracks -> 1,234,567 matches, 1 null keys, 1 null times, "
        "3 late in 500 ms (20.0 k rows/s); state 41.2 k rows; key 2279 carries 61% of the work; "
        "busiest/mean 1.50",
    ]


# Failures


def test_errors_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    told = invoke("inspect", str(tmp_path))
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.startswith(f"error: {tmp_path} is not the checkpoint of a skewless query")
    assert len(told.stderr.splitlines()) == 1


def test_a_traceback_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKEWLESS_TRACEBACK", "")
    runner = CliRunner()
    assert isinstance(
        runner.invoke(app, ["inspect", str(tmp_path), "--traceback"]).exception, StateError
    )
    told = runner.invoke(app, ["inspect", str(tmp_path)], env={"SKEWLESS_TRACEBACK": "1"})
    assert isinstance(told.exception, StateError)


def test_a_bad_job_file_is_told_before_spark_starts(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('checkpoint = "x"\n[lfet]\n', encoding="utf-8")
    told = invoke("run", str(job))
    assert told.exit_code == 2
    assert f"{job}:2: unknown key `lfet` (did you mean `left`?)" in told.stderr


@pytest.mark.parametrize(
    "args",
    [["--rows", "1"], ["--batches", "0"], ["--drift", "1.5"], ["--seed", "-1"], ["--nope"]],
)
def test_bad_options(args: list[str]) -> None:
    assert invoke("demo", *args).exit_code == 2


class FailedQueryError(Exception):
    """Stands in for Spark's StreamingQueryException, which needs a query that failed."""

    __module__ = "pyspark.errors.exceptions.captured"


FOREACH_BATCH = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach \
batch sink. Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most \
recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
{raised}
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Logical Plan:
~Union false, false
"""


def test_an_error_of_ours_that_went_through_spark() -> None:
    raised = f"skewless.errors.DataError: {DataError('3 rows have no event time. Filter them.')}"
    error = FailedQueryError(FOREACH_BATCH.format(raised=raised))
    assert explain(error) == ("3 rows have no event time. Filter them.", 2)


def test_an_error_of_spark() -> None:
    raised = (
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n"
        ": org.apache.spark.SparkException: [DATA_SOURCE_NOT_FOUND] Failed to find: x.\n"
        "\tat org.apache.spark.A(A.scala:1)\n"
        "Caused by: java.lang.ClassNotFoundException: x.DefaultSource\n"
    )
    error = FailedQueryError(FOREACH_BATCH.format(raised=raised))
    assert explain(error) == ("Spark failed: [DATA_SOURCE_NOT_FOUND] Failed to find: x.", 1)


def test_other_errors_are_not_explained_away() -> None:
    assert explain(ZeroDivisionError()) is None
    assert explain(BrokenPipeError()) is None
    assert explain(PermissionError(13, "no", "/x")) == ("[Errno 13] no: '/x'", 2)
    assert root_cause("only this\nand that") == "only this"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_a_request_and_two_are_an_order(number: int) -> None:
    before = signal.getsignal(number)
    noticed: list[int] = []
    with StopRequest(lambda: noticed.append(1)) as request:
        assert (request.signal, request.exit_code) == (None, 0)
        os.kill(os.getpid(), number)
        assert (request.signal, request.exit_code, noticed) == (number, 128 + number, [1])
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


# The whole tool, as a user runs it


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the examples can be run, with the data they join."""
    folder = tmp_path_factory.mktemp("examples")
    make = [sys.executable, str(EXAMPLES / "make_city.py"), "--batches", "2"]
    subprocess.run(make, cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_job(city: Path) -> None:
    job = str(EXAMPLES / "orders_and_tracks.toml")
    told = run_tool("run", job, "--json", cwd=city)
    assert told.returncode == 0, told.stderr
    result = json.loads(told.stdout)
    assert (result["batches"], result["rows"]) == (2, 40_000)
    joined = pq.read_table(city / result["output"])
    assert 0 < joined.num_rows == result["matches"], "the join knows of the condition `where`"
    assert set(joined["occupied"].to_pylist()) == {False}
    assert "passengers=1" in {path.name for path in (city / result["output"]).iterdir()}


@pytest.mark.slow
@pytest.mark.spark
def test_several_jobs_at_once(city: Path) -> None:
    """What one job adds up is what the other wrote, in all windows that have closed."""
    file = str(EXAMPLES / "city_by_cell.toml")
    told = run_tool("run", file, "--json", cwd=city)
    assert told.returncode == 0, told.stderr
    jobs = json.loads(told.stdout)["jobs"]
    assert list(jobs) == ["rides", "by_cell"]
    rides, by_cell = (city / job["output"] for job in jobs.values())
    assert jobs["rides"]["matches"] == output_rows(rides) > 0
    counted, equal = duckdb.execute(
        f"""
        WITH wanted AS (
            SELECT cell, floor(epoch(ordered_at) / 300) * 300 AS since,
                sum(passengers) AS passengers
            FROM read_parquet('{rides}/*.parquet') GROUP BY ALL
        ), got AS (
            SELECT cell, epoch(since::TIMESTAMPTZ) AS since, passengers
            FROM read_json('{by_cell}/*.json')
        )
        SELECT count(*), count(*) FILTER (wanted.passengers = got.passengers)
        FROM got LEFT JOIN wanted USING (cell, since)
        """
    ).fetchall()[0]
    assert counted == equal == jobs["by_cell"]["matches"] > 0
    again = run_tool("run", file, "by_cell", "--json", cwd=city)
    assert list(json.loads(again.stdout)["jobs"]) == ["by_cell"], "one of them, continued"


@pytest.mark.slow  # its lines are a block of the README, too
@pytest.mark.spark
def test_the_ten_lines(city: Path) -> None:
    told = run_here([sys.executable, str(EXAMPLES / "ten_lines.py")], city)
    assert told.returncode == 0, told.stderr
    rows = output_rows(city / "demo-output" / "ten_lines" / "joined")
    assert told.stdout.strip() == f"{rows} matches" and rows > 0


@pytest.mark.slow
@pytest.mark.spark
def test_an_error_in_a_batch_is_told_as_ours(city: Path) -> None:
    text = (EXAMPLES / "orders_and_tracks.toml").read_text(encoding="utf-8")
    text = text.replace("demo-output/example", "demo-output/without_times")
    text = text.replace('"seen_at"]', '"nullif(seen_at, seen_at) AS seen_at"]')
    (city / "job.toml").write_text(text, encoding="utf-8")
    told = run_tool("run", "job.toml", cwd=city)
    assert told.returncode == 2
    assert re.fullmatch(r"error: .* rows? .*\bwithout event time\b.*seen_at.*\n", told.stderr)
