"""Two streams by distance on the globe: which free taxis are near an order?

    python examples/taxis_near_orders.py          # from the root of the repository

A simulated city has orders of passengers and reports of taxis, most of them in a few hot spots. A
taxi can take an order when it was seen within 300 metres of it, half a minute before or after, and
is free. A join on grid cells would miss taxis beyond a cell's border; this one is exact. Streams,
checkpoint and result land in demo-output/taxis_near_orders; an earlier run's are replaced.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import skewless as sk
from skewless.workloads import City, write_batches

FOLDER = Path("demo-output/taxis_near_orders")
BATCHES = 4
ORDERS, TRACKS = 500, 4_000  # in a batch of half a minute
METRES = 300


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    write_batches(City(), FOLDER, BATCHES, ORDERS, TRACKS, seconds=30)
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    near = sk.similarity_join(
        stream(spark, "tracks").where("not occupied").drop("cell"),
        stream(spark, "orders"),
        on=["lat", "lon"],
        metric="haversine",
        threshold=METRES,
        time=("seen_at", "ordered_at"),
        within="30 seconds",
        suffixes=("_taxi", "_order"),
    )
    writer = near.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(FOLDER / "checkpoint"))
    writer.start(str(FOLDER / "near")).awaitTermination()

    out = Console(width=100)
    found = spark.read.parquet(str(FOLDER / "near"))
    show_cells(out, found)
    show_batches(out)
    served = found.select("order_id").distinct().count()
    print(f"{served} of {BATCHES * ORDERS} orders have a free taxi near")
    print(f"{found.count()} pairs of a taxi and an order are in {FOLDER / 'near'}")
    spark.stop()


def stream(spark: SparkSession, name: str) -> DataFrame:
    """One file per micro-batch."""
    path = str(FOLDER / name)
    schema = spark.read.parquet(path).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path)


def show_cells(out: Console, near: DataFrame) -> None:
    table = Table("cell", "orders", "taxis near", "nearest, metres", title="the busiest cells")
    busiest = near.groupBy("cell").agg(
        F.countDistinct("order_id").alias("orders"),
        F.countDistinct("taxi_id").alias("taxis"),
        F.min("distance").alias("nearest"),
    )
    for row in busiest.orderBy(F.desc("orders"), "cell").limit(5).collect():
        table.add_row(str(row.cell), str(row.orders), str(row.taxis), f"{row.nearest:.0f}")
    out.print(table)


def show_batches(out: Console) -> None:
    table = Table("batch", "taxis", "orders", "pairs near", "pairs compared", "busiest/mean",
                  title="sk.history")  # fmt: skip
    for report in sk.history(str(FOLDER / "checkpoint")):
        row = (report.batch_id, report.rows_left, report.rows_right, report.matches,
               report.comparisons["compared"])  # fmt: skip
        table.add_row(*map(str, row), f"{report.busiest_over_mean:.2f}")
    out.print(table)


if __name__ == "__main__":
    main()
