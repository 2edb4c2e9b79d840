"""A similarity join in a process of its own, to be killed.

    python similarity_crash_child.py '{"folder": …, "way": "S3J of places"}'

It joins all files in `left/` and `right/`. A file `started` says that its session runs, `done` is
its last sign of life.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import skewless as sk
from skewless.operators.similarity.strategies import SimilarityStrategy
from tests.spark.crash_child import run_once
from tests.spark.support import TIMESTAMP, FileStream, at, mixed, run

# Places change after every batch that was not perfectly even: kills come in the midst of moves.
STRATEGIES: dict[str, SimilarityStrategy | str] = {
    "S3J of places": sk.S3J(dealt=False, tolerance=0.0),
    "auto": "auto",
    "ClusterJoin": sk.ClusterJoin(partitions=4),
}
SCHEMAS = {
    "left": pa.schema([("a", pa.int64()), ("at", TIMESTAMP), ("v", pa.list_(pa.float64()))]),
    "right": pa.schema([("b", pa.int64()), ("seen", TIMESTAMP), ("v", pa.list_(pa.float64()))]),
}
WITHIN_S, THRESHOLD = 7, 1.6


def tables(side: str, first: int, last: int) -> list[pa.Table]:
    """Batches of ten seconds: rows around six places, in whole numbers."""
    made = []
    for batch in range(first, last):
        rows = [
            (1000 * batch + n, at(seconds), [20.0 * place + n % 3, n // 3 % 2])
            for n, (place, seconds) in enumerate(mixed(batch, 24, 6, len(side)))
        ]
        columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMAS[side],
                                                       strict=True)]  # fmt: skip
        made.append(pa.Table.from_arrays(columns, schema=SCHEMAS[side]))
    return made


def sources(folder: Path) -> list[FileStream]:
    """Both streams, without any files yet."""
    return [FileStream(folder / side, schema) for side, schema in SCHEMAS.items()]


def join_all(session: SparkSession, folder: Path, strategy: str) -> Path:
    """Work on all files there are; the folder of the pairs."""
    joined = sk.similarity_join(
        *(source.read(session) for source in sources(folder)),
        on="v",
        threshold=THRESHOLD,
        left_time="at",
        right_time="seen",
        within=f"{WITHIN_S} seconds",
        late="10 seconds",
        strategy=STRATEGIES[strategy],
        instances=3,
    )
    return run(joined.select("a", "b"), folder)


if __name__ == "__main__":
    run_once(join_all)
