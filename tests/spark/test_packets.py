"""Packets on Spark: its plan brings each to where the driver would."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from skewless.arrays.types import HASH_MAX
from skewless.engine.exchange import Homes, Packet
from skewless.spark.exchange import PACKET_NAMES, _as_row
from skewless.spark.executor import _place_of

HOMES = Homes(
    {"join-1": ([0, 2, 1, 2], 3), "join-2": ([1, 0], 2)},
    {"join-1": {7: [2], HASH_MAX: [1, 0]}, "join-2": {}},
)


@pytest.mark.parametrize("homes", [HOMES, Homes(HOMES.of)], ids=["apart", "none apart"])
def test_spark_finds_where_packets_go(spark: SparkSession, homes: Homes) -> None:
    packets = [
        Packet(operator, "left", "left", bucket, deal, key, b"")
        for operator, buckets in (("join-1", 4), ("join-2", 2))
        for bucket in range(buckets)
        for deal in (0, 1, 31, 63)
        for key in (None, 7, 8, HASH_MAX)
    ]
    rows = [_as_row(packet, packets=True).to_pylist()[0] for packet in packets]
    schema = "json string, operator string, input string, side string, bucket int, deal int, "
    frame = spark.createDataFrame(
        [tuple(row[name] for name in PACKET_NAMES) for row in rows],
        schema + "key string, data binary",
    )
    found = [place for (place,) in frame.select(_place_of(homes)).collect()]
    assert found == [homes.place(packet) for packet in packets]
