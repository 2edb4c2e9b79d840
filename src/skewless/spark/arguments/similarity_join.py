"""`sk.similarity_join`: from arguments to a similarity join that can be started."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.types as pt
from pyspark.sql.types import DoubleType, StructField, StructType

from skewless.arrays.types import SIDES
from skewless.conditions import UNBOUNDED
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError, ColumnError
from skewless.operators.naming import Named, named_columns
from skewless.operators.pair import OutputColumn
from skewless.operators.similarity.metrics import METRICS, Metric, OwnMetric
from skewless.operators.similarity.operator import SimilarityOperator
from skewless.operators.similarity.spec import DISTANCE, SimilaritySpec, VectorSide
from skewless.operators.similarity.strategies import SimilarityStrategy
from skewless.spark.arguments import columns
from skewless.spark.arguments.clock_rules import parse_clock_rules
from skewless.spark.arguments.kinds import (
    Auto,
    Condition,
    Duration,
    ErrorOrDrop,
    Late,
    Name,
    Source,
    Time,
    Within,
)
from skewless.spark.arguments.naming import struct_of
from skewless.spark.arguments.times import (
    check_null_times,
    parse_bounds,
    parse_lates,
    parse_times,
)
from skewless.spark.result import RowsResult, sizes
from skewless.strategies import choose_strategy

ERROR_OR_DROP = ("error", "drop")
SUFFIXES = ("_left", "_right")
ON_FORMS = 'an array column "v", columns of numbers ["x", "y"], or a pair of such: (left, right)'


def similarity_join(
    left: Source,
    right: Source | None = None,
    *,
    on: str | Sequence[str] | tuple[str | Sequence[str], str | Sequence[str]],
    metric: str | Callable[[Any, Any], Any] = "euclidean",
    threshold: float,
    time: Time | None = None,
    left_time: Name | None = None,
    right_time: Name | None = None,
    within: Within | None = None,
    window: Duration | None = None,
    late: Late | None = None,
    idle_after: Late | None = None,
    max_ahead: Late | None = None,
    where: Condition | None = None,
    strategy: SimilarityStrategy | Auto | None = None,
    instances: int | Auto = "auto",
    suffixes: tuple[str, str] = SUFFIXES,
    dimension: int | None = None,
    check_metric: bool = False,
    on_bad: ErrorOrDrop = "error",
    on_null_time: ErrorOrDrop = "error",
) -> Similar:
    """Join rows of two streams, or of one with itself, whose values are alike.

    Parameters
    ----------
    left, right
        Streaming or static DataFrames, or results of other operators, which are then part of the
        same query. Without `right`, rows of `left` are joined with one another: each pair once, the
        earlier row as left (of two at one time, either), no row with itself.
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
    time, left_time, right_time
        The event-time columns: one name for both inputs or one each, or one by one. Where they are
        left out, those of ``withWatermark``. ``within=sk.UNBOUNDED`` needs none.
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
        counted.
    late, idle_after, max_ahead, where, instances, on_null_time
        As for `sk.join`.
    suffixes
        Added to the names of columns that both sides have; of a join of one stream, all.

    >>> near = sk.similarity_join(taxis, orders, on=["lat", "lon"], metric="haversine",
    ...                           threshold=300, left_time="seen_at", right_time="ordered_at",
    ...                           within="1 minute")                        # doctest: +SKIP
    """
    for name, value in (("on_bad", on_bad), ("on_null_time", on_null_time)):
        if value not in ERROR_OR_DROP:
            raise ArgumentError(name, value, "'error' or 'drop'")
    if not isinstance(check_metric, bool):
        raise ArgumentError("check_metric", check_metric, "True or False")
    sources = (left,) if right is None else (left, right)
    inputs = columns.inputs_of(**dict(zip(SIDES, sources, strict=False)))
    measure = _parse_metric(metric)
    compared = _parse_on(inputs, on, measure)
    sides = _sides(inputs, compared, (time, left_time, right_time), within, late)
    rules = parse_clock_rules(idle_after, max_ahead, inputs, [side.time for side in sides])
    named = _named(inputs, suffixes)
    spec = SimilaritySpec(
        sides[0],
        sides[1] if len(sides) > 1 else None,
        measure,
        _parse_threshold(threshold, measure),
        *_parse_bounds(within, window, alone=len(inputs) == 1),
        tuple(OutputColumn(SIDES[c.input], c.index, c.name) for c in named),
        _parse_dimension(inputs, compared, measure, dimension),
        on_bad == "drop",
        check_null_times(on_null_time),
        check_metric,
    )
    chosen: SimilarityStrategy = choose_strategy("similarity_join", strategy)
    count = sizes(instances=instances)["instances"]

    def place(spec: SimilaritySpec, cores: int) -> SimilarityOperator:
        return SimilarityOperator(spec, chosen, count or cores, elastic=count is None)

    taken = tuple(this.every_column for this in inputs)
    emitted = _schema(inputs, named)
    similar = Similar(
        sources, taken, emitted, spec=spec, place=place, rules=rules,
        named=named if len(inputs) > 1 else (),
    )  # fmt: skip
    return similar if where is None else similar.where(where)


@dataclass(frozen=True, eq=False, repr=False)
class Similar(RowsResult[SimilaritySpec]):
    """A similarity join that is described but not running: write it with `writeStream`, or, when
    the inputs are static, take the result with `dataframe`."""


def _both(inputs: Sequence[columns.Input]) -> list[columns.Input]:
    """The inputs of both sides: one stream is both."""
    return [inputs[0], inputs[-1]]


def _named(inputs: Sequence[columns.Input], suffixes: object) -> tuple[Named, ...]:
    return named_columns(_both(inputs), suffixes, SUFFIXES, taken=[DISTANCE])


def _schema(inputs: Sequence[columns.Input], named: Sequence[Named]) -> StructType:
    return struct_of(_both(inputs), named).add(StructField(DISTANCE, DoubleType()))


def _sides(
    inputs: list[columns.Input],
    compared: list[tuple[int, ...]],
    times: tuple[object, object, object],
    within: object,
    late: object,
) -> list[VectorSide]:
    time, left_time, right_time = times
    alone = len(inputs) == 1
    if alone and right_time is not None:
        raise ArgumentError("right_time", right_time, "left out where there is no `right`")
    if alone and isinstance(late, list | tuple):
        raise ArgumentError("late", late, "one duration, as there is one stream")
    older = (
        {"left_time": left_time} if alone else {"left_time": left_time, "right_time": right_time}
    )
    at = parse_times(inputs, time, older, unbounded=within is UNBOUNDED)
    lates = parse_lates(late, inputs, at, unbounded=within is UNBOUNDED)
    return [
        VectorSide(this.plain_schema, compared[i], at[i], lates[i]) for i, this in enumerate(inputs)
    ]


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
            described = ", ".join(this.described(i) for i in indices)
            raise ColumnError("on", described, f"{metric.columns_described}, for {metric!r}")
        found.append(indices)
    shapes = {
        "an array" if pt.is_nested(this.type_of(indices[0])) else f"{len(indices)} columns"
        for this, indices in zip(inputs, found, strict=True)
    }
    if len(shapes) > 1:
        described = " and ".join(sorted(shapes))
        raise ArgumentError("on", on, f"of the same shape in both inputs; these are {described}")
    return found


def _parse_dimension(
    inputs: list[columns.Input], compared: list[tuple[int, ...]], metric: Metric, given: object
) -> int | None:
    dimension = sizes(dimension=given)["dimension"]
    if dimension is None:
        return None
    if not metric.has_dimension or not pt.is_nested(inputs[0].type_of(compared[0][0])):
        accepted = "left out: it is for arrays that must be of one length"
        raise ArgumentError("dimension", given, accepted)
    if not metric.takes_dimension(dimension):
        raise ArgumentError(
            "dimension", given, f"one that {metric!r} has: {metric.columns_described}"
        )
    return dimension


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
    return *parse_bounds(within), None


def _parse_threshold(threshold: object, metric: Metric) -> float:
    number = math.nan
    if isinstance(threshold, int | float) and not isinstance(threshold, bool):
        with contextlib.suppress(OverflowError):
            number = float(threshold)
    if not 0 <= number <= metric.largest or not math.isfinite(number):
        bound = f" to {metric.largest:g}" if math.isfinite(metric.largest) else " on"
        raise ArgumentError("threshold", threshold, f"a number from 0{bound}, for {metric!r}")
    return number
