"""Rows that are alike: how much is compared, how often is a row looked up, and who has to do it?

    python -m benchmarks.similarity [--json] [--quick] [--no-spark] [--plots FOLDER]

**The core, without Spark**, on two streams in windows of a minute, compared by the angle, as in
section 9 of the S3J paper; vectors of two dimensions at several selectivities (its table 2) and
numbers of instances (table 3), then of more dimensions, in clusters, and in clusters that move.

- *stored*: how often a row is stored. The paper stores copies of rows in all worksets that may hold
  a partner; here the row looks into them instead. *looks* are the worksets that it looks into, its
  own among them, once centers have settled: in the second half of the batches.
- *duplication*: what the paper's would be with these worksets. It copies a row in one direction
  only, to worksets of lower number; rows look both ways, so that is (1 + looks) / 2.
- *comparisons*: pairs whose distance had to decide, over pairs found. *inner* are those that the
  triangle inequality has decided, over pairs found, as the paper leaves them out; their distance is
  computed all the same here, because it is a column of the result.
- *worksets*: how many there are; the distance of each row from all centers comes on top.
- *p99 ms*: the processor time of the busiest instance of a batch, as if every one had a core;
  matrix products have one thread.
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
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import similarity_contestants as contestants
from benchmarks.data import DATA, SIDES
from benchmarks.measure import ContestantError, Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.similarity_contestants import FIRST_S, STRATEGIES, WINDOW_S, Case
from benchmarks.tables import Target, console, count, machine, machine_line, times, verdict
from skewless.workloads import Vectors
from skewless.workloads.zipf import empty_folder, publish

STILL, MOVED, AUTO, CLUSTERS, BRUTE = STRATEGIES
SKEWLESS, SPARK, BLAS = "skewless", "Spark cross join", "BLAS"
UNEVEN_MOST = 1.15  # busiest over mean, from the fourth window on
SETTLED = 3  # windows
PRODUCT_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

Function = Callable[[Json], Json]

COLUMNS = {
    "stored": ("stored", "{:.2f}"),
    "looks": ("looks", "{:.2f}"),
    "duplication": ("duplication", "{:.2f}"),
    "comparisons": ("comparisons", "{:.2f}"),
    "inner": ("inner", "{:.2f}"),
    "worksets": ("worksets", "{:,.0f}"),
    "busiest_p99_ms": ("p99 ms", "{:.1f}"),
    "rows_per_s": ("rows/s", "{:,.0f}"),
}


@dataclass(frozen=True)
class Published:
    """What tables 2 and 3 of the paper say; None where ClusterJoin did not end."""

    duplication: float
    comparisons: float
    cluster_duplication: float | None
    cluster_comparisons: float | None


BY_SELECTIVITY = {
    0.1: Published(1.96, 1.58, None, None),
    0.01: Published(1.94, 1.77, 6.17, 9.70),
    0.005: Published(1.97, 1.95, 3.53, 11.16),
    0.001: Published(1.92, 5.82, 1.49, 24.51),
}
BY_INSTANCES = {
    5: Published(1.96, 4.48, 1.49, 20.36),
    10: Published(2.12, 3.16, 1.49, 20.36),
    15: Published(2.37, 2.93, 1.49, 20.36),
    20: Published(2.62, 2.65, 1.49, 20.36),
}


@dataclass(frozen=True)
class Named:
    """A case with what the paper says of it, if anything, and who takes part."""

    name: str
    case: Case
    strategies: tuple[str, ...] = (MOVED, AUTO, CLUSTERS, BRUTE)
    paper: Published | None = None


@dataclass(frozen=True)
class Size:
    """How much is measured: `base` is varied; `balance_rows` is what a window has where it is seen
    who is busy; on Spark a window has `cross_rows` where Spark takes part, else `spark_rows`."""

    base: Case
    selectivities: tuple[float, ...]
    instances: tuple[int, ...]
    dimensions: tuple[int, ...]
    balance_rows: int
    cross_rows: int
    spark_rows: int
    spark_windows: int
    spark_warmup: int

    def cases(self) -> list[Named]:
        found = [
            Named(f"table 2, selectivity {100 * s:g} %", replace(self.base, selectivity=s),
                  paper=BY_SELECTIVITY[s])
            for s in self.selectivities
        ]  # fmt: skip
        found += [
            Named(f"table 3, {n} instances", replace(self.base, selectivity=0.001, instances=n),
                  paper=BY_INSTANCES[n])
            for n in self.instances
        ]  # fmt: skip
        base = replace(self.base, selectivity=0.01)
        for d in self.dimensions:
            even = replace(base, data=Vectors(d))
            found.append(Named(f"{d} dimensions, even", even))
            clustered = replace(base, data=Vectors(d, clusters=32, heat=0.5))
            found.append(Named(f"{d} dimensions, clusters", clustered))
            drifting = replace(base, data=replace(clustered.data, drift=0.2))
            found.append(Named(f"{d} dimensions, drifting clusters", drifting))
        even = replace(base, rows=self.balance_rows)
        hot = replace(even, data=Vectors(8, clusters=16, heat=1.5, drift=0.1), selectivity=0.1)
        who = (STILL, MOVED, AUTO)
        found.append(Named("figure 6, even", even, who))
        found.append(Named("figure 6, one hot and drifting cluster", hot, who))
        return found


BASE = Case(Vectors(), 0.01, instances=5, rows=2000, windows=4, batches=2)
FULL = Size(
    BASE, tuple(BY_SELECTIVITY), tuple(BY_INSTANCES), (8, 64, 384), 6000, 2000, 10_000, 10, 10
)
QUICK = Size(replace(BASE, rows=400), (0.1, 0.001), (20,), (8,), 800, 300, 600, 1, 1)


def measure_core(size: Size, run: Callable[[Function, Json], Json] = run_fresh) -> Json:
    """Every strategy in every case."""
    cases = {}
    for named in size.cases():
        parameters = {"case": asdict(named.case), "strategies": named.strategies}
        with one_thread_each():
            measured = run(contestants.core_case, parameters)
        results, paper = measured["strategies"], named.paper
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
            "paper": None if paper is None else vars(paper),
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
    """The paper's figures, and our own."""
    found = []
    for name, case in cases.items():
        by, paper = case["strategies"], case["paper"]
        if paper is not None:
            for figure in ("duplication", "comparisons"):
                target = Target(f"{name}, {MOVED}: {figure}", "<=", paper[figure])
                found.append(target.judge(by[MOVED][figure]))
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
        _add_paper(table, case["paper"])
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


