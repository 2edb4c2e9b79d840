"""What is wrong with a job file, on the screen and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from skewless.jobfile.text import Problem

STYLES = {"error": "red", "warning": "yellow"}


def print_problems(file: str, problems: Sequence[Problem]) -> None:
    """One line each, as compilers do; then how many there are."""
    console = Console(highlight=False)
    for problem in problems:
        console.print(str(problem), style=STYLES[problem.severity], markup=False, soft_wrap=True)
    errors = sum(problem.severity == "error" for problem in problems)
    counted = f"{errors} {'mistake' if errors == 1 else 'mistakes'}" if errors else "no mistakes"
    console.print(f"{file}: {counted}", markup=False, soft_wrap=True)


def problems_json(file: str, problems: Sequence[Problem]) -> dict[str, Any]:
    told = [
        {"line": p.line, "key": p.key, "message": p.message, "severity": p.severity}
        for p in problems
    ]
    valid = all(problem.severity != "error" for problem in problems)
    return {"file": file, "valid": valid, "problems": told}
