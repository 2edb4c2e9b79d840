"""One key with half of all rows on both sides, and a condition that keeps few of its pairs.

    python -m benchmarks.hot_pairs [--pairs 32000000] [--keeps 0.002] [--json]

Every row of the hot key meets every other one within ten seconds: with so many pairs a batch, what
counts is how fast pairs are looked at, and whether more than one core does it. The condition
``abs(r_v - s_v) < 0.001`` keeps 0.2 % of them; `--keeps` another part. Spark's own join has the
same condition; ours is run with `sk.Hash()`, where the hot key is one instance's, and with
`"auto"`, which splits it. Everyone must find the same number of rows; otherwise this ends with an
error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import contestants
from benchmarks.data import DATA, SIDES, read_through
from benchmarks.measure import Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.tables import Target, count
from benchmarks.telling import Telling, show_ratios, start
from skewless.workloads.zipf import EPOCH, empty_folder, generator, publish

PAIRS = (32_000_000, 200_000_000)
FILE_S, WITHIN_S = 5, 10
FILES_IN_REACH = 2 * WITHIN_S / FILE_S
COLD_KEYS = 1_000_000
HOT = -1
KEEPS = 0.002  # of the pairs
CONTESTANTS = (contestants.skewless, contestants.hashed, contestants.spark)

OF_SPARK, OF_HASH = "Auto over Spark's own", "Auto over Hash"
TARGETS = {
    32_000_000: (Target(OF_SPARK, ">=", 30),),
    200_000_000: (Target(OF_HASH, ">=", 1.7),),
}


@dataclass(frozen=True)
class HotStreams:
    """Two streams, one file per batch, in which every other row is of one key."""

    pairs: int
    files: int

    @property
    def rows(self) -> int:
        """Of a side in a file: its hot ones meet those of the other side in four files."""
        return 2 * round(math.sqrt(self.pairs / FILES_IN_REACH))

    def make(self, root: Path) -> Path:
        folder = root / f"hot-pairs{self.pairs}-files{self.files}"
        for number, side in enumerate(SIDES):
            if (folder / side).exists():
                continue
            begun = empty_folder(root / f".{folder.name}-{side}")
            for batch in range(self.files):
                publish(self._table(side, number, batch), begun, batch)
            folder.mkdir(parents=True, exist_ok=True)
            begun.rename(folder / side)
        return folder

    def _table(self, name: str, side: int, batch: int) -> pa.Table:
        chance, span_us = generator(1, side, batch), FILE_S * 1_000_000
        begin_us = round(EPOCH.timestamp()) * 1_000_000 + batch * span_us
        keys = chance.integers(COLD_KEYS, size=self.rows)
        keys[::2] = HOT
        moments = begin_us + np.sort(chance.integers(span_us, size=self.rows))
        return pa.table(
            {
                "key": pa.array(keys, pa.int64()),
                "ts": pa.array(moments, pa.timestamp("us", tz="UTC")),
                f"{name}_id": pa.array(np.arange(self.rows) + batch * self.rows, pa.int64()),
                f"{name}_v": pa.array(chance.random(self.rows), pa.float64()),
            }
        )


def condition(keeps: float) -> str:
    """What about so many of the pairs fulfil: their values are even between 0 and 1."""
    return f"abs(r_v - s_v) < {keeps / 2:f}D"


def measure(
    pairs: int, keeps: float, batches: int, warmup: int, with_spark: bool, data: Path
) -> Json:
    """Everyone's figures for so many pairs a batch, and how they compare."""
    streams = HotStreams(pairs, warmup + batches)
    say(f"{count(pairs)} pairs a batch: data")
    folder, results = streams.make(data), {}
    for function in CONTESTANTS[: 3 if with_spark else 2]:
        read_through(folder)
        parameters = {
            "folder": str(folder),
            "warmup": warmup,
            "rows_per_batch": 2 * streams.rows,
            "within_s": WITHIN_S,
            "how": "inner",
            "condition": condition(keeps),
            "instances": 2,
            "unix_sockets": False,
        }
        results[function.__name__] = found = run_fresh(function, parameters)
        say(f"  {function.__name__}: {count(found['median_ms'])} ms a batch")
    ratios = {OF_HASH: results["hashed"]["mean_ms"] / results["skewless"]["mean_ms"]}
    if with_spark:
        ratios[OF_SPARK] = results["spark"]["mean_ms"] / results["skewless"]["mean_ms"]
    ratios = {figure: round(ratio, 2) for figure, ratio in ratios.items()}
    return {
        "pairs": pairs,
        "keeps": keeps,
        "batches": batches,
        "warmup": warmup,
        "contestants": results,
        "ratios": ratios,
        "targets": [
            target.judge(ratios[target.figure])
            for target in (TARGETS.get(pairs, ()) if keeps == KEEPS else ())
            if target.figure in ratios
        ],
        "same_result_rows": len({found["result_rows"] for found in results.values()}) == 1,
    }


def show(out: Console, run: Json) -> None:
    title = (
        f"{count(run['pairs'])} pairs a batch of which {run['keeps']:.3%} are kept, "
        f"{run['batches']} batches after {run['warmup']}"
    )
    table = Table(title=title, title_justify="left")
    headings = ("mean ms", "median ms", "p99 ms", "M pairs/s", "busiest/mean", "result rows")
    table.add_column("")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, found in run["contestants"].items():
        speed = f"{run['pairs'] / found['mean_ms'] / 1000:.1f}"
        uneven = str(found.get("busiest_over_mean", ""))
        waits = [count(found[figure]) for figure in ("mean_ms", "median_ms", "p99_ms")]
        table.add_row(name, *waits, speed, uneven, count(found["result_rows"]))
    out.print(table)
    show_ratios(out, run)


def main(
    pairs: Annotated[
        int | None, typer.Option(min=4, help="Pairs of a batch. Default: 32 M and 200 M.")
    ] = None,
    keeps: Annotated[
        float, typer.Option(min=1e-5, max=1, help="The part of the pairs that is kept.")
    ] = KEEPS,
    batches: Annotated[int, typer.Option(min=1, help="Batches to measure.")] = 8,
    warmup: Annotated[int, typer.Option(min=0, help="Batches before.")] = 8,
    spark: Annotated[bool, typer.Option(help="Run Spark's own join, too.")] = True,
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """One hot key, many pairs, a condition that keeps few of them."""
    telling = Telling("hot_pairs", as_json, settings=settings(False))
    for size in PAIRS if pairs is None else (pairs,):
        telling.run(measure(size, keeps, batches, warmup, spark, data), show)
    telling.end()


if __name__ == "__main__":
    start(main)
