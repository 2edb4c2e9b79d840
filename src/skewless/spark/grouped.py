"""`result.groupBy(…).agg(…)`: an aggregation of a result, written as in PySpark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import Column
from pyspark.sql import functions as F

from skewless.errors import ArgumentError
from skewless.spark.plans import quoted
from skewless.spark.result import Result

if TYPE_CHECKING:
    from skewless.placement.grouping import Grouping
    from skewless.spark.arguments.aggregate import Aggregated
    from skewless.spark.arguments.aggs import Aggs
    from skewless.spark.arguments.kinds import Auto, Duration, ErrorOrDrop


@dataclass(frozen=True, repr=False)
class GroupedResult:
    """Groups of a result, waiting for what to compute; all else is as for `sk.aggregate`."""

    result: Result
    by: tuple[str | Column, ...]
    time: str | None = None
    window: Duration | tuple[Duration, Duration] | None = None
    late: Duration | None = None
    strategy: Grouping | Auto | None = None
    instances: int | Auto = "auto"
    on_null_time: ErrorOrDrop = "error"

    def agg(self, aggs: Aggs | None = None, *more: Column, **named: object) -> Aggregated:
        """What to compute, as for `sk.aggregate`: ``agg(n="count", total=("sum", "x"))``, or as a
        mapping; or as in PySpark, ``agg(F.count("*").alias("n"), F.sum("x"))``."""
        from skewless.spark.arguments.aggregate import aggregate

        wanted: Aggs
        if isinstance(aggs, Column) and not named:
            wanted = [aggs, *more]
        elif (aggs is None or isinstance(aggs, Mapping)) and not more:
            wanted = {**(aggs or {}), **named}
        else:
            accepted = (
                '{"name": aggregate}, name=aggregate, such as total=("sum", "x"), or aggregates of '
                'PySpark, such as F.sum("x").alias("total")'
            )
            raise ArgumentError("agg", aggs, accepted)
        return aggregate(
            self.result,
            list(self.by),
            wanted,
            time=self.time,
            window=self.window,
            late=self.late,
            strategy=self.strategy,
            instances=self.instances,
            on_null_time=self.on_null_time,
        )

    def count(self) -> Aggregated:
        """How many rows each group has."""
        return self.agg({"count": "count"})

    def sum(self, *columns: str) -> Aggregated:
        """The sums of some columns, called as PySpark calls them: ``sum(x)``."""
        return self._of_each(F.sum, columns)

    def avg(self, *columns: str) -> Aggregated:
        """The means of some columns: ``avg(x)``."""
        return self._of_each(F.avg, columns)

    mean = avg

    def min(self, *columns: str) -> Aggregated:
        """The least values of some columns: ``min(x)``."""
        return self._of_each(F.min, columns)

    def max(self, *columns: str) -> Aggregated:
        """The largest values of some columns: ``max(x)``."""
        return self._of_each(F.max, columns)

    def _of_each(self, what: Callable[[str], Column], columns: Sequence[str]) -> Aggregated:
        if not columns:
            raise ArgumentError("columns", columns, "the columns to compute it of")
        return self.agg(*(what(quoted(name)) for name in columns))

    def __repr__(self) -> str:
        return f"{type(self).__name__}[by: {', '.join(map(str, self.by))}] of {self.result!r}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """What there is instead of what else PySpark's groups have."""
            has = "agg, avg, count, max, mean, min, sum"
            more = 'All else is for agg, such as agg(p=("quantile", "x", 0.9))'
            raise AttributeError(f"{type(self).__name__} has no {name!r}. It has: {has}. {more}")
