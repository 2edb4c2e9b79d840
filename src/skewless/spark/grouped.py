"""`result.groupBy(…).agg(…)`: an aggregation of a result, written as in PySpark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from skewless.errors import ArgumentError
from skewless.spark.result import Result

if TYPE_CHECKING:
    from pyspark.sql import Column

    from skewless.placement.grouping import Grouping
    from skewless.spark.arguments.aggregate import Aggregated
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

    def agg(self, aggs: Mapping[str, object] | None = None, **named: object) -> Aggregated:
        """What to compute, as for `sk.aggregate`: ``agg(n="count", total=("sum", "x"))``, or as a
        mapping."""
        from skewless.spark.arguments.aggregate import aggregate

        if aggs is not None and not isinstance(aggs, Mapping):
            accepted = '{"name": aggregate} or name=aggregate, such as total=("sum", "x")'
            raise ArgumentError("agg", aggs, accepted)
        return aggregate(
            self.result,
            list(self.by),
            {**(aggs or {}), **named},
            time=self.time,
            window=self.window,
            late=self.late,
            strategy=self.strategy,
            instances=self.instances,
            on_null_time=self.on_null_time,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}[by: {', '.join(map(str, self.by))}] of {self.result!r}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """What there is instead of PySpark's `count`, `sum` and their like."""
            has = 'agg, such as agg(n="count", total=("sum", "x"))'
            raise AttributeError(f"{type(self).__name__} has no {name!r}. It has: {has}")
