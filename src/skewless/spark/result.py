"""What every operator gives the user: a result that is described but not yet running."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.errors import ArgumentError
from skewless.spark.interpreter import check_workers
from skewless.state.files import qualify

if TYPE_CHECKING:
    from skewless.spark.executor import BatchDriver
    from skewless.spark.sinks import Sink
    from skewless.spark.writer import ResultWriter

Steps = tuple[tuple[str, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Described(ABC):
    """Rows to come: write them with `writeStream` or, when the inputs are static, take them with
    `toDF`. `steps` are done to them in Catalyst, as (name of a DataFrame method, its arguments);
    `schema` is that of the result after them."""

    frame: DataFrame  # the first input: says which session, and whether it streams
    schema: StructType
    steps: Steps

    output_modes: ClassVar[tuple[str, ...]] = ("append",)
    output_modes_told: ClassVar[str] = "'append'"

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    @property
    def isStreaming(self) -> bool:
        return bool(self.frame.isStreaming)

    @property
    def sparkSession(self) -> SparkSession:
        return self.frame.sparkSession

    def where(self, condition: str | Column) -> Self:
        """The result with a further condition over its columns."""
        return self._then("where", condition)

    def select(self, *columns: str | Column) -> Self:
        """The result with these columns, as `DataFrame.select`."""
        return self._then("select", *columns)

    def selectExpr(self, *expressions: str) -> Self:
        """The result with these SQL expressions as columns, as `DataFrame.selectExpr`: for instance
        ``selectExpr("cast(cell as string) key", "to_json(struct(*)) value")`` for Kafka."""
        return self._then("selectExpr", *expressions)

    def _then(self, method: str, *arguments: Any) -> Self:
        """Have Spark analyse the step on an empty result, so that a mistake shows now."""
        nothing: list[Any] = []
        empty = self.sparkSession.createDataFrame(nothing, self.schema)
        try:
            schema = getattr(empty, method)(*arguments).schema
        except (PySparkException, TypeError) as error:
            why = str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0].rstrip(";")
            accepted = f"valid over the columns {', '.join(self.columns)} ({why})"
            told = ", ".join(map(str, arguments))
            raise ArgumentError(method, told, accepted) from error
        return replace(self, steps=(*self.steps, (method, arguments)), schema=schema)

    def shaped(self, rows: DataFrame) -> DataFrame:
        """Rows after all steps."""
        return with_steps(rows, self.steps)

    @property
    def writeStream(self) -> ResultWriter:
        """A writer with the methods of PySpark's DataStreamWriter."""
        from skewless.spark.writer import ResultWriter

        if not self.isStreaming:
            raise ArgumentError("writeStream", "static inputs", "used on streams; see toDF()")
        return ResultWriter(self)

    def toDF(self, workdir: str | None = None) -> DataFrame:
        """Work on static inputs to the end and return the result.

        State lies in `workdir` as long as the result is in use; on a cluster it must be a folder
        that all machines reach. Default: a temporary folder, removed when Python exits.
        """
        if self.isStreaming:
            raise ArgumentError("toDF", "streaming inputs", "used on static ones; see writeStream")
        check_workers(self.sparkSession)
        if workdir is None:
            root = tempfile.mkdtemp(prefix="skewless-")
            atexit.register(shutil.rmtree, root, ignore_errors=True)
        else:
            root = f"{qualify(workdir)}/{uuid.uuid4().hex}"
        return self._whole_result(root)

    @abstractmethod
    def _whole_result(self, root: str) -> DataFrame:
        """The result of static inputs, with its state in a folder."""

    @abstractmethod
    def arrivals(self, root: str) -> DataFrame:
        """The part of a batch that is in the streaming plan: what its tasks tell the driver."""

    @abstractmethod
    def driver(self, root: str, sink: Sink, mode: str | None, **keeping: int) -> BatchDriver:
        """What is to be done with each batch of arrivals."""


def with_steps(rows: DataFrame, steps: Steps) -> DataFrame:
    for method, arguments in steps:
        rows = getattr(rows, method)(*arguments)
    return rows


def numbered(frame: DataFrame) -> DataFrame:
    """The same columns by number: `mapInArrow` looks them up by name and takes a dot in a name for
    a field of a struct."""
    return frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))


_parallelism: dict[int, int] = {}


def parallelism(session: SparkSession) -> int:
    """How many tasks the session runs at once, asked so that it works under Spark Connect too."""
    key = id(session)
    if key not in _parallelism:
        ids = session.range(0, 1 << 16).select(F.spark_partition_id().alias("p"))
        _parallelism[key] = int(ids.agg(F.max("p")).collect()[0][0]) + 1
    return _parallelism[key]


def parse_size(name: str, value: object) -> int | None:
    """A number of instances or slots."""
    if value is not None and (
        not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65_536
    ):
        raise ArgumentError(name, value, "a whole number from 1 to 65536, or None")
    return value
