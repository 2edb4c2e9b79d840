"""The tool as a user runs it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

# Runs this short end before the JVM's second compiler has earned what it costs.
QUICK_JVM = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}


def skewless(*args: str) -> list[str]:
    return [sys.executable, "-c", "from skewless.cli import main; main()", *args]


def run_here(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=QUICK_JVM, capture_output=True, text=True, timeout=240, check=False
    )


def run_tool(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_here(skewless(*args), cwd)


def output_rows(folder: Path) -> int:
    return int(pq.read_table(folder).num_rows)
