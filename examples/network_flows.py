"""Three streams in a cycle, by distance: which flows are alike at three routers?

    python examples/network_flows.py              # from the root of the repository

Three routers see flows, each others than the rest. Flows are taken for one when their sources and
their sizes are near: source at the first and second router, size at the second and third, source
again at the first and third. No two-way join finds them without many more pairs than there are
triples. Streams, checkpoint and result land in demo-output/network_flows; an earlier run's are
replaced.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import skewless as sk
from skewless.workloads import Flows
from skewless.workloads.zipf import empty_folder, publish

FOLDER = Path("demo-output/network_flows")
ROUTERS = ("inner", "middle", "outer")
BATCHES = 6
ROWS = 2_000  # per router and batch
FLOOD = 40  # one flow in so many of the flooding source is sampled: it is a fifth of them all


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for number, router in enumerate(ROUTERS):
        write_flows(router, seed=number)
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    inner, middle, outer = (stream(spark, router) for router in ROUTERS)
    alike = sk.join3(
        inner,
        middle,
        outer,
        on=[
            sk.band("r.source", "s.source", 20),
            sk.band("s.bytes", "t.bytes", 10),
            sk.band("r.source", "t.source", 20),
        ],
        time="timestamp",
        within="30 seconds",
    )
    writer = alike.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(FOLDER / "checkpoint"))
    writer.start(str(FOLDER / "alike")).awaitTermination()

    out = Console(width=100)
    show_batches(out)
    found = spark.read.parquet(str(FOLDER / "alike"))
    found.select("source_r", "source_s", "source_t", "bytes_s", "bytes_t").show(5)
    print(f"{found.count()} triples are in {FOLDER / 'alike'}")
    spark.stop()


def write_flows(router: str, seed: int) -> None:
    """What a router sees, one parquet file per batch; the flood is thinned out."""
    flows = Flows(scale=0.002, seed=seed, seconds=600)
    table = flows.table(0, flows.messages)
    flooding = table["source"].to_numpy() == flows.flooder
    kept = table.filter(pa.array(~flooding | (flooding.cumsum() % FLOOD == 0)))
    folder = empty_folder(FOLDER / router)
    for batch in range(BATCHES):
        publish(kept.slice(batch * ROWS, ROWS), folder, batch)


def stream(spark: SparkSession, router: str) -> DataFrame:
    """One file per micro-batch."""
    path = str(FOLDER / router)
    schema = spark.read.parquet(path).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path)


def show_batches(out: Console) -> None:
    table = Table("batch", "inner", "middle", "outer", "candidates", "triples", "busiest/mean",
                  title="sk.history")  # fmt: skip
    decisions = []
    for report in sk.history(str(FOLDER / "checkpoint")):
        candidates = sum(load.pairs for load in report.instances)
        rows = (report.rows_left, report.rows_right, report.rows_third, candidates, report.matches)
        table.add_row(str(report.batch_id), *map(str, rows), f"{report.busiest_over_mean:.2f}")
        decisions += [(report.batch_id, decision) for decision in report.decisions]
    out.print(table)
    for batch, decision in decisions:
        out.print(f"batch {batch}, {decision.kind}, {decision.subject}: {decision.reason}")


if __name__ == "__main__":
    main()
