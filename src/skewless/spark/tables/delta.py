"""Delta tables: Delta itself skips a batch that it has.

Its log keeps the last version of every application. A write with a version that is not greater is
skipped, and two drivers that write the same one at the same time are told apart: one fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from skewless.errors import ArgumentError
from skewless.spark.sinks import Sink
from skewless.spark.tables.target import Target
from skewless.state.epochs import Ownership
from skewless.state.identity import query_id
from skewless.state.publish import Moves

APPLICATION, VERSION = "txnAppId", "txnVersion"


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what a query sets itself."""
    for key, value in options.items():
        if key.lower() in (APPLICATION.lower(), VERSION.lower()):
            accepted = "left out: it is set for every batch, by the checkpoint and the batch id"
            raise ArgumentError(key, value, accepted)


class DeltaSink(Sink):
    may_skip = True

    def __init__(self, target: Target, ownership: Ownership, options: Mapping[str, Any]) -> None:
        check_options(options)
        self._target, self._ownership = target, ownership

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        query = query_id(self._ownership.folder)
        self._target.append(result, {APPLICATION: f"skewless-{query}", VERSION: batch_id})
        return []
