"""An independent reader: what a consumer sees that trusts only committed transactions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, TopicPartition

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Record:
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_all(
    servers: str, topics: Iterable[str], isolation: str = "read_committed"
) -> list[Record]:
    """All records of some topics, up to where a reader comes now."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reading",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    try:
        places = [
            TopicPartition(topic, partition, 0)
            for topic in topics
            for partition in consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
        ]
        consumer.assign(places)
        left, found = {(p.topic, p.partition) for p in places}, []
        while left:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"no answer about {left}"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard((message.topic(), message.partition()))
                continue
            headers = tuple(message.headers() or ())
            place = message.topic(), message.partition()
            found.append(Record(*place, message.key(), message.value(), headers))
        return found
    finally:
        consumer.close()
