"""The frame of all work: one instance, one step of one batch. Clock, failpoints, report, cache."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from skewless import failpoints
from skewless.arrays.columns import pieces_of_batch
from skewless.arrays.keys import HIDDEN_BY
from skewless.arrays.runs import bounds
from skewless.arrays.types import FAR_US, Ints
from skewless.engine.hosts import claim
from skewless.engine.loss import by_lateness, put_together
from skewless.engine.operator import Step
from skewless.engine.output import NOTHING_WRITTEN, FileOutput
from skewless.engine.report import InstanceLoad, InstanceReport
from skewless.placement.units import slot_bounds
from skewless.state.cache import CACHE
from skewless.state.files import Folder
from skewless.state.hiding import salt_of
from skewless.state.parts import Range
from skewless.state.rewriting import Layout, rewrite
from skewless.state.segments import Rows, SegmentInfo, write_segment


class Clock:
    """Processor time of this thread, by what it is spent on; not that of other processes."""

    def __init__(self) -> None:
        self.spent_s: dict[str, float] = {}
        self._on, self._begun = "work", time.thread_time()

    def start(self) -> None:
        self._begun = time.thread_time()

    def stop(self) -> None:
        now = time.thread_time()
        self.spent_s[self._on] = self.spent_s.get(self._on, 0.0) + now - self._begun
        self._begun = now

    def turn_to(self, what: str) -> None:
        """Count what follows as something else."""
        self.stop()
        self._on = what

    def reset(self) -> None:
        """Forget what was spent so far, such as mapping files, which only the first instance in a
        process has to do."""
        self.spent_s.clear()
        self.start()

    def spent_ms(self, what: str | None = None) -> float:
        spent = sum(self.spent_s.values()) if what is None else self.spent_s.get(what, 0.0)
        return round(spent * 1000, 3)


@dataclass(frozen=True)
class Start:
    """One start of a query. What was stored up to `after_batch` was written before it: a task
    checks such a file when it first reads it."""

    id: str = ""
    after_batch: int = -1


@dataclass
class Instance:
    """What work is done with, and where it notes down what it did: `load`, `detail`, `written`,
    and rows that came too late. Work that looks at some ranges of hashes of a side only says so in
    `reads`: its other rows may then be missing, where fetching costs."""

    number: int
    instances: int
    batch_id: int
    folder: Folder
    scope: str
    layouts: Mapping[str, Layout]
    clock: Clock = field(default_factory=Clock)
    load: InstanceLoad = field(default_factory=lambda: InstanceLoad(0))
    detail: dict[str, Any] = field(default_factory=dict)
    written: list[SegmentInfo] = field(default_factory=list)
    reads: Mapping[str, Sequence[Range]] = field(default_factory=dict)
    lateness: list[dict[str, int]] = field(default_factory=list)
    bytes_out: int = 0
    start: Start = Start()

    def note_late(self, times: Ints, floor_us: int) -> None:
        """Take note of those rows, by their times, that came too late."""
        late = times[times < floor_us]
        if len(late):
            self.lateness.append(by_lateness(floor_us - late))

    def rows(self, segment: SegmentInfo) -> Rows:
        """The rows of a segment, mapped into memory; those that are asked for again stay so."""
        layout = self.layouts[segment.side]
        wanted = self.reads.get(segment.side)
        return CACHE.rows(
            self.folder,
            segment,
            layout.time_index,
            self.scope,
            layout.schema,
            wanted,
            batch_id=self.batch_id,
            verify=0 <= segment.batch_id <= self.start.after_batch,
        )

    @property
    def own_range(self) -> Range:
        """Its hashes, where every instance has an equal range of them."""
        return slot_bounds(self.number, self.number, self.instances)

    def own_rows(self, segment: SegmentInfo) -> Rows:
        """The rows of a segment in its own range."""
        rows = self.rows(segment)
        return rows.slice(*bounds(rows.hashes, *self.own_range))

    def write(self, side: str, rows: Rows, kind: str, level: int = 0) -> None:
        """Rows that will be state."""
        schema = self.layouts[side].schema
        for piece in rows.pieces():
            self.written.append(
                write_segment(
                    self.folder,
                    side,
                    schema,
                    piece,
                    floor_us=-FAR_US,
                    level=level,
                    batch_id=self.batch_id,
                    kind=kind,
                )
            )


@dataclass(frozen=True)
class StepTask:
    """A step with what every instance of it has to know. It is sent to the tasks. The rows of a
    step that emits fill the way back, so that its reports are files in `report_folder`; unless the
    instances write the rows themselves, as `output` says."""

    step: Step
    folder: Folder
    operator: str
    batch_id: int
    report_folder: str
    hides_keys: bool = False
    start: Start = Start()
    output: FileOutput | None = None
    is_small: bool = False  # it takes less time than handing it to other processes
    is_tiny: bool = False  # and gives few rows

    @property
    def root(self) -> str:
        return self.folder.root

    def rows_of(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of one instance; then its report, as a small file. Running it twice gives the
        same rows and does no harm."""
        instance = self._instance(number)
        emitted = yield from self._work(instance)
        report = self._report(instance, emitted)
        data = json.dumps(report.to_json()).encode()
        name = f"{self.report_folder}/{number}.json"
        self.folder.write_atomically(name, data, durable=False)  # it is of this batch only
        failpoints.hit("instance.reported", self.root, self.batch_id)

    def report_of(self, number: int) -> InstanceReport:
        """The work of one instance that emits nothing, or writes to files what it emits."""
        instance = self._instance(number)
        emitted = 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal emitted
            emitted = yield from self._work(instance)

        if self.output is None:
            assert next(rows(), None) is None, f"{self.step.name} emits no rows"
            written = NOTHING_WRITTEN
        else:
            written = self.output.write(rows(), self.folder, number, self.step.instances)
        report = replace(self._report(instance, emitted), output=written)
        failpoints.hit("instance.reported", self.root, self.batch_id)
        return report

    def _instance(self, number: int) -> Instance:
        scope = f"{self.root}#{self.operator}#{self.start.id}"
        step = self.step
        return Instance(
            number,
            step.instances,
            self.batch_id,
            self.folder,
            scope,
            step.layouts,
            start=self.start,
        )

    def _work(self, instance: Instance) -> Generator[pa.RecordBatch, None, int]:
        """The rows of the work, and at the end how many there were."""
        failpoints.hit("instance.begun", self.root, self.batch_id)
        claim()  # whatever it is, it is not of this task
        HIDDEN_BY.set(salt_of(self.folder) if self.hides_keys else None)
        emitted, clock = 0, instance.clock
        clock.start()
        for rows in self.step.work(instance):
            emitted += rows.num_rows
            instance.bytes_out += rows.nbytes
            # Whoever takes them does so in this thread, and that is work as well.
            yield from pieces_of_batch(rows)
        clock.stop()
        failpoints.hit("instance.worked", self.root, self.batch_id)
        return emitted

    def _report(self, instance: Instance, emitted: int) -> InstanceReport:
        compacted: list[SegmentInfo] = []
        if self.step.compaction is not None:
            share = (instance.number, instance.instances)
            instance.reads = self.step.compaction.reads(instance.number)
            compacted = list(
                rewrite(instance.folder, self.step.compaction, share, self.batch_id, instance.rows)
            )
        CACHE.let_go(instance.folder, instance.scope, before_batch_id=self.batch_id - 1)
        lateness = put_together(instance.lateness)
        late = sum(lateness.values())
        load = replace(
            instance.load,
            instance=instance.number,
            late=late,
            bytes_out=instance.bytes_out,
            time_ms=instance.clock.spent_ms(),
        )
        return InstanceReport(
            load,
            emitted,
            tuple(instance.written),
            tuple(compacted),
            instance.detail,
            lateness,
            claim(),
        )
