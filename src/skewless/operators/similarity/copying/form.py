"""The second step of S3J: every instance forms the worksets of its space partitions.

One instance sees all new rows of a partition, so no two make worksets that overlap. Rows of the
outer partition stay in the state as they are, too: a workset that is made later gets its copies of
those that are within its reach, and one that reaches further than before those that are now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from skewless.arrays.columns import Columns, gathered, pieces_of
from skewless.arrays.merging import pairs_in_ranges
from skewless.arrays.types import Floats, Ints, UInts
from skewless.engine.instance import Instance
from skewless.engine.report import InstanceLoad
from skewless.operators.similarity.copying.forming import AtHome, Former
from skewless.operators.similarity.copying.roles import (
    COPY,
    HOME,
    INNER,
    OUTER,
    ids_of,
    in_role,
    input_of,
    named,
    partitions_of,
    role_of,
)
from skewless.operators.similarity.points import Points, concat, take
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.worksets import NEVER_US, Worksets, read_all, write_worksets
from skewless.state.blobs import BlobInfo
from skewless.state.rewriting import in_order
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import Rows, SegmentInfo

NOBODY = np.empty(0, np.uint64)
SIDES_OF: tuple[Literal["left", "right"], ...] = ("left", "right")  # of equal values
PAIRS_AT_ONCE = 1 << 15  # their vectors may be long


@dataclass(frozen=True)
class FormWork:
    """The worksets of every instance's partitions. `new` are new rows by partition, `kept` those of
    outer partitions, and those at home in worksets, from earlier batches. `made` is how many
    worksets each partition has ever had. Old rows before `keep_after_us` of their side of the state
    meet nobody any more; worksets are forgotten by `keep_sets_after_us`, as the spec has it."""

    spec: SimilaritySpec
    new: tuple[SegmentInfo, ...]
    kept: SegmentSet
    worksets: tuple[BlobInfo, ...]
    made: Mapping[int, int]
    keep_after_us: Mapping[str, int]
    keep_sets_after_us: tuple[int, int]

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        for segment in (*self.new, *self.kept):
            instance.rows(segment)
        instance.clock.reset()
        InstanceForming(self, instance).run()
        return iter(())


class Found(NamedTuple):
    """Some rows of a segment, by number, and what is compared of them."""

    segment: SegmentInfo
    rows: Rows
    taken: Ints
    points: Points

    def copied(self, some: Ints, ids: UInts, from_center: Floats | None = None) -> Iterator[Rows]:
        """Some of these rows, as rows of worksets; each may be in several."""
        taken, stored = self.taken[some], self.rows.columns
        if role_of(self.segment.side) == HOME:
            stored = Columns(stored[:-1])  # a copy does not tell how far its home's center is
        for piece in pieces_of((stored, taken)):
            columns = stored.take(taken[piece])
            if from_center is not None:
                columns = Columns([*columns, pa.array(from_center[piece])])
            yield Rows(ids[piece], self.rows.times[taken[piece]], columns)


class InstanceForming:
    """One instance at work on its partitions."""

    def __init__(self, work: FormWork, instance: Instance) -> None:
        self._work, self._spec, self._instance = work, work.spec, instance
        self._parts: dict[str, list[Rows]] = {}
        self._distances = 0

    def run(self) -> None:
        """Form the worksets of all partitions, store rows in them, and tell."""
        work, instance = self._work, self._instance
        known = self._known()
        formed: list[Worksets | None] = []
        made: list[tuple[int, int]] = []
        for partition, before in work.made.items():
            if partition % instance.instances == instance.number:
                worksets, after = self._form(partition, known.get(partition), before)
                formed.append(worksets)
                made.append((partition, after))
        for side, parts in self._parts.items():
            for some in gathered(parts, lambda rows: rows.nbytes):
                instance.write(side, in_order(some), kind=role_of(side))
        every = Worksets.joined(formed)
        alive = None if every is None else every.needed(*work.keep_sets_after_us)
        gone = np.setdiff1d(every.ids, alive.ids) if every and alive is not None else NOBODY
        instance.load = InstanceLoad(instance.number)
        instance.detail = {
            "memberships": sum(s.rows for s in instance.written),
            "workset_distances": self._distances,
            "made": made,
            "gone": gone.tolist(),
            "blob": asdict(write_worksets(instance.folder, alive)) if alive else None,
        }

    def _known(self) -> dict[int, Worksets]:
        """The worksets of each partition, ids ascending."""
        every = read_all(self._instance.folder, self._work.worksets)
        if every is None:
            return {}
        of = partitions_of(every.ids)
        return {p: every.take(np.flatnonzero(of == p)) for p in np.unique(of).tolist()}

    def _form(
        self, partition: int, known: Worksets | None, made: int
    ) -> tuple[Worksets | None, int]:
        """The worksets of a partition after this batch, and how many it has ever had."""
        inner = self._found(partition, INNER)
        points = concat([found.points for found in inner]) if inner else None
        if known is None:
            if points is None:
                return None, made
            known = Worksets.around(NOBODY, take(points, np.empty(0, np.int64)))
        former = Former(self._spec, partition, known.ids, known.centers, known.radius, made)
        last_us = known.last_us
        if points is not None:
            home = former.take_in(points)
            self._store_home(inner, home)
            last_us = _latest(former, known, inner, home)
            self._store_owed(former, partition)
        for found in self._found(partition, OUTER):
            self._store_copies(found, *former.copies(found.points))
        self._distances += former.distances
        is_open = np.ones(len(former), np.bool_)
        return Worksets(former.ids, former.centers, last_us, former.reach, is_open), former.made

    def _store_owed(self, former: Former, partition: int) -> None:
        """Copies of rows that came before, in worksets that are new or reach further now."""
        for found in self._found(partition, OUTER, old=True) if former.has_grown else ():
            self._store_copies(found, *former.owed(found.points))
        targets, homes = former.between()
        for segment in in_role(self._work.kept, HOME) if len(targets) else ():
            rows = self._instance.rows(segment)
            first, last = (np.searchsorted(rows.hashes, former.ids[homes], s) for s in SIDES_OF)
            for pairs, partners in pairs_in_ranges(first, last, PAIRS_AT_ONCE):
                counts = rows.times[partners] >= self._floor_us(segment, old=True)
                numbers, found = targets[pairs[counts]], self._at(segment, rows, partners[counts])
                owed = np.flatnonzero(former.owes(numbers, found.points))
                self._store_copies(found, owed, former.ids[numbers[owed]])

    def _found(self, partition: int, role: str, *, old: bool = False) -> list[Found]:
        """The rows of a partition that came in time. Old ones must still be able to meet a row to
        come; a new one may not, and yet meet those that are there."""
        found = []
        identity = ids_of(np.array([partition]))[0]
        for segment in in_role(self._work.kept if old else self._work.new, role):
            rows, floor_us = self._instance.rows(segment), self._floor_us(segment, old=old)
            begin, end = (int(np.searchsorted(rows.hashes, identity, s)) for s in SIDES_OF)
            counts = rows.times[begin:end] >= floor_us
            if role == INNER:
                self._instance.note_late(rows.times[begin:end], floor_us)
            taken = begin + np.flatnonzero(counts)
            if len(taken):
                found.append(self._at(segment, rows, taken))
        return found

    def _floor_us(self, segment: SegmentInfo, *, old: bool) -> int:
        floor_us = segment.floor_us
        return max(floor_us, self._work.keep_after_us[segment.side]) if old else floor_us

    def _at(self, segment: SegmentInfo, rows: Rows, taken: Ints) -> Found:
        vector = self._spec.side(input_of(segment)).vector
        columns = [rows.columns[i].take(pa.array(taken)) for i in vector]
        return Found(segment, rows, taken, self._spec.metric.points(columns))

    def _store_home(self, inner: list[Found], home: AtHome) -> None:
        """Rows of the inner partition: at home, and as copies in other worksets."""
        begin = 0
        for found in inner:
            side, end = input_of(found.segment), begin + len(found.taken)
            mine = slice(begin, end)
            every = np.arange(len(found.taken))
            self._add(side, HOME, found.copied(every, home.ids[mine], home.from_center[mine]))
            copied = (home.rows >= begin) & (home.rows < end)
            self._store_copies(found, home.rows[copied] - begin, home.copies[copied])
            begin = end

    def _store_copies(self, found: Found, some: Ints, ids: UInts) -> None:
        self._add(input_of(found.segment), COPY, found.copied(some, ids))

    def _add(self, side: str, role: str, parts: Iterator[Rows]) -> None:
        found = [rows for rows in parts if len(rows)]
        if found:
            self._parts.setdefault(named(side, role), []).extend(found)


def _latest(former: Former, known: Worksets, inner: list[Found], home: AtHome) -> Ints:
    """The latest time of the rows at home in each workset."""
    new = len(former) - len(known)
    last_us = np.concatenate([known.last_us, np.full(new, NEVER_US)])
    times = np.concatenate([found.rows.times[found.taken] for found in inner])
    np.maximum.at(last_us, np.searchsorted(former.ids, home.ids), times)
    return last_us
