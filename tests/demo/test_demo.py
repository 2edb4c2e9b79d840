"""The demo as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import duckdb
import pytest

import skewless as sk
from tests.tool import QUICK_JVM, output_rows, run_tool, skewless

DEMO = ["demo", "--batches", "3", "--rows", "2000", "--output", "out"]
JOINS = ("spark", "hash", "auto")
IN_WORDS = "All three found the same"
URL = re.compile(r"http://127\.0\.0\.1:\d+/")
PATIENCE_S = 240


@pytest.fixture(scope="module")
def whole_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A demo that was not disturbed, and what it told."""
    folder = tmp_path_factory.mktemp("demo")
    told = run_tool(*DEMO, "--json", cwd=folder)
    assert told.returncode == 0, told.stderr
    return folder, json.loads(told.stdout)


def matches(folder: Path) -> int:
    """What there is to be found in the demo's input."""
    source = [
        f"read_parquet('{folder}/out/input/{name}/*.parquet')" for name in ("orders", "tracks")
    ]
    near = (
        "t.seen_at between o.ordered_at - interval 2 minutes and o.ordered_at + interval 2 minutes"
    )
    query = f"select count(*) from {source[0]} o join {source[1]} t on o.cell = t.cell and {near}"
    ((found,),) = duckdb.connect().execute(query).fetchall()
    return int(found)


@pytest.mark.spark
def test_demo(whole_demo: tuple[Path, dict[str, Any]]) -> None:
    folder, told = whole_demo
    assert (told["batches"], told["rows"], told["rows_left"]) == (3, 6_000, 600)
    assert told["finished"] and not told["stopped"] and told["same_results"]
    found = [told["joins"][who]["results"] for who in JOINS]
    assert found == [matches(folder)] * 3 and found[0] == told["matches"] > 0
    assert output_rows(folder / told["output"]) == found[0]
    assert sorted(path.name for path in folder.iterdir()) == ["out"], "nothing beside the output"
    assert (folder / "out" / "story.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "skewless-run" in (folder / "out" / "report.html").read_text(encoding="utf-8")
    batches = json.loads(run_tool("inspect", told["checkpoint"], "--json", cwd=folder).stdout)
    assert sum(b["matches"] for b in batches["batches"]) == told["matches"]


@pytest.mark.spark
def test_a_demo_that_has_ended_is_not_run_again(whole_demo: tuple[Path, dict[str, Any]]) -> None:
    folder, told = whole_demo
    log = (folder / "out" / "spark.log").stat()
    again = run_tool(*DEMO, cwd=folder)
    assert again.returncode == 0, again.stderr
    assert "Nothing was left to do" in again.stdout and "--fresh" in again.stdout
    assert f"{IN_WORDS} {told['matches']:,} results." in again.stdout
    assert "skewless inspect out/auto/checkpoint --decisions" in again.stdout
    assert "\x1b" not in again.stdout
    two = json.loads(run_tool(*DEMO, "--no-spark", "--json", cwd=folder).stdout)
    assert two["batches_before"] == 3 and list(two["joins"]) == ["hash", "auto"]
    assert (folder / "out" / "spark.log").stat() == log, "Spark was not started"


@pytest.mark.spark
def test_results_that_differ_are_told(
    whole_demo: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    shutil.copytree(whole_demo[0] / "out", tmp_path / "out")
    next((tmp_path / "out" / "spark" / "joined").rglob("part-*.parquet")).unlink()
    told = run_tool(*DEMO, cwd=tmp_path)
    assert told.returncode == 1
    assert "THE RESULTS DIFFER" in told.stdout and "Stopped" not in told.stdout


@contextmanager
def in_a_terminal(
    *args: str, cwd: Path
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    """The tool in a pseudo-terminal, and what it has shown so far."""
    ours, theirs = pty.openpty()
    env = {**QUICK_JVM, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        skewless(*args), cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 65_536):
                shown.append(piece)
        except OSError:
            pass  # the other end is closed

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield process, lambda: b"".join(shown).decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        reader.join(10)
        os.close(ours)


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.1)
    return found


@pytest.mark.spark
def test_the_dashboard_stays_until_ctrl_c(whole_demo: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = whole_demo
    with in_a_terminal(*DEMO, "--dashboard", cwd=folder) as (process, shown):
        wait_for(lambda: "The dashboard is still there" in shown() or process.poll() is not None)
        url = URL.search(shown())
        assert url is not None, shown()
        with urlopen(f"{url[0]}api/state", timeout=10) as answer:
            assert len(json.load(answer)["queries"]) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, shown()
        assert IN_WORDS in re.sub(r"\s+", " ", shown()) and "Traceback" not in shown()


@pytest.mark.slow
@pytest.mark.spark
def test_ctrl_c_stops_and_the_same_command_continues(
    whole_demo: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    _, undisturbed = whole_demo
    demo = subprocess.Popen(
        skewless(*DEMO),
        cwd=tmp_path,
        env=QUICK_JVM,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(PATIENCE_S, demo.kill)
    watchdog.start()
    assert demo.stdout is not None
    seen = [demo.stdout.readline()]
    while seen[-1] and not seen[-1].startswith("batch 0 of"):
        seen.append(demo.stdout.readline())
    demo.send_signal(signal.SIGINT)
    rest, errors = demo.communicate()
    watchdog.cancel()
    assert demo.returncode == 130, errors
    assert "of 3 batches" in rest and "stopped after" in rest
    assert "Running the same command again continues" in rest
    assert "Traceback" not in errors

    told = run_tool(*DEMO, "--json", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    after = json.loads(told.stdout)
    assert 0 < after["batches_before"] < after["batches"] == 3
    assert after["same_results"] and after["matches"] == undisturbed["matches"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_whole_story(tmp_path: Path) -> None:
    """At its own size, with the dashboard: Auto splits the concert's cell and is even."""
    command = ["demo", "--output", "out"]
    with (tmp_path / "told.txt").open("w+", encoding="utf-8") as file:
        demo = subprocess.Popen(skewless(*command, "--dashboard"), cwd=tmp_path, stdout=file)
        told = lambda: (tmp_path / "told.txt").read_text(encoding="utf-8")  # noqa: E731
        try:
            url = wait_for(lambda: URL.search(told()))[0]

            def both_are_seen() -> bool:
                assert demo.poll() is None, told()
                with urlopen(f"{url}api/state", timeout=10) as answer:
                    queries = json.load(answer)["queries"]
                return all(query["batches"] > 2 for query in queries)

            wait_for(both_are_seen)
            assert demo.wait(800) == 0, told()
        finally:
            demo.kill()
            demo.wait()
    assert "\x1b" not in told() and IN_WORDS in told()
    with pytest.raises(OSError):
        urlopen(url, timeout=2)

    summary = json.loads(run_tool(*command, "--json", cwd=tmp_path).stdout)
    assert summary["same_results"] and summary["finished"]
    assert len({join["results"] for join in summary["joins"].values()}) == 1
    cell = f"key {summary['event_cell']}"
    decided = [
        report.batch_id
        for report in sk.history(str(tmp_path / "out" / "auto" / "checkpoint"))
        if any(d.kind == "split" and d.accepted and d.subject == cell for d in report.decisions)
    ]
    assert decided and decided[0] == summary["split_after"] >= 5
    last = {who: summary["joins"][who]["the concert goes on"] for who in JOINS}
    assert last["auto"]["busiest_over_mean"] < 1.3
    assert last["hash"]["busiest_over_mean"] > 1.8
