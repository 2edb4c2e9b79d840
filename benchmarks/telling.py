"""How benchmarks against Spark tell what they measured: run by run, or as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console

from benchmarks.measure import ContestantError, Json, say
from benchmarks.tables import console, machine, machine_line, times, verdict


class Telling:
    """Tells of each run when it has ended, in a table; or of all of them at the end, as JSON."""

    def __init__(self, benchmark: str, as_json: bool, **facts: Any) -> None:
        told = machine()
        self.report: Json = {"benchmark": benchmark, "machine": told, **facts, "runs": []}
        self.out = console()
        self._as_json = as_json
        if not as_json:
            self.out.print(machine_line(told), "\n")

    def run(self, run: Json, show: Callable[[Console, Json], None]) -> None:
        self.report["runs"].append(run)
        if not self._as_json:
            show(self.out, run)

    def note(self, name: str, value: Json, line: str) -> None:
        """A figure that belongs to no run."""
        self.report[name] = value
        if not self._as_json:
            self.out.print(line)

    def end(self) -> None:
        """Whoever found other rows than the others did something else: that is an error."""
        if self._as_json:
            print(json.dumps(self.report))
        if any(run["same_result_rows"] is False for run in self.report["runs"]):
            say("the contestants found different numbers of result rows")
            raise typer.Exit(1)


def show_ratios(out: Console, run: Json) -> None:
    """How the contestants of a run compare, and whether that is what is aimed at."""
    judged = {target["figure"]: verdict(target) for target in run.get("targets", ())}
    for figure, ratio in run["ratios"].items():
        out.print(f"  {figure}: {times(ratio)}  {judged.get(figure, '')}".rstrip())
    out.print()


def start(main: Callable[..., None]) -> None:
    """A benchmark as a command: a contestant that fails is told of in a line."""
    try:
        typer.run(main)
    except ContestantError as error:
        raise SystemExit(str(error)) from None
