"""The joins of the demo: Spark's own, and ours with two strategies, on the same files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow.parquet as pq

from skewless.cli.demo.folder import DemoFolder, Place, Plan
from skewless.cli.demo.gate import Arrival, Gate
from skewless.cli.demo.turns import AUTO, HASH, SPARK, Turn, turn_of
from skewless.engine.report import BatchReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WITHIN = "2 minutes"
COLUMNS = ("order_id", "cell", "ordered_at", "taxi_id", "seen_at")


class Join(Protocol):
    """One way to join the city's streams."""

    name: str
    tasks: int

    def start(self, spark: SparkSession, plan: Plan, folder: DemoFolder) -> StreamingQuery: ...

    def turn(self, arrival: Arrival, seconds: float, *, cold: bool) -> Turn: ...


@dataclass
class SparksJoin:
    """Spark's own stream-stream join, with the same bound, watermarks and number of tasks. Its
    state is cleaned up with the next rows, not in batches of its own: those would have to be added
    to its time."""

    gate: Gate
    tasks: int
    name: str = SPARK
    _output: Path = field(default_factory=Path)

    def start(self, spark: SparkSession, plan: Plan, folder: DemoFolder) -> StreamingQuery:
        from pyspark.sql import functions as F

        place = folder.place(self.name)
        self._output = place.output
        orders = _stream(spark.readStream, plan, folder, "orders")
        tracks = _stream(spark.readStream, plan, folder, "tracks")
        tracks = tracks.withColumnRenamed("cell", "taxi_cell")
        bound = F.expr(f"interval {WITHIN}")
        near = F.col("seen_at").between(F.col("ordered_at") - bound, F.col("ordered_at") + bound)
        joined = orders.withWatermark("ordered_at", "0 seconds").join(
            tracks.withWatermark("seen_at", "0 seconds"),
            (F.col("cell") == F.col("taxi_cell")) & near,
        )
        return _started(joined.select(*COLUMNS).writeStream.foreachBatch(self._write), place)

    def _write(self, rows: DataFrame, batch: int) -> None:
        # A folder for each batch: one that is repeated replaces what it wrote before.
        rows.write.mode("overwrite").parquet(str(self._output / f"batch-{batch:06d}"))
        self.gate.arrive(self.name, batch)

    def turn(self, arrival: Arrival, seconds: float, *, cold: bool) -> Turn:
        found = _rows_by_task(self._output / f"batch-{arrival.batch:06d}")
        loads = tuple(float(found.get(task, 0)) for task in range(self.tasks))
        results = sum(found.values())
        return Turn(self.name, arrival.batch, seconds, results, loads, cold=cold)


@dataclass
class OurJoin:
    """`sk.join` with one of its strategies."""

    gate: Gate
    name: str
    tasks: int
    cell: int

    def start(self, spark: SparkSession, plan: Plan, folder: DemoFolder) -> StreamingQuery:
        import skewless as sk

        joined = sk.join(
            _stream(sk.readStream(spark), plan, folder, "orders"),
            _stream(sk.readStream(spark), plan, folder, "tracks"),
            on="cell",
            left_time="ordered_at",
            right_time="seen_at",
            within=WITHIN,
            strategy={HASH: sk.Hash, AUTO: sk.Auto}[self.name](),
            instances=self.tasks,
        )
        place = folder.place(self.name)
        writer = joined.select(*COLUMNS).writeStream.format("parquet")
        # All of the demo stays in the history, however many batches it has.
        writer = writer.option("skewless.keepHistory", plan.batches + 2)
        return _started(writer.option("path", str(place.output)), place)

    def turn(self, arrival: Arrival, seconds: float, *, cold: bool) -> Turn:
        assert arrival.report is not None
        return turn_of(self.name, arrival.report, seconds, self.cell, cold=cold)


def make_joins(gate: Gate, plan: Plan, instances: int, *, with_spark: bool) -> list[Join]:
    cell = plan.city.event_cell
    ours: list[Join] = [OurJoin(gate, name, instances, cell) for name in (HASH, AUTO)]
    return [SparksJoin(gate, instances), *ours] if with_spark else ours


def listener(gate: Gate, places: Mapping[str, Place]) -> Callable[[str, BatchReport], None]:
    """What our joins call after each batch."""
    names = {str(place.checkpoint.resolve()): name for name, place in places.items()}

    def tell(checkpoint: str, report: BatchReport) -> None:
        who = names.get(str(Path(checkpoint).resolve()))
        if who is not None:
            gate.arrive(who, report.batch_id, report)

    return tell


def _stream(reader: Any, plan: Plan, folder: DemoFolder, name: str) -> DataFrame:
    """A stream of the city that takes one file, a batch of the plan, at a time."""
    from pyspark.sql.pandas.types import from_arrow_schema

    empty = getattr(plan.city, name)(0, datetime(2026, 1, 1, tzinfo=UTC), 1.0)
    reader = reader.schema(from_arrow_schema(empty.schema)).option("maxFilesPerTrigger", 1)
    stream: DataFrame = reader.parquet(str(folder.input / name))
    return stream


def _started(writer: Any, place: Place) -> StreamingQuery:
    writer = writer.option("checkpointLocation", str(place.checkpoint))
    query: StreamingQuery = writer.trigger(availableNow=True).start()
    return query


def _rows_by_task(folder: Path) -> dict[int, int]:
    """How many rows each task of Spark has written: their files are numbered."""
    files = folder.glob("part-*.parquet")
    return {int(file.name.split("-")[1]): pq.read_metadata(file).num_rows for file in files}
