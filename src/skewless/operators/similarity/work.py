"""The work of one instance in one batch: new rows look into worksets for rows that are alike."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless import failpoints
from skewless.arrays.counting import count_within
from skewless.arrays.merging import match_ranges
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, Ints, Side, UInts, frozen
from skewless.engine.report import InstanceLoad
from skewless.operators.similarity.points import Points, Sets, matrix, take
from skewless.operators.similarity.spec import SimilarityPlan, SimilaritySpec, Tally, Told
from skewless.operators.similarity.strategies import S3J, BruteForce, SimilarityStrategy
from skewless.operators.similarity.worksets import Floats, Worksets, reached, read_worksets
from skewless.state.cache import CACHE
from skewless.state.files import Folder
from skewless.state.rewriting import Layout, compact_groups
from skewless.state.segments import Rows, SegmentInfo

SCREENED_FROM_DIMENSION = 16  # shorter vectors are compared faster one by one
SCREENED_FROM_PAIRS = 1024
BLOCK_ROWS, BLOCK_STORED = 512, 4096  # 8 MiB of single precision


@dataclass(frozen=True)
class Run:
    """Rows of a segment with what is compared: their points, and how far each is from its center.
    `number` is the place of the segment among all of a side."""

    rows: Rows
    points: Points
    from_center: Floats
    floor_us: int
    number: int


class SimilarityInstance:
    """One instance at work on one batch. Iterate over `results`."""

    def __init__(
        self,
        spec: SimilaritySpec,
        plan: SimilarityPlan,
        strategy: SimilarityStrategy,
        instance: int,
        tally: Tally,
    ) -> None:
        self._spec, self._plan, self._strategy = spec, plan, strategy
        self._instance, self._tally = instance, tally
        self._folder = Folder(plan.root)
        self._schema = spec.output_schema()
        self._runs: dict[int, Run] = {}
        self._worksets = self._my_worksets()

    def _my_worksets(self) -> Worksets | None:
        plan = self._plan
        if plan.worksets is None:
            return None
        every = read_worksets(self._folder, plan.worksets)
        if not isinstance(self._strategy, BruteForce):
            every = every.take(np.flatnonzero(every.last_us >= min(plan.keep_after_us.values())))
        if plan.owners is None:
            return every
        owner = [plan.owners.get(i, i % plan.instances) for i in every.ids.tolist()]
        return every.take(np.flatnonzero(np.array(owner) == self._instance))

    def results(self) -> Iterator[pa.RecordBatch]:
        """Pairs that are alike: old rows with new ones, and new ones with one another."""
        if self._worksets is None or not len(self._worksets):
            return
        for side in self._spec.sides:
            other: Side = "left" if self._spec.right is None or side == "right" else "right"
            stored = [self._ready(s, n) for n, s in enumerate(self._plan.old) if s.side == other]
            if side == "right" or self._spec.right is None:
                # Two newcomers meet where the right one looks; in a self-join, the later one.
                stored += self._new(other)
            for prober in self._new(side):
                yield from self._probe(side, prober, stored)

    def _new(self, side: Side) -> list[Run]:
        """New rows of a side; they are both looked for and looked into, and made ready once."""
        begin = len(self._plan.old)
        for number, segment in enumerate(self._plan.new, begin):
            if segment.side == side and number not in self._runs:
                self._runs[number] = self._ready(segment, number)
        return [self._runs[begin + n] for n, s in enumerate(self._plan.new) if s.side == side]

    def _ready(self, segment: SegmentInfo, number: int) -> Run:
        this = self._spec.side(segment.side)
        rows = CACHE.rows(self._folder, segment, this.time)
        points = self._spec.metric.points([rows.columns[i] for i in this.vector])
        floor = segment.floor_us
        return Run(rows, points, rows.columns[-1].to_numpy(), floor, number)

    def _mine(self, prober: Run) -> Ints:
        """The new rows that this instance has to look for partners of: a share of them, dealt like
        cards, or all where others have other worksets."""
        share = (self._instance, self._plan.instances) if self._plan.owners is None else (0, 1)
        mine = np.arange(share[0], len(prober.rows), share[1])
        return mine[prober.rows.times[mine] >= prober.floor_us]

    def _probe(self, side: Side, prober: Run, stored: list[Run]) -> Iterator[pa.RecordBatch]:
        assert self._worksets is not None
        mine = self._mine(prober)
        self._tally.rows += len(mine)
        points = take(prober.points, mine)
        rows, numbers = reached(self._spec, self._strategy, points, self._worksets)
        self._tally.probes += len(rows)
        ids, times = self._worksets.ids[numbers], prober.rows.times[mine[rows]]
        order = sort_order(frozen(ids), frozen(times))
        ids, times, rows = ids[order], times[order], mine[rows[order]]
        for run in stored:
            yield from self._look_into(side, prober, (ids, times, rows), run)

    def _look_into(
        self, side: Side, prober: Run, probes: tuple[UInts, Ints, Ints], run: Run
    ) -> Iterator[pa.RecordBatch]:
        ids, times, rows = probes
        bounds, size = self._spec.partner_bounds(side), self._spec.window_us
        if size is not None:
            times, bounds = times // size * size, (0, size - 1)  # all of the row's window
        first, last, pairs = match_ranges(
            frozen(ids), frozen(times), -FAR_US,
            frozen(run.rows.hashes), frozen(run.rows.times), run.floor_us, *bounds,
        )  # fmt: skip
        if self._spec.right is None and run.number >= prober.number:
            # Of two new rows the one that lies later looks for the other.
            if run.number > prober.number:
                return
            last = np.minimum(last, rows)
            first = np.minimum(first, last)
            pairs = int((last - first).sum())
        if self._plan.owners is not None:
            self._count_by_workset(ids, last - first)
        self._count(prober, rows, ids, run, first, last)
        if self._is_screened(prober) and pairs >= SCREENED_FROM_PAIRS:
            near = self._decided(prober, run, self._screened(prober, rows, ids, run, first, last))
        else:
            near = self._spec.metric.near(
                prober.points, rows, run.points, first, last, self._spec.threshold
            )
        for probing, partners, distances in near:
            if len(probing):
                self._tally.matches += len(probing)
                yield self._emit(side, prober, probing, run, partners, distances)

    def _is_screened(self, prober: Run) -> bool:
        """Whether vectors are long enough for a matrix product to pay."""
        points = prober.points
        return not isinstance(points, Sets) and points.shape[1] >= SCREENED_FROM_DIMENSION

    def _screened(
        self, prober: Run, rows: Ints, ids: UInts, run: Run, first: Ints, last: Ints
    ) -> Iterator[tuple[Ints, Ints]]:
        """Pairs of ranges that a matrix product in single precision does not rule out: block by
        block, one workset after the other, as those who look into one meet the same rows."""
        ends = [*(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            for at in range(begin, end, BLOCK_ROWS):
                some = slice(at, min(at + BLOCK_ROWS, end))
                yield from self._screened_block(prober, rows[some], run, first[some], last[some])

    def _screened_block(
        self, prober: Run, rows: Ints, run: Run, first: Ints, last: Ints
    ) -> Iterator[tuple[Ints, Ints]]:
        some = first < last
        if not some.any():
            return
        rows, first, last = rows[some], first[some], last[some]
        mine = matrix(prober.points)[rows]
        for at in range(int(first.min()), int(last.max()), BLOCK_STORED):
            stored = np.arange(at, min(at + BLOCK_STORED, int(last.max())))
            in_range = (stored >= first[:, None]) & (stored < last[:, None])
            near = self._spec.metric.maybe_near(
                mine, matrix(run.points)[stored], self._spec.threshold
            )
            found, partners = np.nonzero(in_range if near is None else in_range & near)
            if len(found):
                yield rows[found], stored[partners]

    def _count_by_workset(self, ids: UInts, pairs: Ints) -> None:
        """Where the work was: what is moved are worksets."""
        unique, owner = np.unique(ids, return_inverse=True)
        for i, n in zip(unique.tolist(), np.bincount(owner, pairs).tolist(), strict=True):
            self._tally.by_workset[i] = self._tally.by_workset.get(i, 0) + int(n)

    def _decided(
        self, prober: Run, run: Run, candidates: Iterator[tuple[Ints, Ints]]
    ) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Candidates that are within the threshold, with their distances."""
        for rows, partners in candidates:
            distances = self._spec.metric.pairs(prober.points, rows, run.points, partners)
            near = distances <= self._spec.threshold
            yield rows[near], partners[near], distances[near]

    def _count(
        self, prober: Run, rows: Ints, ids: UInts, run: Run, first: Ints, last: Ints
    ) -> None:
        """Pairs of one workset whose distances from the center are no more than the threshold
        together are alike by the triangle inequality: their own distance is computed to be told,
        not to decide."""
        inner = 0
        if isinstance(self._strategy, S3J):
            home = prober.rows.hashes[rows] == ids
            limits = self._spec.threshold - prober.from_center[rows[home]]
            inner = count_within(
                frozen(first[home]), frozen(last[home]), frozen(run.from_center), frozen(limits)
            )
        self._tally.inner += inner
        self._tally.compared += int((last - first).sum()) - inner

    def _emit(
        self, side: Side, prober: Run, rows: Ints, run: Run, partners: Ints, distances: Floats
    ) -> pa.RecordBatch:
        new, old = (prober.rows, rows), (run.rows, partners)
        sides = {"left": old, "right": new}
        if side == "left" and self._spec.right is not None:
            sides = {"left": new, "right": old}
        elif self._spec.right is None:
            return self._emit_in_order(new, old, distances)
        arrays = [sides[c.side][0].columns[c.index].take(pa.array(sides[c.side][1]))
                  for c in self._spec.output]  # fmt: skip
        return pa.RecordBatch.from_arrays([*arrays, pa.array(distances)], schema=self._schema)

    def _emit_in_order(
        self, new: tuple[Rows, Ints], old: tuple[Rows, Ints], distances: Floats
    ) -> pa.RecordBatch:
        """A row joined with one of its own stream: the earlier by event time comes first."""
        swapped = new[0].times[new[1]] < old[0].times[old[1]]
        arrays = []
        for column in self._spec.output:
            mine = new[0].columns[column.index].take(pa.array(new[1]))
            theirs = old[0].columns[column.index].take(pa.array(old[1]))
            first = swapped if column.side == "left" else ~swapped
            both = pa.concat_arrays([theirs, mine])
            arrays.append(both.take(pa.array(np.arange(len(swapped)) + first * len(swapped))))
        return pa.RecordBatch.from_arrays([*arrays, pa.array(distances)], schema=self._schema)

    def late_rows(self) -> int:
        return sum(
            int((CACHE.rows(self._folder, s, self._spec.side(s.side).time).times
                 < self._plan.watermark_us).sum())
            for s in self._plan.new
        )  # fmt: skip


