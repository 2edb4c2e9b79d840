"""Whether rows have a partner at all, found without making pairs of them.

That a row has no partner is a function of the stored rows alone. So it does not matter who asks,
how keys are split or moved, or what was compacted; and a task that runs twice finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skewless.arrays import keys
from skewless.arrays.merging import mark_matched
from skewless.arrays.pairs import candidates
from skewless.arrays.runs import Run
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import Flags, Ints, Side, SideSpec, frozen, other_side
from skewless.operators.pair import JoinSpec
from skewless.operators.two_way.comparing import Comparison
from skewless.operators.two_way.ranges import partner_ranges

PAIRS_PER_CHUNK = 1 << 16
CANDIDATES_FIRST = 4  # of a row; then twice as many: the first often is a partner already


@dataclass(frozen=True)
class Lookup:
    """Asks for rows of one side whether the other side has a partner for them."""

    spec: JoinSpec
    side: Side
    compare: Comparison

    @property
    def other(self) -> Side:
        return other_side(self.side)

    def has_partner(self, rows: Run, others: Sequence[Run]) -> Flags:
        """Which rows have a partner in some runs of the other side."""
        found = np.zeros(len(rows), np.bool_)
        for run in others:
            if self.compare.exact and len(self.spec.epochs) == 1:
                self._mark(rows, run, found)
                continue
            asking = np.flatnonzero(~found)
            if len(asking) and len(run):
                found[asking] = self._in_run(rows.take(asking), run)
        return found

    def _mark(self, rows: Run, run: Run, found: Flags) -> None:
        """Where every candidate is a partner, the first one will do, and none is written down."""
        mark_matched(
            frozen(rows.hashes),
            frozen(rows.times),
            rows.floor_us,
            frozen(run.hashes),
            frozen(run.times),
            run.floor_us,
            *self.spec.partner_bounds(self.side),
            found,
        )

    def _in_run(self, rows: Run, run: Run) -> Flags:
        found = np.zeros(len(rows), np.bool_)
        probes, owner = _probes(rows, self.spec.side(self.side))
        for first, last in self._ranges(self.side, probes, run):
            if self.compare.exact:
                found[owner[first < last]] = True
            else:
                self._look(probes, owner, run, first, last, found)
        return found

    def _look(
        self, probes: Run, owner: Ints, run: Run, first: Ints, last: Ints, found: Flags
    ) -> None:
        """Compare candidates by value, row by row until one is a partner."""
        most = CANDIDATES_FIRST
        while len(left := np.flatnonzero((first < last) & ~found[owner])):
            end = np.minimum(first[left] + most, last[left])
            ranges = first[left], end
            for pairs in candidates(probes, run, ranges, PAIRS_PER_CHUNK, left):
                found[owner[self.compare.kept(self.side, pairs).probes]] = True
            first[left] = end
            most = 2 * most

    def met_by(self, probers: Sequence[Run], rows: Run) -> Ints:
        """Which rows of this side some probing rows of the other side match, as positions."""
        met = np.zeros(len(rows) + 1, np.int64)
        asked_for = ((p, ranges) for p in probers for ranges in self._ranges(self.other, p, rows))
        for prober, (first, last) in asked_for:
            if self.compare.exact:
                some = first < last
                np.add.at(met, first[some], 1)
                np.add.at(met, last[some], -1)
                continue
            for pairs in candidates(prober, rows, (first, last), PAIRS_PER_CHUNK):
                found = np.unique(self.compare.kept(self.other, pairs).partners)
                met[found] += 1
                met[found + 1] -= 1
        return np.flatnonzero(np.cumsum(met)[:-1])

    def _ranges(self, prober: Side, probes: Run, run: Run) -> Iterator[tuple[Ints, Ints]]:
        return partner_ranges(self.spec, prober, probes, run)


def _probes(rows: Run, side: SideSpec) -> tuple[Run, Ints]:
    """The rows as they look for partners, and which row each is of: in a band join, one looks into
    several cells."""
    if not side.bands:
        return rows, np.arange(len(rows))
    of_rows = rows.indices(np.arange(len(rows)))
    band = side.bands[0]
    cells = keys.probed_cells(keys.cells_of(rows.columns[band.index].take(of_rows), band), band)
    key_columns = [rows.columns[k.index].take(of_rows) for k in side.keys]
    hashes = np.concatenate([keys.hash_keys(key_columns, side, c) for c in cells])
    owner = np.tile(np.arange(len(rows)), len(cells))
    order = sort_order(frozen(hashes), frozen(rows.times[owner]))
    owner = owner[order]
    lying = owner if rows.rows is None else rows.rows[owner]
    return Run(hashes[order], rows.times[owner], rows.columns, rows.floor_us, lying), owner
