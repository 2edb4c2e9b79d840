"""`sk.aggregate`: from arguments to an aggregation that can be started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from skewless.arrays.types import KeyColumn, SideSpec
from skewless.durations import parse_duration_us
from skewless.engine.operator import Operator
from skewless.errors import ArgumentError
from skewless.operators.aggregate.accumulators.extremes import Extreme
from skewless.operators.aggregate.operator import AggregateOperator
from skewless.operators.aggregate.spec import Aggregate, AggregateSpec, Mode
from skewless.operators.aggregate.windows import Window
from skewless.placement.grouping import Grouping
from skewless.spark.arguments import columns
from skewless.spark.arguments.aggs import Aggs, Parsed, parse_aggs
from skewless.spark.arguments.clock_rules import parse_clock_rules
from skewless.spark.arguments.keys import parse_by
from skewless.spark.arguments.kinds import Auto, Duration, ErrorOrDrop, Name, Source
from skewless.spark.arguments.times import check_null_times, parse_lates, parse_time
from skewless.spark.result import BELOW, Result, sizes
from skewless.strategies import choose_strategy

SLIDES_MAX = 1000


def aggregate(
    df: Source,
    by: Name | Sequence[Name],
    aggs: Aggs,
    *,
    time: Name | None = None,
    window: Duration | tuple[Duration, Duration] | None = None,
    late: Duration | None = None,
    idle_after: Duration | None = None,
    max_ahead: Duration | None = None,
    strategy: Grouping | Auto | None = None,
    grouping: Grouping | Auto | None = None,
    instances: int | Auto = "auto",
    on_null_time: ErrorOrDrop = "error",
) -> Aggregated:
    """Aggregate a stream (or a static DataFrame) by key and window of time, however hot a key is.

    Rows of a hot key are worked on by several instances; their partial results are merged.

    The result has the columns `window` (a struct of start and end), the keys, and the aggregates.
    With the output mode "append" a group comes once, when its window closes; with "update" it comes
    whenever a batch has changed it.

    Parameters
    ----------
    df
        A streaming DataFrame from any source, or a static one; or the result of another operator,
        which is then part of the same query.
    by
        The key columns: ``"hashtag"``, ``["country", "city"]``, or ``[]`` for one group of all
        rows. A null is a key of its own, as in `groupBy`.
    aggs
        What to compute: ``{"n": "count", "total": ("sum", "amount"),
        "p95": ("quantile", "latency", 0.95), "users": ("approx_distinct", "user"),
        "geo": (MyAccumulator(), "x", "y")}``. Known by name: count, sum, min, max, mean (avg),
        variance, stddev, approx_distinct, quantile. Your own: derive from `sk.Accumulator`. Or
        aggregates as in PySpark, such as ``[F.count("*").alias("n"), F.sum("amount")]``.
    time
        The event-time column; needed with `window`. Default: that of the input's ``withWatermark``.
    window
        ``"1 minute"``: windows one after the other. ``("10 minutes", "1 minute")``: windows of ten
        minutes, one beginning every minute. None: no windows; totals of all rows so far, which only
        the output mode "update" can tell, and whose state grows with the keys.
    late
        How far rows may lie behind the latest: a window closes when the latest event time minus
        this passes its end. Longer waits for more stragglers, keeps more state and gives results
        later. Rows whose windows are all closed are dropped and counted. Default: the delay of the
        input's ``withWatermark``, or else "0 seconds". In a result nothing is late; it has none.
    idle_after
        ``"10 minutes"``: if the stream has had no rows for so long, by the clock, its result no
        longer holds back the operator that takes it. Windows stay open: without rows there is
        nothing to tell their time by. Default: None.
    max_ahead
        ``"1 day"``: rows further ahead of the clock than that are put aside and counted, so that
        one broken timestamp does not close all windows. Default: None, any time is taken.
    strategy
        Who works on which rows; the results are the same. ``"auto"`` is ``sk.BatchAware()``.
        Others: ``sk.PdStream()``, ``sk.PKG()``, ``sk.DChoices()``, ``sk.WChoices()``,
        ``sk.DAGreedy()``, ``sk.Dalton()``, ``sk.KeyGrouping()``, ``sk.ShuffleGrouping()``.
    grouping
        Another name of `strategy`.
    instances
        How many tasks work on a batch. ``"auto"``: as many as it needs, and as the executors have
        cores at the time.
    on_null_time
        ``"error"`` stops the query at a row without event time, ``"drop"`` drops and counts it.

    >>> trends = sk.aggregate(tweets, by="hashtag", aggs={"n": "count"}, time="at",
    ...                       window="1 minute", late="10 seconds")        # doctest: +SKIP
    """
    drop_null_times = check_null_times(on_null_time)
    chosen: Grouping = choose_strategy("aggregate", strategy, grouping=grouping)
    [this] = columns.inputs_of(df=df)
    keys = parse_by(this, by)
    windows, late_us, time_index = _parse_times(this, time, window, late)
    rules = parse_clock_rules(idle_after, max_ahead, [this], [time_index])
    parsed = parse_aggs(this, aggs)
    _refuse_names_twice(this, keys, parsed, windows)
    needed = _needed(keys, time_index, parsed)
    spec = _spec(this, needed, keys, time_index, late_us, parsed, windows, drop_null_times)
    schema = _schema(this, keys, time_index, parsed, windows)
    count = sizes(instances=instances)["instances"]

    def make(cores: int, mode: str | None) -> AggregateOperator:
        changing = mode == "update" or (windows is None and mode != BELOW)
        runs_in: Mode = "update" if changing else "append"
        return AggregateOperator(spec, chosen, count or cores, runs_in, elastic=count is None)

    taken, windowed = (tuple(needed),), windows is not None
    return Aggregated((df,), taken, schema, make=make, windowed=windowed, rules=rules)


def _parse_times(
    this: columns.Input, time: Name | None, window: object, late: object
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
    index = parse_time(this, time, why="there is a `window`")
    [late_us] = parse_lates(late, [this], [index])
    return Window(size_us, slide_us), late_us, index


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
    """The input columns that are handed to Python: that costs most, and by the column. Without any,
    nobody would know how many rows there are."""
    wanted = [*keys, *([] if time is None else [time]), *(i for _, _, used in parsed for i in used)]
    return list(dict.fromkeys(wanted)) or [0]


def _spec(
    this: columns.Input,
    needed: list[int],
    keys: Sequence[int],
    time: int | None,
    late_us: int,
    parsed: Parsed,
    window: Window | None,
    drop_null_times: bool,
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
    return AggregateSpec(side, aggregates, window, drop_null_times)


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


@dataclass(frozen=True, eq=False, repr=False)
class Aggregated(Result):
    """An aggregation that is described but not running: write it with `writeStream`, or, when the
    input is static, take the result with `dataframe`."""

    make: Callable[[int, str | None], Operator] = field(kw_only=True)
    windowed: bool = False

    output_modes: ClassVar[tuple[str, ...]] = ("append", "update")
    output_modes_text: ClassVar[str] = (
        "'append' (a group comes when its window closes) or 'update' (whenever it has changed)"
    )

    def operator(self, cores: int, mode: str | None) -> Operator:
        return self.make(cores, mode)

    def output_mode(self, mode: str | None) -> str:
        if self.windowed:
            return mode or "append"
        if mode == "append":
            accepted = "'update', as there is no `window` that could close"
            raise ArgumentError("outputMode", mode, accepted)
        return "update"

    @property
    def refused_below(self) -> str | None:
        if self.windowed or not self.isStreaming:
            return None
        return (
            "a result whose rows never change. An aggregation without `window` gives totals that "
            'each batch changes (output mode "update"): give it a `window`, so that a group comes '
            "once, when its window closes"
        )
