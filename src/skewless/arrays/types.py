"""The types that everything above the arrays shares: numbers, sides, key columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UInts = npt.NDArray[np.uint64]


Ints = npt.NDArray[np.int64]


Floats = npt.NDArray[np.float64]


Flags = npt.NDArray[np.bool_]


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous read-only view."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


Side = Literal["left", "right"]


SIDES: tuple[Side, Side] = ("left", "right")


def other_side(side: Side) -> Side:
    return "right" if side == "left" else "left"


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
    left_out: tuple[str, ...] = ()  # columns that the input has, and nobody needs

    @property
    def parts(self) -> set[int]:
        """The columns that play a part."""
        times = set() if self.time is None else {self.time}
        return {k.index for k in self.keys} | {b.index for b in self.bands} | times

    def only(self, columns: Sequence[int]) -> SideSpec:
        """The same with these columns, among which are all that play a part."""
        place = {old: new for new, old in enumerate(columns)}
        return SideSpec(
            pa.schema([self.schema.field(i) for i in columns]),
            tuple(replace(key, index=place[key.index]) for key in self.keys),
            tuple(replace(band, index=place[band.index]) for band in self.bands),
            None if self.time is None else place[self.time],
            self.late_us,
            (*self.left_out, *(n for i, n in enumerate(self.schema.names) if i not in place)),
        )
