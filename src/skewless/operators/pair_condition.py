"""A further condition on the pairs of a join, over columns of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.arrays.types import Side
from skewless.expressions import Condition
from skewless.expressions.logic import all_of

ColumnOf = Callable[[Side, int], pa.Array]


@dataclass(frozen=True)
class PairCondition:
    """What else must hold for two rows to match. `columns` says of each column that the condition
    may use, by its number, on which side it is and where."""

    condition: Condition
    columns: tuple[tuple[Side, int], ...]

    def used(self, side: Side) -> Iterator[int]:
        """The columns of a side that are looked at."""
        for number in sorted(self._numbers):
            of, index = self.columns[number]
            if of == side:
                yield index

    def matching(self, column_of: ColumnOf, pairs: int) -> npt.NDArray[np.bool_]:
        """Which of some pairs fulfil it; `column_of` gives a column of one side for all of them."""
        taken = {n: column_of(*self.columns[n]) for n in self._numbers}
        return self.condition.matching(taken, pairs)

    @cached_property
    def _numbers(self) -> frozenset[int]:
        """Of the columns that are used: asked for every few thousand pairs."""
        return self.condition.columns()

    def after(self, first: PairCondition | None) -> PairCondition:
        """Both conditions. The first is asked first: this one may fail where it does not hold."""
        if first is None:
            return self
        count = len(first.columns)
        moved = {number: number + count for number in self._numbers}
        both = all_of([first.condition, self.condition.over(moved)])
        return PairCondition(both, first.columns + self.columns)

    def over(self, moved: Callable[[Side, int], int]) -> PairCondition:
        """The same where columns lie elsewhere. What is not used may lie nowhere."""
        columns = [
            (side, moved(side, index) if number in self._numbers else -1)
            for number, (side, index) in enumerate(self.columns)
        ]
        return replace(self, columns=tuple(columns))
