"""Rows that are alike: how much is compared, how often is a row stored, and who has to do it?

    python -m benchmarks.similarity [--json] [--quick] [--no-spark] [--plots FOLDER]

What the S3J paper measures is in `python -m benchmarks.papers --only S3J`, at its row counts. Here
is what it does not: more dimensions, clusters, clusters that move, other metrics, small batches.

**The core, without Spark**, on two streams in windows of a minute:

- *stored*: how many sets hold a row, counted: S3J and ClusterJoin store copies, others none.
- *looks*: sets that a new row looks into, its own among them.
- *compared*: pairs whose distance had to decide, over pairs found. *inner* are those that the
  triangle inequality has decided; their distance is computed all the same here, because it is a
  column of the result. *centers* are distances from centers, over pairs found. The paper's
  comparisons are compared and centers; all distances that are computed are the sum of the three.
- *p99 ms*: the processor time of the busiest instance of a batch, as if every one had a core;
  matrix products have one thread.
- *rows/s*: of processor time, all of it counted; strategies run by turns, the fastest run counts.
- *busiest/mean*: of instances' processor time, window by window; *by pairs* is that of the pairs
  they compared in the last one, in which the noise of short times does not show.

**On Spark**, the same join as a stream, against a cross join of one window whose pairs a function
on Arrow arrays compares, and against one product of matrices in NumPy: the limit of all that leave
no pair out. Each in a fresh process.

All must find the same number of pairs; otherwise this ends with an error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import similarity_contestants as contestants
from benchmarks import similarity_core
from benchmarks.data import DATA, SIDES
from benchmarks.measure import Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.similarity_core import FIRST_S, STRATEGIES, WINDOW_S, Case
from benchmarks.tables import Target, console, count, machine, machine_line, times, verdict
from benchmarks.telling import start
from skewless.workloads import Vectors
from skewless.workloads.zipf import empty_folder, publish

STILL, MOVED, AUTO, CLUSTERS, BRUTE = STRATEGIES
SKEWLESS, SPARK, BLAS = "skewless", "Spark cross join", "BLAS"
UNEVEN_MOST = 1.15  # busiest over mean, from the fourth window on
SLOWER_MOST = 0.9  # of BruteForce's rows/s
SETTLED = 3  # windows
PRODUCT_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

Function = Callable[[Json], Json]

COLUMNS = {
    "stored": ("stored", "{:.2f}"),
    "looks": ("looks", "{:.2f}"),
    "compared": ("compared", "{:.2f}"),
    "inner": ("inner", "{:.2f}"),
    "centers": ("centers", "{:.2f}"),
    "busiest_p99_ms": ("p99 ms", "{:.1f}"),
    "rows_per_s": ("rows/s", "{:,.0f}"),
}


@dataclass(frozen=True)
class Named:
    """A case, and who takes part."""

    name: str
    case: Case
    strategies: tuple[str, ...] = (MOVED, AUTO, CLUSTERS, BRUTE)


@dataclass(frozen=True)
class Size:
    """How much is measured: `base` is varied, and has `many` rows where worksets have to pay;
    `balance_rows` is what a window has where it is seen who is busy; on Spark a window has
    `cross_rows` where Spark takes part, else `spark_rows`."""

    base: Case
    selectivities: tuple[float, ...]
    dimensions: tuple[int, ...]
    many: int
    balance_rows: int
    cross_rows: int
    spark_rows: int
    spark_windows: int
    spark_warmup: int
    turns: int

    def cases(self) -> list[Named]:
        found = [
            Named(
                f"2 dimensions, even, selectivity {100 * s:g} %", replace(self.base, selectivity=s)
            )
            for s in self.selectivities
        ]
        for d in self.dimensions:
            clustered = Vectors(d, clusters=32, heat=0.5)
            moving = replace(clustered, drift=0.2)
            for kind, data in (
                ("even", Vectors(d)), ("clusters", clustered), ("drifting clusters", moving)
            ):  # fmt: skip
                found.append(Named(f"{d} dimensions, {kind}", replace(self.base, data=data)))
        return found + self._other_metrics() + self._many_rows() + self._hot()

    def _other_metrics(self) -> list[Named]:
        clustered = Vectors(8, clusters=32)
        cases = {
            "hamming": replace(self.base, data=clustered, metric="hamming"),
            "jaccard": replace(self.base, data=clustered, metric="jaccard"),
            "haversine": replace(self.base, metric="haversine"),
        }
        small = replace(self.base, rows=self.base.rows // 2, windows=1, batches=WINDOW_S)
        found = [Named(name, case) for name, case in cases.items()]
        return [*found, Named("batches of a second", small, (AUTO, BRUTE))]

    def _many_rows(self) -> list[Named]:
        """Where comparing everything is what costs."""
        cases = {
            "2 dimensions, even": self.base,
            "8 dimensions, even": replace(self.base, data=Vectors(8)),
            "8 dimensions, clusters": replace(self.base, data=Vectors(8, clusters=32)),
            "64 dimensions, clusters": replace(self.base, data=Vectors(64, clusters=32)),
        }
        return [
            Named(f"many rows, {name}", replace(case, rows=self.many, windows=2), (AUTO, BRUTE))
            for name, case in cases.items()
        ]

    def _hot(self) -> list[Named]:
        data = Vectors(8, clusters=16, heat=1.5, drift=0.1)
        hot = replace(self.base, data=data, rows=self.balance_rows, selectivity=0.1, windows=4)
        return [Named("one hot and drifting cluster", hot, (STILL, MOVED, AUTO))]


BASE = Case(Vectors(), 0.01, instances=5, rows=2000, windows=4, batches=2)
FULL = Size(BASE, (0.1, 0.01, 0.001), (8, 64, 384), 20_000, 6000, 2000, 10_000, 10, 10, 3)
QUICK = Size(replace(BASE, rows=400), (0.1, 0.001), (8,), 2000, 800, 300, 600, 1, 1, 1)


def measure_core(size: Size, run: Callable[[Function, Json], Json] = run_fresh) -> Json:
    """Every strategy in every case."""
    cases = {}
    for named in size.cases():
        parameters = {
            "case": asdict(named.case),
            "strategies": named.strategies,
            "turns": size.turns,
        }
        with one_thread_each():
            measured = run(similarity_core.core_case, parameters)
        results = measured["strategies"]
        for label, figures in results.items():
            told = (f"{figures[key]:,g} {key}" for key in COLUMNS)
            say(f"{named.name}, {label}: {', '.join(told)}")
        cases[named.name] = {
            "dimension": named.case.data.dimension,
            "selectivity": named.case.selectivity,
            "threshold": measured["threshold"],
            "instances": named.case.instances,
            "rows_per_window": 2 * named.case.rows,
            "strategies": results,
            "same_pairs": len({r["pairs"] for r in results.values()}) == 1,
        }
    return cases


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes that begin meanwhile compute products of matrices in the thread that asks."""
    before = {name: os.environ.get(name) for name in PRODUCT_THREADS}
    os.environ.update(dict.fromkeys(PRODUCT_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def measure_spark(size: Size, data: Path, instances: int) -> Json:
    """Throughput on the same files: few rows with Spark's cross join, more without."""
    vectors = Vectors(dimension=8, clusters=32)
    runs = {}
    for rows, names in (
        (size.cross_rows, (SPARK, SKEWLESS, BLAS)),
        (size.spark_rows, (SKEWLESS, BLAS)),
    ):
        windows = size.spark_warmup + size.spark_windows
        parameters = {
            "folder": str(vector_files(data, vectors, rows, windows)),
            "rows_per_batch": 2 * rows,
            "warmup": size.spark_warmup,
            "threshold": vectors.threshold(0.001),
            "instances": instances,
            "unix_sockets": False,
        }
        results = {}
        for name in names:
            functions = {SPARK: contestants.spark, SKEWLESS: contestants.skewless}
            results[name] = run_fresh(functions.get(name, contestants.blas), parameters)
            say(f"on Spark, 2 × {count(rows)} rows, {name}: {results[name]['window_s']:.2f} s")
        mine = results[SKEWLESS]["rows_per_s"]
        runs[f"2 × {count(rows)} rows in a window"] = {
            "contestants": results,
            "skewless_over": {
                name: round(mine / r["rows_per_s"], 4)
                for name, r in results.items()
                if name != SKEWLESS
            },
            "same_pairs": len({r["pairs"] for r in results.values()}) == 1,
        }
    return runs


def vector_files(data: Path, vectors: Vectors, rows: int, windows: int) -> Path:
    """Two streams, a file per window, made once."""
    folder = data / f"vectors{vectors.dimension}-files{windows}-rows{rows}"
    if not folder.exists():
        begun = data / f".{folder.name}.{os.getpid()}"
        for stream, side in enumerate(SIDES):
            empty_folder(begun / side)
            for window in range(windows):
                begin = FIRST_S + window * WINDOW_S
                table = vectors.table(stream, rows, begin, WINDOW_S, window)
                publish(table, begun / side, window)
        begun.rename(folder)
    return folder


def judged(cases: Json) -> list[Json]:
    """`auto` is nowhere much slower than to compare everything, and its work is even."""
    found = []
    for name, case in cases.items():
        by = case["strategies"]
        if BRUTE in by:
            ratio = by[AUTO]["rows_per_s"] / by[BRUTE]["rows_per_s"]
            target = Target(f"{name}, {AUTO}: rows/s over {BRUTE}'s", ">=", SLOWER_MOST)
            found.append(target.judge(ratio))
        settled = by[AUTO]["busiest_over_mean"][SETTLED:]
        if settled:
            even = Target(f"{name}, {AUTO}: busiest/mean after three windows", "<=", UNEVEN_MOST)
            found.append(even.judge(max(settled)))
    return found


def show(out: Console, report: Json) -> None:
    for name, case in report["cases"].items():
        table = Table(title=_titled(name, case), title_justify="left")
        table.add_column("")
        for heading, _ in COLUMNS.values():
            table.add_column(heading, justify="right")
        table.add_column("busiest/mean", justify="right")
        table.add_column("by pairs", justify="right")
        for label, figures in case["strategies"].items():
            told = [form.format(figures[key]) for key, (_, form) in COLUMNS.items()]
            told.append(" ".join(f"{one:.2f}" for one in figures["busiest_over_mean"]))
            told.append(f"{figures['compared_over_mean'][-1]:.2f}")
            table.add_row(label, *told)
        out.print(table)
        if not case["same_pairs"]:
            out.print("[red]numbers of pairs differ[/]")
    if report["on_spark"] is not None:
        _show_spark(out, report["on_spark"])
    for target in report["targets"]:
        out.print(f"{target['figure']}: {target['value']:.3g}  {verdict(target)}")


def _titled(name: str, case: Json) -> str:
    found = next(iter(case["strategies"].values()))["pairs"]
    return (f"{name}: {case['instances']} instances, {count(case['rows_per_window'])} rows in a "
            f"window, within {case['threshold']:.4f}; {count(found)} pairs")  # fmt: skip


def _show_spark(out: Console, runs: Json) -> None:
    for name, run in runs.items():
        table = Table(title=f"on Spark, 8 dimensions, clusters, {name}", title_justify="left")
        table.add_column("")
        for heading in ("s per window", "rows/s", "skewless over it", "peak memory MB", "pairs"):
            table.add_column(heading, justify="right")
        for label, r in run["contestants"].items():
            ratio = run["skewless_over"].get(label)
            table.add_row(
                label,
                f"{r['window_s']:.2f}",
                count(r["rows_per_s"]),
                "" if ratio is None else times(ratio),
                count(r["memory"]["anonymous_peak_bytes"] / 1e6),
                count(r["pairs"]),
            )
        out.print(table)
        if not run["same_pairs"]:
            out.print("[red]numbers of pairs differ[/]")


def plot(report: Json, folder: Path) -> list[Path]:
    """Busiest over mean along the windows of the hot cluster; and rows/s by case."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    cases = report["cases"]
    hot = {n: c for n, c in cases.items() if STILL in c["strategies"]}
    figure, axis = pyplot.subplots(figsize=(6, 3.6))
    for name, case in hot.items():
        for label, figures in case["strategies"].items():
            uneven = figures["busiest_over_mean"]
            axis.plot(range(1, len(uneven) + 1), uneven, marker="o", label=label)
        axis.set_title(name)
    axis.axhline(UNEVEN_MOST, linestyle=":", color="grey")
    axis.set_xlabel("window")
    axis.set_ylabel("busiest/mean")
    paths = [_saved(figure, folder / "similarity_balance.png")]
    figure, axis = pyplot.subplots(figsize=(9, 6))
    for label in (MOVED, AUTO, CLUSTERS, BRUTE):
        mine = {
            n: c["strategies"][label]["rows_per_s"]
            for n, c in cases.items()
            if n not in hot and label in c["strategies"]
        }
        axis.plot(list(mine.values()), list(mine), marker="o", linestyle="", label=label)
    axis.set_xscale("log")
    axis.set_xlabel("rows/s")
    return [*paths, _saved(figure, folder / "similarity_rows_per_s.png")]


def _saved(figure: Any, path: Path) -> Path:
    figure.gca().legend()
    figure.gca().grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return path


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A minute of it, judging little.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    spark: Annotated[bool, typer.Option(help="Compare with Spark's cross join, too.")] = True,
    instances: Annotated[int, typer.Option(min=1, help="Tasks of skewless on Spark.")] = 2,
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
    plots: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
) -> None:
    """Compare the ways to find rows that are alike."""
    size, told = QUICK if quick else FULL, machine()
    cases = measure_core(size)
    on_spark = measure_spark(size, data, instances) if spark else None
    report = {
        "benchmark": "similarity",
        "machine": told,
        "settings": settings(False),
        "cases": cases,
        "on_spark": on_spark,
        "targets": judged(cases),
    }
    if plots is not None:
        for path in plot(report, plots):
            print(path, file=sys.stderr)
    if as_json:
        print(json.dumps(report))
    else:
        out = console()
        out.print(machine_line(told), "\n")
        show(out, report)
    if not all(run["same_pairs"] for run in (*cases.values(), *(on_spark or {}).values())):
        say("the contestants found different numbers of pairs")
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main)
