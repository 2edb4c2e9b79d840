"""Rows of 64 MiB on Spark: many rows meet one of them, which is more than an Arrow array, and so a
batch that Spark takes, can hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark.support import file_stream, keyed_join, keyed_tables, read_parquet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SIZE, MANY = 64 << 20, 40
PATIENCE_S = 1200


def test_many_rows_meet_one_of_64_mib(spark: SparkSession, tmp_path: Path) -> None:
    left = file_stream(tmp_path / "left", keyed_tables("left", [[(1, 1.0)] * MANY]))
    right = file_stream(tmp_path / "right", keyed_tables("right", [[(1, 1.0), (2, 1.0)]]))
    text = F.concat(F.col("b").cast("string"), F.repeat(F.lit("x"), SIZE))
    joined = keyed_join(left.read(spark), right.read(spark).withColumn("text", text))
    told = joined.select("a", F.length("text").alias("size"), F.substring("text", 1, 2).alias("t"))
    writer = told.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start(str(tmp_path / "out"))
    assert query.awaitTermination(PATIENCE_S), "the query did not end"
    assert read_parquet(tmp_path / "out") == Counter((n, SIZE + 1, "0x") for n in range(MANY))
