"""Which columns rows are put together by."""

from __future__ import annotations

from pyspark.sql import Column

from skewless.arrays.values import is_flat
from skewless.errors import ArgumentError, ColumnError
from skewless.spark.arguments import columns


def parse_by(this: columns.Input, by: object) -> list[int]:
    """The numbers of key columns."""
    names = [by] if isinstance(by, str | Column) else by
    if not isinstance(names, list | tuple):
        raise ArgumentError("by", by, 'a column "k", several ["k1", "k2"], or [] for all rows')
    indices = [this.index(name, "by") for name in names]
    for index in indices:
        if indices.count(index) > 1:
            raise ArgumentError("by", by, f"each column once; twice in it: {this.names[index]}")
        if not is_flat(this.type_of(index)):
            accepted = (
                "columns of boolean, integer, decimal, float, double, string, binary, date, time "
                "or timestamp; use the fields of a struct"
            )
            raise ColumnError("by", this.described(index), accepted)
        columns.refuse_collation(this, index, "by")
    return indices
