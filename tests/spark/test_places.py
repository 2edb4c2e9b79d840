"""Rows that are exchanged arrive where the instance works that will read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from skewless.engine.exchange import DEALS, Homes, Packet
from skewless.spark import cluster
from skewless.spark.cluster import HOME, Places, keys_of, murmur3
from skewless.spark.exchange import PACKET_SCHEMA
from skewless.spark.executor import exchanged

BUCKETS, INSTANCES = 12, 3
APART = 77  # the hash of a key that has places of its own
HOMES = Homes(
    {"join": ([bucket % INSTANCES for bucket in range(BUCKETS)], INSTANCES)},
    {"join": {APART: [2, 0]}},
)


@dataclass(frozen=True)
class Seen:
    found: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return self.found


class Noting:
    """Instead of putting packets together: tells which came to a task."""

    def by(self, homes: Homes) -> Noting:
        assert homes == HOMES
        return self

    def __call__(self, packets: Iterable[Packet]) -> Iterator[Seen]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        places = [HOMES.place(packet) for packet in packets]
        yield Seen({"task": context.partitionId(), "places": places})


def test_spark_hashes_as_we_foretell(spark: SparkSession) -> None:
    values = [0, 1, 2, 1000, 2**31 - 1]
    rows = spark.createDataFrame([(value,) for value in values], "value int")
    assert [row[0] for row in rows.select(F.hash("value")).collect()] == [*map(murmur3, values)]
    for count in (1, 2, 3, 64):
        assert [murmur3(key) % count for key in keys_of(count)] == list(range(count))


def test_numbers_are_in_the_partitions_of_their_instances(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "is_one_host", lambda session: False)
    places = Places()
    try:
        numbers = places.numbers(spark, 5, 2)
        found = numbers.select("id", F.spark_partition_id()).collect()
        assert sorted(map(tuple, found)) == [(number, number) for number in range(5)]
    finally:
        places.forget()


def test_who_ends_takes_no_places_of_others(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two queries of one application, with as many instances each."""
    monkeypatch.setattr(cluster, "is_one_host", lambda session: False)
    ends, goes_on = Places(), Places()
    try:
        ends.numbers(spark, 3, 2)
        assert goes_on.numbers(spark, 3, 2).storageLevel.useMemory
        ends.forget()
        assert goes_on.numbers(spark, 3, 2).storageLevel.useMemory
    finally:
        goes_on.forget()


@pytest.mark.parametrize("adaptive", ["false", "true"])
def test_packets_go_to_the_tasks_of_the_numbers(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, adaptive: str
) -> None:
    """Each task has one number, whose place is its own, and all packets of that instance."""
    monkeypatch.setattr(cluster, "is_one_host", lambda session: False)
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    places = Places()
    packets = [
        (None, "join", "left", "left", bucket, deal, key, b"x")
        for bucket in range(BUCKETS)
        for deal in (0, DEALS // 2)
        for key in (None, str(APART))
    ]
    sent = spark.createDataFrame(packets, PACKET_SCHEMA)
    try:
        numbers = places.numbers(spark, INSTANCES, 2)
        assert HOME in numbers.columns
        frame = exchanged(sent, HOMES, Noting(), numbers)  # type: ignore[arg-type]
        told = frame.select(F.from_json("json", "task int, places array<int>").alias("t"))
        found = {row.t.task: row.t.places for row in told.collect()}
    finally:
        places.forget()
        spark.conf.set("spark.sql.adaptive.enabled", before or "true")
    assert sorted(found) == list(range(INSTANCES)), "no tasks but those of the numbers"
    assert all(set(of) == {task} for task, of in found.items())
    assert sum(map(len, found.values())) == len(packets)
