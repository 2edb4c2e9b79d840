"""The two-way join of one instance: the second half of a batch.

An instance reads its share of the new rows and of the state, and joins

    new left × old right        new right × old left        new right × new left

where *stored* rows (old left, old right, new left) are divided over the instances by the routing's
work units, and *probing* rows are not. So every pair meets exactly once, whatever the routing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.joining import keys
from skewless.joining.kernels import (
    Ints,
    UInts,
    expand_ranges,
    frozen,
    match_ranges,
    sort_order,
)
from skewless.model import (
    BatchPlan,
    InstanceLoad,
    JoinSpec,
    RunRef,
    SegmentInfo,
    Side,
    WorkUnit,
)
from skewless.state.files import Folder
from skewless.state.segments import Rows, SegmentCache, read_arrays

PAIRS_PER_CHUNK = 1 << 16
ROWS_PER_OUTPUT = 1 << 14  # smaller results are put together before they are handed on
SEGMENTS_MERGED_FROM = 4  # from so many new segments on, probing them one by one costs more


@dataclass(frozen=True)
class Run:
    """Sorted rows to be probed or to probe with. `rows` maps them to rows of `columns` when the
    order differs from that of the columns (merged runs, and the probes of a band join)."""

    hashes: UInts
    times: Ints
    columns: list[pa.Array]
    floor_us: int
    rows: Ints | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    def slice(self, begin: int, end: int) -> Run:
        if self.rows is not None:
            columns, rows = self.columns, self.rows[begin:end]
        else:
            columns, rows = [c.slice(begin, end - begin) for c in self.columns], None
        return Run(self.hashes[begin:end], self.times[begin:end], columns, self.floor_us, rows)

    def take(self, positions: Ints, column: int) -> pa.Array:
        rows = positions if self.rows is None else self.rows[positions]
        return self.columns[column].take(pa.array(rows))


@dataclass
class _Tally:
    """What an instance counts while it works."""

    rows: int = 0
    pairs: int = 0
    matches: int = 0
    late: dict[Side, int] = field(default_factory=lambda: {"left": 0, "right": 0})


class InstanceJoin:
    """One instance at work on one batch. Iterate over `results`, then ask for the `load`."""

    def __init__(self, spec: JoinSpec, plan: BatchPlan, instance: int, cache: SegmentCache) -> None:
        self._spec, self._plan, self._instance = spec, plan, instance
        self._cache, self._folder = cache, Folder(plan.root)
        self._tally = _Tally()
        self._schema = spec.output_schema()
        self._exact = keys.is_exact(spec.left)
        self._busy_s = 0.0

    @property
    def load(self) -> InstanceLoad:
        tally = self._tally
        return InstanceLoad(
            instance=self._instance,
            rows=tally.rows,
            pairs=tally.pairs,
            matches=tally.matches,
            late_left=tally.late["left"],
            late_right=tally.late["right"],
            time_ms=round(self._busy_s * 1000, 3),
        )

    def results(self) -> Iterator[pa.RecordBatch]:
        """The matches, in batches of a size that is cheap to hand on. The clock runs only while
        this instance works, not while its consumer does."""
        waiting: list[pa.RecordBatch] = []
        rows = 0
        begun = time.perf_counter()
        for batch in self._matches():
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= ROWS_PER_OUTPUT:
                joined = pa.concat_batches(waiting) if len(waiting) > 1 else waiting[0]
                waiting, rows = [], 0
                self._busy_s += time.perf_counter() - begun
                yield joined
                begun = time.perf_counter()
        self._busy_s += time.perf_counter() - begun
        if waiting:
            yield pa.concat_batches(waiting)

    def _matches(self) -> Iterator[pa.RecordBatch]:
        for unit in self._plan.routing.units[self._instance]:
            new = {side: self._new_runs(side, unit) for side in ("left", "right")}
            yield from self._probe("left", new["left"], self._stored("right", unit))
            yield from self._probe("right", new["right"], self._stored("left", unit))
            # Two newcomers meet where the left one is stored.
            yield from self._probe("right", new["right"], self._new_stored("left", unit))

    def _probe(self, side: Side, probers: list[Run], stored: list[Run]) -> Iterator[pa.RecordBatch]:
        for prober in probers:
            for run in stored:
                if len(prober) and len(run):
                    yield from self._join(side, prober, run)

    def _join(self, side: Side, prober: Run, run: Run) -> Iterator[pa.RecordBatch]:
        lower, upper = self._spec.partner_bounds(side)
        first, last, pairs = match_ranges(
            frozen(prober.hashes),
            frozen(prober.times),
            prober.floor_us,
            frozen(run.hashes),
            frozen(run.times),
            run.floor_us,
            lower,
            upper,
        )
        self._tally.pairs += pairs
        row = skip = 0
        while pairs > 0:
            room = min(pairs, PAIRS_PER_CHUNK)
            probes, partners, row, skip = expand_ranges(
                frozen(first), frozen(last), row, skip, room
            )
            pairs -= room
            if side == "left":
                batch = self._emit(prober, probes, run, partners)
            else:
                batch = self._emit(run, partners, prober, probes)
            self._tally.matches += batch.num_rows
            if batch.num_rows:
                yield batch

    def _emit(self, left: Run, left_rows: Ints, right: Run, right_rows: Ints) -> pa.RecordBatch:
        """The output rows of candidate pairs: those whose keys really are equal and near."""
        if not self._exact:
            same = self._really_match(left, left_rows, right, right_rows)
            if not same.all():
                left_rows, right_rows = left_rows[same], right_rows[same]
        arrays = [
            left.take(left_rows, c.index) if c.side == "left" else right.take(right_rows, c.index)
            for c in self._spec.output
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _really_match(
        self, left: Run, left_rows: Ints, right: Run, right_rows: Ints
    ) -> npt.NDArray[np.bool_]:
        spec = self._spec
        same = np.ones(len(left_rows), np.bool_)
        if spec.left.keys:
            same &= keys.keys_equal(
                [left.take(left_rows, k.index) for k in spec.left.keys],
                [right.take(right_rows, k.index) for k in spec.right.keys],
                spec.left.keys,
            )
        for a, b in zip(spec.left.bands, spec.right.bands, strict=True):
            same &= keys.within_band(
                left.take(left_rows, a.index), right.take(right_rows, b.index), a
            )
        return same

    def _rows(self, segment: SegmentInfo) -> Rows:
        time_index = self._spec.side(segment.side).time
        return self._cache.rows(self._folder, segment, time_index)

    def _run(self, segment: SegmentInfo, unit: WorkUnit, floor_us: int) -> Run:
        rows = self._rows(segment)
        return clip(Run(rows.hashes, rows.times, rows.columns, floor_us), unit)

    def _stored_run(self, segment: SegmentInfo, unit: WorkUnit) -> Run:
        # Only stored rows expire: a new row may still have to meet rows that lie far behind it.
        floor_us = max(segment.floor_us, self._plan.keep_after_us[segment.side])
        return self._run(segment, unit, floor_us)

    def _stored(self, side: Side, unit: WorkUnit) -> list[Run]:
        touching = [s for s in self._plan.old_of(side) if touches(s, unit)]
        return [part_of(self._stored_run(segment, unit), unit) for segment in touching]

    def _new_stored(self, side: Side, unit: WorkUnit) -> list[Run]:
        touching = [r for r in self._plan.new_of(side) if touches(r.segment, unit)]
        runs = merged([self._stored_run(r.segment, unit) for r in touching])
        return [part_of(run, unit) for run in runs]

    def _new_runs(self, side: Side, unit: WorkUnit) -> list[Run]:
        """The new rows of a side as they probe. What came too late is counted here."""
        runs = []
        for ref in self._plan.new_of(side):
            if ref.probe_file is None and not touches(ref.segment, unit):
                continue
            run = self._run(ref.segment, unit, ref.segment.floor_us)
            if unit.part == 0:
                self._count_late(ref.segment, run)
            probing = run if ref.probe_file is None else self._probes(ref, unit)
            runs.append(probing)
            self._tally.rows += len(probing)
        return merged(runs)

    def _probes(self, ref: RunRef, unit: WorkUnit) -> Run:
        assert ref.probe_file is not None
        rows, index = self._rows(ref.segment), read_arrays(self._folder, ref.probe_file)
        floor = ref.segment.floor_us
        every = Run(index["hash"], rows.times[index["row"]], rows.columns, floor, index["row"])
        return clip(every, unit)

    def _count_late(self, segment: SegmentInfo, run: Run) -> None:
        if segment.time_min_us < segment.floor_us:
            self._tally.late[segment.side] += int((run.times < segment.floor_us).sum())


def touches(segment: SegmentInfo, unit: WorkUnit) -> bool:
    """Whether a segment can hold rows of a unit."""
    return segment.hash_min <= unit.hash_max and segment.hash_max >= unit.hash_min


def clip(run: Run, unit: WorkUnit) -> Run:
    """The rows of a run that lie in the hash range of a unit."""
    begin = int(np.searchsorted(run.hashes, np.uint64(unit.hash_min), "left"))
    end = int(np.searchsorted(run.hashes, np.uint64(unit.hash_max), "right"))
    return run if end - begin == len(run) else run.slice(begin, end)


def part_of(run: Run, unit: WorkUnit) -> Run:
    """A unit's part of stored rows. Files are immutable, so positions are a fixed choice: a task
    that runs again takes the same rows."""
    if unit.parts == 1:
        return run
    begin, end = (len(run) * p // unit.parts for p in (unit.part, unit.part + 1))
    return run.slice(begin, end)


def merged(runs: list[Run]) -> list[Run]:
    """Many short runs as one: probing costs per pair of runs, merging only per row."""
    if len(runs) < SEGMENTS_MERGED_FROM:
        return runs
    hashes = np.concatenate([r.hashes for r in runs])
    times = np.concatenate([r.times for r in runs])
    order = sort_order(frozen(hashes), frozen(times))
    offsets = np.cumsum([0] + [len(r.columns[0]) for r in runs[:-1]])
    rows = np.concatenate(
        [
            (np.arange(len(r), dtype=np.int64) if r.rows is None else r.rows) + offset
            for r, offset in zip(runs, offsets, strict=True)
        ]
    )
    columns = [pa.concat_arrays([r.columns[i] for r in runs]) for i in range(len(runs[0].columns))]
    # Runs of one batch and side share one floor.
    return [Run(hashes[order], times[order], columns, runs[0].floor_us, rows[order])]
