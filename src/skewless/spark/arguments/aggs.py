"""What to compute for each group: by name, by an accumulator, or by an aggregate of PySpark's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column

from skewless.errors import ArgumentError, ColumnError
from skewless.operators.aggregate.accumulators.base import Accumulator
from skewless.operators.aggregate.accumulators.distinct import ApproxDistinct
from skewless.operators.aggregate.accumulators.extremes import Extreme
from skewless.operators.aggregate.accumulators.named import NAMED, WITH_PARAMETER
from skewless.spark.arguments import analysis, columns
from skewless.spark.interpreter import is_remote

Aggs: TypeAlias = Mapping[str, object] | Column | Sequence[Column]
Parsed: TypeAlias = list[tuple[str, Accumulator, tuple[int, ...]]]

AGGS = (
    '{"name": aggregate}, each one of "count", ("sum", "column"), ("quantile", "column", 0.95) or '
    "(sk.Accumulator, *columns); by name: "
    + ", ".join([*NAMED, *WITH_PARAMETER])
    + '; or aggregates of PySpark such as F.sum("column").alias("name"), or a list of them'
)
# What is the same here, by what Spark calls it.
OF_SPARK = {
    "Count": "count",
    "Sum": "sum",
    "Min": "min",
    "Max": "max",
    "Average": "mean",
    "VarianceSamp": "variance",
    "StddevSamp": "stddev",
    "HyperLogLogPlusPlus": "approx_distinct",
}


def parse_aggs(this: columns.Input, aggs: object) -> Parsed:
    """The aggregates with their names, and the columns that each is of."""
    if isinstance(aggs, Column):
        return _of_spark(this, [aggs])
    if isinstance(aggs, list | tuple) and aggs and all(isinstance(a, Column) for a in aggs):
        return _of_spark(this, aggs)
    if not isinstance(aggs, Mapping) or not aggs:
        raise ArgumentError("aggs", aggs, AGGS)
    parsed: Parsed = []
    for name, wanted in aggs.items():
        if not isinstance(name, str) or not name:
            raise ArgumentError("aggs", aggs, f"names of columns as keys; {name!r} is none")
        argument = f'aggs["{name}"]'
        if isinstance(wanted, Column):
            [(_, accumulator, used)] = _of_spark(this, [wanted], argument)
            parsed.append((name, accumulator, used))
        else:
            parsed.append((name, *_parse_agg(this, argument, wanted)))
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
        described = ", ".join(this.described(i) for i in indices)
        raise ColumnError(argument, described, str(error)) from error
    if isinstance(bound, Extreme | ApproxDistinct):  # these compare values, by their bytes
        for i in indices:
            columns.refuse_collation(this, i, argument)
    return bound, indices


def _of_spark(this: columns.Input, wanted: Sequence[Column], argument: str = "aggs") -> Parsed:
    """Aggregates of PySpark's, under the names that they have there."""
    if is_remote(this.source.sparkSession):
        accepted = '{"name": ("sum", "column")}: Spark Connect does not tell what a Column computes'
        raise ArgumentError(argument, wanted[0], accepted)
    parsed: Parsed = []
    for column in wanted:
        try:
            found = analysis.aggregate_of(this.frame, column)
            what = OF_SPARK.get(found.function)
            if what is None:
                known = ", ".join(dict.fromkeys(OF_SPARK.values()))
                raise analysis.NotUnderstoodError(f"of Spark's aggregates there are: {known}")
            if what == "mean" and pa.types.is_decimal(this.type_of(found.columns[0])):
                raise analysis.NotUnderstoodError(
                    "of decimals Spark gives a decimal: cast the column to double first"
                )
        except analysis.NotUnderstoodError as error:
            raise ArgumentError(argument, column, f"{AGGS} ({error})") from error
        names = [this.names[i] for i in found.columns]
        parsed.append((found.name, *_parse_agg(this, argument, (what, *names))))
    return parsed
