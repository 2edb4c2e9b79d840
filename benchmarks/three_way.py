"""Three streams at once: how do the ways to join them compare, with one another, with the TriJoin
paper, and with Spark's own two joins?

    python -m benchmarks.three_way [--json] [--quick] [--no-spark] [--plots FOLDER]

**The core, without Spark**, on tuples and conditions of the paper's section 6.1: a cycle,
|r_I - s_I| <= eps and |s_Int - t_Int| <= eps and |r_Int - t_I| <= eps, and a chain, its first two.
Small batches meet a state that was filled before; window, instances, batch size and how many
partners a row has are varied one at a time.

- *latency*: the processor time of the busiest instance, summed over the steps of a batch that wait
  for one another (Tree has two), as if every instance had a core: from the arrival of a batch's
  rows, sorted and stored, until all is done that the next batch waits for. *last triple* is until
  the last result only; what TriJoin keeps for later it may write after it.
- *rows/s*: rows over the processor time of all there is to do, sorting, compaction and commit too;
- *comparisons*: candidates compared per new row; *on the way* those of the busiest instance, summed
  over steps: the paper's model of latency (section 4), and the same on every machine;
- *shipped*: rows and pairs, per new row, that an instance gets from elsewhere;
- *intermediates*: pairs or packs held, and their bytes; *state* is all bytes held.

**On Spark**, shows with purchases with activity of a live market (`skewless.workloads`), by
equalities, each contestant in a fresh process on the same files: throughput over Spark's own.

All must find the same number of triples; otherwise this ends with an error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import three_way_contestants as contestants
from benchmarks.data import DATA
from benchmarks.measure import ContestantError, Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.tables import Target, console, count, machine, machine_line, times, verdict
from benchmarks.three_way_contestants import CHAIN, CYCLE, STRATEGIES, Case
from skewless.workloads import LiveCommerce, write_live_commerce

TREE, PAIRS, TRIJOIN, AUTO = STRATEGIES
SPARK = "spark"
BASE, DENSER = "base", "times the partners"
FILES_PER_BATCH = 2  # a file is read by one task: one file would leave cores idle
WITHIN_S, FILE_S = 10, 2.5
NOISE = 1.05  # of a time that is to be no worse than another

LATENCY, LAST, RATE = "latency_mean_ms", "last_triple_mean_ms", "rows_per_s"
ON_THE_WAY, HELD = "comparisons_on_the_way", "intermediates"
COLUMNS = {
    LATENCY: ("latency ms", "{:.1f}"),
    "latency_p99_ms": ("p99", "{:.1f}"),
    LAST: ("last triple ms", "{:.1f}"),
    RATE: ("rows/s", "{:,.0f}"),
    "comparisons_per_row": ("comparisons", "{:.1f}"),
    ON_THE_WAY: ("on the way", "{:,.0f}"),
    "shipped_per_row": ("shipped", "{:.1f}"),
    HELD: ("intermediates", "{:,.0f}"),
    "intermediate_bytes": ("their bytes", "{:,.0f}"),
    "state_bytes": ("state bytes", "{:,.0f}"),
    "busiest_over_mean": ("busiest/mean", "{:.2f}"),
}


@dataclass(frozen=True)
class Published:
    """What the paper's text says of TriJoin against BiStream+Tree (intermediates: against pairs),
    as a ratio."""

    latency: float
    throughput: float
    intermediates: float


PAPER = {
    CYCLE: Published(latency=0.37, throughput=1.07, intermediates=0.29),
    CHAIN: Published(latency=0.55, throughput=1.15, intermediates=0.34),
}


@dataclass(frozen=True)
class Size:
    """How much is measured: a base case for each shape, and what is varied around it."""

    bases: tuple[Case, Case]
    windows: tuple[int, ...]
    instances: tuple[int, ...]
    batch_rows: tuple[int, ...]
    denser: tuple[int, ...]  # how many times the partners of a row
    spark_rows: tuple[int, ...]  # per stream and batch
    spark_batches: int
    spark_warmup: int

    def cases(self) -> dict[str, Case]:
        """All cases by their names. Packs are compared with pairs in the base cases and
        denser ones."""
        found = {}
        for base in self.bases:
            found[f"{base.shape}, {BASE}"] = base
            varied = (("window", self.windows), ("instances", self.instances),
                      ("batch_rows", self.batch_rows))  # fmt: skip
            for name, values in varied:
                for value in values:
                    label = f"{base.shape}, {name.replace('_', ' ')} {count(value)}"
                    found[label] = replace(base, **{name: value})  # type: ignore[arg-type]
            for factor in self.denser:
                label = f"{base.shape}, {factor} {DENSER}"
                found[label] = replace(base, values=base.values // factor)
        return found


# A chain's triples are the product of what s meets on either side: fewer partners for it.
CYCLIC = Case(CYCLE, window=6000, instances=6, batch_rows=900, values=3000, eps=1, batches=15)
CHAINED = replace(CYCLIC, shape=CHAIN, values=6000)
FULL = Size((CYCLIC, CHAINED), (2000, 10_000), (3, 12), (300, 2100), (3,), (200_000, 400_000), 3, 5)
QUICK = Size(
    (
        replace(CYCLIC, window=600, values=300, batches=3, batch_rows=300, fill=2, warmup=3),
        replace(CHAINED, window=600, values=600, batches=3, batch_rows=300, fill=2, warmup=3),
    ),
    (300,), (), (), (2,), (5000,), 1, 1,
)  # fmt: skip


def measure_core(size: Size) -> Json:
    """Every strategy in every case."""
    cases = {}
    for name, case in size.cases().items():
        results = {}
        for label, strategy in STRATEGIES.items():
            if label == PAIRS and not name.endswith((BASE, DENSER)):
                continue
            results[label] = contestants.core(case, strategy)
            told = (f"{results[label][key]:,g} {key}" for key in (LATENCY, RATE, ON_THE_WAY, HELD))
            say(f"{name}, {label}: {', '.join(told)}")
        cases[name] = {
            "shape": case.shape,
            "window": case.window,
            "instances": case.instances,
            "batch_rows": case.batch_rows,
            "strategies": results,
            "same_triples": len({r["triples"] for r in results.values()}) == 1,
        }
    return cases


def measure_spark(size: Size, rows: int, data: Path, instances: int) -> Json:
    """Chained equality joins on Spark, with so many rows per stream and batch. Batches are measured
    when the state is full: rows come, and as many leave."""
    batches = size.spark_warmup + size.spark_batches
    folder = live_files(data, rows // FILES_PER_BATCH, FILES_PER_BATCH * batches)
    parameters = {
        "folder": str(folder),
        "rows_per_batch": 3 * rows,
        "files_per_batch": FILES_PER_BATCH,
        "warmup": size.spark_warmup,
        "within_s": WITHIN_S,
        "instances": instances,
        "unix_sockets": False,
    }
    results = {}
    for name in (SPARK, TREE, TRIJOIN, AUTO):
        for file in sorted(folder.glob("*/*.parquet")):
            file.read_bytes()  # into the page cache: nobody is to wait for the disk
        function = contestants.spark if name == SPARK else contestants.skewless
        results[name] = run_fresh(function, parameters | {"strategy": name})
        say(f"on Spark, {name}: {count(results[name]['rows_per_s'])} rows/s")
    return {
        "rows_per_batch": 3 * rows,
        "batches": size.spark_batches,
        "instances": instances,
        "contestants": results,
        "over_spark": {
            name: round(r["rows_per_s"] / results[SPARK]["rows_per_s"], 3)
            for name, r in results.items()
            if name != SPARK
        },
        "same_result_rows": len({r["result_rows"] for r in results.values()}) == 1,
    }


def live_files(data: Path, rows: int, files: int) -> Path:
    """The market's streams, made once: a purchase meets about one show and one activity."""
    folder = data / f"live-files{files}-rows{rows}"
    if not folder.exists():
        begun = data / f".{folder.name}.{os.getpid()}"
        # Within ten seconds either way lie so many rows of a stream.
        reach = round(2 * WITHIN_S / FILE_S) * rows
        market = LiveCommerce(streamers=reach, users=reach, heat=1.0, bustle=0.0)
        write_live_commerce(market, begun, files, (rows, rows, rows), FILE_S)
        begun.rename(folder)
    return folder


