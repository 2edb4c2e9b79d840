"""From Kafka to Kafka: how does skewless compare with Spark, and what does exactly once cost?

    python -m benchmarks.kafka [--rows N] [--batches N] [--warmup N] [--json]

A broker is started on this machine, which takes its share of the cores. Both sides of the stream
are JSON in a topic of two partitions each. Everyone reads them with Spark's source, joins by key
and time, and writes JSON to a topic: Spark with its own join and sink; skewless at least once, by
the same sink, and exactly once. Figures are of the batches after a warm-up, as Spark reports them.
Results are counted by a reader that trusts only committed transactions; all must have the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Annotated

import pyarrow.parquet as pq
import typer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks import kafka_contestants as contestants
from benchmarks.data import DATA, SIDES, Streams
from benchmarks.measure import ContestantError, Json, run_fresh, say
from benchmarks.session import settings
from benchmarks.tables import Target, count
from benchmarks.telling import Telling, show_ratios, start
from tests.kafka.broker import Broker, running_broker

SIZES = (1_000_000, 100_000)
FILE_S, WITHIN_S = 5.0, 10
PARTITIONS = 2
PATIENCE_S = 60.0

OF_SPARK = "exactly once: throughput over Spark's"
COST = "exactly once: median batch time over at least once"
TARGETS = {
    1_000_000: (Target(OF_SPARK, ">=", 4), Target(COST, "<=", 1.15)),
    100_000: (Target(OF_SPARK, ">=", 3), Target(COST, "<=", 1.15)),
}
CONTESTANTS: tuple[Callable[[Json], Json], ...] = (
    contestants.exactly_once,
    contestants.at_least_once,
    contestants.spark,
)


def default_batches(rows: int) -> tuple[int, int]:
    """How many batches to measure, and how many before."""
    return (4, 4) if rows >= 500_000 else (15, 10)


def fill(broker: Broker, files: list[Path], topic: str) -> None:
    """Send the rows of some files as JSON, in order, to all partitions alike."""
    broker.create(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 50})
    partitions = cycle(range(PARTITIONS))
    for file in files:
        table = pq.read_table(file)
        key, ts, number, value = (table.column(name).to_pylist() for name in table.column_names)
        names = table.column_names
        for row in zip(key, ts, number, value, strict=True):
            told = dict(zip(names, (row[0], row[1].isoformat(), *row[2:]), strict=True))
            while len(producer) > 90_000:
                producer.poll(0.05)
            producer.produce(topic, json.dumps(told), partition=next(partitions))
    if producer.flush(PATIENCE_S):
        raise ContestantError(f"the broker did not take all rows of {topic}")


def committed(broker: Broker, topic: str) -> int:
    """How many rows a reader gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": "counting",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found, left = 0, set(range(PARTITIONS))
    while left:
        for message in consumer.consume(50_000, 1.0):
            error = message.error()
            if error is None:
                found += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise ContestantError(f"{topic} cannot be read: {error}")
    consumer.close()
    return found


def measure(broker: Broker, rows: int, batches: int, warmup: int, data: Path) -> Json:
    """Everyone's figures for one size, and how they compare."""
    keys = max(1, round(2 * WITHIN_S / FILE_S * rows / 2))
    folder = Streams(0.0, warmup + batches, rows // 2, keys, FILE_S).make(data)
    topics = {side: f"{side}-{rows}" for side in SIDES}
    say(f"{count(rows)} rows per batch: filling topics")
    for side, topic in topics.items():
        fill(broker, sorted((folder / side).glob("*.parquet")), topic)
    results: dict[str, Json] = {}
    for function in CONTESTANTS:
        name = function.__name__
        out = broker.create(f"{name}-{rows}", PARTITIONS)
        parameters = {
            "servers": broker.servers,
            "topics": topics,
            "out": out,
            "rows_per_batch": rows,
            "warmup": warmup,
            "within_s": WITHIN_S,
            "unix_sockets": False,
        }
        results[name] = run_fresh(function, parameters)
        results[name]["result_rows"] = committed(broker, out)
        say(f"  {name}: {count(results[name]['rows_per_s'])} rows/s")
    ours, least, sparks = (results[function.__name__] for function in CONTESTANTS)
    ratios = {
        OF_SPARK: round(ours["rows_per_s"] / sparks["rows_per_s"], 3),
        COST: round(ours["median_ms"] / least["median_ms"], 3),
    }
    return {
        "rows_per_batch": rows,
        "batches": batches,
        "warmup": warmup,
        "same_result_rows": len({result["result_rows"] for result in results.values()}) == 1,
        "contestants": results,
        "ratios": ratios,
        "targets": [target.judge(ratios[target.figure]) for target in TARGETS.get(rows, ())],
    }


def show(out: Console, run: Json) -> None:
    title = f"{count(run['rows_per_batch'])} rows per batch, {run['batches']} after {run['warmup']}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in ("rows/s", "median ms", "p99 ms", "result rows"):
        table.add_column(heading, justify="right")
    for name, result in run["contestants"].items():
        figures = ("rows_per_s", "median_ms", "p99_ms", "result_rows")
        table.add_row(name.replace("_", " "), *(count(result[figure]) for figure in figures))
    out.print(table)
    show_ratios(out, run)


def main(
    rows: Annotated[
        int | None, typer.Option(min=4, help="Rows of both sides together. Default: two sizes.")
    ] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Batches to measure. Default: 4 or 15, by size.")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Batches before. Default: 4 or 10, by size.")
    ] = None,
    data: Annotated[
        Path, typer.Option(help="Where streams are kept.", show_default="benchmarks/.data")
    ] = DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare skewless with Spark from Kafka to Kafka, and exactly once with at least once."""
    telling = Telling("kafka", as_json, settings=settings(False))
    for size in SIZES if rows is None else (rows // 4 * 4,):
        default, before = default_batches(size)
        with running_broker(memory="1g") as broker:
            chosen = batches or default, before if warmup is None else warmup
            run = measure(broker, size, *chosen, data)
        telling.run(run, show)
    telling.end()


if __name__ == "__main__":
    start(main)
