"""A column in another type, whatever it holds and wherever it is null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt


def cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """As Arrow casts, which refuses a field that cannot be null below a struct that is null: it
    takes what is not there for a null of the field. Spark's variants are such structs."""
    if column.type == kind:
        return column
    if not (pt.is_struct(kind) or pt.is_list(kind) or pt.is_map(kind)):
        return column.cast(kind)
    if column.offset:  # Arrow puts no nulls into lists that begin elsewhere
        column = column.take(pa.array(np.arange(len(column))))
    mask = column.is_null() if column.null_count else None
    if pt.is_struct(kind):
        fields = [cast(column.field(i), field.type) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)
    if pt.is_map(kind):
        keys, items = cast(column.keys, kind.key_type), cast(column.items, kind.item_type)
        return pa.MapArray.from_arrays(column.offsets, keys, items, kind, mask=mask)
    values = cast(column.values, kind.value_type)
    return pa.ListArray.from_arrays(column.offsets, values, kind, mask=mask)
