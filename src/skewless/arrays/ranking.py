"""Which of several rows is the greatest, by the values of all their columns: an order that does not
depend on when rows came, or where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.arrays.types import Ints
from skewless.arrays.values import words

Codes = npt.NDArray[Any]
INT64_MAX = np.iinfo(np.int64).max


def greatest(groups: Ints, columns: Iterable[pa.Array]) -> Ints:
    """The place of the greatest row of every group, by the columns one after the other; of rows
    that are equal in all of them, the first. `groups` are numbers from 0 on, in ascending order.
    Columns are looked at only as long as groups are undecided."""
    begins = np.flatnonzero(np.diff(groups, prepend=-1))
    alive = np.ones(len(groups), np.bool_)
    for codes in (codes for column in columns for codes in ordered(column)):
        shown = np.where(alive, codes, np.iinfo(codes.dtype).min)
        alive &= shown == np.maximum.reduceat(shown, begins)[groups]
        if alive.sum() == len(begins):
            break
    places = np.flatnonzero(alive)
    _, firsts = np.unique(groups[places], return_index=True)
    return places[firsts]


def ordered(column: pa.Array) -> Iterator[Codes]:
    """Integers which, compared one after the other, order rows as their values do. A null is less
    than any value, NaN greater than any number, and -0.0 less than 0.0; a list is less than those
    that it begins."""
    if not column.null_count:
        yield from _values(column)
        return
    there = column.is_valid().to_numpy(zero_copy_only=False)
    yield there.astype(np.int8)
    for codes in _values(column):
        yield np.where(there, codes, 0)


def _values(column: pa.Array) -> Iterator[Codes]:
    """The same of values; what stands for a null does not matter."""
    kind = column.type
    if pt.is_struct(kind):
        for child in column.flatten():
            yield from ordered(child)
    elif pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind):
        yield from _elements(column)
    elif pt.is_floating(kind):
        yield _of_floats(column)
    elif pt.is_decimal128(kind):
        low, high = words(column, kind)
        yield high.view(np.int64)
        yield low
    elif pt.is_boolean(kind):
        yield column.cast(pa.int8()).fill_null(0).to_numpy()
    elif pt.is_integer(kind) or pt.is_temporal(kind):
        whole = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        yield column.view(whole).fill_null(0).to_numpy()
    elif not pt.is_null(kind):
        yield pc.rank(column, "ascending", tiebreaker="dense").to_numpy()


def _of_floats(column: pa.Array) -> Codes:
    values = column.cast(pa.float64()).fill_null(0.0).to_numpy()
    bits = values.view(np.int64)
    codes = np.where(bits < 0, bits ^ INT64_MAX, bits)
    return np.where(np.isnan(values), INT64_MAX, codes)


def _elements(column: pa.Array) -> Iterator[Codes]:
    """Lists, place by place."""
    inner = column.values
    if pt.is_map(column.type):
        inner = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    offsets = column.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
    for place in range(int(lengths.max(initial=0))):
        there = lengths > place
        yield there.astype(np.int8)
        taken = pa.array(np.where(there, offsets[:-1] + place, 0), mask=~there)
        yield from ordered(inner.take(taken))
