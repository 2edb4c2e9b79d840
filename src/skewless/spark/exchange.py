"""What crosses between Spark and its Python workers: the frame of every task, as `mapInArrow`
functions. What a task does comes with it, so that a worker loads only what its query needs.

Packets say which attempt of a task has sent them. A task that ran again, after the host that held
its packets was lost, has cut them otherwise if its rows came in another order: then those who have
read the former ones must not be taken together with those who read the later ones.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from skewless.engine.decoding import Decoding
from skewless.engine.exchange import MergeTask, Packet
from skewless.engine.instance import StepTask
from skewless.engine.operator import Arrival
from skewless.engine.pipeline import IngestTask
from skewless.expressions import Shape
from skewless.expressions.shape import shaped
from skewless.spark.reporting import Reported, Work
from skewless.spark.workers import begin_task, end_task

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# Types, not text: Spark would have to be asked every time what a text means.
JSON_SCHEMA = StructType().add("json", StringType())  # of what tasks report to the driver
# The same, besides rows that are on their way to other tasks.
PACKET_SCHEMA = (
    StructType()
    .add("json", StringType())
    .add("operator", StringType())
    .add("input", StringType())
    .add("side", StringType())
    .add("bucket", IntegerType())
    .add("deal", IntegerType())
    .add("key", StringType())  # a number of 64 bits without a sign
    .add("data", BinaryType())
)


def ingest_function(task: IngestTask | Decoding, *, packets: bool) -> ArrowFunction:
    """Rows of an input in, what the task made of them out; with `packets`, these too."""

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        sender = secrets.token_hex(4)
        for made in task(batches, _task_number()):
            yield _as_row(made, packets=packets, sender=sender)
        end_task()

    return function


def report_function(work: Work, *, packets: bool) -> ArrowFunction:
    """Numbers in, what the tasks report out; with `packets`, these too."""

    def report(number: int) -> Iterator[pa.RecordBatch]:
        sender = secrets.token_hex(4)
        for made in work(number):
            yield _as_row(made, packets=packets, sender=sender)

    return per_instance(report)


def _as_row(made: Reported | Packet, *, packets: bool, sender: str | None = None) -> pa.RecordBatch:
    if not isinstance(made, Packet):
        if not packets:
            return _as_json(made.to_json())
        told = _as_json(made.to_json() | {SENDER: sender})
        return pa.RecordBatch.from_arrays(
            [told.column(0), *(pa.nulls(1, f.type) for f in PACKET_FIELDS)], PACKET_NAMES
        )
    told = vars(made) | {"key": None if made.key is None else str(made.key)}
    values = [pa.array([told[f.name]], f.type) for f in PACKET_FIELDS]
    return pa.RecordBatch.from_arrays([pa.array([sender], pa.string()), *values], PACKET_NAMES)


PACKET_FIELDS = (
    *(pa.field(name, pa.string()) for name in ("operator", "input", "side")),
    *(pa.field(name, pa.int32()) for name in ("bucket", "deal")),
    pa.field("key", pa.string()),
    pa.field("data", pa.binary()),
)
PACKET_NAMES = ["json", *(f.name for f in PACKET_FIELDS)]  # of packets, "json" is the sender
SENDER, SENDERS = "sender", "senders"


def merge_function(task: MergeTask) -> ArrowFunction:
    """Packets of some ranges in, what was made of them out; what tasks have told goes through."""

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        told: list[pa.RecordBatch] = []
        senders: set[str | None] = set()

        def packets() -> Iterator[Packet]:
            for batch in batches:
                is_told = pc.and_(batch["data"].is_null(), batch.column(0).is_valid())
                told.append(batch.select([0]).filter(is_told))
                sent = batch.filter(batch["data"].is_valid())
                senders.update(sent.column(0).unique().to_pylist())
                for i in range(sent.num_rows):
                    values = {name: sent[name][i].as_py() for name in PACKET_NAMES[1:]}
                    key = values["key"]
                    yield Packet(**values | {"key": None if key is None else int(key)})

        for arrival in task(packets()):
            yield _as_json(arrival.to_json())
        yield from told
        if known := sorted(sender for sender in senders if sender is not None):
            yield _as_json({SENDERS: known})
        end_task()

    return function


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def rows_function(task: StepTask) -> ArrowFunction:
    """Numbers of instances in, their rows out."""
    return per_instance(task.rows_of)


@dataclass(frozen=True)
class Taking:
    """How an operator takes the rows of another: some columns, of what `shapes` make of them."""

    columns: tuple[int, ...]
    shapes: tuple[Shape, ...] = ()

    def rows(self, task: StepTask, instance: int) -> Iterator[pa.RecordBatch]:
        """The rows of an instance of the other."""
        for batch in task.rows_of(instance):
            yield shaped(batch, self.shapes).select(list(self.columns))


def passing_on(task: StepTask, ingest: IngestTask, taking: Taking) -> Work:
    """The rows of an instance go straight into the operator above. They never see the JVM."""

    def pass_on(instance: int) -> Iterator[Arrival | Packet]:
        return ingest(taking.rows(task, instance), instance)

    return pass_on


def per_instance(work: Callable[[int], Iterator[pa.RecordBatch]]) -> ArrowFunction:
    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for batch in batches:
            for instance in batch.column(0).to_pylist():
                yield from work(instance)
        end_task()

    return function


def _as_json(found: dict[str, Any]) -> pa.RecordBatch:
    return pa.record_batch({"json": [json.dumps(found)]})


def of_one_attempt(told: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """What tasks have told, if all who put packets together had them of the same attempts, which
    are those whose report has come; else None."""
    reported = {one[SENDER] for one in told if SENDER in one}
    if any(sender not in reported for one in told for sender in one.get(SENDERS, ())):
        return None
    plain = (one for one in told if SENDERS not in one)
    return [{name: value for name, value in one.items() if name != SENDER} for one in plain]
