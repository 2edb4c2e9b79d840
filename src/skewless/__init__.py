"""skewless: stream joins on Spark that stay fast when the keys are skewed.

    import skewless as sk

    joined = sk.join(orders, tracks, on="cell", left_time="ordered_at", right_time="seen_at",
                     within="10 minutes", late="1 minute")
    query = joined.writeStream.format("parquet").option("path", out) \\
                  .option("checkpointLocation", ckpt).start()

Importing skewless does not import pyspark; building a join does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skewless import errors
from skewless.balancing import Auto, FastJoin, LSStream, NoBalancing
from skewless.history import history
from skewless.model import UNBOUNDED, BatchReport, band
from skewless.routing import Broadcast, ContRand, Hash

if TYPE_CHECKING:
    from skewless.spark.join import Joined, join

__version__ = "0.1.0"

__all__ = [
    "Auto",
    "BatchReport",
    "Broadcast",
    "ContRand",
    "FastJoin",
    "Hash",
    "Joined",
    "LSStream",
    "NoBalancing",
    "UNBOUNDED",
    "__version__",
    "band",
    "errors",
    "history",
    "join",
]


def __getattr__(name: str) -> Any:
    if name in ("join", "Joined"):
        from skewless.spark import join as module

        return getattr(module, name)
    raise AttributeError(f"module 'skewless' has no attribute {name!r}")
