"""The least of counters that only grow, without looking at all of them each time.

A *mark* is (level, place): no counter is below the level, and none before the place is at it. As
counters never fall, the place only moves forward until the level is used up. Then one look at all
finds the next level, before which every counter has grown: so the cost is constant on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Members = npt.NDArray[np.int32]

_kernel = numba.njit(cache=True, nogil=True)


@_kernel
def least_loaded(loads: Ints, mark: Ints) -> np.int64:
    """The first of the least loaded instances. A mark starts as (0, 0)."""
    level, place, n = mark[0], int(mark[1]), len(loads)
    while place < n and loads[place] > level:
        place += 1
    if place == n:
        place = 0
        for i in range(1, n):
            if loads[i] < loads[place]:
                place = i
        mark[0] = loads[place]
    mark[1] = place
    return np.int64(place)


@_kernel
def least_member(loads: Ints, members: Members, size: int, mark: Ints) -> np.int64:
    """The same for the first `size` members of a list; ties go to the one longest in it."""
    level, place = mark[0], int(mark[1])
    while place < size and loads[members[place]] > level:
        place += 1
    if place == size:
        place = 0
        for i in range(1, size):
            if loads[members[i]] < loads[members[place]]:
                place = i
        mark[0] = loads[members[place]]
    mark[1] = place
    return np.int64(members[place])


@_kernel
def add_member(
    loads: Ints, members: Members, size: int, mark: Ints, instance: int | np.int64
) -> None:
    """Write a further member at place `size`, and keep the mark true."""
    members[size] = instance
    if size == 0 or loads[instance] < mark[0]:
        mark[0], mark[1] = loads[instance], size


class Candidates(NamedTuple):
    """The instances that each key may go to: row k lists `sizes[k]` members, with their mark.
    Kernels take it apart before they loop, as every look into a structure costs."""

    sizes: Ints
    marks: Ints
    members: Members

    @staticmethod
    def fresh(rows: int, instances: int) -> dict[str, npt.NDArray[Any]]:
        """Empty lists, as arrays of a grouping's state."""
        return {
            "sizes": np.zeros(rows, np.int64),
            "marks": np.zeros((rows, 2), np.int64),
            "members": np.zeros((rows, instances), np.int32),
        }

    @staticmethod
    def of(state: Mapping[str, npt.NDArray[Any]]) -> Candidates:
        return Candidates(state["sizes"], state["marks"], state["members"])
