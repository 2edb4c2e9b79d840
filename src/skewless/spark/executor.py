"""The engine's loop on Spark: tasks are `mapInArrow` jobs, and `foreachBatch` calls the loop.

Job 1 is the streaming plan itself, whose tasks take the streams' rows in; its result is a few rows
that tell what they made of them. Every further step is a job with one task per instance.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from skewless.engine.batch import run_batch
from skewless.engine.decoding import Decoding
from skewless.engine.exchange import DEALS, Homes, MergeTask
from skewless.engine.executor import Executor, Sink
from skewless.engine.instance import StepTask
from skewless.engine.lifecycle import Query
from skewless.engine.operator import Arrival
from skewless.engine.output import FileTarget
from skewless.engine.pipeline import Feed, IngestTask, Node
from skewless.engine.reading import FileReading, Files, ReadTask, Stream
from skewless.engine.report import InstanceReport
from skewless.errors import CheckpointInUseError, StateAccessError
from skewless.files.splits import FileRef
from skewless.spark.cluster import HOME, Places, home_of, parallelism
from skewless.spark.exchange import (
    JSON_SCHEMA,
    PACKET_SCHEMA,
    Taking,
    ingest_function,
    merge_function,
    of_one_attempt,
    passing_on,
    report_function,
    rows_function,
)
from skewless.spark.followed import files_of, tell_progress
from skewless.spark.plans import empty_frame
from skewless.spark.quick_log import QuickLog
from skewless.spark.reporting import Work, is_plain, reported
from skewless.spark.steps import with_steps
from skewless.state.output import Output
from skewless.state.owner import CheckpointLock

if TYPE_CHECKING:
    from skewless.spark.kafka import SparkDeliverer

Made = TypeVar("Made")

log = logging.getLogger("skewless")

_at_work_here = threading.Lock()
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_ROWS_DEFAULT = "10000"
# Work that is smaller than the cost of handing it to other processes is done in the driver's.
SMALL_BYTES = 4 << 20
EXCHANGE_TRIES = 5
NEVER_HERE = os.environ.get("SKEWLESS_SMALL") == "apart"  # for tests
ARROW_ROWS_WANTED = "20000"  # fewer, larger hand-overs between Spark and Python


def done_here(work: Callable[[], Made]) -> Made | None:
    """What comes of something small, done in this process; None if another query is at that, since
    Python does one thing at a time."""
    if not _at_work_here.acquire(blocking=False):
        return None
    try:
        return work()
    finally:
        _at_work_here.release()


def taken_in(
    frame: DataFrame, task: IngestTask | Decoding, columns: tuple[int, ...], *, packets: bool
) -> DataFrame:
    """Rows of a DataFrame, taken in by an operator: what its tasks report, or send on as packets.
    Columns go by number: `mapInArrow` looks them up by name, and takes a dot in a name for a field
    of a struct."""
    numbered = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    wanted = numbered.select(*(f"c{i}" for i in columns))
    schema = PACKET_SCHEMA if packets else JSON_SCHEMA
    return wanted.mapInArrow(ingest_function(task, packets=packets), schema)


def told(frame: DataFrame, *, packets: bool) -> DataFrame:
    """Rows of JSON beside those of tasks, which may have packets."""
    if not packets:
        return frame
    others = PACKET_SCHEMA.fields[1:]
    return frame.select("json", *(F.lit(None).cast(f.dataType).alias(f.name) for f in others))


def exchanged(
    frame: DataFrame, homes: Homes, task: MergeTask, numbers: DataFrame | None = None
) -> DataFrame:
    """Packets brought to where they belong, and what was made of them. With the `numbers` of the
    instances they are put together where these work."""
    if not homes.of or "data" not in frame.columns:
        return frame
    place = _place_of(homes)
    if numbers is None or HOME not in numbers.columns:
        placed = frame.repartitionById(homes.most, place.cast("int"))
    else:
        home = home_of(place.cast("int"), homes.most)
        sent = frame.select(*PACKET_SCHEMA.names, home).repartition(homes.most, HOME)
        nothing = (F.lit(None).cast(f.dataType).alias(f.name) for f in PACKET_SCHEMA)
        here = numbers.select(*nothing, HOME)
        # A task runs where most of the parts of its union are. A host that sends it much of its
        # rows counts as one, the cached number as two.
        placed = here.union(here).union(sent)
    return placed.mapInArrow(merge_function(task.by(homes)), JSON_SCHEMA)


def _place_of(homes: Homes) -> Column:
    """What `Homes.place` says of a packet, as Spark finds it out by itself."""
    place = F.lit(0)
    for operator, (instance_of, count) in homes.of.items():
        listed = F.split(F.lit(",".join(map(str, instance_of))), ",")
        home = listed[F.col("bucket")].cast("int") + F.expr(f"deal * {count} div {DEALS}")
        found = home % count
        if apart := homes.apart.get(operator):
            told = ",".join(f"{key}:{' '.join(map(str, own))}" for key, own in apart.items())
            own = F.split(F.str_to_map(F.lit(told), F.lit(","), F.lit(":"))[F.col("key")], " ")
            dealt = own[F.col("deal") % F.size(own)].cast("int")
            found = F.when(own.isNotNull(), dealt).otherwise(found)
        place = F.when(F.col("operator") == operator, found).otherwise(place)
    return place


@dataclass
class SparkExecutor(Executor[DataFrame]):
    """The tasks of one batch. `arrived` is the result of job 1; `schemas` are what operators
    emit, in Spark's types; `merging` puts packets together. `places` are where instances have
    worked before; `readings` how files are read of which `arrived` only tells. If that is all it
    does, and Spark's `progress` can be told what has been read, its plan is asked for them."""

    session: SparkSession
    arrived: DataFrame
    schemas: Mapping[str, StructType]
    merging: MergeTask
    places: Places | None = None
    readings: Mapping[Stream, FileReading] = field(default_factory=dict)
    progress: StreamingQuery | None = None

    def cores(self) -> int:
        return self._cores

    @cached_property
    def _cores(self) -> int:
        return parallelism(self.session)

    def arrivals(self) -> list[Arrival]:
        if self.progress is not None:
            followed = files_of(self.arrived, tuple(self.readings))
            if followed is not None:
                return self._read(followed)
        told = _consistent(self._exchanged(self.arrived))
        files: dict[Stream, list[FileRef]] = {}
        for one in told:
            if "path" in one:
                stream = one["operator"], one["input"]
                files.setdefault(stream, []).append(FileRef(one["path"], one["size"]))
        arrivals = [Arrival.from_json(found) for found in told if "path" not in found]
        return arrivals + (self._read(files) if files else [])

    def replay(self) -> None:
        """Files need not be read for that."""
        _collected(self._exchanged(self.arrived))

    def _exchanged(self, frame: DataFrame) -> DataFrame:
        numbers = self._numbers(self.homes.most) if self.homes.of else None
        return exchanged(frame, self.homes, self.merging, numbers)

    def _read(self, files: Files) -> list[Arrival]:
        """Have files read, and their rows taken in."""
        task = ReadTask.of(self.readings, files, self.cores())
        packets = any(reading.ingest.buckets for reading in self.readings.values())
        size = sum(file.size for some in files.values() for file in some)
        arrivals = None
        if size <= SMALL_BYTES and not packets and not NEVER_HERE:
            arrivals = done_here(lambda: self._arrivals_of(task))
        if arrivals is None:
            told = self._reported(len(task.shares), task, placed=False, packets=packets)
            arrivals = [Arrival.from_json(found) for found in told]
        if self.progress is not None:
            rows = {stream: 0 for stream in self.readings if files.get(stream)}
            for arrival in arrivals:
                rows[arrival.operator, arrival.input] += arrival.rows
            if not tell_progress(self.progress, rows):
                self.progress = None
        return arrivals

    def _arrivals_of(self, task: ReadTask) -> list[Arrival]:
        made = (one for number in range(len(task.shares)) for one in task(number))
        return [one for one in made if isinstance(one, Arrival)]

    def reports(self, task: StepTask) -> list[InstanceReport]:
        if _is_small(task):
            here = done_here(lambda: [task.report_of(n) for n in range(task.step.instances)])
            if here is not None:
                return here
        told = self._reported(task.step.instances, lambda number: [task.report_of(number)])
        return [InstanceReport.from_json(found) for found in told]

    def rows(self, task: StepTask, node: Node) -> DataFrame:
        if task.is_tiny and not NEVER_HERE:
            numbers = range(task.step.instances)
            here = done_here(lambda: [batch for n in numbers for batch in task.rows_of(n)])
            frame = None if here is None else self._frame(here, node)
            if frame is not None:
                return frame
        instances = self._numbers(task.step.instances)
        return instances.mapInArrow(rows_function(task), self.schemas[node.name])

    def _frame(self, rows: Sequence[pa.RecordBatch], node: Node) -> DataFrame | None:
        """Few rows, handed to Spark at once; None if PySpark does not take them, such as a null in
        place of a struct whose fields cannot be null."""
        if not rows:
            return self.no_rows(node)  # it fails at structs of no rows at all
        table = pa.Table.from_batches(rows, node.operator.output_schema())
        try:
            return self.session.createDataFrame(table, self.schemas[node.name])
        except ValueError:
            return None

    def no_rows(self, node: Node) -> DataFrame:
        return empty_frame(self.session, self.schemas[node.name])

    def pass_on(self, task: StepTask, node: Node, ingest: IngestTask, feed: Feed) -> list[Arrival]:
        packets = ingest.buckets > 0
        taking = Taking(feed.columns, feed.shapes or ())
        if _is_small(task) and not packets and (feed.shapes is not None or not feed.shape):
            here = done_here(lambda: list(_passed_on(task, ingest, taking)))
            if here is not None:
                return here
        if feed.shape and feed.shapes is None:
            rows = with_steps(self.rows(task, node), feed.shape)
            frame = taken_in(rows, ingest, feed.columns, packets=packets)
            told = _consistent(self._exchanged(frame)) if packets else _collected(frame)
        else:
            work = passing_on(task, ingest, taking)
            told = self._reported(task.step.instances, work, packets=packets)
        return [Arrival.from_json(found) for found in told]

    def drain(self, rows: DataFrame) -> None:
        rows.write.format("noop").mode("overwrite").save()

    def _reported(
        self, count: int, work: Work, *, placed: bool = True, packets: bool = False
    ) -> list[dict[str, Any]]:
        """What so many tasks report, each of which gets a number. If that is an instance's, it is
        `placed` where it ran before."""
        if not count:
            return []
        if not packets and is_plain(self.session):
            return reported(self.session, count, work)
        numbers = self._numbers(count) if placed else self.session.range(0, count, 1, count)
        schema = PACKET_SCHEMA if packets else JSON_SCHEMA
        frame = numbers.mapInArrow(report_function(work, packets=packets), schema)
        return _consistent(self._exchanged(frame)) if packets else _collected(frame)

    def _numbers(self, count: int) -> DataFrame:
        if self.places is None:
            return self.session.range(0, count, 1, count)
        return self.places.numbers(self.session, count, self.cores())


