"""Who runs the steps of a batch. Spark's executor is in `spark/`; this one has no processes."""

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa

from skewless.engine.exchange import Homes, Packet
from skewless.engine.instance import StepTask
from skewless.engine.operator import Arrival
from skewless.engine.pipeline import Feed, IngestTask, Node, Pipeline
from skewless.engine.report import InstanceReport
from skewless.state.files import Folder
from skewless.state.publish import Moves

Rows = TypeVar("Rows")


class Sink(ABC, Generic[Rows]):
    """Takes the result of each batch."""

    shows_empty: bool = False
    """Whether a batch without results is to be written, too, where that is known beforehand."""
    may_skip: bool = False
    """Whether it may read nothing of a batch, since it has it already. Then the batch is worked on
    all the same, as its tasks also report."""

    @abstractmethod
    def write(self, result: Rows, batch_id: int) -> Moves:
        """Write it; what comes back are the (staged, final) names of files to be shown."""


class Executor(ABC, Generic[Rows]):
    """Runs the tasks of one batch. `Rows` is what results are while they are on their way; `homes`
    is where rows that are taken in go, if they are exchanged."""

    homes: Homes = Homes()

    @abstractmethod
    def arrivals(self) -> list[Arrival]:
        """Have the streams' rows of this batch taken in."""

    def replay(self) -> None:
        """Read the streams once more, for whoever has state before them; nothing is made of it."""
        self.arrivals()

    def cores(self) -> int | None:
        """How many tasks can run at once, now; None where that says nothing."""
        return None

    @abstractmethod
    def reports(self, task: StepTask) -> list[InstanceReport]:
        """Run a step that emits nothing."""

    @abstractmethod
    def rows(self, task: StepTask, node: Node) -> Rows:
        """The rows of a step that emits; it runs when they are read."""

    @abstractmethod
    def no_rows(self, node: Node) -> Rows:
        """What an operator emits that has nothing to emit."""

    @abstractmethod
    def pass_on(self, task: StepTask, node: Node, ingest: IngestTask, feed: Feed) -> list[Arrival]:
        """Run a step that emits, and have its rows taken in by the operator above."""

    @abstractmethod
    def drain(self, rows: Rows) -> None:
        """Have all rows made, for nobody."""


Task = Sequence[pa.RecordBatch]


@dataclass
class InProcessExecutor(Executor[list[list[pa.RecordBatch]]]):
    """Everything in this process, one task after the other: for tests and benchmarks.

    `streams` are the rows of the batch, cut into tasks. What Spark would carry between processes is
    carried through JSON and pickle if it is to be `faithful`. With `attempts`, every task is run so
    often, and only what the last one gave counts. Between operators, a feed's `shape` is functions
    of record batches. `tasks_at_once` is how many cores it pretends to have.
    """

    pipeline: Pipeline
    root: str | Folder
    streams: Sequence[Sequence[Task]]
    faithful: bool = False
    attempts: int = 1
    tasks_at_once: int | None = None
    hides_keys: bool = False
    ran: list[StepTask] = field(default_factory=list)

    def cores(self) -> int | None:
        return self.tasks_at_once

    def arrivals(self) -> list[Arrival]:
        found: list[Arrival] = []
        packets: list[Packet] = []
        for node, i, feed in self.pipeline.streams():
            assert feed.stream is not None
            for number, batches in enumerate(self.streams[feed.stream]):
                task = node.ingest(i.name, Folder.at(self.root), hides_keys=self.hides_keys)
                found += self._taken_in(task, feed, batches, number, packets)
        return found + self._exchanged(packets)

    def _taken_in(
        self, task: IngestTask, feed: Feed, batches: Task, number: int, packets: list[Packet]
    ) -> list[Arrival]:
        for _ in range(self.attempts):
            rows = (batch.select(list(feed.columns)) for batch in batches)
            found = list(self._sent(task)(rows, number))
        packets += [p for p in found if isinstance(p, Packet)]
        return self._told([a for a in found if isinstance(a, Arrival)])

    def _exchanged(self, packets: list[Packet]) -> list[Arrival]:
        """Have packets put together by where they go."""
        found: list[Arrival] = []
        for place in sorted({self.homes.place(packet) for packet in packets}):
            mine = [packet for packet in packets if self.homes.place(packet) == place]
            for _ in range(self.attempts):
                task = self.pipeline.merging(Folder.at(self.root)).by(self.homes)
                stored = list(self._sent(task)(mine))
            found += self._told(stored)
        return found

    def _told(self, found: list[Arrival]) -> list[Arrival]:
        if not self.faithful:
            return found
        return [Arrival.from_json(json.loads(json.dumps(a.to_json()))) for a in found]

    def _sent(self, value: Any) -> Any:
        return pickle.loads(pickle.dumps(value)) if self.faithful else value

    def reports(self, task: StepTask) -> list[InstanceReport]:
        self.ran.append(task)
        found = []
        for number in range(task.step.instances):
            for _ in range(self.attempts):
                report = self._sent(task).report_of(number)
            found.append(report)
        if self.faithful:
            found = [InstanceReport.from_json(json.loads(json.dumps(r.to_json()))) for r in found]
        return found

    def rows(self, task: StepTask, node: Node) -> list[list[pa.RecordBatch]]:
        self.ran.append(task)
        return [self._rows_of(task, number) for number in range(task.step.instances)]

    def _rows_of(self, task: StepTask, number: int) -> list[pa.RecordBatch]:
        for _ in range(self.attempts):
            rows = list(self._sent(task).rows_of(number))
        return rows

    def no_rows(self, node: Node) -> list[list[pa.RecordBatch]]:
        return []

    def pass_on(self, task: StepTask, node: Node, ingest: IngestTask, feed: Feed) -> list[Arrival]:
        found: list[Arrival] = []
        packets: list[Packet] = []
        for number, part in enumerate(self.rows(task, node)):
            for shape in feed.shape:
                part = [shape(batch) for batch in part]  # noqa: PLW2901
            found += self._taken_in(ingest, feed, part, number, packets)
        return found + self._exchanged(packets)

    def drain(self, rows: list[list[pa.RecordBatch]]) -> None:
        """They are made already."""


class Collecting(Sink[list[list[pa.RecordBatch]]]):
    """A sink that keeps what it gets, batch by batch."""

    shows_empty = True

    def __init__(self) -> None:
        self.batches: dict[int, list[pa.RecordBatch]] = {}

    def write(self, result: list[list[pa.RecordBatch]], batch_id: int) -> Moves:
        self.batches[batch_id] = [batch for part in result for batch in part]
        return []