def judged(cases: Json, on_spark: Sequence[Json]) -> list[Json]:
    """The paper's figures, and our own."""
    found = []
    for name, case in cases.items():
        shape, by = case["shape"], case["strategies"]
        if PAIRS not in by:
            continue
        paper, tree, tri = PAPER[shape], by[TREE], by[TRIJOIN]
        for label in (TRIJOIN, AUTO):
            mine = by[label]
            found += [
                Target(f"{name}, {label} over {TREE}: latency", "<=", paper.latency).judge(
                    round(mine[LATENCY] / tree[LATENCY], 3)
                ),
                Target(f"{name}, {label} over {TREE}: rows/s", ">=", paper.throughput).judge(
                    round(mine[RATE] / tree[RATE], 3)
                ),
            ]
        held = round(tri[HELD] / max(1, by[PAIRS][HELD]), 3)
        packed = Target(f"{name}, packs over pairs: intermediates", "<=", paper.intermediates)
        found.append(packed.judge(held))
    worst = max(
        case["strategies"][AUTO][LATENCY]
        / min(case["strategies"][name][LATENCY] for name in (TREE, TRIJOIN))
        for case in cases.values()
    )
    never = Target("auto over the better of Tree and TriJoin: latency, worst case", "<=", NOISE)
    found.append(never.judge(round(worst, 3)))
    for run in on_spark:
        name = f"auto over Spark's two joins, {count(run['rows_per_batch'])} rows a batch: rows/s"
        found.append(Target(name, ">=", 10).judge(run["over_spark"][AUTO]))
    return found


