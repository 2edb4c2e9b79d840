"""The package as users get it: a wheel, in an environment of its own, without this repository."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import skewless as sk

ROOT = Path(__file__).resolve().parents[1]
# Whatever Python and Spark would take from this repository is left out.
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "SPARK"))}
QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}

JOB = """\
name = "busy-cells"
checkpoint = "busy/checkpoint"
[inputs.orders]
format = "parquet"
read = "columns"
path = "out/input/orders"
schema = "order_id BIGINT, cell BIGINT, ordered_at TIMESTAMP"
[steps.busy]
aggregate = "orders"
by = "cell"
aggs = { orders = "count" }
[sink]
format = "parquet"
path = "busy/orders"
[trigger]
available_now = true
[spark]
conf = { spark.ui.enabled = false }
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), "."]
    subprocess.run(build, cwd=ROOT, check=True, timeout=280)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_what_a_wheel_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        told = Parser().parsestr(archive.read(metadata).decode())
        (licence,) = (name for name in names if name.endswith("licenses/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert (told["Name"], told["Version"]) == ("skewless", sk.__version__)
    assert told["License-Expression"] == "Apache-2.0"
    assert {"dashboard", "delta", "kafka", "metrics"} <= set(told.get_all("Provides-Extra", []))
    assert {"skewless/__main__.py", "skewless/py.typed"} <= set(names)
    charts = {"plotly-cartesian.min.js.gz", "plotly.LICENSE"}
    assert charts <= {Path(name).name for name in names if "monitor/static/" in name}
    folders = {name.split("/")[0] for name in names}
    assert folders == {"skewless", f"skewless-{sk.__version__}.dist-info"}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_it_runs_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    python, tool = str(home / "bin" / "python"), str(home / "bin" / "skewless")
    constraints = str(ROOT / "constraints.txt")
    install = [python, "-m", "pip", "install", "--quiet", "-c", constraints, str(wheel)]
    subprocess.run(install, check=True, cwd=tmp_path, env=CLEAN, timeout=1500)

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env={**CLEAN, **QUICK_JVM}, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4_000:]
        return done.stdout

    for command in ((tool,), (python, "-m", "skewless")):
        assert run(*command, "--version").strip() == f"skewless {sk.__version__}"
    assert run(python, "-c", "import skewless; print(skewless.__file__)").startswith(str(home))
    demo = json.loads(
        run(tool, "demo", "--batches", "2", "--rows", "2000", "--output", "out", "--json")
    )
    assert demo["finished"] and demo["same_results"]
    assert demo["matches"] == rows_in(tmp_path / "out" / "auto" / "joined") > 0

    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    assert json.loads(run(tool, "validate", "job.toml", "--json"))["valid"]
    told = json.loads(run(tool, "run", "job.toml", "--json"))
    orders = rows_in(tmp_path / "out" / "input" / "orders")
    counted = pq.read_table(tmp_path / "busy" / "orders")
    assert told["rows"] == orders == 2 * 200
    # Totals come whenever they change: the last of a cell says all of it.
    last = {row["cell"]: row["orders"] for row in counted.to_pylist()}
    assert sum(last.values()) <= orders <= sum(counted["orders"].to_pylist())

    assert "2 batches" in run(tool, "report", "out/auto/checkpoint", "-o", "run.html")
    install[-1] = f"{wheel}[dashboard]"
    subprocess.run(install, check=True, cwd=tmp_path, env=CLEAN, timeout=600)
    shown_by([tool, "dashboard", "out/auto/checkpoint", "--port", "0", "--json"], tmp_path)


def shown_by(command: list[str], folder: Path) -> None:
    """The dashboard, with all that its page asks for."""
    process = subprocess.Popen(command, cwd=folder, env=CLEAN, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = json.loads(process.stdout.readline())["url"]
        page = fetched(url)
        assert "Work by instance" in page
        for name in re.findall(r'(?:src|href)="(assets/[^"]+)"', page):
            assert fetched(url + name)
        assert '"last_batch":1' in fetched(f"{url}api/state?want=heat")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def rows_in(folder: Path) -> int:
    return int(pq.read_table(folder).num_rows)
