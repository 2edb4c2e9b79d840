"""Rows of a band join on their way to where they look for partners, where fetching costs.

A row is stored under its own cell, and looks for partners there and in the two cells beside it,
whose hashes lie anywhere. On a local disk a file lists these hashes, and everyone maps all rows.
On a remote store a copy of the row goes to each of the two instead, for one batch. So whoever works
on a range of hashes finds all rows that probe there under hashes of that range.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skewless.arrays import keys
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import SIDES, Ints, Side, SideSpec, frozen, other_side
from skewless.operators.pair import JoinSpec
from skewless.placement.units import RoutingTable
from skewless.state.parts import Range
from skewless.state.segments import Rows


def probing(side: str) -> str:
    """The name under which copies of a side's rows go to other cells than their own."""
    return f"{side}-probing"


def probing_sides(spec: JoinSpec) -> Mapping[str, Side]:
    """The names of all such copies, and whose they are."""
    return {probing(side): side for side in SIDES} if spec.left.bands else {}


def copies_elsewhere(stored: Rows, side: SideSpec, cells: Ints) -> Rows | None:
    """Copies of rows under the cells beside their own, sorted as rows are; None: there are none."""
    beside = [c for c in keys.probed_cells(cells, side.bands[0]) if c is not cells]
    if not beside:
        return None
    key_columns = [stored.columns[k.index] for k in side.keys]
    hashes = np.concatenate([keys.hash_keys(key_columns, side, c) for c in beside])
    rows = np.tile(np.arange(len(stored), dtype=np.int64), len(beside))
    order = sort_order(frozen(hashes), frozen(stored.times[rows]))
    rows = rows[order]
    return Rows(hashes[order], stored.times[rows], stored.columns.take(rows))


def ranges_read(spec: JoinSpec, table: RoutingTable, instance: int) -> dict[str, list[Range]]:
    """The ranges of hashes that an instance looks at, by the names of rows: those of its units. Of
    a band, rows that may be partners of rows that are looked up lie under any hash."""
    mine = [(unit.hash_min, unit.hash_max) for unit in table.units[instance]]
    found = dict.fromkeys([*SIDES, *probing_sides(spec)], mine)
    for side in spec.looked_up if spec.left.bands else ():
        found.pop(other_side(side), None)
    return found
