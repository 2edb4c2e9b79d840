"""skewless: stream joins on Spark that stay fast when the keys are skewed.

    import skewless as sk

    joined = sk.join(orders, tracks, on="cell", time=("ordered_at", "seen_at"),
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
from skewless.engine.listeners import on_batch
from skewless.engine.report import BatchReport
from skewless.history import history
from skewless.monitor.starting import dashboard, metrics
from skewless.strategies import FAMILIES as _FAMILIES

if TYPE_CHECKING:
    from skewless.operators.aggregate.accumulators.base import Accumulator
    from skewless.operators.aggregate.accumulators.distinct import ApproxDistinct
    from skewless.operators.aggregate.accumulators.quantile import Quantile
    from skewless.operators.similarity.strategies import (
        S3J,
        BruteForce,
        ClusterJoin,
        SimilarityStrategy,
    )
    from skewless.operators.three_way.strategies import ThreeStrategy, Tree, TriJoin
    from skewless.placement.balancing import Auto, Balancing, FastJoin, LSStream, NoBalancing
    from skewless.placement.grouping import (
        PKG,
        BatchAware,
        DAGreedy,
        Dalton,
        DChoices,
        Grouping,
        KeyGrouping,
        PdStream,
        ShuffleGrouping,
        WChoices,
    )
    from skewless.placement.routing import Broadcast, ContRand, Hash, Routing
    from skewless.placement.strategy import PlacementStrategy
    from skewless.spark.arguments.aggregate import Aggregated, aggregate
    from skewless.spark.arguments.asof_join import AsofJoined, asof_join
    from skewless.spark.arguments.deduplicate import Deduplicated, deduplicate
    from skewless.spark.arguments.join import Joined, join
    from skewless.spark.arguments.join3 import Joined3, join3
    from skewless.spark.arguments.similarity_join import Similar, similarity_join
    from skewless.spark.explanation import Explanation, explain
    from skewless.spark.from_json import DeadLetters, from_json
    from skewless.spark.reader import FileStreamReader, readStream
    from skewless.spark.result import Result

__version__ = "0.11.2"

__all__ = [
    "Accumulator",
    "Aggregated",
    "ApproxDistinct",
    "AsofJoined",
    "Auto",
    "Balancing",
    "BatchAware",
    "BatchReport",
    "Broadcast",
    "BruteForce",
    "ClusterJoin",
    "ContRand",
    "DAGreedy",
    "DChoices",
    "Dalton",
    "DeadLetters",
    "Deduplicated",
    "Explanation",
    "FastJoin",
    "FileStreamReader",
    "Grouping",
    "Hash",
    "Joined",
    "Joined3",
    "KeyGrouping",
    "LSStream",
    "NoBalancing",
    "PKG",
    "PdStream",
    "PlacementStrategy",
    "Quantile",
    "Result",
    "Routing",
    "S3J",
    "ShuffleGrouping",
    "Similar",
    "SimilarityStrategy",
    "ThreeStrategy",
    "Tree",
    "TriJoin",
    "UNBOUNDED",
    "WChoices",
    "__version__",
    "aggregate",
    "asof_join",
    "band",
    "dashboard",
    "deduplicate",
    "equal",
    "errors",
    "explain",
    "from_json",
    "history",
    "join",
    "join3",
    "metrics",
    "on_batch",
    "readStream",
    "similarity_join",
]

# Where names are that are loaded when they are asked for. Strategies are in their registry.
_ARGUMENTS = "skewless.spark.arguments"
_ACCUMULATORS = "skewless.operators.aggregate.accumulators"
_LATE = {
    "Accumulator": f"{_ACCUMULATORS}.base",
    "Aggregated": f"{_ARGUMENTS}.aggregate",
    "ApproxDistinct": f"{_ACCUMULATORS}.distinct",
    "AsofJoined": f"{_ARGUMENTS}.asof_join",
    "Balancing": "skewless.placement.balancing",
    "DeadLetters": "skewless.spark.from_json",
    "Deduplicated": f"{_ARGUMENTS}.deduplicate",
    "Explanation": "skewless.spark.explanation",
    "FileStreamReader": "skewless.spark.reader",
    "Grouping": "skewless.placement.grouping",
    "Joined": f"{_ARGUMENTS}.join",
    "Joined3": f"{_ARGUMENTS}.join3",
    "PlacementStrategy": "skewless.placement.strategy",
    "Quantile": f"{_ACCUMULATORS}.quantile",
    "Result": "skewless.spark.result",
    "Routing": "skewless.placement.routing",
    "Similar": f"{_ARGUMENTS}.similarity_join",
    "SimilarityStrategy": "skewless.operators.similarity.strategies",
    "ThreeStrategy": "skewless.operators.three_way.strategies",
    "aggregate": f"{_ARGUMENTS}.aggregate",
    "asof_join": f"{_ARGUMENTS}.asof_join",
    "deduplicate": f"{_ARGUMENTS}.deduplicate",
    "explain": "skewless.spark.explanation",
    "from_json": "skewless.spark.from_json",
    "join": f"{_ARGUMENTS}.join",
    "join3": f"{_ARGUMENTS}.join3",
    "readStream": "skewless.spark.reader",
    "similarity_join": f"{_ARGUMENTS}.similarity_join",
} | {name: module for family in _FAMILIES.values() for name, module in family.members.items()}


if not TYPE_CHECKING:  # type checkers are to find names that are not there

    def __getattr__(name: str) -> Any:
        if name not in _LATE:
            raise AttributeError(f"module 'skewless' has no attribute {name!r}")
        value = getattr(importlib.import_module(_LATE[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
