"""The Spark session and the streams of a measured process: the same for every contestant."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import skewless as sk
from benchmarks.measure import Json

CORES = 2
SETTINGS = {
    "spark.driver.host": "localhost",
    "spark.driver.memory": "6g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


def settings(unix_sockets: bool) -> dict[str, str]:
    """What every session is started with."""
    return {"spark.master": f"local[{CORES}]", **SETTINGS, UNIX_SOCKETS: str(unix_sockets).lower()}


def start_session(parameters: Json) -> SparkSession:
    """A session that writes nothing outside of the contestant's own folder."""
    work = parameters["work"]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("skewless-benchmark")
    own = {"spark.sql.warehouse.dir": f"{work}/warehouse", "spark.local.dir": f"{work}/local"}
    for key, value in (settings(parameters["unix_sockets"]) | own).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def read_side(session: SparkSession, folder: str | Path, side: str, files: int = 1) -> DataFrame:
    """A side as a stream that takes so many files per batch."""
    path = f"{folder}/{side}"
    schema = session.read.parquet(path).schema
    return session.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(path)


def read_columns(session: SparkSession, folder: str | Path, side: str) -> DataFrame:
    """The same, read as columns by skewless."""
    path = f"{folder}/{side}"
    schema = session.read.parquet(path).schema
    return sk.readStream(session).schema(schema).option("maxFilesPerTrigger", 1).parquet(path)


def drain(query: StreamingQuery) -> list[Json]:
    """Let a query work through all files; what Spark reported of its batches."""
    try:
        query.processAllAvailable()
        return [json.loads(progress.json) for progress in query.recentProgress]
    finally:
        query.stop()
