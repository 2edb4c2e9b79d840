"""A three-way join in a process of its own, to be killed.

    python join3_crash_child.py '{"folder": …, "way": "TriJoin"}'

It joins all files in `r/`, `s/` and `t/`. A file `started` says that its session runs, `done` is
its last sign of life.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import skewless as sk
from skewless.operators.three_way.strategies import ThreeStrategy
from tests.spark.crash_child import run_once
from tests.spark.support import FileStream, keyed_tables, mixed, run

STRATEGIES: dict[str, ThreeStrategy | str] = {
    "TriJoin": sk.TriJoin(),
    "Tree": sk.Tree(),
    "auto": "auto",
}
COLUMNS = {"r": ("k", "at", "a"), "s": ("k", "seen", "b"), "t": ("k", "done", "c")}
WITHIN_S = 7


def tables(stream: str, first: int, last: int) -> list[pa.Table]:
    """Batches of ten seconds of a stream."""
    salt = 1 + "rst".index(stream)
    made = keyed_tables("left", [mixed(b, 20, 5, salt) for b in range(first, last)])
    return [table.rename_columns(list(COLUMNS[stream])) for table in made]


def sources(folder: Path) -> list[FileStream]:
    """The streams r, s and t, without any files yet."""
    schema = keyed_tables("left", [[]])[0].schema
    return [
        FileStream(folder / name, pa.schema(zip(columns, schema.types, strict=True)))
        for name, columns in COLUMNS.items()
    ]


def join_all(session: SparkSession, folder: Path, strategy: str) -> Path:
    """Work on all files there are; the folder of the triples."""
    joined = sk.join3(
        *(source.read(session) for source in sources(folder)),
        on=[sk.equal("r.k", "s.k"), sk.equal("s.k", "t.k")],
        times=("at", "seen", "done"),
        within=f"{WITHIN_S} seconds",
        late="10 seconds",
        strategy=STRATEGIES[strategy],
        instances=3,
    )
    return run(joined, folder)


if __name__ == "__main__":
    run_once(join_all)
