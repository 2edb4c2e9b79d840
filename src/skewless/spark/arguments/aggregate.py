"""`sk.aggregate`: from arguments to an aggregation that can be started."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from skewless.arrays.keys import is_key_type
from skewless.arrays.types import KeyColumn, SideSpec
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError, ColumnError
from skewless.operators.aggregate.accumulators.accumulator import Accumulator
from skewless.operators.aggregate.accumulators.distinct import ApproxDistinct
from skewless.operators.aggregate.accumulators.extremes import Extreme
from skewless.operators.aggregate.accumulators.named import NAMED, WITH_PARAMETER
from skewless.operators.aggregate.operator import AggregateRuntime
from skewless.operators.aggregate.spec import (
    Accumulated,
    Aggregate,
    AggregateSpec,
    Mode,
    RowsArrived,
)
from skewless.operators.aggregate.windows import Window
from skewless.placement.grouping import BatchAware, Grouping
from skewless.spark.aggregate_driver import AggregateDriver, accumulated, results
from skewless.spark.aggregate_task import ingest_task as _ingest_task
from skewless.spark.arguments import columns
from skewless.spark.exchange import ARRIVAL_SCHEMA, arrivals_task
from skewless.spark.executor import BatchDriver
from skewless.spark.result import Described, numbered, parallelism, parse_size
from skewless.spark.sinks import Sink

NULL_TIMES = ("error", "drop")
AGGS = (
    '{"name": aggregate}, each one of "count", ("sum", "column"), ("quantile", "column", 0.95) or '
    "(sk.Accumulator, *columns); by name: " + ", ".join([*NAMED, *WITH_PARAMETER])
)
SLIDES_MAX = 1000


def aggregate(
    df: DataFrame,
    by: str | Sequence[str],
    aggs: Mapping[str, object],
    *,
    time: str | None = None,
    window: object = None,
    late: object = None,
    grouping: Grouping | None = None,
    instances: int | None = None,
    on_null_time: str = "error",
) -> Aggregated:
    """Aggregate a stream (or a static DataFrame) by key and window of time, however hot a key is.

    Rows of a hot key are worked on by several instances; their partial results are merged.

    Parameters
    ----------
    df
        A streaming DataFrame from any source, or a static one.
    by
        The key columns: ``"hashtag"``, ``["country", "city"]``, or ``[]`` for one group of all
        rows. A null is a key of its own, as in `groupBy`.
    aggs
        What to compute: ``{"n": "count", "total": ("sum", "amount"),
        "p95": ("quantile", "latency", 0.95), "users": ("approx_distinct", "user"),
        "geo": (MyAccumulator(), "x", "y")}``. Known by name: count, sum, min, max, mean (avg),
        variance, stddev, approx_distinct, quantile. Your own: derive from `sk.Accumulator`.
    time
        The event-time column; needed with `window`.
    window
        ``"1 minute"``: windows one after the other. ``("10 minutes", "1 minute")``: windows of ten
        minutes, one beginning every minute. None: no windows; totals of all rows so far, which only
        the output mode "update" can tell, and whose state grows with the keys.
    late
        How far rows may lie behind the latest: a window closes when the latest event time minus
        this passes its end. Longer waits for more stragglers, keeps more state and gives results
        later. Rows whose windows are all closed are dropped and counted. Default "0 seconds".
    grouping
        Who works on which rows; the results are the same. Default ``sk.BatchAware()``. Others:
        ``sk.PdStream()``, ``sk.PKG()``, ``sk.DChoices()``, ``sk.WChoices()``, ``sk.DAGreedy()``,
        ``sk.Dalton()``, ``sk.KeyGrouping()``, ``sk.ShuffleGrouping()``.
    instances
        How many tasks work on a batch. Default: the session's parallelism.
    on_null_time
        ``"error"`` stops the query at a row without event time, ``"drop"`` drops and counts it.

    The result has the columns `window` (a struct of start and end), the keys, and the aggregates.
    With the output mode "append" a group comes once, when its window closes; with "update" it comes
    whenever a batch has changed it.

    >>> trends = sk.aggregate(tweets, by="hashtag", aggs={"n": "count"}, time="at",
    ...                       window="1 minute", late="10 seconds")        # doctest: +SKIP
    """
    if on_null_time not in NULL_TIMES:
        raise ArgumentError("on_null_time", on_null_time, "'error' or 'drop'")
    if grouping is not None and not isinstance(grouping, Grouping):
        accepted = "a grouping: sk.BatchAware(), sk.PdStream(), sk.PKG(), sk.KeyGrouping(), …"
        raise ArgumentError("grouping", grouping, accepted)
    this = columns.Input(df, "df")
    keys = _parse_by(this, by)
    windows, late_us, time_index = _parse_times(this, time, window, late)
    parsed = _parse_aggs(this, aggs)
    _refuse_names_twice(this, keys, parsed, windows)
    needed = _needed(keys, time_index, parsed)
    spec = _spec(this, needed, keys, time_index, late_us, parsed, windows, on_null_time)
    schema = _schema(this, keys, time_index, parsed, windows)
    names = tuple(needed)
    count = parse_size("instances", instances)
    return Aggregated(df, schema, (), spec, schema, names, grouping or BatchAware(), count)


Parsed = list[tuple[str, Accumulator, tuple[int, ...]]]


def _parse_by(this: columns.Input, by: object) -> list[int]:
    names = [by] if isinstance(by, str) else by
    if not isinstance(names, list | tuple):
        raise ArgumentError("by", by, 'a column "k", several ["k1", "k2"], or [] for all rows')
    indices = [this.index(name, "by") for name in names]
    for index in indices:
        if indices.count(index) > 1:
            raise ArgumentError("by", by, f"each column once; twice in it: {this.names[index]}")
        if not is_key_type(this.type_of(index)):
            accepted = (
                "columns of boolean, integer, decimal, float, double, string, binary, date, time "
                "or timestamp; use the fields of a struct"
            )
            raise ColumnError("by", this.told(index), accepted)
        columns.refuse_collation(this, index, "by")
    return indices


def _parse_times(
    this: columns.Input, time: str | None, window: object, late: object
) -> tuple[Window | None, int, int | None]:
    if window is None:
        for name, value in (("time", time), ("late", late)):
            if value is not None:
                raise ArgumentError(name, value, "left out where there is no `window`")
        return None, 0, None
    size, slide = window if isinstance(window, tuple | list) and len(window) == 2 else (window,) * 2
    size_us, slide_us = (parse_duration_us(w, "window") for w in (size, slide))
    if not 0 < slide_us <= size_us:
        accepted = "a duration, or (size, slide) with 0 < slide <= size"
        raise ArgumentError("window", window, accepted)
    if size_us > SLIDES_MAX * slide_us:
        accepted = f"(size, slide) such that a row is in at most {SLIDES_MAX} windows"
        raise ArgumentError("window", window, accepted)
    if time is None:
        raise ArgumentError("time", time, "the event-time column, as there is a `window`")
    late_us = 0 if late is None else parse_duration_us(late, "late")
    return Window(size_us, slide_us), late_us, columns.resolve_time(this, time, "time")


def _parse_aggs(this: columns.Input, aggs: object) -> Parsed:
    if not isinstance(aggs, Mapping) or not aggs:
        raise ArgumentError("aggs", aggs, AGGS)
    parsed: Parsed = []
    for name, wanted in aggs.items():
        if not isinstance(name, str) or not name:
            raise ArgumentError("aggs", aggs, f"names of columns as keys; {name!r} is none")
        parsed.append((name, *_parse_agg(this, f'aggs["{name}"]', wanted)))
    return parsed


def _parse_agg(
    this: columns.Input, argument: str, wanted: object
) -> tuple[Accumulator, tuple[int, ...]]:
    what, *rest = wanted if isinstance(wanted, tuple | list) and wanted else (wanted,)
    make: Callable[[Sequence[pa.DataType]], Accumulator]
    if isinstance(what, Accumulator):
        make = what.bind
    elif isinstance(what, str) and what in WITH_PARAMETER and len(rest) == 2:
        make = WITH_PARAMETER[what](rest.pop()).bind
    elif isinstance(what, str) and what in NAMED:
        make = NAMED[what]
        if len(rest) > 1 or (not rest and what != "count"):
            raise ArgumentError(argument, wanted, f'("{what}", "column")')
    else:
        raise ArgumentError(argument, wanted, AGGS)
    indices = tuple(this.index(name, argument) for name in rest)
    try:
        bound = make([this.type_of(i) for i in indices])
    except ValueError as error:
        if isinstance(error, ArgumentError):
            raise
        told = ", ".join(this.told(i) for i in indices)
        raise ColumnError(argument, told, str(error)) from error
    if isinstance(bound, Extreme | ApproxDistinct):  # these compare values, by their bytes
        for i in indices:
            columns.refuse_collation(this, i, argument)
    return bound, indices


def _refuse_names_twice(
    this: columns.Input, keys: Sequence[int], parsed: Parsed, window: Window | None
) -> None:
    names = ["window"] if window is not None else []
    names += [this.names[i] for i in keys] + [name for name, _, _ in parsed]
    lowered = [n.lower() for n in names]
    twice = sorted({n for n in names if lowered.count(n.lower()) > 1})
    if twice:
        accepted = f"names that no other column of the result has; twice in it: {twice}"
        raise ArgumentError("aggs", names, accepted)


def _needed(keys: Sequence[int], time: int | None, parsed: Parsed) -> list[int]:
    """The input columns that are handed to Python: that costs most, and by the column."""
    wanted = [*keys, *([] if time is None else [time]), *(i for _, _, used in parsed for i in used)]
    return list(dict.fromkeys(wanted))


def _spec(
    this: columns.Input,
    needed: list[int],
    keys: Sequence[int],
    time: int | None,
    late_us: int,
    parsed: Parsed,
    window: Window | None,
    on_null_time: str,
) -> AggregateSpec:
    at = {index: place for place, index in enumerate(needed)}
    fields = [pa.field(this.names[i], this.type_of(i)) for i in needed]
    side = SideSpec(
        pa.schema(fields),
        tuple(KeyColumn(at[i], this.type_of(i)) for i in keys),
        (),
        None if time is None else at[time],
        late_us,
    )
    aggregates = tuple(Aggregate(n, a, tuple(at[i] for i in used)) for n, a, used in parsed)
    return AggregateSpec(side, aggregates, window, on_null_time == "drop")


def _schema(
    this: columns.Input,
    keys: Sequence[int],
    time: int | None,
    parsed: Parsed,
    window: Window | None,
) -> StructType:
    fields: list[StructField] = []
    if window is not None and time is not None:
        kind = this.fields[time].dataType
        fields.append(
            StructField("window", StructType([StructField(n, kind) for n in ("start", "end")]))
        )
    fields += [StructField(this.names[i], this.fields[i].dataType) for i in keys]
    for name, accumulator, used in parsed:
        same = isinstance(accumulator, Extreme)
        kind = this.fields[used[0]].dataType if same else from_arrow_type(accumulator.result)
        fields.append(StructField(name, kind))
    return StructType(fields)


@dataclass(frozen=True)
class Aggregated(Described):
    """An aggregation that is described but not running: write it with `writeStream`, or, when the
    input is static, take the result with `toDF`."""

    spec: AggregateSpec
    result_schema: StructType
    needed: tuple[int, ...]
    grouping: Grouping
    instances: int | None

    output_modes: ClassVar[tuple[str, ...]] = ("append", "update")
    output_modes_told: ClassVar[str] = (
        "'append' (a group comes when its window closes) or 'update' (whenever it has changed)"
    )

    def _mode(self, mode: str | None) -> Mode:
        if self.spec.window is None:
            if mode == "append":
                accepted = "'update', as there is no `window` that could close"
                raise ArgumentError("outputMode", mode, accepted)
            return "update"
        return "update" if mode == "update" else "append"

    def _count(self) -> int:
        return self.instances or parallelism(self.sparkSession)

    def arrivals(self, root: str) -> DataFrame:
        """The first step of a batch: rows stored by who works on them. It uses no more tasks than
        the session can run at once: more would only make more files."""
        frame = numbered(self.frame).select(*(f"c{i}" for i in self.needed))
        count = self._count()
        function = arrivals_task(
            self.spec.input.schema, partial(_ingest_task, self.spec, self.grouping, count, root)
        )
        tasks = parallelism(self.sparkSession)
        return frame.coalesce(tasks).mapInArrow(function, ARRIVAL_SCHEMA)

    def runtime(self, root: str, mode: Mode, **options: Any) -> AggregateRuntime:
        return AggregateRuntime(root, self.spec, self.grouping, self._count(), mode, **options)

    def driver(self, root: str, sink: Sink, mode: str | None, **keeping: int) -> BatchDriver:
        runtime = self.runtime(root, self._mode(mode), **keeping)
        return AggregateDriver(runtime, sink, self.result_schema, self.steps)

    def _whole_result(self, root: str) -> DataFrame:
        runtime = self.runtime(root, "append", to_the_end=True)
        runtime.open()
        arrived = [RowsArrived.from_json(json.loads(r[0])) for r in self.arrivals(root).collect()]
        session = self.sparkSession
        plan = runtime.plan(0, arrived)
        told: list[Accumulated] = accumulated(session, self.spec, plan)
        finishing = runtime.finish_plan(plan, arrived, told)
        return self.shaped(results(session, self.spec, finishing, self.result_schema))
