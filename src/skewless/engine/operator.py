"""What an operator is: a value that says what to do. The engine does it, the same way for all.

An `Operator` goes to every task; its `Coordinator` stays on the driver while a query runs. A batch
of an operator is one step or several, each done by so many instances; at most the last one emits
rows, which are the operator's results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from skewless.arrays.types import FAR_US
from skewless.engine.changes import Adopted, Facts
from skewless.engine.hosts import NO_TRAFFIC, Traffic
from skewless.engine.letters import Letter
from skewless.engine.watermark import EventTimes
from skewless.placement.figures import Decision, Figures, WatchedKey
from skewless.state.blobs import BlobInfo
from skewless.state.commits import CommitLog, OperatorState
from skewless.state.compaction import choose_compactions
from skewless.state.files import Folder
from skewless.state.parts import is_far
from skewless.state.rewriting import Compaction, Layout, Merge
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SEGMENTS, Rows, SegmentInfo, write_segment
from skewless.state.shares import Shares

if TYPE_CHECKING:
    from skewless.engine.exchange import Outbox
    from skewless.engine.instance import Instance
    from skewless.engine.report import InstanceLoad, InstanceReport

# Ranges of hashes that rows are sent by: as many as a join has slots, so that places that were
# learned are kept to; not so many that packets are tiny.
BUCKETS_EACH, BUCKETS_MIN, BUCKETS_MAX = 16, 64, 1024


@dataclass(frozen=True)
class Input:
    """One input of an operator. `schema` has only the columns that the operator takes; `time` is
    the event time among them. `title` is how errors call it."""

    name: str
    schema: pa.Schema
    time: int | None
    late_us: int
    drop_null_times: bool = False
    title: str = ""

    @property
    def time_name(self) -> str | None:
        return None if self.time is None else str(self.schema.field(self.time).name)


@dataclass(frozen=True)
class HeavyKey:
    """A key that stands out: its value, and the rows it had in a batch."""

    value: str
    rows: int


@dataclass(frozen=True)
class RunRef:
    """New rows as a segment and, where rows look for partners under other hashes than their own,
    the file that lists these."""

    segment: SegmentInfo
    probe_file: str | None = None


@dataclass(frozen=True)
class Arrival:
    """What one task made of its part of an input: segments that will be state, scratch files that
    live as long as the batch, blobs, and what was dropped by cause. `detail` is the operator's. Of
    texts that were parsed, `bad_values` are those with a mistake, read as nulls; one that the query
    is to stop at is `refused`; those that were put aside are in `letters`."""

    input: str
    rows: int = 0
    runs: tuple[RunRef, ...] = ()
    scratch: tuple[SegmentInfo, ...] = ()
    blobs: tuple[BlobInfo, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    time_max_us: int | None = None
    heavy_keys: tuple[HeavyKey, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    operator: str = ""
    traffic: Traffic = NO_TRAFFIC
    bad_values: int = 0
    refused: str = ""
    letters: tuple[Letter, ...] = ()

    @property
    def files(self) -> set[str]:
        names = {r.segment.name for r in self.runs} | {s.name for s in self.scratch}
        names |= {r.probe_file for r in self.runs if r.probe_file is not None}
        return names | {b.name for b in self.blobs}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Arrival:
        return Arrival(
            **data
            | {
                "runs": tuple(
                    RunRef(SegmentInfo.from_json(r["segment"]), r["probe_file"])
                    for r in data["runs"]
                ),
                "scratch": tuple(SegmentInfo.from_json(s) for s in data["scratch"]),
                "blobs": tuple(BlobInfo(**b) for b in data["blobs"]),
                "heavy_keys": tuple(HeavyKey(**k) for k in data["heavy_keys"]),
                "traffic": Traffic(**data["traffic"]),
                "letters": tuple(Letter(**one) for one in data["letters"]),
            }
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(replace(self, detail={})) | {"detail": dict(self.detail)}


@dataclass(frozen=True)
class IngestContext:
    """What a task knows while it takes rows in: where the state is, whose it is, which task. With
    an `outbox`, rows that can be exchanged go there instead of into a segment. Keys whose hashes
    are `apart` have places of their own."""

    folder: Folder
    operator: str
    task: int = 0
    outbox: Outbox | None = None
    apart: tuple[int, ...] = ()

    def state(self) -> OperatorState | None:
        """What the operator had after the last batch. Tasks of the streaming plan are made before
        any batch, so they have to look."""
        last = CommitLog(self.folder).latest()
        return None if last is None else last.operators.get(self.operator)

    def batch_id(self) -> int:
        """The batch that rows are taken in for: the one after the last that was committed."""
        return max(CommitLog(self.folder).batch_ids(), default=-1) + 1


Work = Callable[["Instance"], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Step:
    """A part of a batch that instances work on side by side.

    `work` is sent to every instance and gives its rows. They are the operator's results if the step
    `emits`; else it gives none. What it notes down comes back as a report. A step that
    `must_finish` leaves something for later batches: every instance has to work, even if the sink
    does not read all of the rows.
    """

    name: str
    instances: int
    work: Work
    emits: bool
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    compaction: Compaction | None = None
    must_finish: bool = False


@dataclass
class Batch:
    """One batch, as an operator's coordinator sees it.

    Rows before `watermark_us` are late. Rows of later batches will be at or after
    `next_watermark_us`. With `is_last` there are no later batches. `idle` are the inputs that do
    not hold time back; `is_idle`: none does. So many `instances` are to work on it, of as many as
    there are `cores`, if that is known. `reports` are what the instances of each step so far have
    reported; None for those that the sink did not ask to work.
    """

    batch_id: int
    folder: Folder
    state: OperatorState
    arrivals: Sequence[Arrival]
    watermark_us: int
    next_watermark_us: int
    is_last: bool = False
    idle: tuple[str, ...] = ()
    is_idle: bool = False
    instances: int = 1
    cores: int | None = None
    steps: list[Step] = field(default_factory=list)
    reports: list[Sequence[InstanceReport | None]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether every instance of every step has reported."""
        return all(report is not None for step in self.reports for report in step)

    def received(self, step: int = -1) -> list[InstanceReport]:
        """The reports of a step, of those that have worked."""
        return [report for report in self.reports[step] if report is not None]

    def new_runs(self) -> tuple[RunRef, ...]:
        """The new rows, with the floor below which they are late."""
        return tuple(
            replace(run, segment=self._of_now(run.segment))
            for arrival in self.arrivals
            for run in arrival.runs
        )

    def new_scratch(self) -> tuple[SegmentInfo, ...]:
        """New rows that are of this batch only, with the same floor."""
        return tuple(self._of_now(s) for arrival in self.arrivals for s in arrival.scratch)

    def _of_now(self, segment: SegmentInfo) -> SegmentInfo:
        return replace(segment, floor_us=self.watermark_us, batch_id=self.batch_id)

    def in_time(self) -> list[SegmentInfo]:
        """New rows as segments, but for those in which all came too late."""
        new = (run.segment for run in self.new_runs())
        return [s for s in new if s.time_max_us >= s.floor_us]

    def compaction(
        self,
        instances: int,
        layouts: Mapping[str, Layout],
        keep_after_us: Mapping[str, int],
        segments: SegmentSet | None = None,
        merge: Merge | None = None,
        shares: Callable[[], Shares] | None = None,
    ) -> Compaction | None:
        """The segments that are due to be put together by so many instances, if any. Where fetching
        costs, every instance does so with its own of the `shares`, if it is said what they are."""
        own = shares() if shares is not None and is_far(self.folder) else None
        old = self.state.segments if segments is None else segments
        chosen = choose_compactions(old, instances, by_hash=own is not None)
        portions = tuple(portion.told for portion in chosen)
        return Compaction(portions, layouts, keep_after_us, merge, own) if portions else None

    def old_after(self, old: SegmentSet) -> SegmentSet:
        """Segments of earlier batches after the compactions of this one. What a batch does of one
        counts only if every instance has done its share."""
        for step, reports in zip(self.steps, self.reports, strict=True):
            if step.compaction is not None and None not in reports:
                written = [s for r in reports if r is not None for s in r.compacted]
                for portion in step.compaction.portions:
                    old = old.advanced(portion.after(written), self.batch_id)
        return old

    def written(self) -> list[SegmentInfo]:
        """What the instances have made in all steps, besides compactions."""
        return [s for step in self.reports for r in step if r is not None for s in r.written]


