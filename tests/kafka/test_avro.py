"""Avro in and out, as docs/avro.md shows it: plain, and in the format of a schema registry.

Values are made and read here by hand, so that Spark's own Avro is checked by another.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

import skewless as sk
from tests.crashes import crash_at
from tests.documents import DOCS, snippets
from tests.kafka.city import City, Pairs
from tests.kafka.reading import read_all
from tests.spark.support import at

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

NAMES = {"F": F, "sk": sk, "from_avro": from_avro, "to_avro": to_avro, "json": json}
PLAIN, REGISTERED = "From Kafka to Kafka", "With a schema registry"
Run = Callable[..., None]


def encoded(*numbers: int) -> bytes:
    """A record of ints and longs: each zigzag, seven bits a byte, the low ones first."""
    made = bytearray()
    for number in numbers:
        left = number << 1 if number >= 0 else (-number << 1) - 1
        while left > 127:
            made.append(left & 127 | 128)
            left >>= 7
        made.append(left)
    return bytes(made)


def decoded(value: bytes) -> tuple[int, ...]:
    """
    >>> decoded(encoded(0, -1, 63, 64, -3_000_000_000))
    (0, -1, 63, 64, -3000000000)
    """
    found, number, shift = [], 0, 0
    for byte in value:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(number >> 1 if number % 2 == 0 else -(number + 1 >> 1))
            number, shift = 0, 0
    assert shift == 0, "a number is cut off"
    return tuple(found)


def micros(second: int) -> int:
    return round(at(second).timestamp() * 1_000_000)


def prefix(number: int) -> bytes:
    """What the values of a schema begin with, where a registry knows its number."""
    return b"\0" + number.to_bytes(4)


def send(
    city: City,
    count: int,
    orders_begin: bytes = b"",
    tracks_begin: bytes = b"",
    orders_end: bytes = b"",
) -> None:
    orders, tracks = city.make(count)
    made = [encoded(o["order_id"], o["cell"], micros(o["ordered_at"])) for o in orders]
    city.produce("orders", [orders_begin + value + orders_end for value in made])
    made = [encoded(t["taxi"], t["cell"], micros(t["seen_at"])) for t in tracks]
    city.produce("tracks", [tracks_begin + value for value in made])


def matches(city: City, begin: bytes = b"", more: int = 0) -> Pairs:
    """What was found; `begin` and so many bytes more stand before each value."""
    values = [r.value or b"" for r in read_all(city.broker.servers, ["matches"])]
    assert all(value.startswith(begin) for value in values)
    pairs = (decoded(value[len(begin) + more :]) for value in values)
    return Counter((order, taxi) for order, taxi in pairs)


@pytest.fixture
def run(city: City, kafka_spark: SparkSession, tmp_path: Path) -> Run:
    """Run what the document shows under a heading."""

    def run(heading: str, registry: str = "localhost:8081") -> None:
        [source] = [s.source for s in snippets(DOCS / "avro.md") if s.heading == heading]
        for old, new in (
            ("localhost:9092", city.broker.servers),
            ("localhost:8081", registry),
            ('"ckpt"', repr(str(tmp_path / "ckpt"))),
        ):
            source = source.replace(old, new)
        more = {"spark": kafka_spark, "Request": Request, "urlopen": urlopen}
        exec(compile(source, "docs/avro.md", "exec"), NAMES | more)

    return run


def test_avro_in_and_out_with_restarts(city: City, run: Run) -> None:
    for _ in range(2):
        send(city, 60)
        run(PLAIN)
        assert city.expected()
        assert matches(city) == city.expected()


@pytest.mark.parametrize("point", ["commit.begun", "delivery.begun"])
def test_avro_is_there_once_after_a_crash(city: City, run: Run, point: str) -> None:
    send(city, 60)
    with pytest.raises(StreamingQueryException, match=f"{point} in batch 0"), crash_at(point):
        run(PLAIN)
    assert not matches(city)
    send(city, 60)
    run(PLAIN)
    assert matches(city) == city.expected()


def test_values_that_are_no_avro_are_dropped_and_counted(
    city: City, run: Run, tmp_path: Path
) -> None:
    send(city, 30)
    city.produce("orders", [b"", b"\xff", encoded(1)])
    send(city, 30)
    run(PLAIN)
    assert matches(city) == city.expected()
    [report] = sk.history(str(tmp_path / "ckpt"))
    assert sum(report.dropped.values()) == 3


# With a registry ---------------------------------------------------------------------------------


class Registry(ThreadingHTTPServer):
    """Schemas by subject, and by version: what of a schema registry the document asks for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.schemas: dict[str, list[dict[str, Any]]] = {}
        self.count = 0

    def register(self, subject: str, schema: str) -> int:
        self.count += 1
        self.schemas.setdefault(subject, []).append({"id": self.count, "schema": schema})
        return self.count


class _Answers(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        _, _, subject, _, *version = self.path.split("/")
        known = self.server.schemas[subject]
        self._answer(known[int(version[0]) - 1] if version else [*range(1, len(known) + 1)])

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer({"id": self.server.register(self.path.split("/")[2], sent["schema"])})

    def _answer(self, content: object) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *said: Any) -> None:
        """Nobody wants to know."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        yield registry
        registry.shutdown()


def record(name: str, *fields: str, **optional: str) -> str:
    """The schema of a record: its last column is a time, optional ones are null unless given."""
    kinds: list[dict[str, Any]] = [{"name": field, "type": "int"} for field in fields]
    kinds[-1]["type"] = {"type": "long", "logicalType": "timestamp-micros"}
    kinds += [{"name": n, "type": ["null", k], "default": None} for n, k in optional.items()]
    return json.dumps({"type": "record", "name": name, "fields": kinds})


def test_values_of_a_registry(city: City, run: Run, registry: Registry) -> None:
    """Two versions of a schema in one topic, and a third that is registered too late."""
    asked = f"127.0.0.1:{registry.server_port}"
    order = ("Order", "order_id", "cell", "ordered_at")
    registry.register("orders-value", record(*order))
    registry.register("tracks-value", record("Track", "taxi", "cell", "seen_at"))
    registry.register("orders-value", record(*order, note="string"))
    send(city, 30, prefix(1), prefix(2))
    send(city, 30, prefix(3), prefix(2), orders_end=encoded(0))  # there is no note
    run(REGISTERED, asked)
    before = matches(city, prefix(4))
    assert before == city.expected()
    send(city, 30, prefix(6), prefix(2), orders_end=encoded(0))
    with pytest.raises(StreamingQueryException, match="without event time"):
        run(REGISTERED, asked)  # which registers matches once more, as number 5
    assert matches(city, prefix(4)) == before
    assert registry.register("orders-value", record(*order, hint="string")) == 6
    run(REGISTERED, asked)
    assert matches(city, b"\0\0\0\0", 1) == city.expected()
