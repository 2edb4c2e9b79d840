"""The join of `benchmarks.scale_out`: a driver's program, and the batches that it works on."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skewless.workloads.zipf import EPOCH, ZipfKeys

SIDES = ("l", "r")
KEYS = 20_000
ZIPF = 1.2  # of the left side; the right one is uniform, so that a row has few matches
BATCH_S = 10
FILES = 8  # of each side in a batch: as many hosts can read at the same time
HOT_FOR = 3  # batches; then other keys are hot, so that work must move again
PAYLOAD = 100  # bytes of each row that nothing can compress
WITHIN, LATE = "1 second", "30 seconds"
COLUMNS = "key long, at timestamp, payload string"


@dataclass(frozen=True)
class Feed:
    """Batches of so many rows on each side, whichever hosts work on them. The first `small` of them
    have a quarter: so it shows what each byte costs, and what a batch costs anyway."""

    rows: int
    small: int

    def rows_of(self, batch: int) -> int:
        return self.rows // 4 if batch < self.small else self.rows

    def table(self, side: int, batch: int) -> pa.Table:
        exponent, rows = (ZIPF, 0.0)[side], self.rows_of(batch)
        keys = ZipfKeys(KEYS, exponent, seed=batch // HOT_FOR).draw(rows, batch, side)
        rng = np.random.default_rng((batch, side))
        begun_us = round(EPOCH.timestamp() * 1e6) + batch * BATCH_S * 1_000_000
        times = np.sort(begun_us + rng.integers(0, BATCH_S * 1_000_000, rows))
        letters = rng.bytes(rows * PAYLOAD // 2).hex()
        payload = [letters[at : at + PAYLOAD] for at in range(0, len(letters), PAYLOAD)]
        prefix = SIDES[side]
        return pa.table(
            {
                f"{prefix}_key": keys,
                f"{prefix}_at": pa.array(times, pa.timestamp("us", tz="UTC")),
                f"{prefix}_payload": payload,
            }
        )

    def bytes_of(self, batch: int) -> int:
        return sum(self.table(side, batch).nbytes for side in range(2))

    def write(self, folder: Path, batches: int) -> None:
        """All files, before anybody looks: each batch then takes those of one time."""
        for side, name in enumerate(SIDES):
            (folder / name).mkdir(parents=True)
            for batch in range(batches):
                table, when = self.table(side, batch), EPOCH.timestamp() + batch
                rows = -(-len(table) // FILES)
                for number in range(FILES):
                    file = folder / name / f"{batch:05d}-{number}.parquet"
                    pq.write_table(table.slice(number * rows, rows), file, compression="none")
                    os.utime(file, (when, when))


def main(config: dict[str, Any]) -> None:
    """Join until killed. Results go nowhere: what is measured is the state."""
    from pyspark.sql import SparkSession

    import skewless as sk

    builder = SparkSession.builder.appName("scale_out")
    for key, value in config["settings"].items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    sides = []
    for name in SIDES:
        columns = ", ".join(f"{name}_{column}" for column in COLUMNS.split(", "))
        reader = session.readStream.schema(columns).option("maxFilesPerTrigger", FILES)
        sides.append(reader.parquet(f"{config['inputs']}/{name}"))
    left, right = sides
    moving = sk.Auto(window=1, patience=1, cooldown=1, floor_ms=0.0, noise=1.0)
    balance = moving if config.get("balanced", True) else sk.Hash()
    joined = sk.join(
        left,
        right,
        on=[("l_key", "r_key")],
        time=("l_at", "r_at"),
        within=WITHIN,
        late=LATE,
        balance=balance,
        instances=config["instances"],
    )
    writer = joined.writeStream.format("noop").option("checkpointLocation", config["checkpoint"])
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
