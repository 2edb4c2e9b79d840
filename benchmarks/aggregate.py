"""How does a keyed aggregation that survives hot keys compare with Spark's own?

    python -m benchmarks.aggregate [--zipf Z] [--rows-per-batch N] [--json]

The same files, two per micro-batch, go through Spark's windowed `groupBy` (count, sum, min, max,
mean) and through `sk.aggregate` with several groupings; then through an aggregate that Spark has
not (a geometric mean), with `applyInPandasWithState` on Spark's side and an `sk.Accumulator` on
ours. All in the output mode "update", to the `noop` sink, each in a fresh process. Everyone must
give the same number of result rows; otherwise this ends with an error.

Busiest over mean is of processor time and of rows per instance; partials per result is how many
partial results a changed group has, by the instances that saw it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import aggregations
from benchmarks.data import DATA, Streams, read_through
from benchmarks.measure import Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.tables import console, count, machine, machine_line, times
from benchmarks.telling import start

GROUPINGS = ("BatchAware", "PdStream", "PKG", "KeyGrouping", "ShuffleGrouping")
BATCH_S = 5.0
FILES_PER_BATCH = 2  # a file is read by one task: one file would leave cores idle
WINDOW_S = 10
SPARK = "spark"


def measure(
    zipf: float,
    rows_per_batch: int,
    keys: int,
    batches: int,
    warmup: int,
    instances: int,
    groupings: list[str],
    data: Path,
) -> Json:
    """Everyone's figures, and how they compare."""
    say(f"{count(rows_per_batch)} rows per batch, zipf {zipf:g}: data")
    files = FILES_PER_BATCH * (warmup + batches)
    rows, seconds = rows_per_batch // FILES_PER_BATCH, BATCH_S / FILES_PER_BATCH
    streams = Streams(zipf, files, rows, keys, seconds)
    folder = streams.make(data)
    parameters = {
        "folder": str(folder),
        "rows_per_batch": rows * FILES_PER_BATCH,
        "files_per_batch": FILES_PER_BATCH,
        "warmup": warmup,
        "window_s": WINDOW_S,
        "instances": instances,
        "unix_sockets": False,
    }
    kinds = {}
    for kind, own in (("named", False), ("own", True)):
        results: dict[str, Json] = {}
        # The user's own aggregate is to compare with Spark's; the groupings are compared above.
        for name in [SPARK, *(groupings[:1] if own else groupings)]:
            read_through(folder)
            function = aggregations.spark if name == SPARK else aggregations.skewless
            results[name] = run_fresh(function, parameters | {"own": own, "grouping": name})
            say(f"  {kind} {name}: {count(results[name]['rows_per_s'])} rows/s")
        kinds[kind] = {
            "contestants": results,
            "same_result_rows": len({r["result_rows"] for r in results.values()}) == 1,
            "throughput_over_spark": {
                name: round(r["rows_per_s"] / results[SPARK]["rows_per_s"], 3)
                for name, r in results.items()
                if name != SPARK
            },
        }
    sizes = {"zipf": zipf, "rows_per_batch": rows_per_batch, "keys": keys, "batches": batches}
    return {**sizes, "warmup": warmup, "instances": instances, "kinds": kinds}


def show(out: Console, run: Json) -> None:
    headings = ("rows/s", "over Spark", "median ms", "busiest/mean, time", "rows",
                "partials per result", "result rows")  # fmt: skip
    titles = {"named": "count, sum, min, max, mean", "own": "a geometric mean, written by the user"}
    for kind, measured in run["kinds"].items():
        size = f"{count(run['rows_per_batch'])} rows per batch, zipf {run['zipf']:g}"
        table = Table(
            title=f"{titles[kind]}; {size}, {run['instances']} instances", title_justify="left"
        )
        table.add_column("")
        for heading in headings:
            table.add_column(heading, justify="right")
        for name, r in measured["contestants"].items():
            ratio = measured["throughput_over_spark"].get(name)
            own = ("busiest_over_mean", "busiest_over_mean_rows", "partials_per_result")
            table.add_row(
                name,
                count(r["rows_per_s"]),
                "" if ratio is None else times(ratio),
                count(r["median_ms"]),
                *(f"{r[figure]:.3f}" if figure in r else "" for figure in own),
                count(r["result_rows"]),
            )
        out.print(table)
        if not measured["same_result_rows"]:
            out.print("[red]result rows differ[/]")
        out.print()


def main(
    zipf: Annotated[float, typer.Option(min=0, help="Skew of the keys.")] = 1.5,
    rows_per_batch: Annotated[int, typer.Option(min=1, help="Rows per micro-batch.")] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, help="How many keys there are.")] = 1_000_000,
    batches: Annotated[int, typer.Option(min=1, help="Batches to measure.")] = 10,
    warmup: Annotated[int, typer.Option(min=0, help="Batches before.")] = 6,
    instances: Annotated[int, typer.Option(min=1, help="Tasks of skewless.")] = 8,
    only: Annotated[str, typer.Option(help="Groupings, separated by commas.")] = ",".join(
        GROUPINGS
    ),
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare keyed aggregation with Spark's own."""
    groupings = [name.strip() for name in only.split(",")]
    if unknown := [name for name in groupings if name not in GROUPINGS]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of: {', '.join(GROUPINGS)}")
    told = machine()
    run = measure(zipf, rows_per_batch, keys, batches, warmup, instances, groupings, data)
    if as_json:
        report = {"benchmark": "aggregate", "machine": told, "settings": settings(False), **run}
        print(json.dumps(report))
    else:
        out = console()
        out.print(machine_line(told), "\n")
        show(out, run)
    if not all(measured["same_result_rows"] for measured in run["kinds"].values()):
        say("the contestants gave different numbers of result rows")
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main)
