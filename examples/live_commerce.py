"""Three streams at once: who watched what before buying it from a streamer?

    python examples/live_commerce.py              # from the root of the repository

Shows, purchases and the activity of users make a chain: a purchase is of a show's streamer, and by
a user who did something shortly before. A few streamers sell most of all. Streams, checkpoint and
result land in demo-output/live_commerce; an earlier run's are replaced.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import skewless as sk
from skewless.workloads import LiveCommerce, write_live_commerce

FOLDER = Path("demo-output/live_commerce")
BATCHES = 6
ROWS = (1_000, 6_000, 20_000)  # shows, purchases and activity in a batch of a minute


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    write_live_commerce(LiveCommerce(), FOLDER, BATCHES, ROWS, seconds=60)
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    deals = sk.join3(
        stream(spark, "shows"),
        stream(spark, "purchases"),
        stream(spark, "activity"),
        on=[sk.equal("r.streamer", "s.streamer"), sk.equal("s.user", "t.user")],
        time=("shown_at", "bought_at", "seen_at"),
        # Bought within two minutes after the show; active in the minute before buying.
        within={"rs": ("0 seconds", "2 minutes"), "st": ("-1 minute", "0 seconds")},
    )
    writer = deals.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(FOLDER / "checkpoint"))
    writer.start(str(FOLDER / "deals")).awaitTermination()

    out = Console(width=100)
    found = spark.read.parquet(str(FOLDER / "deals"))
    show_streamers(out, found)
    show_batches(out)
    print(f"{found.count()} deals are in {FOLDER / 'deals'}")
    spark.stop()


def stream(spark: SparkSession, name: str) -> DataFrame:
    """One file per micro-batch."""
    path = str(FOLDER / name)
    schema = spark.read.parquet(path).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path)


def show_streamers(out: Console, deals: DataFrame) -> None:
    table = Table(
        "streamer", "purchases", "deals", "liked it before", title="the hottest streamers"
    )
    hottest = deals.groupBy("streamer").agg(
        F.countDistinct("purchase_id").alias("purchases"),
        F.count("*").alias("deals"),
        F.avg((F.col("action") == "like").cast("int")).alias("liked"),
    )
    for row in hottest.orderBy(F.desc("deals")).limit(5).collect():
        table.add_row(str(row.streamer), str(row.purchases), str(row.deals), f"{row.liked:.0%}")
    out.print(table)


def show_batches(out: Console) -> None:
    table = Table("batch", "shows", "purchases", "activity", "deals", "state MB", "busiest/mean",
                  title="sk.history")  # fmt: skip
    decisions = []
    for report in sk.history(str(FOLDER / "checkpoint")):
        rows = (report.rows_left, report.rows_right, report.rows_third, report.matches)
        table.add_row(
            str(report.batch_id),
            *map(str, rows),
            f"{report.state_bytes / 1e6:.1f}",
            f"{report.busiest_over_mean:.2f}",
        )
        decisions += [(report.batch_id, decision) for decision in report.decisions]
    out.print(table)
    for batch, decision in decisions:
        out.print(f"batch {batch}, {decision.kind}, {decision.subject}: {decision.reason}")


if __name__ == "__main__":
    main()
