"""Does balancing even out skew on real Spark, and what does it cost where there is none?

    python -m benchmarks.skew_on_spark [--json]

Hash, FastJoin, LS-Stream and Auto join the same streams on eight instances, each in a fresh
process: the left side zipf 1.0, 1.5 and 2.0 against a uniform right side, the same on both sides,
and both uniform. The window is chosen so that a row has about four matches. All must find the same
number of result rows.

Work is what was counted in each instance (rows, pairs, matches, bytes handed on) at prices learned
from its processor time, as it is in the history. From the batches after a warm-up come: the median
of the busiest instance over the mean; the makespan with a core for every instance, times the
instances, over all work; and the wall time on this machine, which has fewer cores than instances.
For wall times Hash and Auto are run by turns, and the best of each compared. At last Auto works on
200 small batches of uniform data, where nothing is to be decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.balanced import STRATEGIES, balanced
from benchmarks.data import DATA, Streams, read_through
from benchmarks.measure import Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.tables import Target, count, verdict
from benchmarks.telling import Telling, show_ratios, start
from skewless.arrays.types import Floats

FILE_S = 5.0
KEYS = 100_000
MATCHES = 4.0
ROUNDS = 2
ROUNDS_ON_UNIFORM = 3
QUIET_ROWS, QUIET_BATCHES = 15_000, 200
DOMINATES = 0.5  # of all work, in one instance: then splitting it has to show on two cores

EVENNESS = "Auto's busiest/mean"
IDEAL = "Auto's makespan x instances / work"
MAKESPAN = "Auto's makespan over Hash's"
COST = "Auto's batch time over Hash's"
DECISIONS = "Auto's decisions on uniform data"
EVEN_TARGETS = (Target(EVENNESS, "<=", 1.10), Target(IDEAL, "<=", 1.15))
COST_TARGET, GAIN_TARGET = Target(COST, "<=", 1.03), Target(COST, "<=", 1.0)
QUIET_TARGET = Target(DECISIONS, "<=", 0)

HEADINGS = (
    "busiest/mean", "measured", "makespan s", "x n / work", "work s", "median ms", "rows/s",
    "moves", "splits", "rows moved", "extra probes",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """The skew of both sides."""

    left: float
    right: float

    @property
    def uniform(self) -> bool:
        return self.left == self.right == 0

    def streams(self, rows_per_batch: int, batches: int) -> Streams:
        rows = rows_per_batch // 2
        return Streams(self.left, batches, rows, KEYS, FILE_S, right_zipf=self.right)

    def within(self, rows_per_batch: int) -> str:
        """The window in which a row has `MATCHES` matches on the average."""
        shares = [_shares(z) for z in (self.left, self.right)]
        rate = rows_per_batch / 2 / FILE_S
        seconds = MATCHES / (2 * rate * float((shares[0] * shares[1]).sum()))
        return f"{max(1, round(seconds * 1_000_000))} microseconds"


def _shares(z: float) -> Floats:
    shares: Floats = np.arange(1.0, KEYS + 1) ** np.float64(-z)
    return np.asarray(shares / shares.sum(), np.float64)


SKEWS = (1.0, 1.5, 2.0)
UNIFORM = Case(0, 0)
CASES = (*(Case(z, 0) for z in SKEWS), *(Case(z, z) for z in SKEWS), UNIFORM)


@dataclass(frozen=True)
class Size:
    """How much is run."""

    rows_per_batch: int
    batches: int
    warmup: int
    instances: int


def measure(case: Case, size: Size, names: list[str], data: Path) -> Json:
    """All strategies on one pair of streams."""
    say(f"zipf {case.left:g} and {case.right:g}: data")
    folder = case.streams(size.rows_per_batch, size.batches + size.warmup).make(data)
    results: dict[str, Json] = {}
    for turn in range(ROUNDS_ON_UNIFORM if case.uniform else ROUNDS):
        for name in names:
            if turn > 0 and name not in ("hash", "auto"):
                continue
            result = _run(case, size, name, folder)
            say(f"  {name}: busiest/mean {result['busiest_over_mean']:.2f}")
            if name not in results or result["median_ms"] < results[name]["median_ms"]:
                results[name] = result
    found = {result["result_rows"] for result in results.values()}
    ratios = compare(results)
    return {
        "left_zipf": case.left,
        "right_zipf": case.right,
        "within": case.within(size.rows_per_batch),
        "same_result_rows": len(found) == 1,
        "strategies": results,
        "ratios": ratios,
        "targets": [
            t.judge(ratios[t.figure]) for t in targets(case, results) if t.figure in ratios
        ],
    }


def targets(case: Case, results: dict[str, Json]) -> tuple[Target, ...]:
    """What is asked of a case. Where one instance has most of the work, dividing it must pay."""
    if case.uniform:
        return (COST_TARGET,)
    plain = results.get("hash")
    dominated = plain is not None and max(plain["instance_median_ms"]) > DOMINATES * sum(
        plain["instance_median_ms"]
    )
    return (*EVEN_TARGETS, GAIN_TARGET if dominated else COST_TARGET)


def measure_quiet(instances: int, data: Path) -> Json:
    """Small batches of uniform data, in which there is nothing to decide."""
    say(f"uniform, {count(QUIET_BATCHES)} batches of {count(QUIET_ROWS)} rows: data")
    size = Size(QUIET_ROWS, QUIET_BATCHES, 0, instances)
    folder = UNIFORM.streams(QUIET_ROWS, QUIET_BATCHES).make(data)
    result = _run(UNIFORM, size, "auto", folder)
    return {
        "rows_per_batch": QUIET_ROWS,
        "batches": QUIET_BATCHES,
        "auto": result,
        "targets": [QUIET_TARGET.judge(result["decisions"])],
    }


def _run(case: Case, size: Size, strategy: str, folder: Path) -> Json:
    read_through(folder)
    return run_fresh(
        balanced,
        {
            "folder": str(folder),
            "strategy": strategy,
            "within": case.within(size.rows_per_batch),
            "rows_per_batch": size.rows_per_batch,
            "warmup": size.warmup,
            "instances": size.instances,
            "unix_sockets": False,
        },
    )


def compare(results: dict[str, Json]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    ours, plain = results.get("auto"), results.get("hash")
    if ours is not None:
        ratios[EVENNESS] = ours["busiest_over_mean"]
        ratios[IDEAL] = ours["makespan_over_ideal"]
    if ours is not None and plain is not None:
        ratios[MAKESPAN] = round(ours["makespan_ms"] / plain["makespan_ms"], 3)
        ratios[COST] = round(ours["median_ms"] / plain["median_ms"], 3)
    return ratios


def show(out: Console, run: Json) -> None:
    title = f"left zipf {run['left_zipf']:g}, right zipf {run['right_zipf']:g}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for name, result in run["strategies"].items():
        table.add_row(
            name,
            f"{result['busiest_over_mean']:.2f}",
            f"{result['measured_over_mean']:.2f}",
            f"{result['makespan_ms'] / 1000:.2f}",
            f"{result['makespan_over_ideal']:.2f}",
            f"{result['work_ms'] / 1000:.2f}",
            count(result["median_ms"]),
            count(result["rows_per_s"]),
            count(result["moves"]),
            count(result["splits"]),
            count(result["rows_moved"]),
            f"{result['extra_probes']:.1%}",
        )
    out.print(table)
    agree = "all agree" if run["same_result_rows"] else "[red]they differ[/]"
    out.print(f"result rows: {agree}")
    if "auto" in run["strategies"]:
        out.print(f"auto: {run['strategies']['auto']['verdict']}", markup=False)
    show_ratios(out, run)


def main(
    rows_per_batch: Annotated[
        int, typer.Option(min=2, help="Rows of both sides together.")
    ] = 500_000,
    batches: Annotated[int, typer.Option(min=1, help="Batches to measure.")] = 15,
    warmup: Annotated[int, typer.Option(min=0, help="Batches before, to settle.")] = 8,
    instances: Annotated[int, typer.Option(min=1, help="Tasks of the join.")] = 8,
    zipf: Annotated[
        float | None, typer.Option(min=0, help="Only this skew of the left side.")
    ] = None,
    only: Annotated[str, typer.Option(help="Strategies, separated by commas.")] = ",".join(
        STRATEGIES
    ),
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare strategies of balancing on real Spark."""
    names = [name.strip() for name in only.split(",")]
    if unknown := [name for name in names if name not in STRATEGIES]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of: {', '.join(STRATEGIES)}")
    size = Size(rows_per_batch // 2 * 2, batches, warmup, instances)
    cases = [c for c in CASES if zipf is None or c == Case(zipf, 0)] or [Case(zipf or 0.0, 0)]
    telling = Telling(
        "skew_on_spark", as_json, settings=settings(False), rows_per_batch=size.rows_per_batch,
        batches=batches, warmup=warmup, instances=instances,
    )  # fmt: skip
    for case in cases:
        telling.run(measure(case, size, names, data), show)
    if zipf is None and "auto" in names:
        quiet = measure_quiet(instances, data)
        judged = quiet["targets"][0]
        what = f"{count(QUIET_BATCHES)} batches of {count(QUIET_ROWS)} uniform rows"
        telling.note("quiet", quiet, f"{what}: {judged['value']} decisions  {verdict(judged)}")
    telling.end()


if __name__ == "__main__":
    start(main)
