"""What is refused before a query starts that writes to Kafka. No broker is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from tests.spark.support import keyed_join, keyed_pair

pytestmark = pytest.mark.spark


@pytest.fixture
def joined(spark: SparkSession, tmp_path: Path) -> sk.Joined:
    left, right = keyed_pair(tmp_path)
    return keyed_join(left.read(spark), right.read(spark))


def start(result: sk.Joined, folder: Path, **options: Any) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"} | options
    writer = result.writeStream.format("kafka").option("checkpointLocation", str(folder / "ckpt"))
    for name, value in given.items():
        if value is not None:
            writer = writer.option(name, value)
    writer.start()


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        (["k"], {}, r"`value` must be a column named value: .*to_json.*received 'k'"),
        (["a AS value"], {}, "`value` must be of type string or binary; received 'bigint'"),
        (["'v' AS value", "k AS key"], {}, "`key` must be of type string or binary"),
        (["'v' AS value", "k AS partition"], {}, "`partition` must be of type int"),
        (["'v' AS value", "array('x') AS headers"], {}, r"`headers` must be of type array<struct"),
        (["'v' AS value", "1 AS topic"], {"topic": None}, "`topic` must be of type string"),
        (["'v' AS value"], {"topic": None}, "`topic` must be given: an option, or a column"),
        (["'v' AS value"], {"skewless.delivery": "twice"}, "exactly-once, at-least-once"),
        (["'v' AS value"], {"kafka.bootstrap.servers": None}, r"`kafka\.bootstrap\.servers`"),
    ],
)
def test_what_cannot_work(
    joined: sk.Joined, tmp_path: Path, columns: list[str], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ArgumentError, match=told) as found:
        start(joined.selectExpr(*columns), tmp_path, **options)
    assert isinstance(found.value, ColumnError) == ("be a column" in told or "be of type" in told)
    assert not (tmp_path / "ckpt" / "skewless" / "commits").exists()


def test_delivery_is_kafkas(joined: sk.Joined, tmp_path: Path) -> None:
    writer = joined.writeStream.format("parquet").option("skewless.delivery", "at-least-once")
    with pytest.raises(ArgumentError, match=r"`skewless\.delivery` must be left out"):
        writer.option("checkpointLocation", str(tmp_path / "c")).start(str(tmp_path / "out"))
