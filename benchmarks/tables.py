"""What the benchmarks print: the machine, figures as people read them, and targets."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import psutil
from rich.console import Console

import skewless
from benchmarks.measure import Json

PACKAGES = ("skewless", "pyspark", "pyarrow", "numpy", "numba", "polars", "duckdb")
WIDTH_MIN = 120  # a table that goes to a file or a pipe need not be squeezed


@dataclass(frozen=True)
class Target:
    """A bound on a figure, and the better one that is aimed at."""

    figure: str
    sense: Literal[">=", "<="]
    bound: float
    aim: float | None = None

    def judge(self, value: float) -> Json:
        reached = value >= self.bound if self.sense == ">=" else value <= self.bound
        return {
            "figure": self.figure,
            "target": f"{self.sense} {self.bound:g}",
            "aim": self.aim,
            "value": value,
            "met": reached,
        }


def machine() -> Json:
    """What was measured on, and with which versions. The load tells whether others were at work."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_1m_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "java": _java(),
        "packages": {package: _version(package) for package in PACKAGES},
    }


def _version(package: str) -> str:
    """Of skewless, that of the code that runs, and not of what was once installed."""
    return skewless.__version__ if package == "skewless" else version(package)


def machine_line(told: Json) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in told["packages"].items())
    return (
        f"{told['processor']}, {told['cores']} cores, {gigabytes(told['memory_bytes'])} GB, "
        f"{told['system']}, load {told['load_1m_before']:g} before; "
        f"Python {told['python']}, Java {told['java']}, {packages}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        if found:
            return found[1]
    return platform.processor() or platform.machine()


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else "java"
    try:
        told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return "?"
    found = re.search(r'version "([^"]+)"', told.stderr)
    return found[1] if found else "?"


def console() -> Console:
    """Stdout, wide enough for the tables also when it is no terminal."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=max(out.width, WIDTH_MIN))


def count(number: float) -> str:
    return f"{number:,.0f}"


def gigabytes(number: float) -> str:
    return f"{number / 1e9:.2f}"


def times(number: float) -> str:
    return f"{number:.2f}×"


def verdict(judged: Json) -> str:
    """A judged target in a few words."""
    aim = "" if judged["aim"] is None else f" (aim {judged['aim']:g})"
    word = "[green]met[/]" if judged["met"] else "[red]not met[/]"
    return f"{judged['target']}{aim}: {word}"
