"""`result.groupBy(…).agg(…)`: an aggregation of a result, written as in PySpark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skewless.errors import ArgumentError
from skewless.spark.result import Result

if TYPE_CHECKING:
    from skewless.spark.arguments.aggregate import Aggregated


@dataclass(frozen=True)
class GroupedResult:
    """Groups of a result, waiting for what to compute. `more` are arguments of `sk.aggregate`:
    time, window, late, strategy, instances, on_null_time."""

    result: Result
    by: tuple[str, ...]
    more: Mapping[str, Any]

    def agg(self, aggs: Mapping[str, object] | None = None, **named: object) -> Aggregated:
        """What to compute, as for `sk.aggregate`: ``agg(n="count", total=("sum", "x"))``, or as a
        mapping."""
        from skewless.spark.arguments.aggregate import aggregate

        if aggs is not None and not isinstance(aggs, Mapping):
            accepted = '{"name": aggregate} or name=aggregate, such as total=("sum", "x")'
            raise ArgumentError("agg", aggs, accepted)
        return aggregate(self.result, list(self.by), {**(aggs or {}), **named}, **self.more)
