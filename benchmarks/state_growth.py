"""Does a batch of skewless take longer when there is more state?

    python -m benchmarks.state_growth [--rows 1000000,5000000,20000000] [--json]

Per size of the state, in a fresh process: a first query fills the state with many files per batch;
a second one continues from its checkpoint with one file per side and batch, and is measured. The
window is as long as the filling, so that nothing expires before the state is full; from then on as
many rows expire as arrive. There are half as many keys as rows of state: at any size an arriving
row finds about one match.

The target is on the median. The mean is told as well: it includes the batches that compact.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.data import DATA, Streams
from benchmarks.grown import grown
from benchmarks.measure import Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.tables import (
    Target,
    console,
    count,
    gigabytes,
    machine,
    machine_line,
    times,
    verdict,
)
from benchmarks.telling import start

ROWS = "1000000,5000000,20000000"
FILL_ROWS_MAX = 1_000_000  # per batch while filling
FILL_BATCHES_MIN = 8
FILE_S = 1.0

HEADINGS = (
    "state", "stored rows", "GB", "segments", "median ms", "mean ms", "p99 ms",
    "rss GB", "anonymous", "uss GB", "matches/row",
)  # fmt: skip

MEDIAN = "median batch time, most over least state"
MEAN = "mean batch time, most over least state"
TARGET = Target(MEDIAN, "<=", 1.5)


@dataclass(frozen=True)
class Size:
    """`state_rows` of state, met by batches of `rows_per_batch` rows."""

    state_rows: int
    rows_per_batch: int
    batches: int
    warmup: int

    @property
    def fill_files(self) -> int:
        return max(1, self.state_rows // self.rows_per_batch)

    @property
    def fill_files_per_batch(self) -> int:
        most = min(FILL_ROWS_MAX // self.rows_per_batch, self.fill_files // FILL_BATCHES_MIN)
        return max(1, most)

    @property
    def streams(self) -> Streams:
        files = self.fill_files + self.warmup + self.batches
        rows = self.rows_per_batch // 2
        return Streams(0.0, files, rows, max(1, self.fill_files * rows), FILE_S)

    def parameters(self, folder: Path, unix_sockets: bool) -> Json:
        return {
            "folder": str(folder),
            "rows_per_batch": self.rows_per_batch,
            "warmup": self.warmup,
            "fill_files": self.fill_files,
            "fill_files_per_batch": self.fill_files_per_batch,
            "within_s": round(self.fill_files * FILE_S),
            "unix_sockets": unix_sockets,
        }


def measure(size: Size, data: Path, unix_sockets: bool) -> Json:
    say(f"{count(size.state_rows)} rows of state: data")
    folder = size.streams.make(data)
    say("  filling and measuring")
    figures = run_fresh(grown, size.parameters(folder, unix_sockets))
    say(f"  median {count(figures['median_ms'])} ms")
    return {
        "state_rows": size.state_rows,
        "rows_per_batch": size.rows_per_batch,
        "keys": size.streams.keys,
        "warmup": size.warmup,
        **figures,
    }


def compare(sizes: list[Json]) -> dict[str, float]:
    """The largest state over the smallest; nothing when there is but one."""
    if len(sizes) < 2:
        return {}
    least, most = sizes[0], sizes[-1]
    return {
        MEDIAN: round(most["median_ms"] / least["median_ms"], 3),
        MEAN: round(most["mean_ms"] / least["mean_ms"], 3),
    }


def show(out: Console, report: Json) -> None:
    first = report["sizes"][0]
    title = (
        f"batches of {count(first['rows_per_batch'])} rows, {first['batches']} after "
        f"{first['warmup']}; memory from the end of the filling on"
    )
    table = Table(title=title, title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for size in report["sizes"]:
        state = size["state"]
        table.add_row(
            count(size["state_rows"]),
            count(state["rows_median"]),
            gigabytes(state["bytes_median"]),
            str(state["segments_median"]),
            *(count(size[figure]) for figure in ("median_ms", "mean_ms", "p99_ms")),
            *(gigabytes(peak) for peak in size["memory"].values()),
            f"{size['matches_per_arriving_row']:g}",
        )
    out.print(table)
    judged = {target["figure"]: verdict(target) for target in report["targets"]}
    for figure, ratio in report["ratios"].items():
        out.print(f"  {figure}: {times(ratio)}  {judged.get(figure, '')}".rstrip())


def main(
    rows: Annotated[str, typer.Option(help="Rows of state, separated by commas.")] = ROWS,
    rows_per_batch: Annotated[
        int, typer.Option(min=2, help="Rows of both sides together in a measured batch.")
    ] = 100_000,
    batches: Annotated[int, typer.Option(min=1, help="Batches to measure.")] = 20,
    warmup: Annotated[
        int, typer.Option(min=0, help="Batches before, after the state is full.")
    ] = 8,
    unix_sockets: Annotated[
        bool, typer.Option("--unix-sockets", help="Spark speaks to Python over Unix sockets.")
    ] = False,
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure skewless with growing state."""
    try:
        wanted = sorted(int(number) for number in rows.split(","))
    except ValueError:
        raise typer.BadParameter(f"{rows!r} is no list of whole numbers") from None
    told = machine()
    sizes = [
        measure(Size(number, rows_per_batch // 2 * 2, batches, warmup), data, unix_sockets)
        for number in wanted
    ]
    ratios = compare(sizes)
    report = {
        "benchmark": "state_growth",
        "machine": told,
        "settings": settings(unix_sockets),
        "sizes": sizes,
        "ratios": ratios,
        "targets": [TARGET.judge(ratios[MEDIAN])] if ratios else [],
    }
    if as_json:
        print(json.dumps(report))
        return
    out = console()
    out.print(machine_line(told), "\n")
    show(out, report)


if __name__ == "__main__":
    start(main)
