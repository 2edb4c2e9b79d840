"""The second step of S3J: every instance forms the worksets of its space partitions.

One instance sees all new rows of a partition, so no two make worksets that overlap. Rows of the
outer partition stay in the state as they are, too: a workset that is made later gets its copies of
those that are within its reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skewless.arrays.columns import Columns, gathered, pieces_of
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


@dataclass(frozen=True)
class FormWork:
    """The worksets of every instance's partitions. `new` are new rows by partition, `kept` those of
    outer partitions from earlier batches. `made` is how many worksets each partition has ever had.
    Old rows before `keep_after_us` of their side of the state meet nobody any more; worksets are
    forgotten by `keep_sets_after_us`, as the spec has it."""

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
        taken = self.taken[some]
        for piece in pieces_of((self.rows.columns, taken)):
            columns = self.rows.columns.take(taken[piece])
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
        former = Former(self._spec, partition, known.ids, known.centers, made)
        last_us, radius = known.last_us, known.radius
        if points is not None:
            home = former.take_in(points)
            self._store_home(inner, home)
            last_us, radius = _with_members(former, known, inner, home)
        self._store_outer(former, self._found(partition, OUTER), begin=0)
        if len(former) > len(known):
            kept = self._found(partition, OUTER, old=True)
            self._store_outer(former, kept, begin=len(known))
        self._distances += former.distances
        is_open = np.ones(len(former), np.bool_)
        return Worksets(former.ids, former.centers, last_us, radius, is_open), former.made

    def _found(self, partition: int, role: str, *, old: bool = False) -> list[Found]:
        """The rows of a partition that came in time. Old ones must still be able to meet a row to
        come; a new one may not, and yet meet those that are there."""
        found = []
        identity = ids_of(np.array([partition]))[0]
        for segment in in_role(self._work.kept if old else self._work.new, role):
            rows, floor_us = self._instance.rows(segment), segment.floor_us
            if old:
                floor_us = max(floor_us, self._work.keep_after_us[segment.side])
            begin, end = (int(np.searchsorted(rows.hashes, identity, s)) for s in ("left", "right"))
            counts = rows.times[begin:end] >= floor_us
            if role == INNER:
                self._instance.note_late(rows.times[begin:end], floor_us)
            taken = begin + np.flatnonzero(counts)
            if len(taken):
                vector = self._spec.side(input_of(segment)).vector
                columns = [rows.columns[i].take(pa.array(taken)) for i in vector]
                found.append(Found(segment, rows, taken, self._spec.metric.points(columns)))
        return found

    def _store_home(self, inner: list[Found], home: AtHome) -> None:
        """Rows of the inner partition: at home, and as copies in other worksets."""
        begin = 0
        for found in inner:
            side, end = input_of(found.segment), begin + len(found.taken)
            mine = slice(begin, end)
            every = np.arange(len(found.taken))
            self._add(side, HOME, found.copied(every, home.ids[mine], home.from_center[mine]))
            copied = (home.rows >= begin) & (home.rows < end)
            self._add(side, COPY, found.copied(home.rows[copied] - begin, home.copies[copied]))
            begin = end

    def _store_outer(self, former: Former, outer: list[Found], begin: int) -> None:
        """Rows of the outer partition, as copies in worksets."""
        for found in outer:
            copies = former.copies(found.points, begin)
            self._add(input_of(found.segment), COPY, found.copied(*copies))

    def _add(self, side: str, role: str, parts: Iterator[Rows]) -> None:
        found = [rows for rows in parts if len(rows)]
        if found:
            self._parts.setdefault(named(side, role), []).extend(found)


def _with_members(
    former: Former, known: Worksets, inner: list[Found], home: AtHome
) -> tuple[Ints, Floats]:
    """The latest time, and the furthest distance, of the rows at home in each workset."""
    new = len(former) - len(known)
    last_us = np.concatenate([known.last_us, np.full(new, NEVER_US)])
    radius = np.concatenate([known.radius, np.zeros(new)])
    numbers = np.searchsorted(former.ids, home.ids)
    times = np.concatenate([found.rows.times[found.taken] for found in inner])
    np.maximum.at(last_us, numbers, times)
    np.maximum.at(radius, numbers, home.from_center)
    return last_us, radius