def notes(cases: Json) -> list[str]:
    """What the paper's figures leave out, with the numbers of this run."""
    found = []
    for name, case in cases.items():
        by = case["strategies"]
        if PAIRS not in by:
            continue
        tree, tri = by[TREE], by[TRIJOIN]
        each = {x: 1000 * by[x][LATENCY] / max(1, by[x][ON_THE_WAY]) for x in (TREE, TRIJOIN)}
        found.append(
            f"{name}: by the paper's model, comparisons on the way to a result, TriJoin has "
            f"{tri[ON_THE_WAY] / max(1, tree[ON_THE_WAY]):.2f} of Tree's; in processor time "
            f"{tri[LATENCY] / tree[LATENCY]:.2f} ({tri[LAST] / tree[LAST]:.2f} until the last "
            f"triple). For each comparison TriJoin spends {each[TRIJOIN]:.0f} µs, Tree "
            f"{each[TREE]:.0f}; rows shipped per new row are {tri['shipped_per_row']:.1f}, "
            f"{tree['shipped_per_row']:.1f} and with auto {by[AUTO]['shipped_per_row']:.1f}."
        )
    found += [_growth(cases, shape) for shape in (CYCLE, CHAIN)]
    return [
        *filter(None, found),
        "How many packs there are for so many pairs depends on the partners that a row has in one "
        "instance, which the paper does not tell: 0.29 means 3.4 pairs to a pack.",
        "All times are of processors: the paper's waiting for the network and for rows to be put "
        "in order is not in them.",
    ]


def _growth(cases: Json, shape: str) -> str:
    """Whether time follows comparisons: from the shortest window to the longest."""
    found = sorted(
        (case["window"], case["strategies"][TREE])
        for label, case in cases.items()
        if label.startswith((f"{shape}, {BASE}", f"{shape}, window "))
    )
    if len(found) < 2:
        return ""
    (short, few), (long, many) = found[0], found[-1]
    return (
        f"{shape}: from a window of {count(short)} to {count(long)} rows Tree's comparisons on the "
        f"way grow {many[ON_THE_WAY] / max(1, few[ON_THE_WAY]):.1f} times, its latency "
        f"{many[LATENCY] / few[LATENCY]:.1f} times: what is not comparing the model leaves out."
    )


