"""`writeStream` of a result: PySpark's DataStreamWriter, as far as it fits."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from skewless.engine.lifecycle import Query
from skewless.errors import ArgumentError, ColumnError
from skewless.kafka.options import DELIVERY, EXACTLY_ONCE, delivery_of
from skewless.spark.cluster import parallelism
from skewless.spark.executor import BatchDriver
from skewless.spark.interpreter import check_workers, is_remote
from skewless.spark.kafka import KafkaSink
from skewless.spark.quick_log import QuickLog
from skewless.spark.result import Plan, Result
from skewless.spark.sinks import (
    ConsoleSink,
    FileSink,
    ForeachBatchSink,
    MemorySink,
    ShapedSink,
    Sink,
    SourceSink,
    TableSink,
)
from skewless.spark.stores import CHECKPOINT, OPTION, Stores, as_spark_names, is_store_option
from skewless.spark.tables.choosing import Asked, CatalogSink, for_source
from skewless.state.epochs import Ownership
from skewless.state.files import STATE_FOLDER, naming
from skewless.state.output import CHOICES, EXISTING, Output
from skewless.state.owner import CheckpointLock
from skewless.state.publish import FILE_FORMATS

OWN_OPTIONS = {
    "skewless.keepcommits": "keep_commits",
    "skewless.keephistory": "keep_history",
    "skewless.hidekeys": "hide_keys",
}
HIDE_KEYS = "skewless.hidekeys"
TRANSIENT = frozenset({"memory", "console", "noop"})  # Spark, too, lets these go without checkpoint
TRIGGERS = ("processingTime", "once", "availableNow")


class ResultWriter:
    """Collects where and how to write; `start` begins.

    Options of its own: ``skewless.keepCommits`` (default 10), how many batches of state can be gone
    back to; ``skewless.keepHistory`` (default 1000), how many batch reports are kept; and
    ``skewless.existing``, what to do with files that another query left in the output folder:
    ``"append"`` adds to them, ``"overwrite"`` removes them when the checkpoint is new. Without it
    such a folder is refused. With ``skewless.hideKeys`` (default false) reports, decisions and the
    log have hashes instead of the values of keys, salted for each checkpoint. How a store is
    reached is told by the session's Hadoop settings (``spark.hadoop.fs.…``);
    ``skewless.store.fs.…`` sets one for this query alone. ``skewless.delivery``, of format
    ``"kafka"``: ``"exactly-once"`` (default) or ``"at-least-once"``.
    """

    def __init__(self, result: Result) -> None:
        self._result = result
        self._format: str | None = None
        self._options: dict[str, Any] = {}
        self._partition_by: list[str] = []
        self._query_name: str | None = None
        self._mode: str | None = None
        self._trigger: dict[str, Any] = {}
        self._function: Callable[[DataFrame, int], None] | None = None

    def format(self, source: str) -> ResultWriter:
        self._format = source
        return self

    def option(self, key: str, value: Any) -> ResultWriter:
        name = key.lower()
        is_own = name in (*OWN_OPTIONS, EXISTING, DELIVERY) or is_store_option(key)
        if name.startswith("skewless.") and not is_own:
            own = "skewless.keepCommits, skewless.keepHistory, skewless.hideKeys"
            accepted = f"{own}, {EXISTING}, {DELIVERY} or {OPTION}fs.…"
            raise ArgumentError("option", key, accepted)
        self._options = {k: v for k, v in self._options.items() if k.lower() != name} | {key: value}
        return self

    def options(self, **options: Any) -> ResultWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *names: Any) -> ResultWriter:
        flat = list(names[0]) if len(names) == 1 and isinstance(names[0], list | tuple) else names
        for name in flat:
            if name not in self._result.columns:
                accepted = f"a column of the result: {', '.join(self._result.columns)}"
                raise ColumnError("partitionBy", name, accepted)
        self._partition_by = list(flat)
        return self

    def outputMode(self, mode: str) -> ResultWriter:
        if str(mode).lower() not in self._result.output_modes:
            raise ArgumentError("outputMode", mode, self._result.output_modes_text)
        self._mode = str(mode).lower()
        return self

    def queryName(self, name: str) -> ResultWriter:
        if not isinstance(name, str) or not name.strip():
            raise ArgumentError("queryName", name, "a name that is not empty")
        self._query_name = name
        return self

    def trigger(self, **trigger: Any) -> ResultWriter:
        if len(trigger) != 1 or next(iter(trigger)) not in TRIGGERS:
            raise ArgumentError(
                "trigger",
                trigger,
                "one of: processingTime='1 second', availableNow=True, once=True",
            )
        self._trigger = trigger
        return self

    def foreachBatch(self, function: Callable[[DataFrame, int], None]) -> ResultWriter:
        if not callable(function):
            raise ArgumentError("foreachBatch", function, "a function of (DataFrame, batch id)")
        self._function = function
        return self

    def toTable(self, name: str, **more: Any) -> StreamingQuery:
        """Append to a table of the catalog: exactly once if it is a Delta or Iceberg table, else at
        least once."""
        self._take(more)
        options = self._sink_options()
        table = TableSink(name, self._format, options, self._partition_by)
        return self._start(
            lambda ownership, _: CatalogSink(Asked(table, name, options, ownership), table)
        )

    def start(self, path: str | None = None, **more: Any) -> StreamingQuery:
        """Start the query: a PySpark StreamingQuery. All checks come before any job."""
        self._take(more)
        if path is not None:
            self.option("path", path)
        return self._start(self._sink, self._output())

    def _take(self, more: dict[str, Any]) -> None:
        """Settings given to `start`, as PySpark allows."""
        for key, value in more.items():
            if key in ("format", "outputMode", "queryName", "partitionBy"):
                if value is not None:
                    getattr(self, key)(value)
            else:
                self.option(key, value)

    def _start(
        self, make_sink: Callable[[Ownership, str], Sink], output: Output | None = None
    ) -> StreamingQuery:
        check_workers(self._result.sparkSession)
        checkpoint = self._checkpoint()
        stores = self._stores()
        outputs = [] if output is None else [output]
        outputs += [Output(path, self._existing()) for path in self._result.letter_paths()]
        folder = stores.state_folder(checkpoint, *(output.path for output in outputs))
        for one in outputs:
            one.check_apart(folder)
        if not stores.elsewhere:
            folder.reach(CHECKPOINT, checkpoint)
            for one in outputs:
                folder.other(one.path).reach("path", one.given or one.path)
        spark_root = as_spark_names(folder, checkpoint)
        keeping = {
            OWN_OPTIONS[k.lower()]: _flag(k, v) if k.lower() == HIDE_KEYS else _positive(k, v)
            for k, v in self._options.items()
            if k.lower() in OWN_OPTIONS
        }
        if not outputs and self._get(EXISTING) is not None:
            accepted = "left out: only files can be there already"
            raise ArgumentError(EXISTING, self._get(EXISTING), accepted)
        if self._get(DELIVERY) is not None and not self._is_kafka():
            accepted = "left out: only format kafka can be delivered to in several ways"
            raise ArgumentError(DELIVERY, self._get(DELIVERY), accepted)
        ownership = Ownership(folder)
        sink = make_sink(ownership, spark_root)
        # Under Spark Connect the state lies where the server is, which opens it on the first batch.
        remote = is_remote(self._result.sparkSession)
        lock = CheckpointLock(folder)
        driver, plan = self._query(ownership, sink, keeping, outputs)
        try:
            if not remote:
                with naming(CHECKPOINT, checkpoint):
                    lock.acquire()
                driver.open()
                lock.keep_alive(ownership.epoch)
            driver.readings = plan.readings(driver.query)
            writer = plan.arrivals(driver.query).writeStream.foreachBatch(driver)
            # As we name it: Spark looks for a relative folder where the session was begun.
            place = checkpoint if remote else spark_root.removesuffix(f"/{STATE_FOLDER}")
            writer = writer.option(CHECKPOINT, place)
            if self._query_name is not None:
                writer = writer.queryName(self._query_name)
            if self._trigger:
                writer = writer.trigger(**self._trigger)
            if not remote and folder.is_local:
                driver.log = QuickLog(self._result.sparkSession)
            query = writer.start()
            driver.running = None if remote else query
        except BaseException:
            driver.close()
            lock.release()
            raise
        lock.release_after(query, driver.close)
        return query

    def _query(
        self, ownership: Ownership, sink: Sink, keeping: dict[str, Any], outputs: list[Output]
    ) -> tuple[BatchDriver, Plan]:
        """What is done with every batch, and what Spark has to know to feed it."""
        result, deliverer = self._result, None
        if isinstance(sink, KafkaSink):
            result, deliverer = sink.taken(result), sink.deliverer
            deliverer.session = None if is_remote(result.sparkSession) else result.sparkSession
        mode = result.output_mode(self._mode)
        pipeline, plan = result.pipeline(parallelism(result.sparkSession), mode)
        shaped = ShapedSink(sink, plan.steps)
        query = Query(
            ownership.folder, pipeline, ownership=ownership, deliverer=deliverer, **keeping
        )
        files = sink.target(plan, result.schema) if isinstance(sink, FileSink | KafkaSink) else None
        return BatchDriver(query, shaped, plan.schemas, outputs, files, deliverer), plan

    def _get(self, key: str) -> Any:
        return next((v for k, v in self._options.items() if k.lower() == key.lower()), None)

    def _checkpoint(self) -> str:
        given = self._get(CHECKPOINT)
        if given:
            return str(given)
        default = self._result.sparkSession.conf.get("spark.sql.streaming.checkpointLocation", None)
        if default:
            return f"{default}/{self._query_name}" if self._query_name else self._refuse(default)
        if self._function is None and self._format in TRANSIENT:
            folder = tempfile.mkdtemp(prefix="skewless-checkpoint-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder
        return self._refuse(given)

    def _refuse(self, received: object) -> str:
        raise ArgumentError(
            CHECKPOINT,
            received,
            'a folder for this query alone: .option("checkpointLocation", "…"), or queryName "…" '
            "with the session's spark.sql.streaming.checkpointLocation",
        )

    def _sink_options(self) -> dict[str, Any]:
        own = {CHECKPOINT.lower(), "path", EXISTING, DELIVERY, *OWN_OPTIONS}
        return {
            k: v
            for k, v in self._options.items()
            if k.lower() not in own and not is_store_option(k)
        }

    def _stores(self) -> Stores:
        return Stores.of(self._result.sparkSession, self._options)

    def _sink(self, ownership: Ownership, spark_root: str) -> Sink:
        if self._function is not None:
            return ForeachBatchSink(self._function)
        source = self._format or self._default_format()
        path = self._get("path")
        options = self._sink_options()
        if source.lower() in FILE_FORMATS:
            if not path:
                raise ArgumentError("path", path, f"the output folder of the {source} files")
            # Now: a restart may be in another working folder.
            target = self._stores().locate("path", str(path))
            return FileSink(ownership, spark_root, target, source, options, self._partition_by)
        if source == "console":
            truncate = str(self._get("truncate")).lower() != "false"
            return ConsoleSink(int(self._get("numRows") or 20), truncate)
        if source == "memory":
            if self._query_name is None:
                raise ArgumentError("queryName", None, "given: the memory sink names its view so")
            return MemorySink(self._result.sparkSession, self._query_name, self._result.schema)
        if self._is_kafka() and delivery_of(self._get(DELIVERY)) == EXACTLY_ONCE:
            tasks = parallelism(self._result.sparkSession)
            return KafkaSink(ownership, spark_root, options, tasks)
        self._check_installed(source)
        place = None if path is None else str(path)
        sink = SourceSink(source, options, self._partition_by, place)
        remote = is_remote(self._result.sparkSession)
        return for_source(source, Asked(sink, place or "", options, ownership, remote)) or sink

    def _is_kafka(self) -> bool:
        return self._function is None and (self._format or "").lower() == "kafka"

    def _output(self) -> Output | None:
        """The folder that files are written to, if they are."""
        source, path = self._format or self._default_format(), self._get("path")
        if self._function is not None or source.lower() not in FILE_FORMATS or not path:
            return None
        return Output(self._stores().locate("path", str(path)), self._existing(), str(path))

    def _existing(self) -> str | None:
        """What is to be done with files of others."""
        existing = self._get(EXISTING)
        if existing is not None and str(existing).lower() not in CHOICES:
            raise ArgumentError(EXISTING, existing, f"one of: {', '.join(CHOICES)}")
        return None if existing is None else str(existing).lower()

    def _check_installed(self, source: str) -> None:
        """Whether Spark knows a format shows when one tries to read it; that it cannot be read so,
        or not without options, is no matter here. The error has no one type: it comes from the JVM
        or from a Connect server."""
        try:
            self._result.sparkSession.read.format(source).load()
        except Exception as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                known = ", ".join([*sorted(FILE_FORMATS), "console", "memory", "noop"])
                accepted = f"{known}, or a data source that is installed"
                raise ArgumentError("format", source, accepted) from error

    def _default_format(self) -> str:
        return self._result.sparkSession.conf.get("spark.sql.sources.default") or "parquet"


def _flag(key: str, value: Any) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ArgumentError(key, value, "true or false")
    return str(value).lower() == "true"


def _positive(key: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 2:
        raise ArgumentError(key, value, "a whole number of at least 2")
    return number
