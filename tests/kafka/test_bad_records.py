"""What goes wrong with records on a real broker: values that are malformed or change their schema,
topics that lose records or are made anew, and a broker that is gone for a minute.

Either the query goes on by itself, or it ends with an error that says what to do. Whatever was
read is joined once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import skewless as sk
from tests.kafka.city import City, Pairs
from tests.kafka.reading import read_all
from tests.spark.support import at

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

ORDERS = "order_id int, cell int, ordered_at timestamp"
TRACKS = "taxi int, cell int, seen_at timestamp"
PAIRS = "to_json(struct(order_id, taxi)) value"
MALFORMED = [b"no json", b"\xff\xfe", b'{"order_id": "x", "cell": 1}', b'{"order_id": 1', b"[]"]
PATIENCE_S = 180
GONE_S = 60


class Queries:
    """One query on one checkpoint, started again and again."""

    def __init__(self, spark: SparkSession, city: City, folder: Path) -> None:
        self.spark, self.city, self.folder = spark, city, folder
        self.checkpoint, self.letters = str(folder / "ckpt"), folder / "letters"
        self.started: list[StreamingQuery] = []

    def start(
        self,
        on_bad: Any = "null",
        fields: str = ORDERS,
        value: str = PAIRS,
        trigger: dict[str, Any] | None = None,
        **options: Any,
    ) -> StreamingQuery:
        kafka = self.spark.readStream.format("kafka").options(startingOffsets="earliest", **options)
        kafka = kafka.option("kafka.bootstrap.servers", self.city.broker.servers)
        orders = kafka.option("subscribe", "orders").load()
        orders = orders.select("value", "topic", "partition", "offset")
        tracks = kafka.option("subscribe", "tracks").load().select("value")
        joined = sk.join(
            sk.from_json(orders, "value", fields, on_bad=on_bad),
            sk.from_json(tracks, "value", TRACKS),
            on="cell",
            time=("ordered_at", "seen_at"),
            within="30 seconds",
            late="1 hour",
            on_null_time="drop",
        )
        writer = joined.selectExpr(value).writeStream.format("kafka").option("topic", "matches")
        writer = writer.option("kafka.bootstrap.servers", self.city.broker.servers)
        writer = writer.option("checkpointLocation", self.checkpoint)
        query = writer.trigger(**trigger or {"processingTime": "0 seconds"}).start()
        self.started.append(query)
        return query

    def run(self, **more: Any) -> None:
        """Work on all there is."""
        self.start(trigger={"availableNow": True}, **more).awaitTermination(PATIENCE_S)

    def dropped(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for report in sk.history(self.checkpoint):
            for cause, count in report.dropped.items():
                found[cause] = found.get(cause, 0) + count
        return found


@pytest.fixture
def queries(kafka_spark: SparkSession, city: City, tmp_path: Path) -> Iterator[Queries]:
    queries = Queries(kafka_spark, city, tmp_path)
    yield queries
    for query in queries.started:
        query.stop()


def wait_until(came: Callable[[], bool], query: StreamingQuery) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not came():
        if (error := query.exception()) is not None:
            raise error
        assert query.isActive and time.monotonic() < deadline, "it did not come"
        time.sleep(0.2)


def letters(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ds.dataset(folder, partitioning="hive").to_table().to_pylist()
    return rows


# Values ------------------------------------------------------------------------------------------


def test_malformed_values_are_dropped(queries: Queries, city: City) -> None:
    city.send(30)
    city.produce("orders", MALFORMED)
    city.send(30)
    queries.run(on_bad="drop")
    assert city.matches() == city.expected()
    assert queries.dropped()["bad values"] == len(MALFORMED)


def test_malformed_values_are_put_aside(queries: Queries, city: City) -> None:
    """Each once, with where it stood; later ones, too."""
    aside = sk.DeadLetters(str(queries.letters))
    for _ in range(2):
        city.send(30)
        city.produce("orders", MALFORMED)
        queries.run(on_bad=aside)
    assert city.matches() == city.expected()
    found = letters(queries.letters)
    assert sorted(row["value"] for row in found) == sorted(2 * MALFORMED)
    places = {(row["topic"], row["partition"], row["offset"]) for row in found}
    assert len(places) == 2 * len(MALFORMED)
    assert {row["batch"] for row in found} == {0, 1}
    assert queries.dropped()["dead letters"] == 2 * len(MALFORMED)


def test_a_malformed_value_stops_the_query(queries: Queries, city: City) -> None:
    """The error says where it stands and what can be done; then that is done."""
    city.send(30)
    queries.run(on_bad="error")
    before = city.matches()
    assert before == city.expected()
    city.produce("orders", MALFORMED[:1])
    city.send(30)
    told = r"'no json' \(topic orders, partition 0, offset 15\).*on_bad=\"drop\".*sk\.DeadLetters"
    with pytest.raises(StreamingQueryException, match=told):
        queries.run(on_bad="error")
    assert city.matches() == before
    queries.run(on_bad=sk.DeadLetters(str(queries.letters)))
    assert city.matches() == city.expected()
    [letter] = letters(queries.letters)
    assert (letter["value"], letter["offset"]) == (b"no json", 15)


def test_a_schema_that_changes_in_mid_stream(queries: Queries, city: City) -> None:
    """A field more is left alone, a field less is null, another type is bad. A query that is
    started with the new field goes on: rows from before have none."""
    aside = sk.DeadLetters(str(queries.letters))
    query = queries.start(on_bad=aside)
    city.send(30)
    wait_until(lambda: city.matches() == city.expected(), query)
    city.send(30, price=2.5)
    city.produce("orders", [json.dumps({"order_id": {"new": 1}, "cell": 0}), '{"cell": "nine"}'])
    city.produce("orders", [json.dumps({"cell": 0, "ordered_at": at(45).isoformat()})])
    city.send(30)
    nobody: Pairs = city.expected()
    nobody.update({(None, t["taxi"]): 1 for t in city.tracks if near(t, 45)})  # type: ignore[dict-item]
    wait_until(lambda: ids(city) == nobody, query)
    query.stop()
    assert len(letters(queries.letters)) == 2
    city.send(30, price=2.5)
    priced = "to_json(struct(order_id, taxi, price)) value"
    queries.run(on_bad=aside, fields=f"{ORDERS}, price double", value=priced)
    nobody.update(city.expected() - nobody)
    assert ids(city) == nobody
    found = [json.loads(r.value or b"") for r in read_all(city.broker.servers, ["matches"])]
    assert {row["order_id"] >= 90 for row in found if "price" in row} == {True}


def near(track: dict[str, Any], second: int) -> bool:
    return track["cell"] == 0 and abs(track["seen_at"] - second) <= 30


def ids(city: City) -> Pairs:
    """Pairs with None where an order has no number."""
    found: Pairs = Pairs()
    for record in read_all(city.broker.servers, ["matches"]):
        row = json.loads(record.value or b"")
        found[row.get("order_id"), row["taxi"]] += 1
    return found


# Topics ------------------------------------------------------------------------------------------

LOSS = r"(?is)failOnDataLoss|data.?loss|some data may have"


def test_records_that_were_deleted_before_they_were_read(queries: Queries, city: City) -> None:
    """Retention was shorter than the query stood still."""
    city.send(60)
    queries.run()
    before = city.matches()
    assert before == city.expected()
    city.send(20)
    city.truncate("orders", "tracks")
    city.lose(20)
    city.send(20)
    # It is a task's error, of a class that came by `ADD JAR`: Spark cannot tell it to the driver,
    # as it does with the connector among `spark.jars`.
    with pytest.raises(StreamingQueryException, match=LOSS + "|UnknownReason"):
        queries.run()
    assert city.matches() == before
    queries.run(failOnDataLoss="false")
    assert city.matches() == city.expected()
    city.send(20)
    queries.run()
    assert city.matches() == city.expected()


def test_records_that_are_deleted_in_mid_query(queries: Queries, city: City) -> None:
    """What a running query has read may go."""
    query = queries.start()
    for _ in range(3):
        city.send(30)
        wait_until(lambda: city.matches() == city.expected(), query)
        city.truncate("orders", "tracks")
    assert query.isActive


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("running", [True, False])
def test_a_topic_that_was_made_anew(
    queries: Queries, city: City, running: bool, fails: bool
) -> None:
    """Its offsets are below those that were read. Spark says so; or it goes on, and what came
    before it noticed is not read."""
    option = {"failOnDataLoss": str(fails).lower()}
    query = queries.start(**option)
    city.send(60)
    wait_until(lambda: city.matches() == city.expected(), query)
    before = city.matches()
    if not running:
        query.stop()
    city.make_anew("orders", "tracks")
    city.send(20)
    city.lose(20)
    query = query if running else queries.start(**option)
    if fails:
        with pytest.raises(StreamingQueryException, match=LOSS):
            query.awaitTermination(PATIENCE_S)
        assert city.matches() == before
        return
    time.sleep(10)
    assert query.isActive and city.matches() == before
    city.send(60)
    wait_until(lambda: city.matches() == city.expected(), query)


@pytest.mark.parametrize("running", [True, False])
def test_a_topic_of_results_that_was_made_anew(queries: Queries, city: City, running: bool) -> None:
    """It has what comes from then on."""
    query = queries.start()
    city.send(60)
    wait_until(lambda: city.matches() == city.expected(), query)
    before = city.expected()
    if not running:
        query.stop()
    city.make_anew("matches")
    city.send(60)
    query = query if running else queries.start()
    wait_until(lambda: city.matches() == city.expected() - before, query)


# The broker --------------------------------------------------------------------------------------


def test_a_broker_that_is_gone_for_a_minute(queries: Queries, city: City) -> None:
    """The query is waiting for records, reading or delivering; it goes on by itself."""
    query = queries.start(maxOffsetsPerTrigger=60)
    city.send(60)
    wait_until(lambda: city.matches() == city.expected(), query)
    for count in (0, 300):
        city.send(count)
        city.broker.kill()
        time.sleep(GONE_S)
        assert query.isActive
        city.broker.start()
        city.send(60)
        wait_until(lambda: city.matches() == city.expected(), query)
    assert query.isActive
