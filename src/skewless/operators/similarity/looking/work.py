"""The work of one instance in one batch: its share of the new rows looks into worksets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.counting import count_within
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import Ints, Side, frozen
from skewless.engine.instance import Instance
from skewless.operators.similarity.joining import Meetings, Probes, Run, lies_before, looked_into
from skewless.operators.similarity.looking.partners import partner_times
from skewless.operators.similarity.points import Points, take
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies.looking import LookingStrategy
from skewless.operators.similarity.worksets import BOUNDLESS, NEVER_US, Worksets, read_worksets
from skewless.state.blobs import BlobInfo
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SegmentInfo

LATE = 0.05  # of new rows: so many are taken to be late


@dataclass(frozen=True)
class LookingWork:
    """All that the instances need to know to work on one batch."""

    spec: SimilaritySpec
    strategy: LookingStrategy
    keep_after_us: Mapping[str, int]
    new: tuple[SegmentInfo, ...]
    old: SegmentSet
    worksets: BlobInfo | None

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        join = InstanceJoin(self, instance)
        yield from join.results()
        tally = join.meetings.tally
        if instance.number == 0:
            join.note_late()
        instance.load, instance.detail = tally.load(instance.number), tally.figures()


class HomeMeetings(Meetings):
    """Rows meet in the home of one of them."""

    def __init__(self, spec: SimilaritySpec, *, counts_inner: bool) -> None:
        super().__init__(spec)
        self._counts_inner = counts_inner

    def inner(self, probes: Probes, run: Run, first: Ints, last: Ints) -> int:
        """Pairs of one workset whose distances from the center are t at most together."""
        if not self._counts_inner or BOUNDLESS in (probes.ids[-1], run.hashes[-1]):
            return 0  # ids ascend, so that all are in the workset without bounds
        rows, mine, theirs = probes.rows, probes.run.from_center, run.from_center
        assert mine is not None and theirs is not None
        limits = self.spec.threshold - mine[rows]
        home = (probes.run.hashes[rows] == probes.ids) & (limits >= 0)
        limits = limits[home]
        counted: int = count_within(
            frozen(first[home]), frozen(last[home]), frozen(theirs), frozen(limits)
        )
        return counted


class InstanceJoin:
    """One instance at work on one batch. Iterate over `results`, then ask for what was counted."""

    def __init__(self, work: LookingWork, instance: Instance) -> None:
        self._work, self._spec, self._instance = work, work.spec, instance
        self.meetings = HomeMeetings(work.spec, counts_inner=work.strategy.counts_inner)
        self._runs: dict[int, Run] = {}

    def note_late(self) -> None:
        for segment in self._work.new:
            if segment.time_min_us < segment.floor_us:
                self._instance.note_late(self._instance.rows(segment).times, segment.floor_us)

    def results(self) -> Iterator[pa.RecordBatch]:
        """Pairs that are alike: old rows with new ones, and new ones with one another. Files are
        mapped first: only the first instance in a process has to do so, and it is not to be counted
        as its work."""
        for segment in (*self._work.old, *self._work.new):
            self._instance.rows(segment)
        self._instance.clock.reset()
        worksets = self._with_rows()
        if worksets is None or not len(worksets):
            return
        for side in self._spec.sides:
            other = self._spec.other(side)
            old = [self._ready(s, n) for n, s in enumerate(self._work.old) if s.side == other]
            for run in self._new(side):
                probes = self._probes(side, run, worksets)
                for partners in looked_into(self._spec, side, old, self._new(other)):
                    if lies_before(self._spec, partners, run):
                        yield from self.meetings.look_into(probes, partners)

    def _with_rows(self) -> Worksets | None:
        """Worksets with rows that can have partners."""
        work = self._work
        if work.worksets is None:
            return None
        every = read_worksets(self._instance.folder, work.worksets)
        return every.take(np.flatnonzero(every.last_us >= min(work.keep_after_us.values())))

    def _new(self, side: Side) -> list[Run]:
        """New rows of a side; they are both looked for and looked into, and made ready once."""
        begin = len(self._work.old)
        for number, segment in enumerate(self._work.new, begin):
            if segment.side == side and number not in self._runs:
                self._runs[number] = self._ready(segment, number)
        return [self._runs[begin + n] for n, s in enumerate(self._work.new) if s.side == side]

    def _ready(self, segment: SegmentInfo, number: int) -> Run:
        rows, vector = self._instance.rows(segment), self._spec.side(segment.side).vector
        points = self._spec.metric.points([rows.columns[i] for i in vector])
        from_center = rows.columns[-1].to_numpy()
        return Run(rows, rows.hashes, rows.times, points, from_center, segment.floor_us, number)

    def _probes(self, side: Side, run: Run, worksets: Worksets) -> Probes:
        """The new rows that this instance has to look for partners of, dealt like cards, and where
        they look."""
        mine = np.arange(self._instance.number, len(run.times), self._instance.instances)
        mine = mine[run.times[mine] >= run.floor_us]
        rows, numbers = self._looks(side, take(run.points, mine), run.times[mine], worksets)
        self.meetings.tally.rows += len(mine)
        self.meetings.tally.probes += len(rows)
        ids, times = worksets.ids[numbers], run.times[mine[rows]]
        order = sort_order(frozen(ids), frozen(times))
        return Probes(side, run, ids[order], times[order], mine[rows[order]])

    def _looks(
        self, side: Side, points: Points, times: Ints, worksets: Worksets
    ) -> tuple[Ints, Ints]:
        """Which worksets rows look into: (row, number of the workset). Much of what is stored may
        be there for late rows only, which are few: the others need not ask worksets whose last
        row is before all that they may meet."""
        begin, _ = partner_times(self._spec, side, times)
        usual = np.quantile(begin, LATE) if len(begin) else NEVER_US
        past = worksets.last_us < usual
        late = begin <= worksets.last_us[past].max(initial=NEVER_US)
        every, found = np.arange(len(times)), []
        for some, sets in ((every, np.flatnonzero(~past)), (every[late], np.flatnonzero(past))):
            asked = worksets.take(sets)
            rows, numbers = self._work.strategy.probe(self._spec, take(points, some), asked)
            self.meetings.tally.centers += len(some) * asked.bounded
            found.append((some[rows], sets[numbers]))
        return np.concatenate([r for r, _ in found]), np.concatenate([n for _, n in found])
