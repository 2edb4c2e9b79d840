"""A broker, and a Spark session that knows Kafka, for all tests of a process that need them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka.broker import Broker
    from tests.kafka.city import City


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    from tests.kafka.broker import running_broker

    with running_broker() as broker:
        yield broker


@pytest.fixture
def topic(kafka_broker: Broker) -> str:
    return kafka_broker.create(f"out-{uuid.uuid4().hex[:8]}", 3)


@pytest.fixture
def city(kafka_broker: Broker) -> Iterator[City]:
    from tests.kafka.city import City

    city = City(kafka_broker)
    yield city
    city.remove()


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession) -> SparkSession:
    """The session of all tests, with what Spark needs for Kafka and Avro."""
    from tests.kafka.jars import avro_jars, connector_jars

    for jar in connector_jars() + avro_jars():
        spark.sql(f"ADD JAR '{jar}'")
    return spark
