"""What every aggregate does: keep a small state per group that can be merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Groups = npt.NDArray[np.int64]
State = list[pa.Array]
Types = Mapping[str, pa.DataType]


class Accumulator(ABC):
    """A mergeable aggregate over Arrow arrays. Derive from it to write your own.

    `state` names the columns that are kept per group, with their Arrow types; `result` is the type
    of the outcome. A state is a list of arrays, one per column of `state`, one element per group.
    Rows and partial states come with the number of the group they belong to, in ascending order, so
    that a method works on all groups at once:

    >>> class SumOfSquares(Accumulator):
    ...     state = {"total": pa.float64()}
    ...     result = pa.float64()
    ...
    ...     def init(self, groups):
    ...         return [pa.array(np.zeros(groups))]
    ...
    ...     def update(self, state, groups, values):
    ...         squares = np.nan_to_num(values.to_numpy(zero_copy_only=False)) ** 2
    ...         return [pa.array(state[0].to_numpy() + np.bincount(groups, squares, len(state[0])))]
    ...
    ...     def merge(self, state, groups, other):
    ...         sums = np.bincount(groups, other[0].to_numpy(), len(state[0]))
    ...         return [pa.array(state[0].to_numpy() + sums)]
    ...
    ...     def finish(self, state):
    ...         return state[0]
    >>> squares = SumOfSquares()
    >>> kept = squares.update(squares.init(2), np.array([0, 0, 1]), pa.array([1.0, 2.0, 3.0]))
    >>> squares.finish(kept).to_pylist()
    [5.0, 9.0]

    The order of rows and the way they are cut into partial states are not fixed: merging must give
    the same in any order. Instances are sent to Spark's workers, so they must be picklable, and
    their `repr` is part of what a checkpoint is tied to.
    """

    state: ClassVar[Types] = {}
    result: ClassVar[pa.DataType] = pa.null()

    def bind(self, types: Sequence[pa.DataType]) -> Accumulator:
        """This accumulator for columns of these types. Raise ValueError, saying what would do,
        where it cannot work on them."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def init(self, groups: int) -> State:
        """The state of so many groups that have seen nothing."""

    @abstractmethod
    def update(self, state: State, groups: Groups, *columns: pa.Array) -> State:
        """The state after rows; `groups` says whose. Values may be null."""

    @abstractmethod
    def merge(self, state: State, groups: Groups, other: State) -> State:
        """The state after taking in partial states; `groups` says whose."""

    @abstractmethod
    def finish(self, state: State) -> pa.Array:
        """The outcome per group."""
