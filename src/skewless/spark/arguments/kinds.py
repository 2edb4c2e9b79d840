"""The types of arguments that several operators share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from pyspark.sql import Column, DataFrame

from skewless.conditions import Band, Unbounded
from skewless.spark.result import Result

Source = DataFrame | Result
Duration = str | timedelta
Bound = Duration | tuple[Duration, Duration]
Within = Bound | Unbounded
HalfOpen = Within | tuple[Duration, Unbounded] | tuple[Unbounded, Duration]
Late = Duration | Sequence[Duration | None]
On = str | tuple[str, str] | Band | Sequence[str | tuple[str, str] | Band]
Time = str | Sequence[str]
Condition = str | Column
ErrorOrDrop = Literal["error", "drop"]
Auto = Literal["auto"]
