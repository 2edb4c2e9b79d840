"""Spark's own stream-stream join, on the same streams, gives the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from tests.spark.support import (
    assert_same,
    finish,
    keyed_oracle,
    keyed_pair,
    read_parquet,
    run,
)


def native(left: DataFrame, right: DataFrame, extra: str) -> DataFrame:
    a = left.withWatermark("at", "10 seconds").alias("l")
    b = right.withWatermark("seen", "10 seconds").alias("r")
    near = "seen BETWEEN at - INTERVAL 4 SECONDS AND at + INTERVAL 4 SECONDS"
    both = a.join(b, F.expr(f"l.k = r.k AND {near} AND {extra}"))
    return both.select("l.k", "at", "a", "seen", "b")


@pytest.mark.slow
@pytest.mark.parametrize("banded", [False, True])
def test_spark_joins_the_same(spark: SparkSession, tmp_path: Path, banded: bool) -> None:
    left, right = keyed_pair(tmp_path, batches=3, rows=60, keys=5)
    query = native(left.read(spark), right.read(spark), "abs(a - b) <= 20" if banded else "true")
    writer = query.writeStream.format("parquet").option("path", str(tmp_path / "native"))
    writer = writer.option("checkpointLocation", str(tmp_path / "native-checkpoint"))
    finish(writer.trigger(availableNow=True).start())
    expected = read_parquet(tmp_path / "native")
    assert expected.total() > 50

    on = ["k", sk.band("a", "b", width=20)] if banded else "k"
    times = {"left_time": "at", "right_time": "seen"}
    frames = left.read(spark), right.read(spark)
    ours = sk.join(*frames, on, **times, within="4 seconds", late="10 seconds")
    assert_same(read_parquet(run(ours, tmp_path / "ours")), expected)
    if not banded:
        assert_same(expected, keyed_oracle(left, right))
