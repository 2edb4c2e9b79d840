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
from skewless.aggregating.accumulator import Accumulator
from skewless.balancing import Auto, FastJoin, LSStream, NoBalancing
from skewless.history import history
from skewless.model import UNBOUNDED, BatchReport, band, equal
from skewless.routing import Broadcast, ContRand, Hash
from skewless.similarity.strategies import S3J, BruteForce, ClusterJoin
from skewless.three_way.strategies import Tree, TriJoin

if TYPE_CHECKING:
    from skewless.aggregating.distinct import ApproxDistinct
    from skewless.aggregating.quantile import Quantile
    from skewless.routing import (
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
    from skewless.spark.aggregate import Aggregated, aggregate
    from skewless.spark.join import Joined, join
    from skewless.spark.join3 import Joined3, join3
    from skewless.spark.similarity import Similar, similarity_join

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
    "skewless.aggregating.distinct": ("ApproxDistinct",),
    "skewless.aggregating.quantile": ("Quantile",),
    "skewless.routing": (
        "BatchAware", "DAGreedy", "DChoices", "Dalton", "KeyGrouping", "PKG", "PdStream",
        "ShuffleGrouping", "WChoices",
    ),
    "skewless.spark.aggregate": ("Aggregated", "aggregate"),
    "skewless.spark.join": ("Joined", "join"),
    "skewless.spark.join3": ("Joined3", "join3"),
    "skewless.spark.similarity": ("Similar", "similarity_join"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'skewless' has no attribute {name!r}")