def _is_small(task: StepTask) -> bool:
    return task.is_small and not NEVER_HERE


def _passed_on(task: StepTask, ingest: IngestTask, taking: Taking) -> Iterator[Arrival]:
    for number in range(task.step.instances):
        for made in ingest(taking.rows(task, number), number):
            if isinstance(made, Arrival):
                yield made


def _collected(frame: DataFrame) -> list[dict[str, Any]]:
    return [json.loads(row[0]) for row in frame.collect()]


def _consistent(frame: DataFrame) -> list[dict[str, Any]]:
    """The same of tasks that put packets together: all of the same packets. If a host is lost in
    between, Spark has some sent again, and repeats only those tasks that had not read them yet."""
    for _ in range(EXCHANGE_TRIES):
        told = of_one_attempt(_collected(frame))
        if told is not None:
            return told
        log.warning("rows were sent again while they were put together: that is repeated")
    raise StateAccessError(
        f"hosts were lost {EXCHANGE_TRIES} times while rows were exchanged between them. Start the "
        "query again: it continues from its last commit."
    )


class BatchDriver:
    """Called by `foreachBatch` with the result of job 1. Spark Connect sends it to the server: it
    is pickled by its fields, before any batch is at work."""

    def __init__(
        self,
        query: Query,
        sink: Sink[DataFrame],
        schemas: Mapping[str, StructType],
        outputs: Sequence[Output] = (),
        files: FileTarget | None = None,
        deliverer: SparkDeliverer | None = None,
    ) -> None:
        self._deliverer = deliverer
        self.query, self._sink, self._schemas = query, sink, dict(schemas)
        self._outputs, self._files = tuple(outputs), files
        self.readings: Mapping[Stream, FileReading] = {}
        self.log: QuickLog | None = None
        self.running: StreamingQuery | None = None  # from when on it is known
        self._places = Places()
        self._at_work = threading.Lock()
        self._closed = False

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_at_work"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _at_work=threading.Lock())

    def open(self) -> None:
        """Open the state, if nothing speaks against it; only then touch the output folders."""
        for output in self._outputs:
            output.check(self.query.folder)
        if self._deliverer is not None:
            self._deliverer.check()
        self.query.open()
        for output in self._outputs:
            output.take(self.query.folder)

    def close(self) -> None:
        """Wait for a batch at work, and take no other: a stopped query must not commit after its
        checkpoint was given to the next."""
        self._log_is_open()
        with self._at_work:
            self._closed = True
            self._places.forget()
            if self._deliverer is not None:
                self._deliverer.close()

    @property
    def _only_files(self) -> bool:
        """Whether skewless reads all streams itself, and Spark only tells of files."""
        return len(self.readings) == len(list(self.query.pipeline.streams()))

    def _log_is_open(self) -> None:
        if self.log is not None:
            self.log.opened()

    def __call__(self, arrived: DataFrame, batch_id: int) -> None:
        self._log_is_open()
        with self._at_work:
            if self._closed:
                # To return would let Spark commit offsets of rows that nobody has worked on.
                raise CheckpointInUseError(
                    f"batch {batch_id} came when the query on {self.query.root} had ended and "
                    "given its checkpoint back: nothing was done, and the next start repeats it."
                )
            self._process(arrived, batch_id)

    def _process(self, arrived: DataFrame, batch_id: int) -> None:
        if self._deliverer is not None:
            self._deliverer.session = arrived.sparkSession
        if not self.query.is_open:
            lock = CheckpointLock(self.query.folder)  # held as long as this process lives
            lock.acquire()
            self.open()
            lock.keep_alive(self.query.epoch)
        session = arrived.sparkSession
        merging = self.query.pipeline.merging(self.query.folder)
        running = self.running
        executor = SparkExecutor(
            session, arrived, self._schemas, merging, self._places, self.readings,
            running if self._only_files else None,
        )  # fmt: skip
        run_batch(self.query, executor, self._sink, batch_id, self._files)
        if running is not None and self._only_files and executor.progress is None:
            self.running = None
        if session.conf.get(ARROW_ROWS, None) == ARROW_ROWS_DEFAULT:
            # This is the query's own copy of the session, and it plans the batches to come.
            session.conf.set(ARROW_ROWS, ARROW_ROWS_WANTED)
