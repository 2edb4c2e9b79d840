"""The last step: rows meet in the sets that an instance owns.

In a set, rows at home meet rows at home and copies; copies meet rows at home only. Of two rows at
home, the new one looks for the old one; of two new ones as in any join. A new row at home looks
into copies of earlier batches, a new copy, even of an old row, into all rows at home. So two rows
meet once, with the batch in which the later of them came to be in the set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skewless.arrays.counting import count_within
from skewless.arrays.types import FAR_US, Ints, Side, frozen
from skewless.engine.instance import Instance
from skewless.operators.similarity.copying.owning import Owners
from skewless.operators.similarity.copying.roles import HOME, Members, input_of, named
from skewless.operators.similarity.joining import Meetings, Probes, Run, lies_before, looked_into
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SegmentInfo


@dataclass(frozen=True)
class OwnedWork:
    """All that the instances need to know to work on one batch: the segments in which rows are
    `members` of sets, and the sets that have `moved`."""

    spec: SimilaritySpec
    members: Members
    new: tuple[SegmentInfo, ...]
    old: SegmentSet
    moved: Mapping[int, int]

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        join = OwnedJoin(self, instance)
        yield from join.results()
        tally = join.meetings.tally
        if instance.number == 0:
            join.note_late()
        instance.load = tally.load(instance.number)
        instance.detail = tally.figures() | {"sets": join.sets()}


class SetMeetings(Meetings):
    """Rows meet in sets of which they are members; what is moved are sets."""

    counts_by_set: ClassVar[bool] = True

    def inner(self, probes: Probes, run: Run, first: Ints, last: Ints) -> int:
        """Pairs of one inner set: both are within t/2 of the center."""
        mine, theirs = probes.run.from_center, run.from_center
        if mine is None or theirs is None:
            return 0
        half = self.spec.threshold / 2
        is_inner = mine[probes.rows] <= half
        first, last = first[is_inner], last[is_inner]
        limits = np.full(len(first), half)
        counted: int = count_within(frozen(first), frozen(last), frozen(theirs), frozen(limits))
        return counted


class OwnedJoin:
    """One instance at work on its sets in one batch."""

    def __init__(self, work: OwnedWork, instance: Instance) -> None:
        self._work, self._spec, self._instance = work, work.spec, instance
        self.meetings = SetMeetings(work.spec)
        self._owners = Owners.of(work.moved, instance.instances)
        self._runs: dict[str, Run] = {}
        self._numbers = {s.name: n for n, s in enumerate((*work.old, *work.new))}

    def results(self) -> Iterator[pa.RecordBatch]:
        """Pairs that are alike, and one of which is new to its set."""
        for segment in (*self._work.old, *self._work.new):
            self._instance.rows(segment)
        self._instance.clock.reset()
        for side in self._spec.sides:
            yield from self._from_home(side)
            yield from self._from_copies(side)

    def _from_home(self, side: Side) -> Iterator[pa.RecordBatch]:
        """New rows at home look for partners."""
        work, members, other = self._work, self._work.members, self._spec.other(side)
        for run in self._each(work.new, side, members.home):
            self.meetings.tally.rows += len(run.times)
            probes = self._probes(side, run)
            old = list(self._each(work.old, other, members.home))
            new = list(self._each(work.new, other, members.home))
            for partners in looked_into(self._spec, side, old, new):
                if lies_before(self._spec, partners, run):
                    yield from self.meetings.look_into(probes, partners)
            for partners in self._each(work.old, other, members.copy):
                yield from self.meetings.look_into(probes, partners)

    def _from_copies(self, side: Side) -> Iterator[pa.RecordBatch]:
        """New copies look for partners."""
        work, members, other = self._work, self._work.members, self._spec.other(side)
        for run in self._each(work.new, side, members.copy):
            probes = self._probes(side, run)
            for partners in self._each((*work.old, *work.new), other, members.home):
                yield from self.meetings.look_into(probes, partners)

    def _probes(self, side: Side, run: Run) -> Probes:
        self.meetings.tally.probes += len(run.times)
        return Probes(side, run, run.hashes, run.times, np.arange(len(run.times)))

    def _each(self, segments: Sequence[SegmentInfo], side: str, role: str) -> Iterator[Run]:
        """This instance's rows of segments with an input's rows in one role."""
        for segment in segments:
            if segment.side == named(side, role):
                run = self._run(segment)
                if len(run.times):
                    yield run

    def _run(self, segment: SegmentInfo) -> Run:
        if segment.name not in self._runs:
            self._runs[segment.name] = self._ready(segment)
        return self._runs[segment.name]

    def _ready(self, segment: SegmentInfo) -> Run:
        instance = self._instance
        rows = instance.rows(segment)
        mine = self._owners.rows_of(instance.number, rows.hashes)
        mine = mine[rows.times[mine] >= segment.floor_us]
        taken = pa.array(mine)
        vector = self._spec.side(input_of(segment)).vector
        points = self._spec.metric.points([rows.columns[i].take(taken) for i in vector])
        is_home = segment.side == named(input_of(segment), HOME)
        from_center = rows.columns[-1].take(taken).to_numpy() if is_home else None
        number = self._numbers[segment.name]
        return Run(
            rows, rows.hashes[mine], rows.times[mine], points, from_center, -FAR_US, number, mine
        )

    def note_late(self) -> None:
        """New rows that came too late, and were not left out by an earlier step."""
        some = [s for s in self._work.new if s.time_min_us < s.floor_us]
        for segment in some:
            if segment.side == named(input_of(segment), self._work.members.home):
                self._instance.note_late(self._instance.rows(segment).times, segment.floor_us)

    def sets(self) -> list[tuple[int, int, int]]:
        """The sets in which rows met: (id, pairs, rows that are stored there)."""
        ids, pairs = self.meetings.tally.by_set()
        stored = np.zeros(len(ids), np.int64)
        for segment in (*self._work.old, *self._work.new):
            hashes = self._instance.rows(segment).hashes
            stored += np.searchsorted(hashes, ids, "right") - np.searchsorted(hashes, ids, "left")
        return list(zip(ids.tolist(), pairs.tolist(), stored.tolist(), strict=True))
