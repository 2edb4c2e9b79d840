"""The values that are compared, as a matrix or as sets of integers; and which are unfit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.arrays.types import Flags

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sets:
    """Sets of integers: their elements one after the other, ascending, and where each set ends."""

    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: npt.NDArray[Any]) -> Sets:
        lengths = (self.offsets[1:] - self.offsets[:-1])[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        begins = np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths)
        return Sets(offsets, self.values[begins + np.arange(offsets[-1])])


Points = Matrix | Sets


def matrix(points: Points) -> Matrix:
    """Points of which is known that they are vectors."""
    assert not isinstance(points, Sets)
    return points


def take(points: Points, rows: npt.NDArray[Any]) -> Points:
    return points.take(rows) if isinstance(points, Sets) else points[rows]


def width(points: Points) -> int:
    """How many numbers a vector has; 0 for sets."""
    return 0 if isinstance(points, Sets) else points.shape[1]


def concat(parts: list[Points]) -> Points:
    if isinstance(parts[0], Sets):
        sets = [p for p in parts if isinstance(p, Sets)]
        ends = np.cumsum([0] + [len(p.values) for p in sets])
        offsets = [p.offsets[1:] + end for p, end in zip(sets, ends, strict=False)]
        return Sets(np.concatenate([[0], *offsets]), np.concatenate([p.values for p in sets]))
    return np.concatenate([p for p in parts if not isinstance(p, Sets)])


def matrix_of(columns: list[pa.Array], *, keep_integers: bool = False) -> Matrix:
    """Rows of equally many numbers, without nulls, as a matrix: one array column, or one number per
    column. Without a copy where it is a column of doubles; integers become the nearest double
    unless they are kept."""
    nested = pt.is_list(columns[0].type) or pt.is_large_list(columns[0].type)
    flat = [columns[0].flatten()] if nested else columns
    whole = keep_integers and all(pt.is_integer(c.type) for c in flat)
    kind = pa.int64() if whole else pa.float64()
    numbers = [c.cast(kind, safe=False).to_numpy() for c in flat]
    if not nested:
        return np.column_stack(numbers)
    rows = len(columns[0])
    vectors: Matrix = numbers[0].reshape(rows, len(numbers[0]) // rows if rows else 0)
    return vectors


def sets_of(column: pa.Array) -> Sets:
    """Rows of integers, without nulls, as sets."""
    lengths = column.value_lengths().to_numpy().astype(np.int64)
    owners = np.repeat(np.arange(len(column)), lengths)
    values = column.flatten().cast(pa.int64()).to_numpy()
    order = np.lexsort([values, owners])
    owners, values = owners[order], values[order]
    new = np.ones(len(values), np.bool_)
    new[1:] = (owners[1:] != owners[:-1]) | (values[1:] != values[:-1])
    counts = np.bincount(owners[new], minlength=len(column))
    return Sets(np.concatenate([[0], np.cumsum(counts)]), values[new])


def unfit(columns: list[pa.Array], dimension: int | None) -> Flags:
    """Which rows have no usable value: nulls in them, numbers that are not finite, or another
    number of elements than `dimension`."""
    bad = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        if pt.is_list(column.type) or pt.is_large_list(column.type):
            bad |= _unfit_lists(column, dimension)
        else:
            usable = pc.is_valid(column)
            if pt.is_floating(column.type):
                usable = pc.and_(usable, pc.fill_null(pc.is_finite(column), False))
            bad |= ~usable.to_numpy(zero_copy_only=False)
    return bad


def _unfit_lists(column: pa.Array, dimension: int | None) -> Flags:
    bad: Flags = column.is_null().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(column.value_lengths(), 0).to_numpy()
    if dimension is not None:
        bad |= lengths != dimension
    elements = column.flatten()
    usable = pc.is_valid(elements)
    if pt.is_floating(elements.type):
        usable = pc.and_(usable, pc.fill_null(pc.is_finite(elements), False))
    if pc.all(usable, min_count=0).as_py() is False:
        owners = np.repeat(np.arange(len(column)), lengths)
        bad[owners[~usable.to_numpy(zero_copy_only=False)]] = True
    return bad
