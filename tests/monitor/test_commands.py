"""`skewless dashboard`, `report` and `metrics`, as people call them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from skewless.cli.app import app
from tests.monitor.histories import Story, checkpoint

STORY = Story(hot_from=4, split_after=8)


def invoke(*args: str) -> Any:
    return CliRunner().invoke(app, args, env={"COLUMNS": "200", "SKEWLESS_TRACEBACK": ""})


@contextmanager
def started(*args: str, **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command that goes on until it is interrupted, and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from skewless.cli import main; main()", *args, "--json"],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0, "Ctrl-C is how it ends"


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: str = answer.read().decode()
        return found


def test_dashboard(tmp_path: Path) -> None:
    checkpoint(tmp_path / "one", STORY, 3)
    both = [str(tmp_path / "one"), str(tmp_path / "two")]
    with started("dashboard", *both, "--port", "0") as (_, url):
        assert url.startswith("http://127.0.0.1:")
        told = json.loads(fetched(f"{url}api/state"))["queries"]
        assert [q["checkpoint"] for q in told] == both


def test_dashboard_for_other_machines_has_a_token(tmp_path: Path) -> None:
    checkpoint(tmp_path, STORY, 3)
    args = ("dashboard", str(tmp_path), "--port", "0", "--host", "0.0.0.0")
    with started(*args, SKEWLESS_DASHBOARD_TOKEN="from-the-environment") as (_, url):
        address, _, token = url.replace("0.0.0.0", "127.0.0.1").partition("?token=")
        assert token == "from-the-environment"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            fetched(address)
        assert "skewless" in fetched(f"{address}assets/app.js?token={token}")


def test_metrics(tmp_path: Path) -> None:
    checkpoint(tmp_path, STORY, 3)
    with started("metrics", str(tmp_path), "--port", "0") as (_, url):
        assert f'skewless_batches_total{{query="{tmp_path}"}} 1.0' in fetched(url)


@pytest.mark.parametrize("command", ["dashboard", "metrics"])
def test_a_host_that_is_none(tmp_path: Path, command: str) -> None:
    told = invoke(command, str(tmp_path), "--port", "0", "--host", "no.such.host.invalid")
    assert told.exit_code == 2 and "`host` must be a name or address" in told.stderr


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    checkpoint(tmp_path / "ckpt", STORY, 2)
    told = invoke("report", str(tmp_path / "ckpt"), "-o", str(tmp_path))
    assert told.exit_code == 2
    assert "`output` must be a file to write (Is a directory)" in told.stderr
    new = tmp_path / "new" / "run.html"
    assert invoke("report", str(tmp_path / "ckpt"), "-o", str(new)).exit_code == 0
    assert new.exists()


def test_neither_loads_spark(tmp_path: Path) -> None:
    code = (
        "import sys; from skewless.monitor import server, page, metrics, starting\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules} & {'pyspark', 'py4j', 'numba'}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == []


def test_report(tmp_path: Path) -> None:
    checkpoint(tmp_path / "ckpt", STORY, 12)
    file = tmp_path / "run.html"
    told = invoke("report", str(tmp_path / "ckpt"), "-o", str(file))
    assert told.stdout == f"{file}: 12 batches\n"
    assert "skewless-run" in file.read_text(encoding="utf-8")
    told = invoke("report", str(tmp_path / "ckpt"), "-o", str(file), "--json")
    assert json.loads(told.stdout) == {"page": str(file), "batches": 12}


def test_report_of_nothing(tmp_path: Path) -> None:
    told = invoke("report", str(tmp_path), "-o", str(tmp_path / "run.html"))
    assert told.exit_code == 2
    assert "is not the checkpoint of a skewless query" in told.stderr
    assert not (tmp_path / "run.html").exists()


@pytest.mark.slow
def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with started("metrics", str(tmp_path), "--port", "0") as (_, url):
        port = url.split(":")[2].split("/")[0]
        for command in ("dashboard", "metrics"):
            told = invoke(command, str(tmp_path), "--port", port)
            assert told.exit_code == 2
            assert "`port` must be an address and port that are free" in told.stderr
