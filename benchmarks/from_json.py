"""What does it cost to join streams whose values are JSON, as Kafka has them?

    python -m benchmarks.from_json [--rows-per-batch N] [--batches N] [--warmup N] [--json]

Both sides are files with a column `value` of bytes, one file per side and micro-batch: objects of
seven fields, of which six are asked for. `skewless` parses them by `sk.from_json`, `in_front` is
the same join with Spark's `from_json` in front, and `spark` is Spark's own join with it. Each runs
in a fresh process. `parsing` is parsing alone, by Spark and here, up to columns in Python. All who
join must find the same number of rows; otherwise this ends with an error.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import from_json_contestants as contestants
from benchmarks.data import DATA, Streams, read_through, stream_files
from benchmarks.measure import Json, run_fresh, say
from benchmarks.tables import count
from benchmarks.telling import Telling, show_ratios, start

SIZES = {1_000_000: (4, 2), 100_000: (10, 5)}  # values of both sides: batches, and those before
FILE_S, WITHIN_S = 5.0, 10
JOINING = (contestants.skewless, contestants.in_front, contestants.spark)
NOTE = "left at the door, as agreed by phone"


def make_values(streams: Streams, data: Path) -> Path:
    """The rows of two streams as JSON; written now unless they are there."""
    plain = streams.make(data)
    folder = plain.with_name(f"json-{plain.name}")
    if not folder.exists():
        begun = folder.with_name(f".{folder.name}.{os.getpid()}")
        for file in stream_files(plain):
            target = begun / file.relative_to(plain)
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"value": as_json(pq.read_table(file))}), target)
            told = file.stat()
            os.utime(target, (told.st_atime, told.st_mtime))  # files are taken in that order
        try:
            begun.rename(folder)
        except OSError:  # someone else was quicker
            shutil.rmtree(begun)
    return folder


def as_json(rows: pa.Table) -> pa.Array:
    keys = rows.column("key").to_pylist()
    times_us = rows.column("ts").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    stamps = np.datetime_as_string(times_us.astype("datetime64[us]"))
    texts = (
        f'{{"key": {key}, "ts": "{stamp}Z", "user": "user-{key * 7}", "price": {i % 9999 / 100}, '
        f'"items": {i % 9}, "paid": {"true" if i % 2 else "false"}, "note": "{NOTE}"}}'
        for i, (key, stamp) in enumerate(zip(keys, stamps, strict=True))
    )
    return pa.array([text.encode() for text in texts], pa.binary())


def measure(rows_per_batch: int, batches: int, warmup: int, data: Path) -> Json:
    rows = rows_per_batch // 2
    keys = round(2 * WITHIN_S / FILE_S * rows)  # one match a row, away from the streams' ends
    say(f"{count(rows_per_batch)} values per batch: data")
    folder = make_values(Streams(0.0, warmup + batches, rows, keys, FILE_S), data)
    parameters: Json = {
        "folder": str(folder),
        "rows_per_batch": rows_per_batch,
        "warmup": warmup,
        "within_s": WITHIN_S,
        "unix_sockets": False,
    }
    results: dict[str, Json] = {}
    for function in (*JOINING, contestants.parsing):
        read_through(folder)
        say(f"  {function.__name__}")
        results[function.__name__] = run_fresh(function, parameters)
    rates = {f.__name__: results[f.__name__]["rows_per_s"] for f in JOINING}
    return {
        "rows_per_batch": rows_per_batch,
        "batches": batches,
        "warmup": warmup,
        "same_result_rows": len({results[name]["result_rows"] for name in rates}) == 1,
        "contestants": results,
        "ratios": {
            "over Spark's from_json in front": round(rates["skewless"] / rates["in_front"], 2),
            "over Spark's own join": round(rates["skewless"] / rates["spark"], 2),
            "parsing alone": results["parsing"]["spark_over_skewless"],
        },
    }


def show(out: Console, run: Json) -> None:
    title = f"{count(run['rows_per_batch'])} values per batch, {run['batches']} batches"
    table = Table("", "values/s", "median ms", "result rows", title=title, title_justify="left")
    for function in JOINING:
        one = run["contestants"][function.__name__]
        figures = (one["rows_per_s"], one["median_ms"], one["result_rows"])
        table.add_row(function.__name__, *map(count, figures))
    out.print(table)
    parsing = run["contestants"]["parsing"]["s_per_million"]
    told_s = ", ".join(f"{name} {seconds} s" for name, seconds in parsing.items())
    out.print(f"parsing alone, per million values: {told_s}")
    show_ratios(out, run)


def main(
    rows_per_batch: Annotated[
        int | None, typer.Option(min=2, help="Values of both sides together. Default: two sizes.")
    ] = None,
    batches: Annotated[int | None, typer.Option(min=1, help="Batches to measure.")] = None,
    warmup: Annotated[int | None, typer.Option(min=0, help="Batches before.")] = None,
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare `sk.from_json` with Spark's `from_json`, in joins and alone."""
    telling = Telling("from_json", as_json)
    for size in SIZES if rows_per_batch is None else (rows_per_batch // 2 * 2,):
        default, before = SIZES.get(size, (10, 5))
        run = measure(size, batches or default, before if warmup is None else warmup, data)
        telling.run(run, show)
    telling.end()


if __name__ == "__main__":
    start(main)
