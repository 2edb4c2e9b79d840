"""skewless: stream joins on Spark that stay fast when the keys are skewed.

    import skewless as sk

    joined = sk.join(orders, tracks, on="cell", left_time="ordered_at", right_time="seen_at",
                     within="10 minutes", late="1 minute")
    query = joined.writeStream.format("parquet").option("path", out) \\
                  .option("checkpointLocation", ckpt).start()

Importing skewless imports neither pyspark nor Numba; building a join does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skewless import errors
from skewless.conditions import UNBOUNDED, band, equal
from skewless.engine.report import BatchReport
from skewless.history import history
from skewless.operators.aggregate.accumulators.accumulator import Accumulator
from skewless.operators.similarity.strategies import S3J, BruteForce, ClusterJoin
from skewless.operators.three_way.strategies import Tree, TriJoin
from skewless.placement.balancing import Auto, FastJoin, LSStream, NoBalancing
from skewless.placement.routing import Broadcast, ContRand, Hash

if TYPE_CHECKING:
    from skewless.operators.aggregate.accumulators.distinct import ApproxDistinct
    from skewless.operators.aggregate.accumulators.quantile import Quantile
    from skewless.placement.grouping import (
        PKG,
        BatchAware,
        DAGreedy,
        Dalton,
        DChoices,
        KeyGrouping,
        PdStream,
        ShuffleGrouping,
        WChoices,
    )
    from skewless.spark.arguments.aggregate import Aggregated, aggregate
    from skewless.spark.arguments.join import Joined, join
    from skewless.spark.arguments.join3 import Joined3, join3
    from skewless.spark.arguments.similarity_join import Similar, similarity_join

__version__ = "0.1.0"

__all__ = [
    "Accumulator",
    "Aggregated",
    "ApproxDistinct",
    "Auto",
    "BatchAware",
    "BatchReport",
    "Broadcast",
    "BruteForce",
    "ClusterJoin",
    "ContRand",
    "DAGreedy",
    "DChoices",
    "Dalton",
    "FastJoin",
    "Hash",
    "Joined",
    "Joined3",
    "KeyGrouping",
    "LSStream",
    "NoBalancing",
    "PKG",
    "PdStream",
    "Quantile",
    "S3J",
    "ShuffleGrouping",
    "Similar",
    "Tree",
    "TriJoin",
    "UNBOUNDED",
    "WChoices",
    "__version__",
    "aggregate",
    "band",
    "equal",
    "errors",
    "history",
    "join",
    "join3",
    "similarity_join",
]


_LATE = {
    "skewless.operators.aggregate.accumulators.distinct": ("ApproxDistinct",),
    "skewless.operators.aggregate.accumulators.quantile": ("Quantile",),
    "skewless.placement.grouping": (
        "BatchAware", "DAGreedy", "DChoices", "Dalton", "KeyGrouping", "PKG", "PdStream",
        "ShuffleGrouping", "WChoices",
    ),
    "skewless.spark.arguments.aggregate": ("Aggregated", "aggregate"),
    "skewless.spark.arguments.join": ("Joined", "join"),
    "skewless.spark.arguments.join3": ("Joined3", "join3"),
    "skewless.spark.arguments.similarity_join": ("Similar", "similarity_join"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'skewless' has no attribute {name!r}")
