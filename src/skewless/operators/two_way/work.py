"""The two-way join of one instance: the second half of a batch.

An instance reads its share of the new rows and of the state, and joins

    new left × old right        new right × old left        new right × new left

The first is what left rows probe, the others what right rows do. The routing's work units divide
each of the two over the instances, by ranges of hashes and by cuts of the probing or the stored
rows of a range. So every pair meets exactly once, whatever the routing. Rows that come out alone
(outer, semi and anti joins) are found after that, by `alone.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays import keys
from skewless.arrays.columns import gathered, pieces_of
from skewless.arrays.counting import count_rows
from skewless.arrays.pairs import Pairs, PairsAt, candidates
from skewless.arrays.runs import (
    Run,
    bounds,
    clip,
    merged,
    part_of_ranges,
    select,
)
from skewless.arrays.types import SIDES, Flags, Ints, Side, UInts, frozen, other_side
from skewless.arrays.values import converted
from skewless.engine.instance import Instance
from skewless.engine.operator import RunRef
from skewless.engine.report import InstanceLoad
from skewless.operators.pair import JoinSpec, keyless
from skewless.operators.two_way.alone import RowsAlone, StoredRows, emitted
from skewless.operators.two_way.comparing import Comparison
from skewless.operators.two_way.meter import Meter
from skewless.operators.two_way.probing import probing, ranges_read
from skewless.operators.two_way.ranges import partner_ranges
from skewless.operators.two_way.reach import Reach
from skewless.placement.units import WHOLE, Cut, RoutingTable, WorkUnit
from skewless.state.parts import is_far
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SegmentInfo, read_arrays

PAIRS_PER_CHUNK = 1 << 16
ROWS_PER_OUTPUT = 1 << 14  # smaller results are put together before they are handed on


@dataclass
class _Tally:
    """What an instance counts while it works."""

    rows: int = 0
    pairs: int = 0
    matches: int = 0
    isolated_rows: int = 0
    isolated_pairs: int = 0


class _Found:
    """How many pairs and matches each probing row of a run has met."""

    def __init__(self, rows: int) -> None:
        self.pairs, self.matches = np.zeros(rows, np.int64), np.zeros(rows, np.int64)


@dataclass(frozen=True)
class JoinPlan:
    """All that the instances need to know to join one batch."""

    keep_after_us: Mapping[str, int]
    routing: RoutingTable
    new: tuple[RunRef, ...]
    old: SegmentSet
    keys_watched: int | None = 8  # None: all
    # From which time to which rows of a side are decided about: whether they have a partner.
    decided_us: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # New rows under other hashes than their own: there they probe as well.
    copies: tuple[SegmentInfo, ...] = ()

    def new_of(self, side: str) -> list[RunRef]:
        return [r for r in self.new if r.segment.side == side]

    def copies_of(self, side: str) -> list[SegmentInfo]:
        return [s for s in self.copies if s.side == probing(side)]


@dataclass(frozen=True)
class JoinWork:
    """The work of every instance in one batch."""

    spec: JoinSpec
    plan: JoinPlan

    def of(self, instance: Instance) -> InstanceJoin:
        return InstanceJoin(self.spec, self.plan, instance)

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        join = self.of(instance)
        yield from join.results()
        instance.clock.stop()
        instance.load = join.load()
        instance.detail = join.figures()


class InstanceJoin:
    """One instance at work on one batch. Iterate over `results`, then ask for the `load`."""

    def __init__(self, spec: JoinSpec, plan: JoinPlan, instance: Instance) -> None:
        self._spec, self._plan, self._instance = spec, plan, instance
        self._tally, self._clock = _Tally(), instance.clock
        self._units = plan.routing.units[instance.number]
        instance.reads = ranges_read(spec, plan.routing, instance.number)
        self._meter = Meter(plan.routing.slots, plan.keys_watched, self._units)
        self._schema = spec.output_schema()
        self._compare = Comparison(spec)
        self._reach = Reach.of(spec, {side: self._new_of(side) for side in SIDES}, plan.decided_us)
        ranges = [(unit.hash_min, unit.hash_max) for unit in self._units]
        mine = {side: plan.old.touching(side, ranges) for side in SIDES}
        self._old = {side: list(self._looked_at(mine[side])) for side in SIDES}
        # Where rows are left unread, it is as if those that are not were all.
        self._weights = {side: _rows(mine[side]) / max(_rows(self._old[side]), 1) for side in SIDES}

    def load(self) -> InstanceLoad:
        tally = self._tally
        return InstanceLoad(
            instance=self._instance.number,
            rows=tally.rows,
            pairs=tally.pairs,
            matches=tally.matches,
            isolated_rows=tally.isolated_rows,
            isolated_pairs=tally.isolated_pairs,
            isolated_ms=self._clock.spent_ms("isolated"),
        )

    def figures(self) -> dict[str, Any]:
        """Load per slot and heavy key, as `Meter` reports it."""
        return self._meter.report()

    def results(self) -> Iterator[pa.RecordBatch]:
        """The matches, in batches of a size that is cheap to hand on. Files are mapped first: only
        the first instance in a process has to do so, and it is not to be counted as its work."""
        new = (ref.segment for ref in self._plan.new)
        for segment in (*self._needed(), *new, *self._plan.copies):
            self._instance.rows(segment)
        self._clock.reset()
        bytes_of = pa.RecordBatch.get_total_buffer_size
        for waiting in gathered(self._emitted(), bytes_of, ROWS_PER_OUTPUT):
            yield pa.concat_batches(waiting) if len(waiting) > 1 else waiting[0]

    def _needed(self) -> Iterable[SegmentInfo]:
        """The stored segments that this instance looks into. Where rows are looked up, their
        partners may have any hash."""
        if self._spec.looked_up:
            return self._looked_at(self._plan.old)
        return [segment for side in SIDES for segment in self._old[side]]

    def _looked_at(self, stored: Iterable[SegmentInfo]) -> Iterable[SegmentInfo]:
        """The segments that are read. Those out of reach are so only to count what they have, where
        that costs nothing."""
        return filter(self._reach.has, stored) if is_far(self._instance.folder) else stored

    def _new_of(self, side: Side) -> list[SegmentInfo]:
        """Where new rows of a side lie, as they probe."""
        return [*(r.segment for r in self._plan.new_of(side)), *self._plan.copies_of(side)]

    def _emitted(self) -> Iterator[pa.RecordBatch]:
        how = self._spec.how
        for side in SIDES:
            self._count_late(side)
            if not how.pairs:
                self._note_rows(side)
        if how.pairs:
            yield from self._matches()
        if not how.looked_up:
            return
        alone = self._rows_alone()
        for side in how.first_met:
            yield from self._emit_alone(side, alone.first_met(side))
        for side in how.unmatched:
            yield from self._emit_alone(side, alone.unmatched(side))

    def _rows_alone(self) -> RowsAlone:
        plan, instance = self._plan, self._instance
        old = SegmentSet(filter(self._reach.has, plan.old))
        stored = StoredRows(
            plan.new, old, instance.rows, self._all_probes, plan.keep_after_us.__getitem__
        )
        share = (instance.number, instance.instances)
        return RowsAlone(self._spec, stored, self._units, share, plan.decided_us, self._asked)

    def _asked(self, side: Side, run: Run, told: Flags) -> None:
        """Take note of rows that were asked whether they have a partner, which costs about as much
        as a pair, and of those that come out."""
        self._tally.pairs += len(run)
        describe, one_each = partial(self._describe, side, run), np.ones(len(run), np.int64)
        self._meter.probed(side, run.hashes, one_each, told, describe, is_new=False)

    def _emit_alone(self, side: Side, runs: Iterator[Run]) -> Iterator[pa.RecordBatch]:
        for run in (run for run in runs if len(run)):
            for at in range(0, len(run), PAIRS_PER_CHUNK):
                positions = np.arange(at, min(at + PAIRS_PER_CHUNK, len(run)))
                self._tally.matches += len(positions)
                for piece in pieces_of((run, positions)):
                    some = run.take(positions[piece])
                    yield emitted(self._spec, side, some, self._schema)

    def _matches(self) -> Iterator[pa.RecordBatch]:
        for side in SIDES:
            # All ranges are one pass over the stored runs, however scattered they lie, and all keys
            # apart are another: passes cost by the run. Only parts of stored ranges need their own.
            plain = [u for u in self._units if not u.isolated and u.cut(side) is not None]
            whole = [u for u in plain if _cut(u, side).parts == 1]
            yield from self._probe(side, whole, WHOLE)
            for unit in (u for u in plain if _cut(u, side).parts > 1):
                yield from self._probe(side, [unit], _cut(unit, side))
            self._set_apart(True)
            own = [u for u in self._units if u.isolated and u.cut(side) is not None]
            # Keys of which stored rows are divided have few rows that probe: apart from the others,
            # so that nobody's many rows are looked up in vain.
            divided = [u for u in own if _cut(u, side).of == "stored" and _cut(u, side).parts > 1]
            yield from self._probe(side, [u for u in own if u not in divided], WHOLE)
            yield from self._probe(side, divided, WHOLE)
            self._set_apart(False)

    def _set_apart(self, isolated: bool) -> None:
        """Count what follows as work on keys that have places of their own, or no longer."""
        self._clock.turn_to("isolated" if isolated else "work")
        sign = -1 if isolated else 1
        self._tally.isolated_rows += sign * self._tally.rows
        self._tally.isolated_pairs += sign * self._tally.pairs

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
            matches = found.pairs if self._compare.exact else found.matches
            self._meter.probed(side, prober.hashes, found.pairs, matches, describe)

    def _describe(self, side: Side, run: Run, at: int) -> str:
        row = at if run.rows is None else int(run.rows[at])
        return keys.describe(run.columns, self._spec.side(side), row)

    def _join(
        self, side: Side, prober: Run, run: Run, found: _Found, share: tuple[Ints, Ints] | None
    ) -> Iterator[pa.RecordBatch]:
        for first, last in partner_ranges(self._spec, side, prober, run):
            begin, end, pairs = first, last, int((last - first).sum())
            if share is not None:
                begin, end, pairs = part_of_ranges(first, last, *share)
            self._tally.pairs += pairs
            found.pairs += end - begin
            yield from self._pairs(side, prober, run, (begin, end), found)

    def _pairs(
        self, side: Side, prober: Run, run: Run, ranges: tuple[Ints, Ints], found: _Found
    ) -> Iterator[pa.RecordBatch]:
        """The matches among the candidates of every probing row."""
        waiting: list[PairsAt] = []
        for pairs in candidates(prober, run, ranges, PAIRS_PER_CHUNK):
            same = self._compare.matching(side, pairs)
            if same is None:
                yield self._emit(side, pairs)
                continue
            waiting.append(pairs.keep(same))
            count_rows(found.matches, frozen(waiting[-1].probes))
            # Where few match, to take rows of them each time costs more than to look at all.
            if sum(map(len, waiting)) >= ROWS_PER_OUTPUT:
                yield from self._emit_all(side, waiting)
                waiting = []
        if waiting:
            yield from self._emit_all(side, waiting)

    def _emit_all(self, side: Side, parts: list[PairsAt]) -> Iterator[pa.RecordBatch]:
        for pairs in PairsAt.concat(parts).pieces():
            if len(pairs):
                yield self._emit(side, pairs)

    def _emit(self, side: Side, pairs: Pairs) -> pa.RecordBatch:
        """The output rows of matching pairs, of which `side` probes."""
        self._tally.matches += len(pairs)
        arrays = [
            pairs.probing(c.index) if c.side == side else pairs.stored(c.index)
            for c in self._spec.output
        ]
        arrays = [
            array if column.type is None else converted(array, column.type)
            for array, column in zip(arrays, self._spec.output, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _stored_run(self, segment: SegmentInfo) -> Run:
        # Only stored rows expire: a new row may still have to meet rows that lie far behind it.
        floor_us = max(segment.floor_us, self._plan.keep_after_us[segment.side])
        rows = self._instance.rows(segment)
        return Run(rows.hashes, rows.times, rows.columns, floor_us)

    def _stored(self, prober: Side, units: list[WorkUnit], cut: Cut) -> list[Run]:
        """The runs that rows of a side may find partners in."""
        ends = min(u.hash_min for u in units), max(u.hash_max for u in units)
        other = other_side(prober)

        def part(run: Run) -> Run:
            whole = cut.parts == 1 or cut.of == "probers"
            return run if whole else part_of(clip(run, *ends), cut)

        runs = []
        for segment in self._old[other]:
            # Compacted segments hold a part of all hashes: most have none of a few keys apart.
            if not any(segment.touches(u.hash_min, u.hash_max) for u in units):
                continue
            run = part(self._stored_run(segment))
            self._note_stored_rows(segment, run.hashes, units)
            if self._reach.has(segment):
                runs.append(run)
        if prober == "right":
            # Two newcomers meet where the right one probes.
            new = [r.segment for r in self._plan.new_of("left")]
            mine = [take_units(self._stored_run(segment), units) for segment in new]
            runs += [part(run) for run in merged(mine, [segment.bytes for segment in new])]
        return runs

    def _probers(self, side: Side, units: list[WorkUnit]) -> list[Run]:
        """The new rows of a side as they probe in these units."""
        runs = []
        for run in self._all_probes(side):
            mine = select(run, [_dealt(run, unit, _cut(unit, side)) for unit in units])
            self._tally.rows += len(mine)
            runs.append(mine)
        sizes = [segment.bytes for segment in self._new_of(side)]
        return [run for run in merged(runs, sizes) if len(run)]

    def _all_probes(self, side: Side) -> list[Run]:
        """The new rows of a side as they probe, of each file."""
        copies = ((s, self._instance.rows(s)) for s in self._plan.copies_of(side))
        elsewhere = [Run(rows.hashes, rows.times, rows.columns, s.floor_us) for s, rows in copies]
        return [self._probes(ref) for ref in self._plan.new_of(side)] + elsewhere

    def _probes(self, ref: RunRef) -> Run:
        rows, floor = self._instance.rows(ref.segment), ref.segment.floor_us
        if ref.probe_file is None:
            return Run(rows.hashes, rows.times, rows.columns, floor)
        index = read_arrays(self._instance.folder, ref.probe_file)
        return Run(index["hash"], rows.times[index["row"]], rows.columns, floor, index["row"])

    def _count_late(self, side: Side) -> None:
        """What came too late is counted by whoever has part 0 of its range."""
        units = [u for u in self._units if (cut := u.cut(side)) is not None and cut.part == 0]
        for segment in (r.segment for r in self._plan.new_of(side)):
            if segment.time_min_us < segment.floor_us:
                rows = self._instance.rows(segment)
                for unit in units:
                    begin, end = bounds(rows.hashes, unit.hash_min, unit.hash_max)
                    self._instance.note_late(rows.times[begin:end], segment.floor_us)
        if self._instance.number == 0:
            for segment in (r.segment for r in self._plan.new_of(keyless(side))):
                self._instance.note_late(self._instance.rows(segment).times, segment.floor_us)

    def _note_rows(self, side: Side) -> None:
        """Tell how much of a side lies, and arrives, in the units of this instance, where no pairs
        are made."""
        self._note_stored(side)
        for prober in self._probers(side, [u for u in self._units if u.cut(side) is not None]):
            describe, none = partial(self._describe, side, prober), np.zeros(len(prober), np.int64)
            self._meter.probed(side, prober.hashes, none, none, describe)

    def _note_stored(self, side: Side) -> None:
        other = other_side(side)
        found = [u for u in self._units if u.cut(other) is not None]
        for segment in self._old[side]:
            if any(segment.touches(u.hash_min, u.hash_max) for u in found):
                self._note_stored_rows(segment, self._instance.rows(segment).hashes, found)

    def _note_stored_rows(self, segment: SegmentInfo, hashes: UInts, units: list[WorkUnit]) -> None:
        """Take note of some stored rows of a segment."""
        side: Side = "left" if segment.side == "left" else "right"
        row_bytes = segment.bytes / segment.rows
        self._meter.stored(side, hashes, row_bytes, units, self._weights[side])


def _rows(segments: Iterable[SegmentInfo]) -> int:
    return sum(segment.rows for segment in segments)


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


@dataclass(frozen=True)
class _Shares:
    """Which part of its stored partners a row of a key apart has to meet here."""

    hashes: UInts
    part: Ints
    parts: Ints

    @staticmethod
    def of(prober: Side, units: list[WorkUnit]) -> _Shares | None:
        """None where all rows meet all their partners."""
        own = sorted((u for u in units if u.isolated), key=lambda u: u.hash_min)
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


def part_of(run: Run, cut: Cut) -> Run:
    """A part of the stored rows of a range, in one piece, so that nobody reads those of others."""
    begin, end = (len(run) * p // cut.parts for p in (cut.part, cut.part + 1))
    return run.slice(begin, end)


def take_units(run: Run, units: list[WorkUnit]) -> Run:
    """The rows of a run that lie in the hash ranges of some units."""
    return select(run, [range(*bounds(run.hashes, u.hash_min, u.hash_max)) for u in units])
