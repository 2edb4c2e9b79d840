"""Keys, headers, topics and partitions: from Kafka, through a join, to Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import skewless as sk
from tests.kafka.city import City
from tests.kafka.reading import read_all
from tests.spark.support import at, finish

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

ORDERS = "order_id int, cell int, ordered_at timestamp"
TRACKS = "taxi int, cell int, seen_at timestamp"
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
