"""Rows that come out alone: without a partner in outer and anti joins, with one in semi joins.

*Unmatched* rows come in the batch whose watermark says that no partner can come any more: every
one is asked once, when all that it might have met is there. *First met* rows come in the batch in
which they have a partner for the first time: a row of this batch with any partner, or an older one
that a row of this batch matches, and none of an earlier one does.

Rows are shared out like the rows that probe: by ranges, and in a split range dealt like cards. The
rows that they may meet lie in files that everyone can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.runs import EMPTY, Run, bounds
from skewless.arrays.types import FAR_US, Flags, Ints, Side
from skewless.arrays.values import converted
from skewless.engine.operator import RunRef
from skewless.operators.pair import JoinSpec, keyless
from skewless.operators.two_way.comparing import Comparison
from skewless.operators.two_way.lookup import Lookup
from skewless.placement.units import WorkUnit
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import Rows, SegmentInfo


@dataclass(frozen=True)
class StoredRows:
    """The rows of a batch as an instance reads them, new ones and old ones."""

    new: Sequence[RunRef]
    old: SegmentSet
    read: Callable[[SegmentInfo], Rows]
    probes: Callable[[Side], list[Run]]
    keep_after_us: Callable[[str], int]

    def new_of(self, side: str) -> list[SegmentInfo]:
        return [ref.segment for ref in self.new if ref.segment.side == side]

    def old_of(self, side: str) -> list[SegmentInfo]:
        return self.old.of_side(side)

    def run(self, segment: SegmentInfo, floor_us: int) -> Run:
        rows = self.read(segment)
        return Run(rows.hashes, rows.times, rows.columns, max(floor_us, segment.floor_us))

    def partners(self, segments: Sequence[SegmentInfo]) -> list[Run]:
        return [self.run(s, self.keep_after_us(s.side)) for s in segments]


@dataclass(frozen=True)
class RowsAlone:
    """The share of one instance: `units` are what it works on, `decided_us` from which time to
    which rows of a side are decided about in this batch. `asked` is told of rows that are looked
    up, and which of them come out."""

    spec: JoinSpec
    stored: StoredRows
    units: Sequence[WorkUnit]
    share: tuple[int, int]
    decided_us: Mapping[str, tuple[int, int]]
    asked: Callable[[Side, Run, Flags], None]

    def unmatched(self, side: Side) -> Iterator[Run]:
        """Rows of a side that have no partner, and will have none."""
        lookup = Lookup(self.spec, side, Comparison(self.spec))
        others = self.others(lookup.other)
        for mine in self.due(side):
            yield self._told(side, mine, ~lookup.has_partner(mine, others))
        yield from self.due_keyless(side)

    def due(self, side: Side) -> Iterator[Run]:
        """Rows of a side that are decided about, of those that fall to this instance."""
        for run, until_us in self._due(side):
            mine = self._dealt(side, run, until_us)
            if len(mine):
                yield mine

    def due_keyless(self, side: Side) -> Iterator[Run]:
        """The same of rows without a key."""
        number, instances = self.share
        for run, until_us in self._due(keyless(side)):
            yield run.take(_between(run.times, run.floor_us, until_us)[number::instances])

    def others(self, other: Side) -> list[Run]:
        """All stored rows that rows of the other side may meet."""
        stored = self.stored
        return stored.partners([*stored.old_of(other), *stored.new_of(other)])

    def first_met(self, side: Side) -> Iterator[Run]:
        """Rows of a side that have a partner since this batch."""
        lookup, stored = Lookup(self.spec, side, Comparison(self.spec)), self.stored
        others, older = self.others(lookup.other), stored.partners(stored.old_of(lookup.other))
        probers = stored.probes(lookup.other)
        for segment in stored.new_of(side):
            mine = self._dealt(side, stored.run(segment, segment.floor_us))
            yield self._told(side, mine, lookup.has_partner(mine, others))
        for segment in stored.old_of(side):
            mine = self._dealt(side, stored.run(segment, stored.keep_after_us(side)))
            met = mine.take(lookup.met_by(probers, mine))
            if len(met):
                yield self._told(side, met, ~lookup.has_partner(met, older))

    def _told(self, side: Side, run: Run, told: Flags) -> Run:
        """The rows that come out, of those that were asked."""
        self.asked(side, run, told)
        return run.keep(told)

    def _due(self, side: str) -> Iterator[tuple[Run, int]]:
        """Where rows lie that are decided about, which are those from the run's floor on and before
        a time: older ones whose time has come, and new ones whose time was over when they came."""
        begin, end = self.decided_us[side.removesuffix(keyless(""))]
        for segment in self.stored.old_of(side):
            if segment.time_min_us < end and segment.time_max_us >= begin:
                yield self.stored.run(segment, begin), end
        for segment in self.stored.new_of(side):
            yield self.stored.run(segment, segment.floor_us), end

    def _dealt(self, side: Side, run: Run, until_us: int = FAR_US) -> Run:
        """What falls to this instance of the rows from the run's floor on and before a time."""
        mine = []
        for unit in sorted(self.units, key=lambda unit: unit.hash_min):
            cut = unit.cut(side)
            if cut is not None:
                begin, end = bounds(run.hashes, unit.hash_min, unit.hash_max)
                due = begin + _between(run.times[begin:end], run.floor_us, until_us)
                mine.append(due[cut.part :: cut.parts])
        return run.take(np.concatenate([EMPTY, *mine]))


def _between(times: Ints, since_us: int, until_us: int) -> Ints:
    """Positions of the rows from one time on and before another."""
    return np.flatnonzero((times >= since_us) & (times < until_us))


def emitted(spec: JoinSpec, side: Side, run: Run, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a side as rows of the result: what is the other side's is null."""
    indices, columns = run.indices(np.arange(len(run))), []
    for column, field in zip(spec.output, schema, strict=True):
        index = column.index if column.side == side else column.other
        if index is None:
            columns.append(pa.nulls(len(run), field.type))
        else:
            taken = run.columns[index].take(indices)
            columns.append(converted(taken, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
