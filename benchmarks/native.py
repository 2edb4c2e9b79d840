"""How does skewless compare with Spark's own stream-stream join?

    python -m benchmarks.native [--how left_outer] [--files] [--sink parquet] [--matches 10]
                                [--rows-per-batch N] [--zipf Z] [--json]

Both join the same files, one per side and micro-batch, each in a fresh process with the same
session settings: `key` equal, times within ten seconds either way, result to the `noop` sink, or
with `--sink parquet` to files; with `--files`, skewless reads its files as columns. The
left side is skewed by `--zipf`, the right side is uniform. Without sizes the three sizes and two
skews of the targets are run. Figures are of the batches after a warm-up: throughput is rows over
the sum of batch times, and a batch time is what Spark reports as `triggerExecution`, from planning
to commit.

Beside them stand the floor (Spark reads, shuffles and hands all rows to Python, which drops them)
and the batch limit (Polars and DuckDB joining all rows at once: in memory, or with `--sink parquet`
from files to a file). Everyone who joins must
find the same number of result rows; otherwise this ends with an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import contestants
from benchmarks.data import DATA, Streams, read_through
from benchmarks.measure import Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.tables import (
    Target,
    count,
    gigabytes,
)
from benchmarks.telling import Telling, show_ratios, start

SIZES = (1_000_000, 100_000, 2_000)
SKEWS = (0.0, 1.5)
FILE_S = 5.0
WITHIN_S = 10
SINKS = ("noop", "parquet")
HOWS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")  # what Spark has, too

OF_SPARK = "throughput over Spark's"
MEDIAN = "median batch time over Spark's"
OF_FLOOR = "throughput over the floor's"
OF_STREAMED_FLOOR = "throughput over the floor's, streamed"
OF_LIMITS = {
    "polars": "throughput over Polars', all rows at once",
    "duckdb": "throughput over DuckDB's, all rows at once",
}
MEMORY = "peak memory (rss) over Spark's"

TARGETS = {
    1_000_000: (Target(OF_SPARK, ">=", 8, aim=12), Target(OF_FLOOR, ">=", 0.6, aim=0.9)),
    100_000: (Target(OF_SPARK, ">=", 4, aim=6), Target(OF_FLOOR, ">=", 0.6, aim=0.9)),
    2_000: (Target(MEDIAN, "<=", 0.5, aim=0.3),),
}

# From files to files, read and written as columns.
COLUMN_TARGETS = {
    1_000_000: (Target(OF_SPARK, ">=", 14, aim=20), Target(MEMORY, "<=", 1)),
    100_000: (Target(OF_SPARK, ">=", 4.5), Target(MEMORY, "<=", 1)),
    2_000: (Target(MEDIAN, "<=", 0.35), Target(MEMORY, "<=", 1)),
}

HEADINGS = (
    "rows/s", "median ms", "p99 ms", "rss GB", "anonymous", "uss GB", "result rows", "late"
)  # fmt: skip

GROUPS: dict[str, tuple[Callable[[Json], Json], ...]] = {
    "skewless": (contestants.skewless,),
    "spark": (contestants.spark,),
    "floor": (contestants.floor,),
    "limit": (contestants.polars, contestants.duckdb),
}


@dataclass(frozen=True)
class Run:
    """One size and skew. A window of ten seconds either way spans four files of a side, so a row
    has `4 * rows / keys` matches in the other one, away from the ends of the stream."""

    rows_per_batch: int
    zipf: float
    batches: int
    warmup: int
    matches: float
    instances: int | None
    unix_sockets: bool
    how: str = "inner"
    files: bool = False
    sink: str = "noop"

    @property
    def streams(self) -> Streams:
        rows = self.rows_per_batch // 2
        keys = max(1, round(2 * WITHIN_S / FILE_S * rows / self.matches))
        return Streams(self.zipf, self.warmup + self.batches, rows, keys, FILE_S)

    def parameters(self, folder: Path) -> Json:
        return {
            "folder": str(folder),
            "rows_per_batch": self.rows_per_batch,
            "warmup": self.warmup,
            "within_s": WITHIN_S,
            "how": self.how,
            "instances": self.instances,
            "unix_sockets": self.unix_sockets,
            "files": self.files,
            "sink": self.sink,
        }


def default_batches(rows_per_batch: int) -> tuple[int, int]:
    """How many batches to measure, and how many before: the state is full after four, but smaller
    batches take more of them until the JVM has compiled what runs often."""
    if rows_per_batch >= 500_000:
        return 12, 8
    return (40, 20) if rows_per_batch >= 50_000 else (100, 40)


def measure(run: Run, groups: list[str], data: Path) -> Json:
    """Everyone's figures for one size and skew, and how they compare."""
    say(f"{count(run.rows_per_batch)} rows per batch, zipf {run.zipf:g}: data")
    folder = run.streams.make(data)
    results: dict[str, Json] = {}
    for function in (function for group in groups for function in GROUPS[group]):
        read_through(folder)
        name = function.__name__
        results[name] = run_fresh(function, run.parameters(folder))
        say(f"  {name}: {count(results[name]['rows_per_s'])} rows/s")
    found = {name: r["result_rows"] for name, r in results.items() if "result_rows" in r}
    left_rows = run.streams.rows * run.streams.files
    # Of rows without a partner, everybody still holds some back when the streams end.
    comparable = len(found) > 1 and run.how == "inner"
    ratios = compare(results)
    return {
        "rows_per_batch": run.rows_per_batch,
        "how": run.how,
        "files": run.files,
        "sink": run.sink,
        "zipf": run.zipf,
        "keys": run.streams.keys,
        "batches": run.batches,
        "warmup": run.warmup,
        "matches_per_row": round(max(found.values()) / left_rows, 3) if found else None,
        "same_result_rows": len(set(found.values())) == 1 if comparable else None,
        "contestants": results,
        "ratios": ratios,
        "targets": [
            target.judge(ratios[target.figure])
            for target in (COLUMN_TARGETS if run.files else TARGETS).get(run.rows_per_batch, ())
            if target.figure in ratios
        ],
    }


