"""The types that everything above the arrays shares: numbers, sides, key columns."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UInts = npt.NDArray[np.uint64]


Ints = npt.NDArray[np.int64]


Floats = npt.NDArray[np.float64]


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous read-only view."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


Side = Literal["left", "right"]


SIDES: tuple[Side, Side] = ("left", "right")


HASH_MAX = (1 << 64) - 1


FAR_US = 1 << 62  # further than any event time: "no bound"


@dataclass(frozen=True)
class KeyColumn:
    """A column compared for equality: where it is in its side, and the type both sides share. If it
    is `null_safe`, null is a value like any other; else a row with a null has no key."""

    index: int
    type: pa.DataType
    null_safe: bool = False


@dataclass(frozen=True)
class BandColumn:
    """A column compared by distance. `width` counts units of the column (microseconds for
    times, days for dates)."""

    index: int
    type: pa.DataType
    width: int | float | Decimal


@dataclass(frozen=True)
class SideSpec:
    """One input of a join: its columns and the part each plays."""

    schema: pa.Schema
    keys: tuple[KeyColumn, ...]
    bands: tuple[BandColumn, ...]
    time: int | None
    late_us: int
