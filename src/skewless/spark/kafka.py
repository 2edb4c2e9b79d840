"""`format("kafka")`, exactly once: results are staged as files, and delivered after the commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.engine.output import FileTarget
from skewless.errors import ArgumentError, ColumnError
from skewless.kafka.delivery import KafkaDeliverer, PartsTask
from skewless.kafka.options import client_settings, topic_of
from skewless.kafka.rows import COLUMNS
from skewless.spark import executor
from skewless.spark.exchange import JSON_SCHEMA, ArrowFunction, per_instance
from skewless.spark.sinks import FileSink, Sink
from skewless.state.delivery import PART_BYTES
from skewless.state.epochs import Ownership
from skewless.state.publish import Moves

if TYPE_CHECKING:
    from skewless.spark.result import Plan, Result

TEXT = ("string", "binary")
TYPES = {
    "topic": ("string",),
    "key": TEXT,
    "value": TEXT,
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
TOPIC = r"\A[a-zA-Z0-9._-]{1,249}\z"  # what Kafka allows as a name
STAGED_AS = {"compression": "none"}  # it is read once, a moment later


class KafkaSink(Sink):
    """Stages results as files. What becomes of them is the deliverer's business."""

    def __init__(
        self, ownership: Ownership, spark_root: str, options: dict[str, Any], tasks: int
    ) -> None:
        self._topic = topic_of(options)
        self.deliverer = SparkDeliverer(client_settings(options), self._topic, tasks)
        nowhere = ownership.folder.path("delivered")  # only staged names count
        self._staging = FileSink(ownership, spark_root, nowhere, "parquet", STAGED_AS, [])

    def taken(self, result: Result) -> Result:
        """The columns that Kafka takes, of which each is checked; others need not be carried."""
        kinds = dict(result.dtypes)
        for name, fit in TYPES.items():
            if name in kinds and kinds[name] not in fit:
                raise ColumnError(name, kinds[name], f"of type {' or '.join(fit)}")
        if "value" not in kinds:
            accepted = 'a column named value: for instance .selectExpr("to_json(struct(*)) value")'
            raise ColumnError("value", ", ".join(result.columns), accepted)
        if self._topic is None and "topic" not in kinds:
            raise ArgumentError("topic", None, "given: an option, or a column of the result")
        left_out = () if self._topic is None else ("topic",)
        names = [name for name in COLUMNS if name in kinds and name not in left_out]
        return result.select(*map(_taken, names))

    def target(self, plan: Plan, schema: StructType) -> FileTarget | None:
        return self._staging.target(plan, schema)

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        return self._staging.write(result, batch_id)


def _taken(name: str) -> Any:
    """A column, checked: a row that Kafka can never take must not be committed."""
    column = F.col(name)
    if name == "topic":
        is_right = column.isNotNull() & column.rlike(TOPIC)
        told = "a row without topic, or with what no topic is called: fill the column, or give the "
        told += "option topic"
    elif name == "headers":
        is_right = column.isNull() | F.forall(name, lambda one: one.getField("key").isNotNull())
        told = "a row with a header without key: Kafka has none such"
    else:
        return column
    return F.when(is_right, column).otherwise(F.raise_error(told)).alias(name)


class SparkDeliverer(KafkaDeliverer):
    """Delivers large parts in tasks, and what is small in this process. It is sent to the server by
    Spark Connect, without a session."""

    session: SparkSession | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "session"}

    def _run(self, task: PartsTask) -> None:
        size = sum(file.bytes for part in task.parts for file in part)
        if self.session is None or (size <= PART_BYTES and not executor.NEVER_HERE):
            super()._run(task)
            return
        numbers = self.session.range(0, len(task.parts), 1, len(task.parts))
        numbers.mapInArrow(deliver_function(task), JSON_SCHEMA).collect()


def deliver_function(task: PartsTask) -> ArrowFunction:
    """Numbers of parts in, how many rows of each were delivered out."""

    def deliver(number: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"json": [json.dumps({"delivered": task(number)})]})

    return per_instance(deliver)
