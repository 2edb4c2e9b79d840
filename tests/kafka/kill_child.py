"""Queries that write to Kafka, in a process of their own, to be killed.

    python kill_child.py '{"folder": …, "servers": …, "settings": {…}, "queries": [
        {"folder": …, "query": "files", "topic": …, "way": "Hash"},
        {"folder": …, "query": "city"}]}'

As `tests/spark/kill_child.py`, but for where rows come from and go to. Results are delivered in
several parts.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.spark.result import Result
from skewless.state import compaction, delivery
from tests.kafka.city import WITHIN_S
from tests.spark import support
from tests.spark.kill_child import ending_the_child, start_session
from tests.spark.query_kits import JOIN

support.PATIENCE_S = 600


def files(session: SparkSession, servers: str, query: dict[str, Any]) -> None:
    """All files there are, joined in one way or another."""
    result = JOIN.result(session, Path(query["folder"]), query["way"])
    value = "to_json(struct(a_id, b_id)) AS value"
    deliver(result.selectExpr("cast(a_k AS string) AS key", value), servers, query)


def city(session: SparkSession, servers: str, query: dict[str, Any]) -> None:
    """Orders and tracks from Kafka; bad orders are put aside, and keys and headers handed on."""

    def read(topic: str) -> DataFrame:
        reader = session.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        reader = reader.option("includeHeaders", "true").option("maxOffsetsPerTrigger", 40)
        return reader.load().select("value", "headers", "offset", "partition")

    orders = sk.from_json(
        read("orders"),
        "value",
        "order_id int, cell int, ordered_at timestamp",
        on_bad=sk.DeadLetters(f"{query['folder']}/letters"),
    )
    tracks = read("tracks").select("value")
    joined = sk.join(
        orders.drop("offset", "partition"),
        sk.from_json(tracks, "value", "taxi int, cell int, seen_at timestamp"),
        on="cell",
        time=("ordered_at", "seen_at"),
        within=f"{WITHIN_S} seconds",
        late="1 hour",  # a batch takes from partitions as it likes
    )
    value = "to_json(struct(order_id, taxi)) value"
    rows = joined.selectExpr("cast(cell AS string) key", value, "headers")
    deliver(rows, servers, query | {"topic": "matches"})


def deliver(rows: Result, servers: str, query: dict[str, Any]) -> None:
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", query["topic"]).option("kafka.transaction.timeout.ms", 30_000)
    writer = writer.option("checkpointLocation", f"{query['folder']}/checkpoint")
    support.finish(writer.trigger(availableNow=True).start())


RUN: dict[str, Callable[[SparkSession, str, dict[str, Any]], None]] = {"files": files, "city": city}


def main(config: dict[str, Any]) -> None:
    folder, queries = Path(config["folder"]), config["queries"]
    compaction.FAN_IN = 2
    delivery.PART_BYTES = 1
    session = start_session({"master": "local[4,4]"} | config)
    (folder / "started").touch()
    works = [
        threading.Thread(target=work, args=(session, config["servers"], query)) for query in queries
    ]
    for thread in works:
        thread.start()
    for thread in works:
        thread.join()
    if all(Path(query["folder"], "done").exists() for query in queries):
        (folder / "done").touch()


def work(session: SparkSession, servers: str, query: dict[str, Any]) -> None:
    with ending_the_child():
        RUN[query["query"]](session, servers, query)
    Path(query["folder"], "done").touch()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
