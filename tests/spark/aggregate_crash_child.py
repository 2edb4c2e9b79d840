"""An aggregation in a process of its own, to be killed.

    python aggregate_crash_child.py '{"folder": …, "way": "PdStream"}'

It aggregates all files in `in/`. A file `started` says that its session runs, `done` is its last
sign of life.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import skewless as sk
from tests.spark.crash_child import run_once
from tests.spark.support import FileStream, keyed_tables, mixed, run

AGGS: dict[str, object] = {
    "n": "count",
    "total": ("sum", "a"),
    "middle": ("quantile", "a", 0.5),
    "different": ("approx_distinct", "a"),
}
SIZE_S, SLIDE_S, LATE_S = 20, 10, 2


def tables(_: str, first: int, last: int) -> list[pa.Table]:
    """Batches of ten seconds in which most rows are of one key."""
    batches = [
        [(7 if i % 3 else k, t) for i, (k, t) in enumerate(mixed(b, 45, 5, 1))]
        for b in range(first, last)
    ]
    return keyed_tables("left", batches)


def sources(folder: Path) -> list[FileStream]:
    """The one stream, without any files yet."""
    return [FileStream(folder / "in", keyed_tables("left", [[]])[0].schema)]


def aggregate_all(session: SparkSession, folder: Path, grouping: str) -> Path:
    """Work on all files there are; the folder of the results."""
    result = sk.aggregate(
        *(source.read(session) for source in sources(folder)),
        "k",
        AGGS,
        time="at",
        window=(f"{SIZE_S} seconds", f"{SLIDE_S} seconds"),
        late=f"{LATE_S} seconds",
        grouping=getattr(sk, grouping)(),
        instances=3,
    )
    return run(result.select("window.start", "k", *AGGS), folder)


if __name__ == "__main__":
    run_once(aggregate_all)