def run_similarity(
    spec: SimilaritySpec, plan: SimilarityPlan, strategy: SimilarityStrategy, instance: int
) -> Iterator[pa.RecordBatch]:
    """The pairs of an instance; then its report, as a small file. Running it twice gives the same
    rows and does no harm."""
    failpoints.hit("instance.begun", plan.batch_id)
    tally, spent_s, begun = Tally(), 0.0, time.thread_time()
    unit = SimilarityInstance(spec, plan, strategy, instance, tally)
    for batch in unit.results():
        spent_s += time.thread_time() - begun
        yield batch
        begun = time.thread_time()
    spent_s += time.thread_time() - begun
    failpoints.hit("instance.worked", plan.batch_id)
    load = InstanceLoad(
        instance,
        rows=tally.rows,
        pairs=tally.compared + tally.inner,
        matches=tally.matches,
        late_left=unit.late_rows() if instance == 0 else 0,
        time_ms=round(spent_s * 1000, 3),
    )
    compacted = tuple(_compact(spec, plan, instance))
    told = Told(load, tally.probes, tally.inner, tuple(tally.by_workset.items()), compacted)
    folder = Folder(plan.root)
    name = f"{plan.report_folder}/{instance}.json"
    folder.write_atomically(name, json.dumps(told.to_json()).encode())
    CACHE.keep_only(folder, {s.name for s in (*plan.old, *plan.new)})
    failpoints.hit("instance.reported", plan.batch_id)


def _compact(spec: SimilaritySpec, plan: SimilarityPlan, instance: int) -> Iterator[SegmentInfo]:
    layout = Layout(
        {side: spec.stored_schema(side) for side in spec.sides},
        {side: spec.side(side).time for side in spec.sides},
        plan.keep_after_us,
    )
    share = (instance, plan.instances)
    return compact_groups(Folder(plan.root), plan.compact, share, layout, plan.batch_id, CACHE)
