"""A broker that wants a password, and whose certificate is to be checked."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyspark.sql import SparkSession

import skewless as sk
from skewless.errors import ArgumentError, DeliveryError
from skewless.kafka import delivery
from skewless.kafka.delivery import KafkaDeliverer
from skewless.kafka.options import client_settings
from tests.kafka.broker import free_port, running_broker
from tests.kafka.city import City
from tests.kafka.test_delivery import Staging, rows
from tests.spark.support import finish

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

PASSWORD = "open; sesame"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = """
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}},SASL_SSL://127.0.0.1:{secure}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config={module} required user_me="{password}";
ssl.keystore.type=PEM
ssl.keystore.location={pem}
"""


def certificate(folder: Path) -> Path:
    """One that is its own authority; the key is in the same file, before it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(here, False)
    signed = made.add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256())
    pem = signed.public_bytes(Encoding.PEM)
    (folder / "ca.pem").write_bytes(pem)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "broker.pem").write_bytes(secret + pem)
    return folder / "ca.pem"


@dataclass(frozen=True)
class Secure:
    city: City
    servers: str
    ca: Path

    @property
    def by_java(self) -> dict[str, str]:
        """As Java's client has it, and so Spark's source."""
        return {
            "kafka.bootstrap.servers": self.servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{MODULE} required username="me" password="{PASSWORD}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.ca),
        }

    @property
    def by_librdkafka(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "me",
            "kafka.sasl.password": PASSWORD,
            "kafka.ssl.ca.location": str(self.ca),
        }


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder, port = tmp_path_factory.mktemp("secure"), free_port()
    ca = certificate(folder)
    told = {"secure": port, "module": MODULE, "password": PASSWORD, "pem": folder / "broker.pem"}
    with running_broker(settings=SETTINGS.format(**told)) as broker:
        yield Secure(City(broker), f"127.0.0.1:{port}", ca)


def run(spark: SparkSession, secure: Secure, folder: Path, **to: str) -> None:
    """From Kafka to Kafka, all there is."""
    kafka = spark.readStream.format("kafka").options(**secure.by_java, startingOffsets="earliest")
    orders = kafka.option("subscribe", "orders").load().select("value")
    tracks = kafka.option("subscribe", "tracks").load().select("value")
    joined = sk.join(
        sk.from_json(orders, "value", "order_id int, cell int, ordered_at timestamp"),
        sk.from_json(tracks, "value", "taxi int, cell int, seen_at timestamp"),
        on="cell",
        time=("ordered_at", "seen_at"),
        within="30 seconds",
        late="1 hour",
    )
    rows = joined.selectExpr("to_json(struct(order_id, taxi)) value")
    writer = rows.writeStream.format("kafka").options(**to).option("topic", "matches")
    writer = writer.option("checkpointLocation", str(folder / "ckpt"))
    finish(writer.trigger(availableNow=True).start())


def test_settings_of_either_client(
    secure: Secure, kafka_spark: SparkSession, tmp_path: Path
) -> None:
    """Who reads has those of Java's client: they do for results, too."""
    for to in (secure.by_java, secure.by_librdkafka):
        secure.city.send(60)
        run(kafka_spark, secure, tmp_path, **to)
        assert secure.city.expected()
        assert secure.city.matches() == secure.city.expected()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"kafka.sasl.password": "close sesame"}, "[Aa]uthentication failed"),
        ({"kafka.ssl.ca.location": None}, "certificate"),
    ],
)
def test_one_who_is_not_let_in_learns_why(
    secure: Secure, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str | None], told: str
) -> None:
    monkeypatch.setattr(delivery, "ASK_S", 3.0)
    given = {k: v for k, v in (secure.by_librdkafka | wrong).items() if v is not None}
    with pytest.raises(ArgumentError, match=rf"`kafka.bootstrap.servers` .*{told}") as found:
        KafkaDeliverer(client_settings(given), "matches").check()
    assert "sesame" not in str(found.value)


def test_a_password_that_was_changed_meanwhile(
    secure: Secure,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Results are committed then, and wait: the error has the reason, and so has the log long
    before it."""
    monkeypatch.setattr(delivery, "ATTEMPTS", 2)
    given = secure.by_librdkafka | {"kafka.sasl.password": "close sesame"}
    told = {name.removeprefix("kafka.").replace(".", "_"): value for name, value in given.items()}
    staging = Staging(
        tmp_path, secure.city.broker, "matches", transaction_timeout_ms="3000", **told
    )
    with pytest.raises(DeliveryError, match=r"batch 0 .*Authentication failed.*wait in"):
        staging.deliver(staging.commit(0, rows(0)))
    [said] = [record.getMessage() for record in caplog.records if record.name == "skewless"]
    assert "Authentication failed" in said and "part 0" in said
