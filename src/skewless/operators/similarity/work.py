"""The work of one instance in one batch: new rows look into worksets for rows that are alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays.counting import count_within
from skewless.arrays.merging import match_ranges
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, Floats, Ints, Side, UInts, frozen
from skewless.engine.instance import Instance
from skewless.engine.report import InstanceLoad
from skewless.operators.similarity import screening
from skewless.operators.similarity.output import PairOutput
from skewless.operators.similarity.points import Points, take
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies import SimilarityStrategy
from skewless.operators.similarity.worksets import Worksets, read_worksets
from skewless.state.blobs import BlobInfo
from skewless.state.segments import Rows, SegmentInfo


@dataclass(frozen=True)
class SimilarityPlan:
    """All that the instances need to know to work on one batch. With `owners`, an instance works on
    its worksets only, for all new rows; without, on its share of the new rows, in all worksets."""

    keep_after_us: Mapping[str, int]
    new: tuple[SegmentInfo, ...]
    old: tuple[SegmentInfo, ...]
    worksets: BlobInfo | None
    owners: Mapping[int, int] | None = None


@dataclass(frozen=True)
class SimilarityWork:
    """The work of every instance in one batch."""

    spec: SimilaritySpec
    strategy: SimilarityStrategy
    plan: SimilarityPlan

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        join = InstanceJoin(self.spec, self.strategy, self.plan, instance)
        yield from join.results()
        instance.clock.stop()
        instance.load, instance.detail = join.load(), join.figures()


@dataclass
class Tally:
    """What an instance counts while it works: `probes` are new rows times worksets they look into,
    `compared` pairs whose distance had to decide, `inner` pairs that the triangle inequality has
    decided; and per workset the pairs it met there."""

    rows: int = 0
    probes: int = 0
    compared: int = 0
    inner: int = 0
    matches: int = 0
    by_workset: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """Rows of a segment with what is compared: their points, and how far each is from its center.
    `number` is the place of the segment among all."""

    rows: Rows
    points: Points
    from_center: Floats
    floor_us: int
    number: int


@dataclass(frozen=True)
class Probes:
    """New rows of a side with the worksets they look into, sorted by workset and time."""

    side: Side
    run: Run
    ids: UInts
    times: Ints
    rows: Ints


class InstanceJoin:
    """One instance at work on one batch. Iterate over `results`, then ask for the `load`."""

    def __init__(
        self,
        spec: SimilaritySpec,
        strategy: SimilarityStrategy,
        plan: SimilarityPlan,
        instance: Instance,
    ) -> None:
        self._spec, self._strategy, self._plan = spec, strategy, plan
        self._instance, self._tally = instance, Tally()
        self._output = PairOutput.of(spec)
        self._runs: dict[int, Run] = {}

    def load(self) -> InstanceLoad:
        tally = self._tally
        return InstanceLoad(
            instance=self._instance.number,
            rows=tally.rows,
            pairs=tally.compared + tally.inner,
            matches=tally.matches,
            late=self._late_rows() if self._instance.number == 0 else 0,
        )

    def figures(self) -> dict[str, Any]:
        tally = self._tally
        return {
            "probes": tally.probes,
            "compared": tally.compared,
            "inner": tally.inner,
            "worksets": list(tally.by_workset.items()),
        }

    def _late_rows(self) -> int:
        some = [s for s in self._plan.new if s.time_min_us < s.floor_us]
        return sum(int((self._instance.rows(s).times < s.floor_us).sum()) for s in some)

    def results(self) -> Iterator[pa.RecordBatch]:
        """Pairs that are alike: old rows with new ones, and new ones with one another. Files are
        mapped first: only the first instance in a process has to do so, and it is not to be counted
        as its work."""
        for segment in (*self._plan.old, *self._plan.new):
            self._instance.rows(segment)
        self._instance.clock.reset()
        worksets = self._my_worksets()
        if worksets is None or not len(worksets):
            return
        for side in self._spec.sides:
            other = self._spec.other(side)
            stored = [self._ready(s, n) for n, s in enumerate(self._plan.old) if s.side == other]
            if side == "right" or self._spec.is_self_join:
                # Two newcomers meet where the right one looks; in a self-join, the later one.
                stored += self._new(other)
            for run in self._new(side):
                probes = self._probes(side, run, worksets)
                for partners in stored:
                    # Of two new rows of one stream, the one that lies later looks for the other.
                    if not self._spec.is_self_join or partners.number <= run.number:
                        yield from self._look_into(probes, partners)

    def _my_worksets(self) -> Worksets | None:
        """Those with rows that can have partners, as far as this instance looks into them."""
        plan = self._plan
        if plan.worksets is None:
            return None
        every = read_worksets(self._instance.folder, plan.worksets)
        every = every.take(np.flatnonzero(every.last_us >= min(plan.keep_after_us.values())))
        if plan.owners is None:
            return every
        owner = [plan.owners.get(i, i % self._instance.instances) for i in every.ids.tolist()]
        return every.take(np.flatnonzero(np.array(owner) == self._instance.number))

    def _new(self, side: Side) -> list[Run]:
        """New rows of a side; they are both looked for and looked into, and made ready once."""
        begin = len(self._plan.old)
        for number, segment in enumerate(self._plan.new, begin):
            if segment.side == side and number not in self._runs:
                self._runs[number] = self._ready(segment, number)
        return [self._runs[begin + n] for n, s in enumerate(self._plan.new) if s.side == side]

    def _ready(self, segment: SegmentInfo, number: int) -> Run:
        rows, vector = self._instance.rows(segment), self._spec.side(segment.side).vector
        points = self._spec.metric.points([rows.columns[i] for i in vector])
        return Run(rows, points, rows.columns[-1].to_numpy(), segment.floor_us, number)

    def _mine(self, run: Run) -> Ints:
        """The new rows that this instance has to look for partners of: a share of them, dealt like
        cards, or all where others have other worksets."""
        instance = self._instance
        share = (instance.number, instance.instances) if self._plan.owners is None else (0, 1)
        mine = np.arange(share[0], len(run.rows), share[1])
        return mine[run.rows.times[mine] >= run.floor_us]

    def _probes(self, side: Side, run: Run, worksets: Worksets) -> Probes:
        mine = self._mine(run)
        rows, numbers = self._strategy.probe(self._spec, take(run.points, mine), worksets)
        self._tally.rows += len(mine)
        self._tally.probes += len(rows)
        ids, times = worksets.ids[numbers], run.rows.times[mine[rows]]
        order = sort_order(frozen(ids), frozen(times))
        return Probes(side, run, ids[order], times[order], mine[rows[order]])

    def _look_into(self, probes: Probes, run: Run) -> Iterator[pa.RecordBatch]:
        """New rows meet the rows of a segment that are in the same workset and near in time."""
        first, last = self._ranges(probes, run)
        pairs = int((last - first).sum())
        if not pairs:
            return
        self._count(probes, run, first, last, pairs)
        points, rows, spec = probes.run.points, probes.rows, self._spec
        if screening.pays(points, pairs):
            near = screening.near_after_screening(
                spec, (points, rows, probes.ids), run.points, first, last
            )
        else:
            near = spec.metric.near(points, rows, run.points, first, last, spec.threshold)
        for found, partners, distances in near:
            if len(found):
                self._tally.matches += len(found)
                new, old = (probes.run.rows, found), (run.rows, partners)
                yield self._output.rows(probes.side, new, old, distances)

    def _ranges(self, probes: Probes, run: Run) -> tuple[Ints, Ints]:
        """Where in a segment the possible partners of each probe lie."""
        times, size = probes.times, self._spec.window_us
        bounds = self._spec.partner_bounds(probes.side)
        if size is not None:
            times, bounds = times // size * size, (0, size - 1)  # all of the row's window
        first, last, _ = match_ranges(
            frozen(probes.ids), frozen(times), -FAR_US,
            frozen(run.rows.hashes), frozen(run.rows.times), run.floor_us, *bounds,
        )  # fmt: skip
        if run is probes.run:  # of a stream joined with itself: rows before the one that looks
            last = np.minimum(last, probes.rows)
            first = np.minimum(first, last)
        return first, last

    def _count(self, probes: Probes, run: Run, first: Ints, last: Ints, pairs: int) -> None:
        """Pairs of one workset whose distances from the center are no more than the threshold
        together are alike by the triangle inequality: their own distance is computed to be told,
        not to decide."""
        if self._plan.owners is not None:
            self._count_by_workset(probes.ids, last - first)
        inner, rows = 0, probes.rows
        if self._strategy.counts_inner:
            limits = self._spec.threshold - probes.run.from_center[rows]
            home = (probes.run.rows.hashes[rows] == probes.ids) & (limits >= 0)
            limits = limits[home]
            inner = count_within(
                frozen(first[home]), frozen(last[home]), frozen(run.from_center), frozen(limits)
            )
        self._tally.inner += inner
        self._tally.compared += pairs - inner

    def _count_by_workset(self, ids: UInts, pairs: Ints) -> None:
        """Where the work was: what is moved are worksets."""
        unique, owner = np.unique(ids, return_inverse=True)
        for i, n in zip(unique.tolist(), np.bincount(owner, pairs).tolist(), strict=True):
            self._tally.by_workset[i] = self._tally.by_workset.get(i, 0) + int(n)
