"""A broker, and a Spark session that knows Kafka, for all tests of a process that need them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka.broker import Broker


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    from tests.kafka.broker import running_broker

    with running_broker() as broker:
        yield broker


@pytest.fixture
def topic(kafka_broker: Broker) -> str:
    return kafka_broker.create(f"out-{uuid.uuid4().hex[:8]}", 3)


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession) -> SparkSession:
    """The session of all tests, with Spark's Kafka connector."""
    from tests.kafka.jars import connector_jars

    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")
    return spark
