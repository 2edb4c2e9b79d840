"""The aggregates that have a name: `{"total": ("sum", "amount")}`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from skewless.operators.aggregate.accumulators.base import Accumulator
from skewless.operators.aggregate.accumulators.counting import Count, Mean, Variance, sum_of
from skewless.operators.aggregate.accumulators.distinct import ApproxDistinct
from skewless.operators.aggregate.accumulators.extremes import largest_of, least_of
from skewless.operators.aggregate.accumulators.quantile import Quantile

NAMED: dict[str, Callable[[Sequence[pa.DataType]], Accumulator]] = {
    "count": lambda types: Count(),
    "sum": sum_of,
    "min": least_of,
    "max": largest_of,
    "mean": Mean().bind,
    "avg": Mean().bind,
    "variance": Variance().bind,
    "stddev": Variance(root=True).bind,
    "approx_distinct": ApproxDistinct().bind,
}

WITH_PARAMETER: dict[str, Callable[[float], Accumulator]] = {"quantile": Quantile}
