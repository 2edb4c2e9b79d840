"""Queries of the kits on a cluster: a driver's program.

    python queries.py '{"settings": …, "signs": …, "queries": [{"name": …, "kit": "join", "way": …,
                        "inputs": …, "checkpoint": "s3a://…", "out": "s3a://…"}, …]}'

They work at the same time, on all files there are, or with `"forever": true` on all that come.
Files in the folder `signs` tell of them: `started` that the session runs, `<name>.done` that a
query has ended, `<name>.failed` with its error.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from skewless.state import compaction
from tests.spark.query_kits import KITS


def main(config: dict[str, Any]) -> None:
    compaction.FAN_IN = 2  # rows are few, and are to be rewritten often
    signs = Path(config["signs"])
    builder = SparkSession.builder.appName("skewless on a cluster")
    for key, value in config["settings"].items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    (signs / "started").touch()
    threads = [
        threading.Thread(target=work, args=(session, query, signs, config.get("forever", False)))
        for query in config["queries"]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.stop()


def work(session: SparkSession, query: dict[str, str], signs: Path, forever: bool) -> None:
    name = query["name"]
    try:
        result = KITS[query["kit"]].result(session, Path(query["inputs"]), query["way"])
        writer = result.writeStream.format("parquet").queryName(name)
        writer = writer.option("checkpointLocation", query["checkpoint"])
        if not forever:
            writer = writer.trigger(availableNow=True)
        writer.start(query["out"]).awaitTermination()
        (signs / f"{name}.done").touch()
    except Exception as error:
        traceback.print_exc()
        (signs / f"{name}.failed").write_text(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