def compare(results: dict[str, Json]) -> dict[str, float]:
    """The ratios that can be told from those who took part."""
    ratios: dict[str, float] = {}
    ours = results.get("skewless")
    if ours is None:
        return ratios
    if spark := results.get("spark"):
        ratios[OF_SPARK] = ours["rows_per_s"] / spark["rows_per_s"]
        ratios[MEDIAN] = ours["median_ms"] / spark["median_ms"]
        ratios[MEMORY] = ours["memory"]["rss_peak_bytes"] / spark["memory"]["rss_peak_bytes"]
    if floor := results.get("floor"):
        ratios[OF_FLOOR] = ours["rows_per_s"] / floor["rows_per_s"]
        ratios[OF_STREAMED_FLOOR] = ours["rows_per_s"] / floor["stream"]["rows_per_s"]
    for name, figure in OF_LIMITS.items():
        if limit := results.get(name):
            ratios[figure] = ours["rows_per_s"] / limit["rows_per_s"]
    return {figure: round(ratio, 3) for figure, ratio in ratios.items()}


def show(out: Console, run: Json) -> None:
    title = (
        f"{run['how']} join, {count(run['rows_per_batch'])} rows per batch, zipf {run['zipf']:g}, "
        f"{run['batches']} batches after {run['warmup']}"
        f"{', files read by skewless' if run['files'] else ''}, {run['sink']} sink"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for name, result in run["contestants"].items():
        memory = [gigabytes(peak) for peak in result["memory"].values()]
        found = [count(result[f]) if f in result else "" for f in ("result_rows", "late_rows")]
        table.add_row(name, *_speed(result), *memory, *found)
        if "stream" in result:
            table.add_row(f"{name}, streamed", *_speed(result["stream"]))
    out.print(table)
    if run["matches_per_row"] is not None:
        same = {True: "all agree", False: "[red]they differ[/]", None: "not compared"}
        agree = same[run["same_result_rows"]]
        out.print(f"{run['matches_per_row']:g} matches per row of a side; result rows: {agree}")
    show_ratios(out, run)


def _speed(result: Json) -> list[str]:
    speed = [count(result["rows_per_s"])]
    if "median_ms" in result:
        speed += [count(result["median_ms"]), count(result["p99_ms"])]
    return speed + [""] * (3 - len(speed))


def main(
    rows_per_batch: Annotated[
        int | None, typer.Option(min=2, help="Rows of both sides together. Default: three sizes.")
    ] = None,
    zipf: Annotated[
        float | None, typer.Option(min=0, help="Skew of the left side. Default: 0 and 1.5.")
    ] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Batches to measure. Default: 12 to 100, by size.")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Batches before. Default: 8 to 40, by size.")
    ] = None,
    instances: Annotated[
        int | None, typer.Option(min=1, help="Tasks of skewless' join. Default: its own.")
    ] = None,
    matches: Annotated[
        float, typer.Option(min=0.001, help="Matches of a row, away from the stream's ends.")
    ] = 1.0,
    files: Annotated[
        bool, typer.Option("--files", help="skewless reads the files itself, by sk.readStream.")
    ] = False,
    sink: Annotated[str, typer.Option(help=f"One of: {', '.join(SINKS)}.")] = "noop",
    how: Annotated[str, typer.Option(help=f"One of: {', '.join(HOWS)}.")] = "inner",
    only: Annotated[
        str | None,
        typer.Option(
            help="Who takes part, separated by commas.",
            show_default=f"{','.join(GROUPS)}; in other joins than inner ones skewless,spark",
        ),
    ] = None,
    unix_sockets: Annotated[
        bool, typer.Option("--unix-sockets", help="Spark speaks to Python over Unix sockets.")
    ] = False,
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare skewless with Spark's own stream-stream join."""
    if how not in HOWS:
        raise typer.BadParameter(f"{how!r} is none of: {', '.join(HOWS)}", param_hint="--how")
    if sink not in SINKS:
        raise typer.BadParameter(f"{sink!r} is none of: {', '.join(SINKS)}", param_hint="--sink")
    default_groups = GROUPS if how == "inner" else ("skewless", "spark")
    groups = [*default_groups] if only is None else [g.strip() for g in only.split(",")]
    if unknown := [group for group in groups if group not in GROUPS]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of: {', '.join(GROUPS)}")
    sizes = SIZES if rows_per_batch is None else (rows_per_batch // 2 * 2,)
    telling = Telling("native", as_json, settings=settings(unix_sockets))
    for size in sizes:
        default, before = default_batches(size)
        for skew in SKEWS if zipf is None else (zipf,):
            run = Run(
                size, skew, batches or default, before if warmup is None else warmup,
                matches, instances, unix_sockets, how, files, sink,
            )  # fmt: skip
            telling.run(measure(run, groups, data), show)
    telling.end()


if __name__ == "__main__":
    start(main)
