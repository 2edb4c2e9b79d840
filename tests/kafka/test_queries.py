"""From Kafka to Kafka: JSON in two topics, joined, JSON out, as docs/kafka.md shows it."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless as sk
from tests.documents import DOCS, snippets
from tests.kafka.broker import Broker
from tests.kafka.reading import read_all
from tests.spark.support import at

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

WITHIN_S = 30
Pairs = Counter[tuple[int, int]]


class City:
    """Three topics, and all that was ever sent to two of them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.orders: list[dict[str, Any]] = []
        self.tracks: list[dict[str, Any]] = []
        for topic in ("orders", "tracks", "matches"):
            broker.create(topic, 2)

    def send(self, count: int) -> None:
        begin = len(self.orders)
        numbers = range(begin, begin + count)
        orders = [{"order_id": i, "cell": i % 5, "ordered_at": i} for i in numbers]
        tracks = [{"taxi": i, "cell": i % 3, "seen_at": i + 3} for i in numbers]
        self.orders += orders
        self.tracks += tracks
        producer = Producer({"bootstrap.servers": self.broker.servers})
        for topic, rows, time_of in (
            ("orders", orders, "ordered_at"),
            ("tracks", tracks, "seen_at"),
        ):
            for row in rows:
                told = row | {time_of: at(row[time_of]).isoformat()}
                producer.produce(topic, json.dumps(told))
        assert producer.flush(60) == 0

    def expected(self) -> Pairs:
        return Counter(
            (order["order_id"], track["taxi"])
            for order in self.orders
            for track in self.tracks
            if order["cell"] == track["cell"]
            and abs(order["ordered_at"] - track["seen_at"]) <= WITHIN_S
        )

    def matches(self) -> Pairs:
        found = [json.loads(r.value or b"") for r in read_all(self.broker.servers, ["matches"])]
        return Counter((row["order_id"], row["taxi"]) for row in found)

    def remove(self, topics: tuple[str, ...] = ("orders", "tracks", "matches")) -> None:
        for topic in topics:
            self.broker.delete(topic)
        while set(topics) & set(self.broker.admin.list_topics(timeout=10).topics):
            time.sleep(0.05)


@pytest.fixture
def city(kafka_broker: Broker) -> Iterator[City]:
    city = City(kafka_broker)
    yield city
    city.remove()


@pytest.fixture
def run(city: City, kafka_spark: SparkSession, tmp_path: Path) -> Callable[..., None]:
    """Run what the document shows."""
    [snippet] = snippets(DOCS / "kafka.md")
    block = snippet.source.replace("localhost:9092", city.broker.servers)
    block = block.replace('"ckpt"', repr(str(tmp_path / "ckpt")))

    def run(*changes: tuple[str, str]) -> None:
        source = block
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        exec(compile(source, "docs/kafka.md", "exec"), {"sk": sk, "F": F, "spark": kafka_spark})

    return run


def test_json_in_and_out_with_restarts(city: City, run: Callable[..., None]) -> None:
    for _ in range(3):
        city.send(60)
        run()
        assert city.expected()
        assert city.matches() == city.expected()


def test_at_least_once_is_sparks_sink(city: City, run: Callable[..., None]) -> None:
    city.send(60)
    least = '.option("topic", "matches").option("skewless.delivery", "at-least-once")'
    run(('.option("topic", "matches")', least))
    assert city.matches() == city.expected()


def test_a_broker_that_is_killed_in_mid_query(
    city: City, run: Callable[..., None], tmp_path: Path
) -> None:
    """Small batches, so that it is away while records are read and rows are delivered."""
    city.send(400)
    commits = tmp_path / "ckpt" / "skewless" / "commits"
    seen: list[int] = []

    def kill() -> None:
        while not commits.exists() or len(list(commits.iterdir())) < 3:
            time.sleep(0.01)
        seen.append(len(list(commits.iterdir())))
        city.broker.kill()
        city.broker.start()

    away = threading.Thread(target=kill, daemon=True)
    away.start()
    # A batch takes from partitions as it likes: what lies behind must not be late.
    late = ('within="30 seconds"', 'within="30 seconds", late="1 hour"')
    run((".load()", '.option("maxOffsetsPerTrigger", 40).load()'), late)
    away.join()
    assert seen[0] < len(list(commits.iterdir())), "there was more to do"
    assert city.matches() == city.expected()


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_was_made_anew(city: City, run: Callable[..., None], fails: bool) -> None:
    """Its offsets are below those that were read: Spark says so, or goes on with what is there."""
    city.send(60)
    run()
    before, orders, tracks = city.expected(), city.orders, city.tracks
    city.remove(("orders", "tracks"))
    city.broker.create("orders", 2)
    city.broker.create("tracks", 2)
    city.send(20)
    told = (".load()", f'.option("failOnDataLoss", "{str(fails).lower()}").load()')
    if fails:
        with pytest.raises(StreamingQueryException, match=r"(?is)data.?loss|some data may have"):
            run(told)
        assert city.matches() == before
        return
    run(told)
    city.orders, city.tracks = orders, tracks
    assert not before - city.matches(), "what was there stays"
