"""Folding values into groups: the vectorised inner steps of the accumulators.

Group numbers ascend, so a group's rows are neighbours and NumPy's `reduceat` folds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skewless.arrays.types import Ints
from skewless.operators.aggregate.accumulators.base import Groups


def begins_of(groups: Groups) -> Ints:
    """Where each group that has rows begins."""
    if not len(groups):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))


def without_nulls(groups: Groups, column: pa.Array) -> tuple[Groups, pa.Array]:
    """The rows that have a value."""
    if not column.null_count:
        return groups, column
    valid = column.is_valid()
    return groups[valid.to_numpy(zero_copy_only=False)], column.drop_null()


def counts_of(groups: Groups, size: int) -> Ints:
    """How many rows each of `size` groups has."""
    return np.bincount(groups, minlength=size).astype(np.int64, copy=False)


def fold(
    ufunc: np.ufunc, groups: Groups, values: npt.NDArray[Any], size: int, empty: Any = 0
) -> npt.NDArray[Any]:
    """One folded value per group; `empty` for groups without rows."""
    folded = np.full(size, empty, values.dtype)
    begins = begins_of(groups)
    if len(begins):
        folded[groups[begins]] = ufunc.reduceat(values, begins)
    return folded


def explode(groups: Groups, lists: pa.Array) -> tuple[Groups, pa.Array]:
    """The elements of lists, each with the group of its list."""
    lengths = pc.fill_null(lists.value_lengths(), 0).to_numpy()
    return np.repeat(groups, lengths), lists.flatten()


def as_lists(groups: Groups, values: npt.NDArray[Any], size: int) -> pa.Array:
    """One list of values per group."""
    ends = np.cumsum(counts_of(groups, size))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
