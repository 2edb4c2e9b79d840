"""skewless: stream joins on Spark that stay fast when the keys are skewed.

    import skewless as sk

    joined = sk.join(orders, tracks, on="cell", left_time="ordered_at", right_time="seen_at",
                     within="10 minutes", late="1 minute")
    query = joined.writeStream.format("parquet").option("path", out) \\
                  .option("checkpointLocation", ckpt).start()

Importing skewless does not import pyspark; building a join does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skewless import errors
from skewless.aggregating.accumulator import Accumulator
from skewless.aggregating.distinct import ApproxDistinct
from skewless.aggregating.quantile import Quantile
from skewless.balancing import Auto, FastJoin, LSStream, NoBalancing
from skewless.history import history
from skewless.model import UNBOUNDED, BatchReport, band, equal
from skewless.routing import (
    PKG,
    BatchAware,
    Broadcast,
    ContRand,
    DAGreedy,
    Dalton,
    DChoices,
    Hash,
    KeyGrouping,
    PdStream,
    ShuffleGrouping,
    WChoices,
)
from skewless.similarity.strategies import S3J, BruteForce, ClusterJoin
from skewless.three_way.strategies import Tree, TriJoin

if TYPE_CHECKING:
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
    "Aggregated": "aggregate",
    "Joined": "join",
    "Joined3": "join3",
    "Similar": "similarity",
    "aggregate": "aggregate",
    "join": "join",
    "join3": "join3",
    "similarity_join": "similarity",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        module = importlib.import_module(f"skewless.spark.{_LATE[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'skewless' has no attribute {name!r}")
