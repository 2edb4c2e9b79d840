"""Arrow arrays as NumPy sees them, and back: values under nulls are whatever they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .tree import Datum

Vector = npt.NDArray[Any]


def dtype_of(type: pa.DataType) -> np.dtype[Any]:
    """How NumPy holds the values of a type of fixed width."""
    if pa.types.is_date32(type):
        return np.dtype(np.int32)
    if pa.types.is_timestamp(type) or pa.types.is_duration(type):
        return np.dtype(np.int64)
    dtype: np.dtype[Any] = np.dtype(type.to_pandas_dtype())
    return dtype


def values_of(datum: Datum) -> Any:
    """The values of an array, or the one of a scalar."""
    if isinstance(datum, pa.Scalar):
        return values_of(pa.repeat(datum, 1))[0]
    if pa.types.is_boolean(datum.type):
        filled = datum.fill_null(False) if datum.null_count else datum
        return filled.to_numpy(zero_copy_only=False)
    dtype = dtype_of(datum.type)
    start = datum.offset * dtype.itemsize
    return (
        np.frombuffer(datum.buffers()[1], dtype, len(datum), start)
        if len(datum)
        else np.empty(0, dtype)
    )


def validity_of(data: Sequence[Datum]) -> pa.BooleanArray | None:
    """Where no array is null; none if that is everywhere."""
    flags = [pc.is_valid(d) for d in data if isinstance(d, pa.Array) and d.null_count]
    return reduce(pc.and_, flags) if flags else None


def array_of(
    values: Vector, type: pa.DataType, data: Sequence[Datum], keep: Vector | None = None
) -> pa.Array:
    """An array that is null where one of `data` is, and where `keep` is not set."""
    valid = validity_of(data)
    if keep is not None and not keep.all():
        kept = pa.array(keep)
        valid = kept if valid is None else pc.and_(valid, kept)
    if pa.types.is_boolean(type):
        made = pa.array(values)
        return made if valid is None else pc.if_else(valid, made, pa.scalar(None, type))
    values = np.ascontiguousarray(values, dtype_of(type))
    bitmap = None if valid is None else _bitmap(valid)
    return pa.Array.from_buffers(type, len(values), [bitmap, pa.py_buffer(values)])


def _bitmap(flags: pa.BooleanArray) -> pa.Buffer:
    """Flags as a validity bitmap, which has no offset here."""
    if flags.offset:
        flags = pc.and_(flags, flags)
    return flags.buffers()[1]


def any_valid(flags: Vector, data: Sequence[Datum]) -> bool:
    """Whether a flag is set in a row that is not null."""
    if not flags.any():
        return False
    valid = validity_of(data)
    return valid is None or bool((flags & valid.to_numpy(zero_copy_only=False)).any())
