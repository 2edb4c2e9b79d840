"""Keys, headers, topics and partitions: from Kafka, through a join, to Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless as sk
from tests.kafka.city import City
from tests.kafka.reading import read_all
from tests.spark.support import at, finish, keyed_join, keyed_pair

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

ORDERS = "order_id int, cell int, ordered_at timestamp"
TRACKS = "taxi int, cell int, seen_at timestamp"
NO_KEY = "named_struct('key', cast(null AS string), 'value', X'00')"
HEADERS = [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""), ("none", None)]


def test_keys_and_headers_come_through(
    city: City, kafka_spark: SparkSession, tmp_path: Path
) -> None:
    """Bytes stay as they are, headers of the same name too; a record without any has none."""
    when = at(0).isoformat()
    for number, more in enumerate([{"key": b"\xff\x00", "headers": HEADERS}, {}]):
        order = {"order_id": number, "cell": 1, "ordered_at": when}
        city.produce("orders", [json.dumps(order)], **more)
    city.produce("tracks", [json.dumps({"taxi": 7, "cell": 1, "seen_at": when})])
    kafka = kafka_spark.readStream.format("kafka").option("includeHeaders", "true")
    kafka = kafka.option("kafka.bootstrap.servers", city.broker.servers)
    kafka = kafka.option("startingOffsets", "earliest")
    orders = kafka.option("subscribe", "orders").load().select("key", "value", "headers")
    tracks = kafka.option("subscribe", "tracks").load().select("value")
    joined = sk.join(
        sk.from_json(orders, "value", ORDERS),
        sk.from_json(tracks, "value", TRACKS),
        on="cell",
        time=("ordered_at", "seen_at"),
        within="30 seconds",
    )
    columns = (
        "key",
        "headers",
        "'matches' topic",
        "order_id partition",
        "cast(taxi AS string) value",
    )
    writer = joined.selectExpr(*columns).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", city.broker.servers)
    writer = writer.option("checkpointLocation", str(tmp_path / "ckpt"))
    finish(writer.trigger(availableNow=True).start())
    found = sorted(read_all(city.broker.servers, ["matches"]), key=lambda r: r.partition)
    assert [(r.partition, r.key, r.headers) for r in found] == [
        (0, b"\xff\x00", tuple(HEADERS)),
        (1, None, ()),
    ]
    assert {r.value for r in found} == {b"7"}


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["if(taxi = 7, null, 'matches') topic"], "a row without topic"),
        (["if(taxi = 7, '', 'matches') topic"], "a row without topic"),
        (["if(taxi = 7, 'no topic!', 'matches') topic"], "a row without topic"),
        (["'matches' topic", f"array({NO_KEY}) headers"], "a header without key"),
        (["'matches' topic", "array(if(taxi = 7, null, named_struct('key', 'k', 'value', X'00'))) "
          "headers"], "a header without key"),
    ],
)  # fmt: skip
def test_what_kafka_can_never_take_is_not_committed(
    city: City, spark: SparkSession, tmp_path: Path, columns: list[str], told: str
) -> None:
    """It would wait there for good."""
    left, right = keyed_pair(tmp_path, batches=1)
    joined = keyed_join(left.read(spark), right.read(spark)).withColumn("taxi", F.lit(7))
    writer = joined.selectExpr("cast(a AS string) value", *columns).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", city.broker.servers)
    writer = writer.option("checkpointLocation", str(tmp_path / "ckpt"))
    with pytest.raises(StreamingQueryException, match=told):
        finish(writer.trigger(availableNow=True).start())
    assert not list((tmp_path / "ckpt" / "skewless" / "commits").iterdir())
    assert read_all(city.broker.servers, ["matches"]) == []
