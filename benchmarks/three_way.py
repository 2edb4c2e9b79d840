"""Three streams at once: how do the ways to join them compare, with one another and with Spark's
own two joins? What the TriJoin paper measures is in `benchmarks.papers`.

    python -m benchmarks.three_way [--json] [--quick] [--no-spark]

**The core, without Spark** (`three_way_core`), on tuples and conditions of the paper's section 6.1:
a cycle, |r_I - s_I| <= eps and |s_Int - t_Int| <= eps and |r_Int - t_I| <= eps, and a chain, its
first two. Small batches meet a state that was filled before.

- *latency*: of a triple, from when the rows of its batch are there until it is out, as if every
  instance had a core; *done* is until all is done that the next batch waits for;
- *rows/s*: rows over the processor time of all there is to do, sorting, compaction and commit too;
- *comparisons*: candidates compared per new row; *on the way* those of the busiest instance, summed
  over steps, which are the same on every machine;
- *sent*: copies of rows, pairs and packs, per new row, that an instance gets from elsewhere;
- *intermediates*: pairs or packs held, and their bytes; *state* is all bytes held.

**On Spark**, shows with purchases with activity of a live market (`skewless.workloads`), by
equalities, each contestant in a fresh process on the same files: throughput over Spark's own.

All must find the same number of triples; otherwise this ends with an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import three_way_contestants as contestants
from benchmarks.data import DATA
from benchmarks.measure import Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.tables import Target, console, count, machine, machine_line, times, verdict
from benchmarks.telling import start
from benchmarks.three_way_core import CHAIN, CYCLE, STRATEGIES, Case, Figures, measure
from skewless.workloads import LiveCommerce, SixFields, write_live_commerce

TREE, PAIRS, TRIJOIN, AUTO = STRATEGIES
SPARK = "spark"
BASE, DENSER = "base", "times the partners"
FILES_PER_BATCH = 2  # a file is read by one task: one file would leave cores idle
WITHIN_S, FILE_S = 10, 2.5
NOISE = 1.05  # of a time that is to be no worse than another

LATENCY, RATE, HELD = "latency_ms", "rows_per_s", "intermediates"
COLUMNS: dict[str, tuple[str, str, Callable[[Figures], float]]] = {
    LATENCY: ("latency ms", "{:.1f}", lambda f: f.latency_ms),
    "latency_p99_ms": ("p99", "{:.1f}", lambda f: f.latency_p99_ms),
    "done_ms": ("done ms", "{:.1f}", lambda f: f.mean("done_ms")),
    RATE: ("rows/s", "{:,.0f}", lambda f: f.rows_per_core_s),
    "comparisons_per_row": ("comparisons", "{:.1f}", lambda f: f.mean("comparisons") / f.rows),
    "comparisons_on_the_way": ("on the way", "{:,.0f}", lambda f: f.mean("on_the_way")),
    "sent_per_row": ("sent", "{:.1f}", lambda f: f.mean("shipped") / f.rows),
    HELD: ("intermediates", "{:,.0f}", lambda f: f.mean("intermediates")),
    "intermediate_bytes": ("their bytes", "{:,.0f}", lambda f: f.mean("intermediate_bytes")),
    "state_bytes": ("state bytes", "{:,.0f}", lambda f: f.mean("state_bytes")),
    "busiest_over_mean": ("busiest/mean", "{:.2f}", lambda f: f.busiest_over_mean),
}


@dataclass(frozen=True)
class Size:
    """How much is measured: a base case for each shape, and the same with denser data."""

    bases: tuple[Case, Case]
    denser: tuple[int, ...]  # how many times the partners of a row
    spark_rows: tuple[int, ...]  # per stream and batch
    spark_batches: int
    spark_warmup: int

    def cases(self) -> dict[str, Case]:
        """All cases by their names."""
        found = {}
        for base in self.bases:
            assert isinstance(base.data, SixFields)
            found[f"{base.shape}, {BASE}"] = base
            for factor in self.denser:
                data = SixFields(base.data.values // factor)
                found[f"{base.shape}, {factor} {DENSER}"] = replace(base, data=data)
        return found


# A chain's triples are the product of what s meets on either side: fewer partners for it.
CYCLIC = Case(CYCLE, SixFields(3000), window=6000, instances=6, batch_rows=900, batches=15)
CHAINED = replace(CYCLIC, shape=CHAIN, data=SixFields(6000))
SMALL = replace(
    CYCLIC, data=SixFields(300), window=600, batch_rows=300, batches=3, fill=2, warmup=3
)
FULL = Size((CYCLIC, CHAINED), (3,), (200_000, 400_000), 3, 5)
QUICK = Size((SMALL, replace(SMALL, shape=CHAIN, data=SixFields(600))), (2,), (5000,), 1, 1)


def measure_core(size: Size) -> Json:
    """Every strategy in every case."""
    cases = {}
    for name, case in size.cases().items():
        found = {label: measure(case, strategy) for label, strategy in STRATEGIES.items()}
        results = {label: told(figures) for label, figures in found.items()}
        for label, figures in results.items():
            say(f"{name}, {label}: {figures[LATENCY]:,g} ms, {figures[RATE]:,g} rows/s")
        cases[name] = {
            "shape": case.shape,
            "window": case.window,
            "instances": case.instances,
            "batch_rows": case.batch_rows,
            "strategies": results,
            "same_triples": len({r["triples"] for r in results.values()}) == 1,
        }
    return cases


def told(figures: Figures) -> Json:
    found = {key: round(figure(figures), 3) for key, (_, _, figure) in COLUMNS.items()}
    return found | {"triples": figures.triples}


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
    """What is promised of "auto"."""
    worst = max(
        case["strategies"][AUTO][LATENCY]
        / min(case["strategies"][name][LATENCY] for name in (TREE, TRIJOIN))
        for case in cases.values()
    )
    never = Target("auto over the better of Tree and TriJoin: latency, worst case", "<=", NOISE)
    found = [never.judge(round(worst, 3))]
    for run in on_spark:
        name = f"auto over Spark's two joins, {count(run['rows_per_batch'])} rows a batch: rows/s"
        found.append(Target(name, ">=", 10).judge(run["over_spark"][AUTO]))
    return found


def show(out: Console, report: Json) -> None:
    for name, case in report["cases"].items():
        table = Table(title=_titled(name, case), title_justify="left")
        table.add_column("")
        for heading, _, _ in COLUMNS.values():
            table.add_column(heading, justify="right")
        for label, figures in case["strategies"].items():
            cells = [form.format(figures[key]) for key, (_, form, _) in COLUMNS.items()]
            table.add_row(label, *cells)
        out.print(table)
        if not case["same_triples"]:
            out.print("[red]numbers of triples differ[/]")
    for run in report["on_spark"]:
        _show_spark(out, run)
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


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A minute of it, judging little.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    spark: Annotated[bool, typer.Option(help="Compare with Spark's own joins, too.")] = True,
    instances: Annotated[int, typer.Option(min=1, help="Tasks of skewless on Spark.")] = 2,
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
) -> None:
    """Compare the ways to join three streams."""
    size, on = QUICK if quick else FULL, machine()
    cases = measure_core(size)
    sizes = size.spark_rows if spark else ()
    on_spark = [measure_spark(size, rows, data, instances) for rows in sizes]
    report = {
        "benchmark": "three_way",
        "machine": on,
        "settings": settings(False),
        "cases": cases,
        "on_spark": on_spark,
        "targets": judged(cases, on_spark),
    }
    if as_json:
        print(json.dumps(report))
    else:
        out = console()
        out.print(machine_line(on), "\n")
        show(out, report)
    same = all(case["same_triples"] for case in cases.values())
    if not same or not all(run["same_result_rows"] for run in on_spark):
        say("the contestants gave different numbers of triples")
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main)
