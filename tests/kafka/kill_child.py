"""A query that writes to Kafka, in a process of its own, to be killed.

    python kill_child.py '{"folder": …, "queries": [{"folder": …}], "servers": …, "topic": …}'

It works on all files there are. A file `started` in the folder says that the session runs, `done`
is the last sign of life. Results are delivered in several parts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from skewless.state import compaction, delivery
from tests.spark.kill_child import start_session
from tests.spark.query_kits import JOIN
from tests.spark.support import finish

VALUE = "to_json(struct(a_id, b_id)) AS value"


def run_all(session: SparkSession, folder: Path, servers: str, topic: str, way: str) -> None:
    result = JOIN.result(session, folder, way).selectExpr("cast(a_k AS string) AS key", VALUE)
    writer = result.writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", topic).option("kafka.transaction.timeout.ms", 30_000)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    finish(writer.trigger(availableNow=True).start())


def main(config: dict[str, Any]) -> None:
    folder = Path(config["folder"])
    compaction.FAN_IN = 2
    delivery.PART_BYTES = 1
    session = start_session({"master": "local[4,4]"} | config)
    (folder / "started").touch()
    run_all(session, folder, config["servers"], config["topic"], config["way"])
    (folder / "done").touch()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
