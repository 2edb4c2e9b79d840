"""The types of arguments that several operators share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from pyspark.sql import Column, DataFrame

from skewless.conditions import Band, Equal, Unbounded
from skewless.spark.result import Result

Source = DataFrame | Result
Duration = str | timedelta
Bound = Duration | tuple[Duration, Duration]
Within = Bound | Unbounded
HalfOpen = Within | tuple[Duration, Unbounded] | tuple[Unbounded, Duration]
Late = Duration | Sequence[Duration | None]
Name = str | Column
OneEqual = Name | tuple[Name, Name] | Equal
EqualOn = OneEqual | Sequence[OneEqual]
On = OneEqual | Band | Sequence[OneEqual | Band]
Time = Name | Sequence[Name]
Condition = str | Column
ErrorOrDrop = Literal["error", "drop"]
Auto = Literal["auto"]