def show(out: Console, report: Json) -> None:
    for name, case in report["cases"].items():
        table = Table(title=_titled(name, case), title_justify="left")
        table.add_column("")
        for heading, _ in COLUMNS.values():
            table.add_column(heading, justify="right")
        for label, figures in case["strategies"].items():
            told = [form.format(figures[key]) for key, (_, form) in COLUMNS.items()]
            table.add_row(label, *told)
        out.print(table)
        if not case["same_triples"]:
            out.print("[red]numbers of triples differ[/]")
    for run in report["on_spark"]:
        _show_spark(out, run)
    for note in report["notes"]:
        out.print(f"- {note}")
    for target in report["targets"]:
        out.print(f"{target['figure']}: {target['value']:.3g}  {verdict(target)}")


def _titled(name: str, case: Json) -> str:
    found = next(iter(case["strategies"].values()))["triples"]
    return (f"{name}: window {count(case['window'])}, {case['instances']} instances, batches of "
            f"{count(case['batch_rows'])} rows; {count(found)} triples")  # fmt: skip


def _show_spark(out: Console, run: Json) -> None:
    title = (f"on Spark, a chain by equalities: {count(run['rows_per_batch'])} rows per batch, "
             f"{run['instances']} instances")  # fmt: skip
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in ("rows/s", "over Spark", "median ms", "peak memory MB", "result rows"):
        table.add_column(heading, justify="right")
    for name, r in run["contestants"].items():
        ratio = run["over_spark"].get(name)
        table.add_row(
            name,
            count(r["rows_per_s"]),
            "" if ratio is None else times(ratio),
            count(r["median_ms"]),
            count(r["memory"]["anonymous_peak_bytes"] / 1e6),
            count(r["result_rows"]),
        )
    out.print(table)
    if not run["same_result_rows"]:
        out.print("[red]result rows differ[/]")


def plot(report: Json, folder: Path) -> list[Path]:
    """Latency and throughput along instances, windows and batch sizes, as figures 14, 15, 20."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for along, key in product(("instances", "window", "batch_rows"), (LATENCY, RATE)):
        figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6))
        for axis, shape in zip(axes, (CYCLE, CHAIN), strict=True):
            for name in (TREE, TRIJOIN, AUTO):
                points = _along(report["cases"], shape, along, name, key)
                axis.plot(*zip(*points, strict=True), marker="o", label=name)
            axis.set_title(shape)
            axis.set_xlabel(along.replace("_", " "))
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
        axes[0].set_ylabel(COLUMNS[key][0])
        axes[0].legend()
        figure.tight_layout()
        paths.append(folder / f"three_way_{key}_by_{along}.png")
        figure.savefig(paths[-1], dpi=120)
        pyplot.close(figure)
    return paths


def _along(cases: Json, shape: str, along: str, name: str, key: str) -> Sequence[tuple[int, float]]:
    """(value, figure) of the base case and those in which `along` is varied."""
    prefixes = (f"{shape}, {BASE}", f"{shape}, {along.replace('_', ' ')} ")
    mine = [case for label, case in cases.items() if label.startswith(prefixes)]
    return sorted((case[along], case["strategies"][name][key]) for case in mine)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A minute of it, judging little.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    spark: Annotated[bool, typer.Option(help="Compare with Spark's own joins, too.")] = True,
    instances: Annotated[int, typer.Option(min=1, help="Tasks of skewless on Spark.")] = 2,
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
    plots: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
) -> None:
    """Compare the ways to join three streams."""
    size, told = QUICK if quick else FULL, machine()
    cases = measure_core(size)
    sizes = size.spark_rows if spark else ()
    on_spark = [measure_spark(size, rows, data, instances) for rows in sizes]
    report = {
        "benchmark": "three_way",
        "machine": told,
        "settings": settings(False),
        "cases": cases,
        "on_spark": on_spark,
        "notes": notes(cases),
        "targets": judged(cases, on_spark),
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
    same = all(case["same_triples"] for case in cases.values())
    if not same or not all(run["same_result_rows"] for run in on_spark):
        say("the contestants gave different numbers of triples")
        raise typer.Exit(1)


if __name__ == "__main__":
    try:
        typer.run(main)
    except ContestantError as error:
        raise SystemExit(str(error)) from None
