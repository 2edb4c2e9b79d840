"""Options of the Kafka sink: what librdkafka gets, and what is refused before anything starts."""

from __future__ import annotations

import sys

import pytest

from skewless.errors import ArgumentError
from skewless.kafka.options import client_settings, delivery_of, topic_of
from skewless.kafka.security import as_librdkafka

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


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        (
            {"sasl.jaas.config": f'{PLAIN} username="a;b"\n  password="it\'s = x";'},
            {"sasl.username": "a;b", "sasl.password": "it's = x"},
        ),
        (
            {"sasl.jaas.config": "kafkashaded." + f"{PLAIN} password=p username='me'"},
            {"sasl.username": "me", "sasl.password": "p"},
        ),
        (
            {"ssl.truststore.type": "pem", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem"},
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12"},
            {"ssl.keystore.location": "/me.p12"},
        ),
        ({"ssl.truststore.certificates": "-----"}, {"ssl.ca.pem": "-----"}),
        (
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
    ],
)
def test_security_as_javas_client_has_it(java: dict[str, str], expected: dict[str, str]) -> None:
    assert as_librdkafka(java) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.jaas.config", 'password="hush"'),
        ("sasl.jaas.config", f'{PLAIN} username="me" password="hu\\"sh";'),
        ("sasl.jaas.config", f'{PLAIN} username="me" password="hush" tokenauth="true";'),
        ("sasl.jaas.config", "x.Krb5LoginModule required username=me password=hush;"),
        ("ssl.truststore.password", "hush"),
    ],
)
def test_what_only_java_understands_is_refused_without_its_secrets(name: str, value: str) -> None:
    with pytest.raises(ArgumentError, match=rf"`kafka\.{name}` .*it takes kafka\.") as found:
        client_settings(SERVERS | {f"kafka.{name}": value})
    assert "hush" not in str(found.value) and "sh;" not in str(found.value)


def test_deliveries() -> None:
    assert delivery_of(None) == "exactly-once"
    assert delivery_of("At-Least-Once") == "at-least-once"
    with pytest.raises(ArgumentError, match=r"`skewless\.delivery` must be one of: exactly-once"):
        delivery_of("twice")


def test_without_the_client_one_learns_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ArgumentError, match=r'pip install "skewless\[kafka\]".*at-least-once'):
        client_settings(SERVERS)
