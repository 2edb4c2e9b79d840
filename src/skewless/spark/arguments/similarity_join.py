"""`sk.similarity_join`: from arguments to a similarity join that can be started."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow.types as pt
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DoubleType, StructField, StructType

from skewless.arrays.types import Side
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError, ColumnError
from skewless.operators.pair import OutputColumn
from skewless.operators.similarity.ingest import ingest_vectors
from skewless.operators.similarity.metrics import METRICS, Metric, OwnMetric
from skewless.operators.similarity.operator import SimilarityRuntime
from skewless.operators.similarity.spec import DISTANCE, SimilaritySpec, VectorArrival, VectorSide
from skewless.operators.similarity.strategies import AutoSimilarity, SimilarityStrategy
from skewless.spark.arguments import columns
from skewless.spark.arguments.times import parse_bounds, parse_lates
from skewless.spark.exchange import ARRIVAL_SCHEMA, arrivals_task
from skewless.spark.executor import BatchDriver
from skewless.spark.result import Described, numbered, parallelism, parse_size
from skewless.spark.similarity_driver import SimilarityBatchDriver, pairs_of
from skewless.spark.sinks import Sink

ERROR_OR_DROP = ("error", "drop")
ON_FORMS = 'an array column "v", columns of numbers ["x", "y"], or a pair of such: (left, right)'
SPEC_ARGUMENTS = (
    "on", "metric", "threshold", "left_time", "right_time", "within", "window", "late", "suffixes",
    "dimension", "check_metric", "on_bad", "on_null_time",
)  # fmt: skip


def similarity_join(
    left: DataFrame,
    right: DataFrame | None = None,
    *,
    on: object,
    metric: str | Callable[[Any, Any], Any] = "euclidean",
    threshold: float,
    left_time: str,
    right_time: str | None = None,
    within: object = None,
    window: object = None,
    late: object = None,
    where: str | Column | None = None,
    strategy: SimilarityStrategy | str = "auto",
    instances: int | None = None,
    suffixes: tuple[str, str] = ("_left", "_right"),
    dimension: int | None = None,
    check_metric: bool = False,
    on_bad: str = "error",
    on_null_time: str = "error",
) -> Similar:
    """Join rows of two streams, or of one with itself, whose values are alike.

    Parameters
    ----------
    left, right
        Streaming or static DataFrames. Without `right`, rows of `left` are joined with one another:
        each pair once, the earlier row as left, no row with itself.
    on
        ``"vector"``, an array of numbers, ``["x", "y"]``, columns of numbers, or one of these for
        each input, ``("embedding", "vector")``.
    metric
        A name of `METRICS`: "euclidean", "manhattan", "angular" (the angle over pi), "hamming" (the
        share of elements that differ), "jaccard" (integers as sets), "haversine" (metres, by
        latitude and longitude in degrees); or a function of two matrices that gives the distance
        of each row of the one from the same row of the other. `check_metric` tries on a sample
        whether that obeys the triangle inequality.
    threshold
        Rows are alike if ``distance <= threshold``, exactly. A larger one compares more.
    within, window
        How far times may be apart, as for `sk.join`; or that both are in one window of time.
    strategy
        What is compared, and by whom; the result is the same. ``"auto"``, ``sk.S3J()``,
        ``sk.ClusterJoin(partitions)``, ``sk.BruteForce()``. A checkpoint goes on with its own.
    dimension
        How many elements vectors have. Default: as many as the first.
    on_bad
        ``"error"`` stops the query at a row that cannot be compared (NaN, another dimension, a zero
        vector under "angular"), ``"drop"`` drops and counts it; nulls are always dropped and
        counted. `late`, `where`, `instances`, `suffixes` and `on_null_time` are as for `sk.join`.

    >>> near = sk.similarity_join(taxis, orders, on=["lat", "lon"], metric="haversine",
    ...                           threshold=300, left_time="seen_at", right_time="ordered_at",
    ...                           within="1 minute")                        # doctest: +SKIP
    """
    given = locals()
    inputs = _inputs(left, right)
    spec = _spec(inputs, **{name: given[name] for name in SPEC_ARGUMENTS})
    schema = _schema(inputs, spec)
    how, count = _parse_strategy(strategy), parse_size("instances", instances)
    similar = Similar(left, schema, (), right, spec, schema, how, count)
    return similar if where is None else similar.where(where)


def _spec(
    inputs: list[columns.Input],
    on: object,
    metric: object,
    threshold: object,
    left_time: str,
    right_time: str | None,
    within: object,
    window: object,
    late: object,
    suffixes: Sequence[str],
    dimension: object,
    check_metric: object,
    on_bad: str,
    on_null_time: str,
) -> SimilaritySpec:
    for name, value in (("on_bad", on_bad), ("on_null_time", on_null_time)):
        if value not in ERROR_OR_DROP:
            raise ArgumentError(name, value, "'error' or 'drop'")
    if not isinstance(check_metric, bool):
        raise ArgumentError("check_metric", check_metric, "True or False")
    alone = len(inputs) == 1
    measure = _parse_metric(metric)
    compared = _parse_on(inputs, on, measure)
    times = _parse_times(inputs, left_time, right_time)
    lates = _parse_late(late, alone=alone)
    sides = [
        VectorSide(this.plain_schema, compared[i], times[i], lates[i])
        for i, this in enumerate(inputs)
    ]
    return SimilaritySpec(
        sides[0],
        None if alone else sides[1],
        measure,
        _parse_threshold(threshold, measure),
        *_parse_bounds(within, window, alone=alone),
        _output_columns(inputs, suffixes),
        _parse_dimension(inputs, compared, measure, dimension),
        on_bad == "drop",
        on_null_time == "drop",
        check_metric,
    )


def _schema(inputs: list[columns.Input], spec: SimilaritySpec) -> StructType:
    fields = [inputs[0 if c.side == "left" else -1].fields[c.index] for c in spec.output]
    named = zip(spec.output, fields, strict=True)
    schema = StructType([StructField(c.name, f.dataType) for c, f in named])
    return schema.add(StructField(DISTANCE, DoubleType()))


def _inputs(left: DataFrame, right: DataFrame | None) -> list[columns.Input]:
    inputs = [columns.Input(left, "left")]
    if right is not None:
        inputs.append(columns.Input(right, "right"))
        if left.isStreaming != right.isStreaming:
            static = "right" if left.isStreaming else "left"
            raise ArgumentError(static, "a static DataFrame", "streaming, as the other input is")
    return inputs


def _parse_metric(metric: object) -> Metric:
    if isinstance(metric, str) and metric in METRICS:
        return METRICS[metric]
    if callable(metric):
        return OwnMetric(metric)
    names = ", ".join(repr(name) for name in METRICS)
    raise ArgumentError("metric", metric, f"{names}, or a function of two matrices")


def _parse_on(inputs: list[columns.Input], on: object, metric: Metric) -> list[tuple[int, ...]]:
    both = isinstance(on, tuple) and len(on) == 2
    if both and len(inputs) == 1:
        raise ArgumentError("on", on, "columns of `left` alone, as there is no `right`")
    pair: Any = on if both else (on, on)
    found = []
    for this, names in zip(inputs, pair, strict=False):
        listed = [names] if isinstance(names, str) else names
        if not isinstance(listed, list) or not listed:
            raise ArgumentError("on", on, ON_FORMS)
        indices = tuple(this.index(name, "on") for name in listed)
        if not metric.fits([this.type_of(i) for i in indices]):
            told = ", ".join(this.told(i) for i in indices)
            raise ColumnError("on", told, f"{metric.columns_told}, for {metric!r}")
        found.append(indices)
    shapes = {
        "an array" if pt.is_nested(this.type_of(indices[0])) else f"{len(indices)} columns"
        for this, indices in zip(inputs, found, strict=True)
    }
    if len(shapes) > 1:
        told = " and ".join(sorted(shapes))
        raise ArgumentError("on", on, f"of the same shape in both inputs; these are {told}")
    return found


def _parse_dimension(
    inputs: list[columns.Input], compared: list[tuple[int, ...]], metric: Metric, given: object
) -> int | None:
    dimension = parse_size("dimension", given)
    if dimension is None:
        return None
    if not metric.has_dimension or not pt.is_nested(inputs[0].type_of(compared[0][0])):
        accepted = "left out: it is for arrays that must be of one length"
        raise ArgumentError("dimension", given, accepted)
    if not metric.takes_dimension(dimension):
        raise ArgumentError("dimension", given, f"one that {metric!r} has: {metric.columns_told}")
    return dimension


def _parse_times(inputs: list[columns.Input], left: str, right: str | None) -> list[int]:
    if len(inputs) == 1:
        if right is not None:
            raise ArgumentError("right_time", right, "left out where there is no `right`")
        if left is None:
            raise ArgumentError("left_time", left, "the event-time column")
        return [columns.resolve_time(inputs[0], left, "left_time")]
    for name, value in (("left_time", left), ("right_time", right)):
        if value is None:
            raise ArgumentError(name, value, "the event-time column")
    times = [
        columns.resolve_time(inputs[0], left, "left_time"),
        columns.resolve_time(inputs[1], right, "right_time"),
    ]
    if inputs[0].type_of(times[0]) != inputs[1].type_of(times[1]):
        told = f"{inputs[0].told(times[0])} and {inputs[1].told(times[1])}"
        raise ArgumentError("right_time", told, "of the same type as `left_time`; cast one of them")
    return times


def _parse_late(late: object, *, alone: bool) -> list[int]:
    if alone and isinstance(late, list | tuple):
        raise ArgumentError("late", late, "one duration, as there is one stream")
    return parse_lates(late, 2, "a duration, or two: (left, right)")


def _parse_bounds(within: object, window: object, *, alone: bool) -> tuple[int, int, int | None]:
    if (within is None) == (window is None):
        given = {"within": within, "window": window}
        raise ArgumentError("within", given, "given, or else `window`, but not both")
    if window is not None:
        size = parse_duration_us(window, "window")
        if size <= 0:
            raise ArgumentError("window", window, "a duration of more than 0")
        return -size, size, size
    if alone and isinstance(within, tuple | list):
        accepted = "one duration, as rows of one stream have no sides"
        raise ArgumentError("within", within, accepted)
    return *parse_bounds(within, "a duration or (lower, upper)"), None


def _parse_threshold(threshold: object, metric: Metric) -> float:
    number = math.nan
    if isinstance(threshold, int | float) and not isinstance(threshold, bool):
        with contextlib.suppress(OverflowError):
            number = float(threshold)
    if not 0 <= number <= metric.largest or not math.isfinite(number):
        bound = f" to {metric.largest:g}" if math.isfinite(metric.largest) else " on"
        raise ArgumentError("threshold", threshold, f"a number from 0{bound}, for {metric!r}")
    return number


def _output_columns(
    inputs: list[columns.Input], suffixes: Sequence[str]
) -> tuple[OutputColumn, ...]:
    if (
        not isinstance(suffixes, tuple | list)
        or len(suffixes) != 2
        or not all(isinstance(suffix, str) for suffix in suffixes)
    ):
        raise ArgumentError("suffixes", suffixes, 'two strings, such as ("_left", "_right")')
    left, right = inputs[0], inputs[-1]
    shared = {n.lower() for n in left.names} & {n.lower() for n in right.names}
    sides: tuple[tuple[Side, columns.Input, str], ...] = (
        ("left", left, suffixes[0]),
        ("right", right, suffixes[1]),
    )
    output = tuple(
        OutputColumn(side, i, name + suffix if name.lower() in shared else name)
        for side, this, suffix in sides
        for i, name in enumerate(this.names)
    )
    names = [DISTANCE, *(c.name.lower() for c in output)]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        accepted = f"such that no output column appears twice: {twice}"
        raise ColumnError("suffixes", tuple(suffixes), accepted)
    return output


def _parse_strategy(strategy: object) -> SimilarityStrategy:
    if strategy == "auto":
        return AutoSimilarity()
    if not isinstance(strategy, SimilarityStrategy):
        accepted = "'auto', sk.S3J(...), sk.ClusterJoin(partitions=...) or sk.BruteForce()"
        raise ArgumentError("strategy", strategy, accepted)
    return strategy


@dataclass(frozen=True)
class Similar(Described):
    """A similarity join that is described but not running: write it with `writeStream`, or, when
    the inputs are static, take the result with `toDF`."""

    right: DataFrame | None
    spec: SimilaritySpec
    match_schema: StructType
    strategy: SimilarityStrategy
    instances: int | None

    output_modes_told = "'append': a join only ever adds rows"

    def arrivals(self, root: str) -> DataFrame:
        """The first step of a batch: rows put into worksets, sorted and stored."""
        tasks = parallelism(self.sparkSession)
        frames = [self.frame, *([] if self.right is None else [self.right])]
        first, *others = (
            numbered(frame)
            .coalesce(tasks)
            .mapInArrow(
                arrivals_task(
                    self.spec.side(side).schema,
                    partial(
                        ingest_vectors, spec=self.spec, strategy=self.strategy, side=side, root=root
                    ),
                ),
                ARRIVAL_SCHEMA,
            )
            for side, frame in zip(self.spec.sides, frames, strict=True)
        )
        return first.unionAll(others[0]) if others else first

    def runtime(self, root: str, **options: int) -> SimilarityRuntime:
        instances = self.instances or parallelism(self.sparkSession)
        return SimilarityRuntime(root, self.spec, self.strategy, instances, **options)

    def driver(self, root: str, sink: Sink, mode: str | None, **keeping: int) -> BatchDriver:
        runtime = self.runtime(root, **keeping)
        return SimilarityBatchDriver(runtime, sink, self.match_schema, self.steps)

    def _whole_result(self, root: str) -> DataFrame:
        runtime = self.runtime(root)
        runtime.open()
        told = self.arrivals(root).collect()
        plan = runtime.plan(0, [VectorArrival.from_json(json.loads(r[0])) for r in told])
        found = pairs_of(self.sparkSession, self.spec, plan, self.strategy, self.match_schema)
        return self.shaped(found)
