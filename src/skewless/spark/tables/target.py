"""What tables that know marks have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pyspark.sql import DataFrame


class Target(Protocol):
    """Where Spark appends rows to, with further options of the writer."""

    def append(self, result: DataFrame, options: Mapping[str, Any]) -> None: ...
