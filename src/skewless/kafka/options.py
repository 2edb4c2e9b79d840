"""Options of a Kafka sink, by the names that Spark and Java's client have for them, as librdkafka
understands them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from skewless.errors import ArgumentError
from skewless.kafka.security import as_librdkafka

PREFIX = "kafka."
SERVERS = "bootstrap.servers"
TIMEOUT = "transaction.timeout.ms"
DELIVERY = "skewless.delivery"
EXACTLY_ONCE, AT_LEAST_ONCE = DELIVERIES = ("exactly-once", "at-least-once")
INSTALL = 'pip install "skewless[kafka]"'
WITHOUT = f'or choose option "{DELIVERY}", "{AT_LEAST_ONCE}", where Spark writes'

# What only Java's client understands, and what says the same here; see security.py, too.
ELSEWHERE = {
    "sasl.jaas.config": "kafka.sasl.username and kafka.sasl.password",
    "sasl.client.callback.handler.class": "kafka.sasl.oauthbearer.* of librdkafka",
    "sasl.login.callback.handler.class": "kafka.sasl.oauthbearer.* of librdkafka",
    "sasl.login.class": "kafka.sasl.oauthbearer.* of librdkafka",
    "ssl.truststore.location": "kafka.ssl.ca.location, a file of PEM certificates",
    "ssl.truststore.certificates": "kafka.ssl.ca.pem",
    "ssl.truststore.password": "kafka.ssl.ca.location, which needs none",
    "ssl.truststore.type": "kafka.ssl.ca.location, a file of PEM certificates",
    "ssl.keystore.certificate.chain": "kafka.ssl.certificate.pem",
    "ssl.keystore.key": "kafka.ssl.key.pem",
    "ssl.keystore.type": "kafka.ssl.keystore.location, a file of type PKCS12, without a type",
    "ssl.protocol": "nothing: the best that both sides know is taken",
    "ssl.enabled.protocols": "nothing: the best that both sides know is taken",
    "partitioner.class": "the column partition",
    "max.request.size": "kafka.message.max.bytes",
    "buffer.memory": "nothing: rows are handed over in portions",
    "max.block.ms": "kafka.transaction.timeout.ms",
    "metric.reporters": "kafka.statistics.interval.ms",
    "interceptor.classes": "nothing: there are no interceptors",
}
# What a delivery exactly once depends on.
OURS = (
    "transactional.id",
    "enable.idempotence",
    "acks",
    "request.required.acks",
    "group.id",
    "isolation.level",
    "enable.auto.commit",
    "partitioner",
    "queue.buffering.max.messages",
    "queue.buffering.max.kbytes",
    "key.serializer",
    "value.serializer",
)
IGNORED = ("topic", "includeheaders")  # the latter says nothing to Spark's sink, either
SECRET = re.compile(r"password|jaas|secret|\.key$|\.pem$|token")

DEFAULTS = {
    TIMEOUT: "120000",
    "linger.ms": "50",  # rows come all at once: it pays to wait for whole batches of them
    "reconnect.backoff.max.ms": "1000",
    "log_level": "2",  # errors are told where they end something, not on every try
}
REQUIRED = {
    "partitioner": "murmur2_random",  # where Java's client puts equal keys
    # Rows are handed over in portions, and waited for: there is no other limit.
    "queue.buffering.max.messages": "10000000",
    "queue.buffering.max.kbytes": "2147483647",
}


def delivery_of(value: object) -> str:
    """What was asked for; exactly once if nothing was."""
    if value is None:
        return EXACTLY_ONCE
    if str(value).lower() not in DELIVERIES:
        raise ArgumentError(DELIVERY, value, f"one of: {', '.join(DELIVERIES)}")
    return str(value).lower()


def topic_of(options: Mapping[str, Any]) -> str | None:
    topic = next((v for k, v in options.items() if k.lower() == "topic"), None)
    return None if topic is None else str(topic)


def client_settings(options: Mapping[str, Any]) -> dict[str, str]:
    """librdkafka's settings for a producer, without those that tell one from another."""
    given: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower().removeprefix(PREFIX)
        if key.lower() in IGNORED:
            continue
        if not key.lower().startswith(PREFIX):
            raise ArgumentError("option", key, f"topic, {DELIVERY} or {PREFIX}… for format kafka")
        given[name] = "" if value is None else str(value)
    given = as_librdkafka(given)
    for name, text in given.items():
        _refuse(name, text)
    if not given.get(SERVERS):
        accepted = "the brokers to ask first, such as host:9092,other:9092"
        raise ArgumentError(f"{PREFIX}{SERVERS}", given.get(SERVERS) or None, accepted)
    settings = DEFAULTS | given | REQUIRED
    _check(settings, given)
    return settings


def _refuse(name: str, value: str) -> None:
    shown = "…" if SECRET.search(name) else value
    if name in ELSEWHERE:
        accepted = (
            f"left out for delivery exactly once, which has no JVM: it takes {ELSEWHERE[name]}, "
            f"{WITHOUT}"
        )
        raise ArgumentError(f"{PREFIX}{name}", shown, accepted)
    is_all = name == "acks" and value in ("all", "-1")
    if name in OURS and not is_all:
        raise ArgumentError(f"{PREFIX}{name}", shown, f"left out: delivery sets it, {WITHOUT}")


def _check(settings: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Have librdkafka look at its settings; nothing is connected to yet."""
    told = _refused(settings)
    if not told:
        return
    # It may call a setting by another name than the one that was given.
    alone = DEFAULTS | REQUIRED | {SERVERS: given[SERVERS], "log_level": "0"}
    is_named = (n for n in given if _names(told, n) or _refused(alone | {n: given[n]}) == told)
    name = next(is_named, None)
    where = "kafka.…" if name is None else f"{PREFIX}{name}"
    value = None if name is None or SECRET.search(name) else given[name]
    raise ArgumentError(where, value, f"a setting of librdkafka ({told})")


def _refused(settings: Mapping[str, str]) -> str:
    """What librdkafka says against some settings; empty if nothing."""
    from skewless.kafka.clients import kafka

    library = kafka()
    try:
        library.Producer({**settings, "transactional.id": "skewless"})
    except library.KafkaException as error:
        return str(error.args[0].str())
    except (TypeError, ValueError) as error:  # what only programs can set, such as callbacks
        return str(error)
    return ""


def _names(told: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", told) is not None
