"""What every operator gives the user: a result that is described but not yet running.

A result is used as a DataFrame is: shaped by `select` and its like, written by `writeStream`, or
taken further by another operator. A tree of results is one query.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.arrays.types import FAR_US
from skewless.engine.batch import BatchWork
from skewless.engine.clock import ClockRules
from skewless.engine.decoding import Decoding
from skewless.engine.lifecycle import Query
from skewless.engine.operator import Operator
from skewless.engine.pipeline import Feed, IngestTask, Node, Pipeline
from skewless.engine.reading import FileReading, Stream
from skewless.engine.watermark import EventTimes
from skewless.errors import ArgumentError, ColumnError
from skewless.expressions import Condition
from skewless.operators.naming import Named
from skewless.spark.cluster import parallelism
from skewless.spark.executor import SparkExecutor, taken_in, told
from skewless.spark.file_streams import FileStream, file_stream
from skewless.spark.interpreter import check_workers, is_remote
from skewless.spark.json_streams import JsonStream, json_stream, letter_paths
from skewless.spark.origins import are_columns, ids_of_inputs, is_missing
from skewless.spark.plans import empty_frame, first_name, quoted
from skewless.spark.pushdown import pushed_down
from skewless.spark.shapes import shapes_of_steps
from skewless.spark.steps import (
    Step,
    Steps,
    analysed,
    event_times_of,
    identified_steps,
    methods_of,
    refuse_many_rows,
    replacing,
    traced,
    untraced,
    with_steps,
)
from skewless.spark.stores import Stores
from skewless.spark.watermarks import tick_us

if TYPE_CHECKING:
    from skewless.placement.grouping import Grouping
    from skewless.spark.arguments.kinds import Auto, Duration, ErrorOrDrop
    from skewless.spark.grouped import GroupedResult
    from skewless.spark.writer import ResultWriter

log = logging.getLogger("skewless")

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False, repr=False)
class Result(ABC):
    """Rows to come: write them with `writeStream` or, when the inputs are static, take them with
    `dataframe`.

    `sources` are the inputs, of which the columns `taken` are needed. Its `operator` emits
    `emitted`; `steps` are then done to its rows in
    Catalyst. `rules` are what is asked of each input by the clock, `named` the columns of the
    inputs that are among those of the result.
    """

    sources: tuple[DataFrame | Result, ...]
    taken: tuple[tuple[int, ...], ...]
    emitted: StructType
    steps: Steps = ()
    shaped: StructType | None = None  # the columns after the steps, event times marked
    rules: tuple[ClockRules, ...] = field(kw_only=True)
    named: tuple[Named, ...] = field(default=(), kw_only=True)

    output_modes: ClassVar[tuple[str, ...]] = ("append", "update")
    output_modes_text: ClassVar[str] = (
        "'append' or 'update', which are the same here: rows are added, and never change"
    )

    @abstractmethod
    def operator(self, cores: int, mode: str | None) -> Operator:
        """What does the work on so many cores, in an output mode."""

    # What it looks like ------------------------------------------------------------------------

    @property
    def schema(self) -> StructType:
        """The columns with their types, as of a DataFrame."""
        return untraced(self._columns_now)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns_now.names)

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """Names and types of the columns, as text."""
        return [(f.name, f.dataType.simpleString()) for f in self.schema.fields]

    @property
    def isStreaming(self) -> bool:
        """Whether the inputs are streams; else they are static, and there is `dataframe`."""
        return bool(self.sources[0].isStreaming)

    @property
    def sparkSession(self) -> SparkSession:
        """The session of the inputs."""
        return self.sources[0].sparkSession

    def printSchema(self, level: int | None = None) -> None:
        """Print the columns as a tree, nested ones down to a level."""
        print(self.schema.treeString() if level is None else self.schema.treeString(level))

    def explain(self, extended: bool | str | None = None, mode: str | None = None) -> None:
        """Print the operators of the query, the lowest first, where their rows come from, and what
        each is tied to. With an argument, of those of PySpark's `explain`: what `sk.explain` has to
        say, which is more."""
        if extended or mode:
            from skewless.spark.explanation import explain

            print(explain(self))
            return
        pipeline, plan = self.pipeline(1, None)
        for node in pipeline.nodes:
            print(f"{node.name}")
            for i, feed in node.fed():
                print(f"  {i.name}: {plan.described(feed)}")
            for fact, value in node.operator.fingerprint().items():
                print(f"  {fact}: {value}")
            auto = "auto: as many as a batch needs, and the executors have cores"
            print(f"  instances: {auto if node.operator.elastic else node.operator.instances}")
        if self.steps:
            print("then " + " → ".join(methods_of(self.steps)))

    def __repr__(self) -> str:
        columns = [f"{name}: {kind}" for name, kind in self.dtypes]
        lengths = accumulate(len(column) + 2 for column in columns)
        fitting = max(1, sum(length <= REPR_LENGTH for length in lengths))
        more = f", … {len(columns) - fitting} more" if fitting < len(columns) else ""
        kind = "streaming" if self.isStreaming else "static"
        return f"{type(self).__name__}[{', '.join(columns[:fitting])}{more}] ({kind})"

    def __getitem__(self, column: str) -> Column:
        """A column, for conditions and expressions: ``result.where(result["price"] > 5)``."""
        known = {name.lower() for name in self.columns}
        name = column.lower() if isinstance(column, str) else ""
        is_path = first_name(name) in known
        if name in known and ("`" in name or not is_path):
            return F.col(quoted(column))
        if not is_path:
            raise ColumnError("[…]", column, f"a column of the result: {', '.join(self.columns)}")
        return F.col(column)

    if not TYPE_CHECKING:  # type checkers are to find names that are not there

        def __getattr__(self, name: str) -> Column:
            """A column, as of a DataFrame; of all else, what there is instead."""
            ours = name.startswith("_") or hasattr(type(self), name)  # a property that failed
            if not ours and name in self.columns:
                return F.col(name)
            instead = "" if ours or not hasattr(DataFrame, name) else self._instead()
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}. It has: {', '.join(OFFERED)}."
                f"{INSTEAD.get(name, '')}{instead}"
            )

    def _instead(self) -> str:
        """What to do for a method that only DataFrames have."""
        if self.isStreaming:
            return (
                " A batch of the rows as a DataFrame, with all its methods, is what "
                "writeStream.foreachBatch hands over."
            )
        return " A DataFrame of the rows, with all its methods, is what dataframe() gives."

    def __dir__(self) -> list[str]:
        return list(OFFERED)

    # What is done to it -------------------------------------------------------------------------

    def where(self, condition: str | Column) -> Self:
        """The result with a further condition over its columns."""
        return self._then("where", condition)

    def filter(self, condition: str | Column) -> Self:
        """The same as `where`."""
        return self._then("filter", condition)

    def select(self, *columns: str | Column | Sequence[str | Column]) -> Self:
        """The result with these columns, as `DataFrame.select`."""
        return self._then("select", *columns)

    def selectExpr(self, *expressions: str) -> Self:
        """The result with these SQL expressions as columns, as `DataFrame.selectExpr`: for instance
        ``selectExpr("cast(cell as string) key", "to_json(struct(*)) value")`` for Kafka."""
        return self._then("selectExpr", *expressions)

    def withColumn(self, name: str, column: Column) -> Self:
        """The result with a column added or replaced."""
        return self._then("withColumn", name, column)

    def withColumns(self, columns: Mapping[str, Column]) -> Self:
        """The result with some columns added or replaced, all made of those of before."""
        if not isinstance(columns, Mapping):
            raise ArgumentError("columns", columns, 'Columns by name: {"total": F.col("a") + 1}')
        return self._then("select", *replacing(self.sparkSession, self.columns, columns))

    def withColumnRenamed(self, existing: str, new: str) -> Self:
        """The result with a column under another name."""
        return self._then("withColumnRenamed", existing, new)

    def withColumnsRenamed(self, columns: Mapping[str, str]) -> Self:
        """The result with some columns under other names, one after the other: new ones by old."""
        if not isinstance(columns, Mapping):
            raise ArgumentError("columns", columns, 'new names by old: {"old": "new"}')
        renamed = self
        for existing, new in columns.items():
            renamed = renamed.withColumnRenamed(existing, new)
        return renamed

    def drop(self, *columns: str | Column) -> Self:
        """The result without some columns."""
        return self._then("drop", *columns)

    def groupBy(
        self,
        *by: str | Column | Sequence[str | Column],
        time: str | None = None,
        window: Duration | tuple[Duration, Duration] | None = None,
        late: Duration | None = None,
        strategy: Grouping | Auto | None = None,
        instances: int | Auto = "auto",
        on_null_time: ErrorOrDrop = "error",
    ) -> GroupedResult:
        """Groups to be aggregated: ``result.groupBy("k", time="at", window="1 minute").agg(
        n="count", total=("sum", "x"))`` is `sk.aggregate` of this result."""
        from skewless.spark.grouped import GroupedResult

        listed: Any = by[0] if len(by) == 1 and isinstance(by[0], list | tuple) else by
        return GroupedResult(
            self, tuple(listed), time, window, late, strategy, instances, on_null_time
        )

    groupby = groupBy

    def transform(self, func: Callable[..., Made], *args: Any, **kwargs: Any) -> Made:
        """What a function makes of it, so that steps of your own stand in a row."""
        return func(self, *args, **kwargs)

    def _then(self, method: str, *arguments: Any) -> Self:
        step = (method, arguments)
        try:
            after = analysed(self.sparkSession, self._columns_now, step)
            # What it does not find it leaves, without a word.
            if method == "drop" and are_columns(arguments) and not is_remote(self.sparkSession):
                return self._of_inputs(*step)
        except ArgumentError as error:
            if not is_missing(error.__cause__) or is_remote(self.sparkSession):
                raise
            try:
                return self._of_inputs(*step)
            except PySparkException:
                raise error from error.__cause__
        return self._shaped((*self.steps, step), after, step)

    def _of_inputs(self, method: str, arguments: tuple[Any, ...]) -> Self:
        """The result after a step that may name columns of the inputs: ``left["a"]``."""
        ids = ids_of_inputs(self.sources, self.named)
        steps = identified_steps(ids, (*self.steps, (method, arguments)))
        return self._shaped(steps, self._nothing(steps), (method, arguments))

    def _shaped(self, steps: Steps, after: DataFrame, step: Step) -> Self:
        if self.isStreaming:
            refuse_many_rows(after, step)
        return replace(self, steps=steps, shaped=StructType(after.schema.fields))

    def _nothing(self, steps: Steps) -> DataFrame:
        emitted = traced(self.emitted, self._emitted_times)
        return with_steps(empty_frame(self.sparkSession, emitted), steps)

    def nothing(self) -> DataFrame:
        """No rows with these columns, for Spark to analyse expressions over; they may name columns
        of the inputs, too."""
        if is_remote(self.sparkSession):
            return empty_frame(self.sparkSession, self.schema)
        return self._nothing(identified_steps(ids_of_inputs(self.sources, self.named), self.steps))

    # What less it may do ------------------------------------------------------------------------

    def only(self, columns: Sequence[int]) -> Self:
        """The result of an operator that need emit no others of its columns; it may."""
        return self

    def filtered(self, condition: Condition) -> Self:
        """The result of an operator that need emit only rows that fulfil a condition over its
        columns; it may emit others."""
        return self

    # What other operators ask -------------------------------------------------------------------

    @property
    def _columns_now(self) -> StructType:
        if self.shaped is not None:
            return self.shaped
        return traced(self.emitted, self._emitted_times)

    @cached_property
    def _emitted_times(self) -> EventTimes:
        operator = self.operator(1, None)
        below = [
            _taken_times(source, columns, i.time_name)
            for source, columns, i in zip(self.sources, self.taken, operator.inputs, strict=True)
        ]
        return operator.event_times(below)

    @property
    def event_times(self) -> EventTimes:
        """The columns that have a watermark."""
        return event_times_of(self._columns_now, self._emitted_times)

    def output_mode(self, mode: str | None) -> str:
        """The output mode to run in, given what the user asked for."""
        return "append"

    @property
    def refused_below(self) -> str | None:
        """Why no other operator can take this result, if none can."""
        return None

    # How it runs --------------------------------------------------------------------------------

    def pipeline(self, cores: int, mode: str | None) -> tuple[Pipeline, Plan]:
        """The query: its operators, and what Spark has to know about them."""
        lean = pushed_down(self)
        plan = Plan(lean.steps)
        plan.add(lean, cores, mode)
        return Pipeline(tuple(plan.nodes)), plan

    def letter_paths(self) -> list[str]:
        """Where the dead letters of all streams go, each folder once."""
        found: dict[str, None] = {}
        for source in self.sources:
            below = source.letter_paths() if isinstance(source, Result) else letter_paths(source)
            found |= dict.fromkeys(below)
        return list(found)

    @property
    def writeStream(self) -> ResultWriter:
        """A writer with the methods of PySpark's DataStreamWriter."""
        from skewless.spark.writer import ResultWriter

        if not self.isStreaming:
            accepted = "used on streams; of static inputs take dataframe() or toDF()"
            raise ArgumentError("writeStream", "static inputs", accepted)
        return ResultWriter(self)

    def dataframe(self, workdir: str | None = None) -> DataFrame:
        """Work on static inputs to the end and return the result as a DataFrame.

        State lies in `workdir` as long as the result is in use; on a cluster it must be a folder
        that all machines reach. Default: a temporary folder, removed when Python exits.
        """
        return self._worked_out("dataframe", workdir)

    def _worked_out(self, method: str, workdir: str | None = None) -> DataFrame:
        if self.isStreaming:
            accepted = 'used on static ones; a stream has writeStream, such as .format("console")'
            raise ArgumentError(method, "streaming inputs", accepted)
        check_workers(self.sparkSession)
        stores = Stores.of(self.sparkSession)
        if workdir is None:
            root = tempfile.mkdtemp(prefix="skewless-")
            atexit.register(shutil.rmtree, root, ignore_errors=True)
        else:
            root = f"{stores.locate('workdir', workdir)}/{uuid.uuid4().hex}"
        pipeline, plan = self.pipeline(parallelism(self.sparkSession), None)
        query = Query(stores.folder(root), pipeline)
        query.open()
        merging = pipeline.merging(query.folder)
        executor = SparkExecutor(self.sparkSession, plan.arrivals(query), plan.schemas, merging)
        executor.homes = query.homes()
        work = BatchWork(query, executor, 0, is_last=True)
        work.up_to_results()
        return with_steps(work.results(), plan.steps)

    def toDF(self, workdir: str | None = None) -> DataFrame:
        """The same as `dataframe`, which says better what it does: PySpark's `toDF` renames."""
        return self._worked_out("toDF", workdir)

    def show(self, n: int = 20, truncate: bool | int = True, vertical: bool = False) -> None:
        """Print the first rows; of static inputs only."""
        self._worked_out("show").show(n, truncate, vertical)


