"""A query from Kafka to Kafka, in a process of its own, to be killed.

    python city_child.py '{"folder": …, "queries": [{"folder": …}], "servers": …}'

Orders and tracks are joined; bad orders are put aside, and keys and headers handed on. A file
`started` in the folder says that the session runs, `done` is the last sign of life. Results are
delivered in several parts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.state import compaction, delivery
from tests.kafka.city import WITHIN_S
from tests.kafka.jars import connector_jars
from tests.spark.kill_child import start_session
from tests.spark.support import finish


def run_all(session: SparkSession, folder: Path, servers: str) -> None:
    def read(topic: str) -> DataFrame:
        reader = session.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        reader = reader.option("includeHeaders", "true").option("maxOffsetsPerTrigger", 40)
        return reader.load().select("value", "headers", "offset", "partition")

    orders = sk.from_json(
        read("orders"),
        "value",
        "order_id int, cell int, ordered_at timestamp",
        on_bad=sk.DeadLetters(str(folder / "letters")),
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
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", "matches").option("kafka.transaction.timeout.ms", 30_000)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    finish(writer.trigger(availableNow=True).start())


def main(config: dict[str, Any]) -> None:
    folder = Path(config["folder"])
    compaction.FAN_IN = 2
    delivery.PART_BYTES = 1
    jars = {"settings": {"spark.jars": ",".join(connector_jars())}}
    session = start_session({"master": "local[4,4]"} | jars | config)
    (folder / "started").touch()
    run_all(session, folder, config["servers"])
    (folder / "done").touch()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
