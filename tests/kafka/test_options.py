"""Options of the Kafka sink: what librdkafka gets, and what is refused before anything starts."""

from __future__ import annotations

import sys

import pytest

from skewless.errors import ArgumentError
from skewless.kafka.options import client_settings, delivery_of, topic_of

SERVERS = {"kafka.bootstrap.servers": "there:9092"}


def test_kafkas_own_names_go_through() -> None:
    given = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "me",
        "kafka.sasl.password": "secret",
        "Kafka.Compression.Type": "lz4",
        "kafka.linger.ms": 7,
        "kafka.acks": "all",
        "topic": "orders",
    }
    settings = client_settings(SERVERS | given)
    assert settings["sasl.password"] == "secret"
    assert settings["compression.type"] == "lz4"
    assert settings["linger.ms"] == "7"
    assert settings["partitioner"] == "murmur2_random"
    assert "topic" not in settings
    assert topic_of(given) == "orders"
    assert topic_of({"topic": None}) is None


def test_what_sparks_sink_takes_and_ignores_is_ignored() -> None:
    assert client_settings(SERVERS | {"includeHeaders": "true"}) == client_settings(SERVERS)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, r"`kafka\.bootstrap\.servers` must be the brokers to ask first.*received None"),
        ({"kafka.bootstrap.servers": None}, r"`kafka\.bootstrap\.servers` .*received None"),
        (SERVERS | {"subscribe": "t"}, "`option` must be topic, skewless.delivery or kafka"),
        (SERVERS | {"kafka.error_cb": "x"}, r"`kafka\.error_cb` .*callable function"),
        (SERVERS | {"kafka.retries": 0}, r"`kafka\.retries` .*must be set >= 1.*received '0'"),
        (SERVERS | {"kafka.linger.ms": "x"}, r"`kafka\.linger\.ms` .*Invalid value"),
        (SERVERS | {"kafka.delivery.timeout.ms": 200_000}, r"`kafka\.delivery\.timeout\.ms` "),
        (SERVERS | {"kafka.nosuch": 1}, r"`kafka\.nosuch` .*No such configuration property"),
        (SERVERS | {"kafka.security.protocol": "x"}, r"`kafka\.security\.protocol` .*Invalid"),
        (SERVERS | {"kafka.acks": "1"}, r"`kafka\.acks` must be left out"),
        (SERVERS | {"kafka.transactional.id": "a"}, r"`kafka\.transactional\.id` must be left out"),
        (SERVERS | {"kafka.group.id": "a"}, r"`kafka\.group\.id` must be left out"),
        (SERVERS | {"kafka.ssl.truststore.location": "/x.jks"}, r"it takes kafka\.ssl\.ca\.loc"),
        (SERVERS | {"kafka.max.request.size": "1"}, r"it takes kafka\.message\.max\.bytes"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        client_settings(options)


def test_secrets_are_not_shown() -> None:
    with pytest.raises(ArgumentError, match=r"kafka\.sasl\.username") as found:
        client_settings(SERVERS | {"kafka.sasl.jaas.config": 'password="hush"'})
    assert "hush" not in str(found.value)


def test_deliveries() -> None:
    assert delivery_of(None) == "exactly-once"
    assert delivery_of("At-Least-Once") == "at-least-once"
    with pytest.raises(ArgumentError, match=r"`skewless\.delivery` must be one of: exactly-once"):
        delivery_of("twice")


def test_without_the_client_one_learns_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ArgumentError, match=r'pip install "skewless\[kafka\]".*at-least-once'):
        client_settings(SERVERS)