class RowsSpec(Protocol):
    """What an operator does whose rows are made of columns of its inputs."""

    def only(self, output: Sequence[int]) -> tuple[Self, list[list[int]]]:
        """The same with some columns of the result, by their numbers; and the columns of each input
        that it still needs."""

    def output_schema(self) -> pa.Schema: ...


Spec = TypeVar("Spec", bound=RowsSpec)


@dataclass(frozen=True, eq=False, repr=False)
class RowsResult(Result, Generic[Spec]):
    """A result whose rows are made of columns of the inputs: those that nobody needs are left out.
    `spec` is what is done, `place` gives the operator that does it on so many cores."""

    spec: Spec = field(kw_only=True)
    place: Callable[[Spec, int], Operator] = field(kw_only=True)

    def operator(self, cores: int, mode: str | None) -> Operator:
        return self.place(self.spec, cores)

    def only(self, columns: Sequence[int]) -> Self:
        if len(columns) == len(self.emitted):
            return self
        spec, needed = self.spec.only(columns)
        taken = [tuple(of[i] for i in some) for of, some in zip(self.taken, needed, strict=True)]
        emitted = StructType([self.emitted[name] for name in spec.output_schema().names])
        return replace(self, spec=spec, taken=tuple(taken), emitted=emitted)


class Plan:
    """A query while it is put together: the nodes from a tree of results, the lowest first; the
    streams it reads; what every operator emits, in Spark's types; and what is done to the rows of
    the last."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.nodes: list[Node] = []
        self.streams: list[DataFrame] = []
        self.schemas: dict[str, StructType] = {}
        self._looked_at: dict[int, FileStream | None] = {}
        self._parsed: dict[int, JsonStream | str | None] = {}

    def add(self, result: Result, cores: int, mode: str | None) -> Node:
        """Add a result, and before it all that it is made of."""
        operator = result.operator(cores, mode)
        feeds = [
            self._feed(source, columns, i.time_name, cores, rules)
            for source, columns, i, rules in zip(
                result.sources, result.taken, operator.inputs, result.rules, strict=True
            )
        ]
        alone = not self.nodes and mode is not BELOW
        name = operator.kind if alone else f"{operator.kind}-{len(self.nodes) + 1}"
        node = Node(name, operator, tuple(feeds))
        self.nodes.append(node)
        self.schemas[name] = result.emitted
        return node

    def _feed(
        self,
        source: DataFrame | Result,
        columns: tuple[int, ...],
        time: str | None,
        cores: int,
        rules: ClockRules,
    ) -> Feed:
        if not isinstance(source, Result):
            self.streams.append(source)
            tick = tick_us(source.schema, time)
            return Feed(columns, stream=len(self.streams) - 1, tick_us=tick, rules=rules)
        below = self.add(source, cores, BELOW)
        lag_us = FAR_US if time is None else source.event_times.lag_of(time)
        shapes = shapes_of_steps(source.sparkSession, source.emitted, source.steps)
        return Feed(
            columns,
            source=below.name,
            lag_us=lag_us,
            shape=source.steps,
            shapes=None if shapes is None else tuple(shapes),
        )

    def readings(self, query: Query) -> dict[Stream, FileReading]:
        """How files are read of which `arrivals` only tells."""
        return {
            (node.name, i.name): files.reading(query.ingest(node, i.name), feed.columns)
            for node, i, feed in query.pipeline.streams()
            if (files := self._files(feed)) is not None
        }

    def described(self, feed: Feed) -> str:
        """Where rows come from, and who does what to them on their way."""
        if feed.source is None:
            return f"stream {feed.stream}{self._way_of(feed)}"
        steps = "".join(f" → {method}" for method, _ in feed.shape)
        return f"{feed.source}{steps}{' (on Arrow)' if feed.shapes else ''}"

    def _way_of(self, feed: Feed) -> str:
        """How the rows of a stream come in, if it is not through Spark alone."""
        if self._files(feed) is not None:
            return " (files, read as columns)"
        texts = self._json(feed)
        if texts is None:
            return ""
        return (
            f" (JSON, parsed by Spark: {texts})"
            if isinstance(texts, str)
            else " (JSON, parsed as columns)"
        )

    def _json(self, feed: Feed) -> JsonStream | str | None:
        assert feed.stream is not None
        if feed.stream not in self._parsed:
            self._parsed[feed.stream] = json_stream(self.streams[feed.stream])
        return self._parsed[feed.stream]

    def _files(self, feed: Feed) -> FileStream | None:
        assert feed.stream is not None
        if feed.stream not in self._looked_at:
            self._looked_at[feed.stream] = file_stream(self.streams[feed.stream])
        return self._looked_at[feed.stream]

    def arrivals(self, query: Query) -> DataFrame:
        """The streams' rows, sorted and stored: what the tasks report. Where tasks write files, a
        stream uses no more of them than the session can run at once: more would only make more
        files."""
        tasks = parallelism(self.streams[0].sparkSession)
        taken = [(feed, query.ingest(node, i.name)) for node, i, feed in query.pipeline.streams()]
        packets = any(task.buckets for _, task in taken)
        followed: dict[tuple[int, ...], DataFrame] = {}
        frames = []
        for feed, task in taken:
            assert feed.stream is not None
            if (files := self._files(feed)) is not None:
                if files.source not in followed:
                    followed[files.source] = files.files()
                rows = files.told(followed[files.source], task)
                frames.append(told(rows, packets=packets))
                continue
            frame, taking, columns = self._taking(feed, task)
            frame = frame if task.buckets else frame.coalesce(tasks)
            frames.append(taken_in(frame, taking, columns, packets=packets))
        united = frames[0]
        for frame in frames[1:]:
            united = united.unionAll(frame)
        return united

    def _taking(
        self, feed: Feed, task: IngestTask
    ) -> tuple[DataFrame, IngestTask | Decoding, tuple[int, ...]]:
        """Rows of a stream, what takes them in, and which of their columns."""
        assert feed.stream is not None
        texts = self._json(feed)
        if isinstance(texts, JsonStream):
            return texts.rows, *texts.decoding(task, feed.columns)
        if texts is not None:
            log.warning("Spark parses the JSON of stream %d: %s", feed.stream, texts)
        return self.streams[feed.stream], task, feed.columns


OFFERED = (
    "columns", "dataframe", "drop", "dtypes", "explain", "filter", "groupBy", "groupby",
    "isStreaming", "printSchema", "schema", "select", "selectExpr", "show", "sparkSession", "toDF",
    "transform", "where", "withColumn", "withColumnRenamed", "withColumns", "withColumnsRenamed",
    "writeStream",
)  # fmt: skip
JOINS = " sk.join(…) and the other operators take results as they take DataFrames."
FIRSTS = " Rows of a stream that come again are left out by sk.deduplicate(result, …)."
ROWS = ' Rows are put together by groupBy(…).agg(…), such as agg(n="count").'
INSTEAD = {
    "_jdf": f" It is no DataFrame, which Spark's own methods ask for.{JOINS}",
    "_plan": f" It is no DataFrame, which Spark's own methods ask for.{JOINS}",
    "agg": ROWS,
    "count": ROWS,
    "distinct": FIRSTS,
    "dropDuplicates": FIRSTS,
    "dropDuplicatesWithinWatermark": FIRSTS,
    "drop_duplicates": FIRSTS,
    "join": JOINS,
    "withWatermark": " A result brings its watermark along; nothing in it is late.",
    "write": " A stream is written by writeStream.",
}
REPR_LENGTH = 60  # of the columns that a result shows, about
AUTO = "auto"
BELOW = "below"  # the output mode of operators whose results are taken further


def _taken_times(
    source: DataFrame | Result, columns: tuple[int, ...], time: str | None
) -> EventTimes:
    """The event times among the columns that an operator takes."""
    if not isinstance(source, Result):
        return EventTimes() if time is None else EventTimes.of_stream(time)
    names = [source.columns[i] for i in columns]
    times = source.event_times
    return times.select({name: name for name in times.columns if name in names})


def sizes(**given: object) -> Mapping[str, int | None]:
    """Numbers of instances or slots, checked; None for those that are "auto"."""
    found: dict[str, int | None] = {}
    for name, value in given.items():
        is_auto = value is None or value == AUTO
        if is_auto:
            found[name] = None
        elif isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65_536:
            found[name] = value
        else:
            raise ArgumentError(name, value, 'a whole number from 1 to 65536, or "auto"')
    return found
