"""Row groups that no row can be wanted of: told by the least and greatest values that a file notes.

Only what is certain is left out: comparisons of a whole number, a date or a time with a constant,
joined by `and` and `or`. Of floating point numbers nothing is certain: a NaN is noted nowhere, and
is greater than all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skewless.expressions import Expression, comparing
from skewless.expressions.apply import Apply
from skewless.expressions.logic import And, Or
from skewless.expressions.tree import Column, Constant

Range = tuple[int, int]  # the least and the greatest value, as stored
# Whether some value of a range can compare so with a number.
_CAN: dict[Any, Callable[[Range, int], bool]] = {
    comparing.equal: lambda known, value: known[0] <= value <= known[1],
    comparing.less: lambda known, value: known[0] < value,
    comparing.less_equal: lambda known, value: known[0] <= value,
    comparing.greater: lambda known, value: known[1] > value,
    comparing.greater_equal: lambda known, value: known[1] >= value,
}
_TURNED = {
    comparing.equal: comparing.equal,
    comparing.less: comparing.greater,
    comparing.less_equal: comparing.greater_equal,
    comparing.greater: comparing.less,
    comparing.greater_equal: comparing.less_equal,
}


@dataclass(frozen=True)
class Wanted:
    """Which parts of a file may have rows that are wanted. `numbers` are those that the columns
    which lie in the file have in the condition; `known` is what is known of the others."""

    condition: Expression | None = None
    numbers: tuple[int, ...] = ()
    known: Mapping[int, Range] = field(default_factory=dict)

    @staticmethod
    def of(
        condition: Expression | None, columns: Sequence[int], fixed: Mapping[int, pa.Scalar]
    ) -> Wanted:
        """Of a file in folders that tell the values of some columns."""
        if condition is None:
            return Wanted()
        values = {n: whole(fixed[column]) for n, column in enumerate(columns) if column in fixed}
        known = {n: (value, value) for n, value in values.items() if value is not None}
        inside = tuple(n for n, column in enumerate(columns) if column not in fixed)
        return Wanted(condition, inside, known)

    def __call__(self, ranges: Mapping[int, Range] | None = None) -> bool:
        """Whether there may be a row, where columns of the file lie in some ranges."""
        if self.condition is None:
            return True
        told = {self.numbers[column]: known for column, known in (ranges or {}).items()}
        return can_hold(self.condition, {**self.known, **told})


def can_hold(condition: Expression, ranges: Mapping[int, Range]) -> bool:
    """Whether a condition can hold for a row whose columns, by number, lie in some ranges. One that
    may fail has to be asked of every row."""
    return condition.can_fail or _can(condition, ranges)


def _can(condition: Expression, ranges: Mapping[int, Range]) -> bool:
    if isinstance(condition, And):
        return _can(condition.left, ranges) and _can(condition.right, ranges)
    if isinstance(condition, Or):
        return _can(condition.left, ranges) or _can(condition.right, ranges)
    compared = _comparison(condition)
    if compared is None:
        return True
    kernel, column, value = compared
    known = ranges.get(column.number)
    return known is None or _CAN[kernel](known, value)


def _comparison(condition: Expression) -> tuple[Any, Column, int] | None:
    """A column and what it is compared with, if that is all."""
    if not isinstance(condition, Apply) or condition.kernel not in _CAN:
        return None
    kernel, (left, right) = condition.kernel, condition.arguments
    if isinstance(left, Constant):
        kernel, left, right = _TURNED[kernel], right, left
    if not isinstance(left, Column) or not isinstance(right, Constant):
        return None
    value = whole(right.value)
    return None if value is None or left.type != right.type else (kernel, left, value)


def is_whole(type: pa.DataType) -> bool:
    """Whether values of a type are whole numbers, as they are stored."""
    kinds = (pa.types.is_signed_integer, pa.types.is_date32, pa.types.is_timestamp)
    return any(kind(type) for kind in kinds)


def whole(value: pa.Scalar) -> int | None:
    """A value as it is stored; None if it is null, or no whole number."""
    if not value.is_valid or not is_whole(value.type):
        return None
    return int(value.as_py() if pa.types.is_integer(value.type) else value.value)