@dataclass(frozen=True)
class Outcome:
    """What a batch of an operator came to: its state from now on, and its figures."""

    segments: SegmentSet = field(default_factory=SegmentSet)
    blobs: tuple[BlobInfo, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    loads: tuple[InstanceLoad, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    verdict: str = ""
    slots: Figures | None = None
    keys: tuple[WatchedKey, ...] = ()
    key_figures: Figures | None = None


class Spec(Protocol):
    """What an operator computes, whoever does the work: the part of it that a user writes."""

    def inputs(self) -> tuple[Input, ...]:
        """What it takes, in the order of its arguments."""

    def fingerprint(self) -> dict[str, str]:
        """What must stay the same for a checkpoint to be continued, in words people understand."""

    def output_schema(self) -> pa.Schema:
        """The columns of its results."""

    def kept_us(self) -> dict[str, int]:
        """How far behind the watermark what is stored of each input is still needed; `FAR_US` if
        it is for ever."""

    def event_times(self, below: Sequence[EventTimes]) -> EventTimes:
        """Which columns of its results have a watermark, given which of its inputs' have."""


class Operator(ABC):
    """What to do with some inputs. Operators are frozen and picklable: they are sent to tasks."""

    kind: ClassVar[str]
    spec: Spec
    instances: int
    """How many it has; if it is `elastic`, only to begin with (`engine/sizing.py`)."""
    elastic: bool

    @property
    def instances_least(self) -> int:
        """How many it needs, however little there is to do."""
        return 1

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.spec.inputs()

    def fingerprint(self) -> dict[str, str]:
        """What a checkpoint is tied to: what is computed, and what only one strategy can read."""
        return self.spec.fingerprint()

    def output_schema(self) -> pa.Schema:
        return self.spec.output_schema()

    def event_times(self, below: Sequence[EventTimes]) -> EventTimes:
        return self.spec.event_times(below)

    def adopt(
        self, state: OperatorState | None, before: Facts, after: Facts, *, feeds: bool
    ) -> Adopted:
        """How it goes on from the state of an operator in its place with other facts, `before`; its
        own are `after`. `feeds` says whether others take its rows. Unless it says more, nothing may
        change."""
        return Adopted(state)

    @abstractmethod
    def ingest(
        self, name: str, batches: Iterable[pa.RecordBatch], context: IngestContext
    ) -> Iterator[Arrival]:
        """Store the rows of an input that one task has; tell what was found."""

    @property
    def divided_by(self) -> str:
        """Who works on which rows, in a few words."""
        return "equal ranges of keys"

    def copies(self, name: str) -> int:
        """How often each row of an input lies in the state."""
        return 1

    def exchanged(self) -> Mapping[str, Layout]:
        """The sides whose rows may come together from several tasks, by ranges of their hashes."""
        return {}

    @property
    def buckets(self) -> int:
        """Into how many ranges of hashes they are divided on their way."""
        return min(max(BUCKETS_MIN, BUCKETS_EACH * self.instances), BUCKETS_MAX)

    def store(self, name: str, side: str, rows: Rows, context: IngestContext) -> Arrival:
        """Store rows that have come together; tell what the tasks could not know of them."""
        return Arrival(name, runs=(RunRef(self.write(side, rows, context)),))

    def store_or_send(self, side: str, rows: Rows, context: IngestContext) -> tuple[RunRef, ...]:
        """Store the rows of one task, or send them to those who store what has come together."""
        if context.outbox is None:
            return (RunRef(self.write(side, rows, context)),)
        context.outbox.put(side, rows)
        return ()

    def write(
        self, side: str, rows: Rows, context: IngestContext, place: str = SEGMENTS
    ) -> SegmentInfo:
        schema = self.exchanged()[side].schema
        return write_segment(
            context.folder, side, schema, rows,
            floor_us=-FAR_US, level=0, batch_id=-1, place=place, cells=self.buckets,
            apart=context.apart,
        )  # fmt: skip

    @abstractmethod
    def coordinator(self, state: OperatorState | None, folder: Folder) -> Coordinator:
        """Begin, or go on from what a commit says."""

    def input(self, name: str) -> Input:
        return next(i for i in self.inputs if i.name == name)


class Coordinator(ABC):
    """The driver's part of one operator in a running query. What it learns from batch to batch may
    get lost at a restart, but for what it puts into an outcome."""

    def homes(self, buckets: int, instances: int) -> Sequence[int]:
        """Which of so many instances works on each of so many equal ranges of hashes, as far as it
        is known before a batch."""
        return [bucket * instances // buckets for bucket in range(buckets)]

    def homes_apart(self, instances: int) -> Mapping[int, Sequence[int]]:
        """The same of single hashes that have places of their own."""
        return {}

    @abstractmethod
    def plan(self, batch: Batch) -> Step | None:
        """The first step of a batch; None if there is nothing to do."""

    def next(self, batch: Batch) -> Step | None:
        """A further step, after one that emits nothing; None if there is none."""
        return None

    @abstractmethod
    def conclude(self, batch: Batch) -> Outcome:
        """What the batch came to, when all its steps are done."""