def _add_paper(table: Table, paper: Json | None) -> None:
    if paper is None:
        return
    for label, prefix in ((MOVED, ""), (CLUSTERS, "cluster_")):
        figures = [paper[prefix + key] for key in ("duplication", "comparisons")]
        table.add_row(
            f"paper: {label}", "", "", *("–" if f is None else f"{f:.2f}" for f in figures)
        )


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
    """Busiest over mean along the windows, as figure 6; and comparisons by case."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    cases = report["cases"]
    balance = {n: c for n, c in cases.items() if STILL in c["strategies"]}
    figure, axes = pyplot.subplots(1, len(balance), figsize=(9, 3.6), squeeze=False)
    for axis, (name, case) in zip(axes[0], balance.items(), strict=True):
        for label, figures in case["strategies"].items():
            uneven = figures["busiest_over_mean"]
            axis.plot(range(1, len(uneven) + 1), uneven, marker="o", label=label)
        axis.axhline(UNEVEN_MOST, linestyle=":", color="grey")
        axis.set_title(name)
        axis.set_xlabel("window")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("busiest/mean")
    axes[0][0].legend()
    paths = [folder / "similarity_balance.png"]
    figure.tight_layout()
    figure.savefig(paths[0], dpi=120)
    pyplot.close(figure)
    for key in ("duplication", "comparisons"):
        figure, axis = pyplot.subplots(figsize=(9, 5))
        for label in (MOVED, AUTO, CLUSTERS, BRUTE):
            mine = {n: c["strategies"][label][key] for n, c in cases.items() if n not in balance}
            axis.plot(list(mine.values()), list(mine), marker="o", linestyle="", label=label)
        axis.set_xscale("log")
        axis.set_xlabel(key)
        axis.legend()
        axis.grid(alpha=0.3)
        figure.tight_layout()
        paths.append(folder / f"similarity_{key}.png")
        figure.savefig(paths[-1], dpi=120)
        pyplot.close(figure)
    return paths


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
    try:
        typer.run(main)
    except ContestantError as error:
        raise SystemExit(str(error)) from None
