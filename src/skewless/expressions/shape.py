"""Rows made of other rows, batch by batch: some are kept, and their columns are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from .tree import Column, Condition, Expression, evaluate


@dataclass(frozen=True)
class Shape:
    """What a projection or a filter of Spark's does. The condition is asked before any column is
    computed: a column may fail on a row that it rules out."""

    schema: pa.Schema
    columns: tuple[Expression, ...]
    condition: Condition | None = None

    @staticmethod
    def keeping(schema: pa.Schema, condition: Condition | None = None) -> Shape:
        """All columns as they are, of the rows that fulfil a condition."""
        return Shape(schema, tuple(Column(f.type, i) for i, f in enumerate(schema)), condition)

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.condition is not None:
            kept = self.condition.matching(self._used(rows), rows.num_rows)
            if not kept.all():
                rows = rows.take(pa.array(np.flatnonzero(kept)))
        used, count = self._used(rows), rows.num_rows
        made = [evaluate(column, used, count) for column in self.columns]
        return pa.RecordBatch.from_arrays(made, schema=self.schema)

    def _used(self, rows: pa.RecordBatch) -> dict[int, pa.Array]:
        return dict(enumerate(rows.columns))

    def only(self, wanted: Sequence[int]) -> Shape:
        """The same with some of the columns, by number, in their order."""
        schema = pa.schema([self.schema.field(i) for i in wanted])
        return replace(self, schema=schema, columns=tuple(self.columns[i] for i in wanted))

    def lean(self) -> tuple[Shape, tuple[int, ...]]:
        """The same over those columns alone that it needs, and which these are."""
        used: frozenset[int] = frozenset().union(*(column.columns() for column in self.columns))
        if self.condition is not None:
            used |= self.condition.columns()
        needed = tuple(sorted(used)) or (0,)  # without any, nobody knows how many rows there are
        numbers = {old: new for new, old in enumerate(needed)}
        columns = tuple(column.over(numbers) for column in self.columns)
        condition = None if self.condition is None else self.condition.over(numbers)
        return Shape(self.schema, columns, condition), needed


def lean(shapes: Sequence[Shape], wanted: Sequence[int]) -> tuple[list[Shape], tuple[int, ...]]:
    """Shapes one after the other that give some columns of the last, and do nothing for others; and
    which columns of the rows they then need."""
    found: list[Shape] = []
    for shape in reversed(shapes):
        small, wanted = shape.only(wanted).lean()
        found.insert(0, small)
    return found, tuple(wanted)


def shaped(rows: pa.RecordBatch, shapes: Sequence[Shape]) -> pa.RecordBatch:
    for shape in shapes:
        rows = shape(rows)
    return rows
