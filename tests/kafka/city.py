"""A city in three topics, and all that was ever sent to two of them: what its join has to give."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Producer, TopicPartition

from tests.kafka.broker import Broker
from tests.kafka.reading import read_all
from tests.spark.support import at

WITHIN_S = 30
PATIENCE_S = 60
Pairs = Counter[tuple[int, int]]


class City:
    """Orders and tracks; matches are what a query makes of them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.orders: list[dict[str, Any]] = []
        self.tracks: list[dict[str, Any]] = []
        self._sent = 0
        for topic in ("orders", "tracks", "matches"):
            broker.create(topic, 2)

    def make(self, count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """As many orders and tracks that are still to be sent; their times are in seconds."""
        numbers = range(self._sent, self._sent + count)
        self._sent += count
        orders = [{"order_id": i, "cell": i % 5, "ordered_at": i} for i in numbers]
        tracks = [{"taxi": i, "cell": i % 3, "seen_at": i + 3} for i in numbers]
        self.orders += orders
        self.tracks += tracks
        return orders, tracks

    def send(self, count: int, **more: Any) -> None:
        """As many orders and tracks, as JSON; orders have some fields more."""
        orders, tracks = self.make(count)
        told = [o | {"ordered_at": at(o["ordered_at"]).isoformat()} | more for o in orders]
        self.produce("orders", map(json.dumps, told))
        told = [t | {"seen_at": at(t["seen_at"]).isoformat()} for t in tracks]
        self.produce("tracks", map(json.dumps, told))

    def produce(self, topic: str, values: Iterable[str | bytes], **more: Any) -> None:
        """Records in turn to both partitions, so that both get the same number of them."""
        producer = Producer({"bootstrap.servers": self.broker.servers})
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 2, **more)
        assert producer.flush(PATIENCE_S) == 0

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

    def lose(self, count: int) -> None:
        """So many of the last orders and tracks count no more: nobody has read them."""
        del self.orders[-count:], self.tracks[-count:]

    def truncate(self, *topics: str) -> None:
        """All records are gone, as after their retention; offsets go on."""
        places = [TopicPartition(topic, number, -1) for topic in topics for number in range(2)]
        admin = self.broker.admin  # it must live until it has its answers
        for answer in admin.delete_records(places).values():
            answer.result(PATIENCE_S)

    def remove(self, *topics: str) -> None:
        topics = topics or ("orders", "tracks", "matches")
        for topic in topics:
            self.broker.delete(topic)
        while set(topics) & set(self.broker.admin.list_topics(timeout=10).topics):
            time.sleep(0.05)

    def make_anew(self, *topics: str) -> None:
        self.remove(*topics)
        for topic in topics:
            self.broker.create(topic, 2)
