"""The two-way join of one instance: the second half of a batch.

An instance reads its share of the new rows and of the state, and joins

    new left × old right        new right × old left        new right × new left

The first is what left rows probe, the others what right rows do. The routing's work units divide
each of the two over the instances, by ranges of hashes and by cuts of the probing or the stored
rows of a range. So every pair meets exactly once, whatever the routing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.joining import keys
from skewless.joining.kernels import (
    Ints,
    UInts,
    count_rows,
    expand_ranges,
    frozen,
    match_ranges,
    sort_order,
)
from skewless.joining.meter import Meter
from skewless.model import (
    SIDES,
    WHOLE,
    BatchPlan,
    Cut,
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
EMPTY = np.empty(0, np.int64)
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

    def indices(self, positions: Ints) -> pa.Array:
        """Positions of the run as rows of its columns."""
        return pa.array(positions if self.rows is None else self.rows[positions])


@dataclass
class _Tally:
    """What an instance counts while it works."""

    rows: int = 0
    pairs: int = 0
    matches: int = 0
    own_rows: int = 0
    own_pairs: int = 0
    late: dict[str, int] = field(default_factory=lambda: {"left": 0, "right": 0})


class _Clock:
    """Processor time of this thread, by what it is spent on."""

    def __init__(self) -> None:
        self.spent_s = {"ranges": 0.0, "own": 0.0}
        self._on, self._begun = "ranges", 0.0

    def start(self) -> None:
        self._begun = time.thread_time()

    def stop(self) -> None:
        now = time.thread_time()
        self.spent_s[self._on] += now - self._begun
        self._begun = now

    def turn_to(self, what: str) -> None:
        self.stop()
        self._on = what


class _Found:
    """How many pairs and matches each probing row of a run has met."""

    def __init__(self, rows: int) -> None:
        self.pairs, self.matches = np.zeros(rows, np.int64), np.zeros(rows, np.int64)


class InstanceJoin:
    """One instance at work on one batch. Iterate over `results`, then ask for the `load`."""

    def __init__(self, spec: JoinSpec, plan: BatchPlan, instance: int, cache: SegmentCache) -> None:
        self._spec, self._plan, self._instance = spec, plan, instance
        self._cache, self._folder = cache, Folder(plan.root)
        self._tally = _Tally()
        self._units = plan.routing.units[instance]
        self._meter = Meter(plan.routing.slots, plan.keys_watched, self._units)
        self._schema = spec.output_schema()
        self._exact = keys.is_exact(spec.left)
        self._clock = _Clock()

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
            time_ms=round(sum(self._clock.spent_s.values()) * 1000, 3),
            own_rows=tally.own_rows,
            own_pairs=tally.own_pairs,
            own_ms=round(self._clock.spent_s["own"] * 1000, 3),
        )

    @property
    def figures(self) -> dict[str, Any]:
        """Load per slot and heavy key, as `Meter` reports it."""
        return self._meter.report()

    def results(self) -> Iterator[pa.RecordBatch]:
        """The matches, in batches of a size that is cheap to hand on. The clock counts processor
        time of this instance's work: not its consumer's, not that of other processes, and not the
        mapping of files, which only the first instance in a worker has to do."""
        for segment in (*self._plan.old, *(ref.segment for ref in self._plan.new)):
            self._rows(segment)
        waiting: list[pa.RecordBatch] = []
        rows = 0
        self._clock.start()
        for batch in self._matches():
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= ROWS_PER_OUTPUT:
                joined = pa.concat_batches(waiting) if len(waiting) > 1 else waiting[0]
                waiting, rows = [], 0
                self._clock.stop()
                yield joined
                self._clock.start()
        self._clock.stop()
        if waiting:
            yield pa.concat_batches(waiting)

    def _matches(self) -> Iterator[pa.RecordBatch]:
        for side in SIDES:
            # All ranges are one pass over the stored runs, however scattered they lie, and all keys
            # apart are another: passes cost by the run. Only parts of stored ranges need their own.
            plain = [u for u in self._units if not u.own and u.cut(side) is not None]
            whole = [u for u in plain if _cut(u, side).parts == 1]
            yield from self._probe(side, whole, WHOLE)
            for unit in (u for u in plain if _cut(u, side).parts > 1):
                yield from self._probe(side, [unit], _cut(unit, side))
            self._set_apart(True)
            own = [u for u in self._units if u.own and u.cut(side) is not None]
            # Keys of which stored rows are divided have few rows that probe: apart from the others,
            # so that nobody's many rows are looked up in vain.
            divided = [u for u in own if _cut(u, side).of == "stored" and _cut(u, side).parts > 1]
            yield from self._probe(side, [u for u in own if u not in divided], WHOLE)
            yield from self._probe(side, divided, WHOLE)
            self._set_apart(False)

    def _set_apart(self, own: bool) -> None:
        """Count what follows as work on keys that have places of their own, or no longer."""
        self._clock.turn_to("own" if own else "ranges")
        sign = -1 if own else 1
        self._tally.own_rows += sign * self._tally.rows
        self._tally.own_pairs += sign * self._tally.pairs

    def _probe(self, side: Side, units: list[WorkUnit], cut: Cut) -> Iterator[pa.RecordBatch]:
        """New rows of `side` in these units meet the stored rows of the other side."""
        if not units:
            return
        runs = self._stored(side, units, cut)
        shares = _Shares.of(side, units)
        for prober in self._probers(side, units):
            found = _Found(len(prober))
            share = None if shares is None else shares.of_rows(prober.hashes)
            for run in runs:
                if len(run):
                    yield from self._join(side, prober, run, found, share)
            describe = partial(self._describe, side, prober)
            matches = found.pairs if self._exact else found.matches
            self._meter.probed(side, prober.hashes, found.pairs, matches, describe)

    def _describe(self, side: Side, run: Run, at: int) -> str:
        row = at if run.rows is None else int(run.rows[at])
        return keys.describe(run.columns, self._spec.side(side), row)

    def _join(
        self, side: Side, prober: Run, run: Run, found: _Found, share: tuple[Ints, Ints] | None
    ) -> Iterator[pa.RecordBatch]:
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
        if share is not None:
            first, last, pairs = part_of_ranges(first, last, *share)
        self._tally.pairs += pairs
        found.pairs += last - first
        row = skip = 0
        while pairs > 0:
            room = min(pairs, PAIRS_PER_CHUNK)
            probes, partners, row, skip = expand_ranges(
                frozen(first), frozen(last), row, skip, room
            )
            pairs -= room
            same = self._really_match(side, prober, probes, run, partners)
            if same is not None:
                probes, partners = probes[same], partners[same]
                count_rows(found.matches, frozen(probes))
            if side == "left":
                batch = self._emit(prober, probes, run, partners)
            else:
                batch = self._emit(run, partners, prober, probes)
            self._tally.matches += batch.num_rows
            if batch.num_rows:
                yield batch

    def _emit(self, left: Run, left_rows: Ints, right: Run, right_rows: Ints) -> pa.RecordBatch:
        """The output rows of matching pairs."""
        sides = {"left": (left.columns, left.indices(left_rows)),
                 "right": (right.columns, right.indices(right_rows))}  # fmt: skip
        arrays = [sides[c.side][0][c.index].take(sides[c.side][1]) for c in self._spec.output]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _really_match(
        self, side: Side, prober: Run, probes: Ints, run: Run, partners: Ints
    ) -> npt.NDArray[np.bool_] | None:
        """Which candidate pairs have keys that are equal and near; None: all, for certain."""
        if self._exact:
            return None
        spec, same = self._spec, np.ones(len(probes), np.bool_)
        left, left_rows, right, right_rows = (
            (prober, probes, run, partners) if side == "left" else (run, partners, prober, probes)
        )
        of_left, of_right = left.indices(left_rows), right.indices(right_rows)
        if spec.left.keys:
            same &= keys.keys_equal(
                [left.columns[k.index].take(of_left) for k in spec.left.keys],
                [right.columns[k.index].take(of_right) for k in spec.right.keys],
                spec.left.keys,
            )
        for a, b in zip(spec.left.bands, spec.right.bands, strict=True):
            same &= keys.within_band(
                left.columns[a.index].take(of_left), right.columns[b.index].take(of_right), a
            )
        return same

    def _rows(self, segment: SegmentInfo) -> Rows:
        time_index = self._spec.side(segment.side).time
        return self._cache.rows(self._folder, segment, time_index)

    def _stored_run(self, segment: SegmentInfo) -> Run:
        # Only stored rows expire: a new row may still have to meet rows that lie far behind it.
        floor_us = max(segment.floor_us, self._plan.keep_after_us[segment.side])
        rows = self._rows(segment)
        return Run(rows.hashes, rows.times, rows.columns, floor_us)

    def _stored(self, prober: Side, units: list[WorkUnit], cut: Cut) -> list[Run]:
        """The runs that rows of a side may find partners in."""
        reach = min(u.hash_min for u in units), max(u.hash_max for u in units)
        other: Side = "right" if prober == "left" else "left"

        def part(run: Run) -> Run:
            whole = cut.parts == 1 or cut.of == "probers"
            return run if whole else part_of(clip(run, *reach), cut)

        runs = []
        for segment in self._plan.old_of(other):
            # Compacted segments hold a part of all hashes: most have none of a few keys apart.
            if not any(touches(segment, u.hash_min, u.hash_max) for u in units):
                continue
            run = part(self._stored_run(segment))
            self._meter.stored(other, run.hashes, segment.bytes / segment.rows, units)
            runs.append(run)
        if prober == "right":
            # Two newcomers meet where the right one probes.
            new = [self._stored_run(r.segment) for r in self._plan.new_of("left")]
            runs += [part(run) for run in merged([take_units(run, units) for run in new])]
        return runs

    def _probers(self, side: Side, units: list[WorkUnit]) -> list[Run]:
        """The new rows of a side as they probe in these units. What came too late is counted here,
        by whoever has part 0."""
        runs = []
        for ref in self._plan.new_of(side):
            self._count_late(ref.segment, [u for u in units if _cut(u, side).part == 0])
            run = self._probes(ref)
            probing = select(run, [_dealt(run, unit, _cut(unit, side)) for unit in units])
            self._tally.rows += len(probing)
            runs.append(probing)
        return [run for run in merged(runs) if len(run)]

    def _probes(self, ref: RunRef) -> Run:
        rows, floor = self._rows(ref.segment), ref.segment.floor_us
        if ref.probe_file is None:
            return Run(rows.hashes, rows.times, rows.columns, floor)
        index = read_arrays(self._folder, ref.probe_file)
        return Run(index["hash"], rows.times[index["row"]], rows.columns, floor, index["row"])

    def _count_late(self, segment: SegmentInfo, units: list[WorkUnit]) -> None:
        if segment.time_min_us >= segment.floor_us:
            return
        rows = self._rows(segment)
        for unit in units:
            begin, end = bounds(rows.hashes, unit.hash_min, unit.hash_max)
            late = int((rows.times[begin:end] < segment.floor_us).sum())
            self._tally.late[segment.side] += late


def _cut(unit: WorkUnit, prober: Side) -> Cut:
    cut = unit.cut(prober)
    assert cut is not None
    return cut


def _dealt(run: Run, unit: WorkUnit, cut: Cut) -> range:
    """A unit's part of probing rows, dealt one by one like cards: rows next to one another in time
    have like many partners, so that every part has like much to do."""
    begin, end = bounds(run.hashes, unit.hash_min, unit.hash_max)
    if cut.of == "stored":
        return range(begin, end)
    return range(begin + cut.part, end, cut.parts)


def part_of_ranges(first: Ints, last: Ints, part: Ints, parts: Ints) -> tuple[Ints, Ints, int]:
    """A part of the partners of every probing row."""
    count = last - first
    begin, end = first + count * part // parts, first + count * (part + 1) // parts
    return begin, end, int((end - begin).sum())


@dataclass(frozen=True)
class _Shares:
    """Which part of its stored partners a row of a key apart has to meet here."""

    hashes: UInts
    part: Ints
    parts: Ints

    @staticmethod
    def of(prober: Side, units: list[WorkUnit]) -> _Shares | None:
        """None where all rows meet all their partners."""
        own = sorted((u for u in units if u.own), key=lambda u: u.hash_min)
        cuts = [_cut(u, prober) for u in own]
        if not any(cut.of == "stored" and cut.parts > 1 for cut in cuts):
            return None
        divided = [cut if cut.of == "stored" else WHOLE for cut in cuts]
        return _Shares(
            np.array([u.hash_min for u in own], np.uint64),
            np.array([cut.part for cut in divided], np.int64),
            np.array([cut.parts for cut in divided], np.int64),
        )

    def of_rows(self, hashes: UInts) -> tuple[Ints, Ints]:
        """Part and parts of every probing row. Which of a key's parts it is rotates from row to
        row, so that rows with fewer partners than there are parts do not all fall to the same.
        Rows are counted within their key, as others who share it do not have the same keys."""
        at = np.searchsorted(self.hashes, hashes)
        number = np.arange(len(hashes)) - np.searchsorted(hashes, self.hashes)[at]
        return (self.part[at] + number) % self.parts[at], self.parts[at]


def touches(segment: SegmentInfo, hash_min: int, hash_max: int) -> bool:
    """Whether a segment can hold rows of a range of hashes."""
    return segment.hash_min <= hash_max and segment.hash_max >= hash_min


def bounds(hashes: UInts, hash_min: int, hash_max: int) -> tuple[int, int]:
    """Where the rows of a range of hashes begin and end."""
    begin = int(np.searchsorted(hashes, np.uint64(hash_min), "left"))
    return begin, int(np.searchsorted(hashes, np.uint64(hash_max), "right"))


def clip(run: Run, hash_min: int, hash_max: int) -> Run:
    """The rows of a run that lie in a range of hashes."""
    begin, end = bounds(run.hashes, hash_min, hash_max)
    return run if end - begin == len(run) else run.slice(begin, end)


def part_of(run: Run, cut: Cut) -> Run:
    """A part of the stored rows of a range, in one piece, so that nobody reads those of others."""
    begin, end = (len(run) * p // cut.parts for p in (cut.part, cut.part + 1))
    return run.slice(begin, end)


def take_units(run: Run, units: list[WorkUnit]) -> Run:
    """The rows of a run that lie in the hash ranges of some units."""
    return select(run, [range(*bounds(run.hashes, u.hash_min, u.hash_max)) for u in units])


def select(run: Run, ranges: list[range]) -> Run:
    """Some ranges of a run, in its order; without a copy where they are one."""
    ranges = joined_ranges(ranges)
    if len(ranges) == 1 and ranges[0].step == 1:
        begin, end = ranges[0].start, ranges[0].stop
        return run if end - begin == len(run) else run.slice(begin, end)
    positions = np.concatenate(
        [EMPTY, *(np.arange(r.start, r.stop, r.step, dtype=np.int64) for r in ranges)]
    )
    rows = positions if run.rows is None else run.rows[positions]
    return Run(run.hashes[positions], run.times[positions], run.columns, run.floor_us, rows)


def joined_ranges(ranges: list[range]) -> list[range]:
    """Those that are not empty, sorted, with neighbours put together."""
    result: list[range] = []
    for one in sorted((r for r in ranges if len(r)), key=lambda r: r.start):
        before = result[-1] if result else range(0)
        if one.step == before.step == 1 and result and before.stop == one.start:
            result[-1] = range(before.start, one.stop)
        else:
            result.append(one)
    return result


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
