"""Which executor each instance runs on, job after job, as JSON in a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from skewless.spark.cluster import Places, parallelism


def executor_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"i": batch.column(0), "executor": [os.getppid()] * batch.num_rows})


def main() -> None:
    builder = SparkSession.builder.master("local-cluster[3,1,1024]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "localhost",
        "spark.executor.memory": "1g",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.range(0, 60, 1, 12).count()  # all executors are there
    places, found = Places(), []
    for count in (3, 5, 3, 5, 3, 5):
        numbers = places.numbers(session, count, parallelism(session))
        rows = numbers.mapInArrow(executor_of, "i long, executor long").collect()
        found.append([row.executor for row in sorted(rows)])
    places.forget()
    Path(sys.argv[1]).write_text(json.dumps(found))
    session.stop()


if __name__ == "__main__":
    main()
