"""A query with its checkpoint and its output on S3, for one run: started by test_stores.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import skewless as sk

HADOOP_AWS = "org.apache.hadoop:hadoop-aws"
SCHEMA = "k int, {side}_id int, at timestamp, text string"


def session(hadoop: dict[str, str]) -> SparkSession:
    """A session that knows S3, in the version that fits its Hadoop."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    version = next(jars.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "localhost")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.jars.packages", f"{HADOOP_AWS}:{version}")
    )
    for name, value in hadoop.items():
        builder = builder.config(f"spark.hadoop.{name}", value)
    return builder.getOrCreate()


def run(spark: SparkSession, given: dict[str, str]) -> None:
    """Join all that has arrived, then read what is there."""

    def stream(side: str):  # type: ignore[no-untyped-def]
        frame = spark.readStream.schema(SCHEMA.format(side=side)).option("maxFilesPerTrigger", 1)
        return frame.parquet(f"{given['input']}/{side}")

    left = stream("left").withColumnRenamed("at", "left_at")
    right = stream("right").withColumnsRenamed({"at": "right_at", "text": "other"})
    result = sk.join(
        left,
        right,
        on="k",
        time=("left_at", "right_at"),
        within="10 seconds",
        late="1 hour",
        instances=1,
    )
    query = (
        result.select("k", "left_id", "right_id", "text")
        .writeStream.format("parquet")
        .partitionBy("text")
        .option("checkpointLocation", given["checkpoint"])
        .trigger(availableNow=True)
        .start(given["output"])
    )
    query.awaitTermination()
    rows = spark.read.parquet(given["output"]).select("k", "left_id", "right_id", "text").collect()
    settings = {k.removeprefix("spark.hadoop."): v for k, v in json.loads(given["hadoop"]).items()}
    batches = [r.batch_id for r in sk.history(given["checkpoint"], settings)]
    found = {"rows": [list(row) for row in rows], "batches": batches}
    Path(given["found"]).write_text(json.dumps(found))


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    spark = session(json.loads(arguments["hadoop"]))
    run(spark, arguments)
    spark.stop()
