"""Queries that write to tables, in a process of their own, to be killed.

    python table_child.py '{"folder": …, "settings": {…}, "queries": [{"folder": …, "query": "join",
    "way": "Hash", "checkpoint": "checkpoint", "place": {…}}]}'

As `tests/spark/kill_child.py`, but for where rows go. With `append` instead of a query, somebody
else adds as many rows of a table once more.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from skewless.state import compaction
from tests.spark import support
from tests.spark.kill_child import ending_the_child, start_session, wait_until_paused
from tests.spark.query_kits import KITS
from tests.tables.places import WRITE, Place, append, read

support.PATIENCE_S = 600


def main(config: dict[str, Any]) -> None:
    folder = Path(config["folder"])
    compaction.FAN_IN = 2
    session = start_session(config)
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    (folder / "started").touch()
    works = [threading.Thread(target=work, args=(session, query)) for query in config["queries"]]
    for thread, query in zip(works, config["queries"], strict=True):
        thread.start()
        if "marker" in config:
            marker = f"{query['checkpoint']}/skewless/{config['marker']}"
            wait_until_paused(thread, Path(query["folder"], marker))
    if "marker" in config:
        (folder / "paused").touch()
    for thread in works:
        thread.join()
    if all(Path(query["folder"], "done").exists() for query in config["queries"]):
        (folder / "done").touch()


def work(session: SparkSession, query: dict[str, Any]) -> None:
    folder, place = Path(query["folder"]), Place(**query["place"])
    with ending_the_child():
        if "append" in query:
            rows = read(session, place).limit(query["append"])
            append(session.createDataFrame(rows.collect(), rows.schema), place)
        else:
            run(session, query, place)
    (folder / "done").touch()


def run(session: SparkSession, query: dict[str, Any], place: Place) -> None:
    folder = Path(query["folder"])
    result = KITS[query["query"]].result(session, folder, query["way"])
    if place.kind == "iceberg":  # by name alone, Spark does not make one
        name = f"lake.db.{place.table}"
        if not session.catalog.tableExists(name):
            nothing: list[Any] = []
            frame = session.createDataFrame(nothing, result.schema)
            frame.writeTo(name).using("iceberg").create()
    writer = result.writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / query["checkpoint"]))
    support.finish(WRITE[place.kind](writer, result, place))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
