"""What a client of a Spark Connect server does, in a process of its own: some queries, one after
another. A second kind of session in the process of the tests would change what `F.col` means."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from skewless.state import compaction
from tests.spark.query_kits import KITS


def main(config: dict[str, Any]) -> None:
    folder = Path(config["folder"])
    compaction.FAN_IN = 2
    session = SparkSession.builder.remote(config["url"]).getOrCreate()
    before = session.conf.getAll
    (folder / "started").touch()
    for query in config["queries"]:
        place = Path(query["folder"])
        KITS[query["query"]].run_all(session, place, query["way"], query["columns"])
        (place / "done").touch()
    assert session.conf.getAll == before, "the session's settings are another's"
    (folder / "done").touch()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
