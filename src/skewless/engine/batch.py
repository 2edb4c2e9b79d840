"""The one loop: what happens in a micro-batch, whatever the operators and wherever they run.

rows arrive  →  for every operator, those below first:  plan → steps → rows
→  the rows of the last one go to the sink, those of others into the operator above
→  conclude  →  commit  →  publish  →  clean up
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

from skewless import failpoints
from skewless.engine.executor import Executor, Rows, Sink
from skewless.engine.instance import StepTask
from skewless.engine.lifecycle import Query
from skewless.engine.operator import Batch
from skewless.engine.output import FileTarget
from skewless.engine.pipeline import Node
from skewless.engine.report import BatchReport, InstanceReport
from skewless.errors import StateDamagedError
from skewless.files.parts import NotAsSparkError
from skewless.state.publish import Moves

log = logging.getLogger("skewless")


class Phases:
    """Splits the time of a batch into phases."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.spent_ms: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.spent_ms[phase] = self.spent_ms.get(phase, 0.0) + (now - self._last) * 1000
        self._last = now


def run_batch(
    query: Query,
    executor: Executor[Rows],
    sink: Sink[Rows],
    batch_id: int,
    files: FileTarget | None = None,
) -> BatchReport | None:
    """One batch from beginning to end; None if it was committed before, and must change nothing.
    Rows go to the sink, unless they can be written as `files` where they are found."""
    failpoints.hit("batch.begun", query.root, batch_id)
    try:
        query.ownership.check()
        executor.homes = query.homes()
        if query.is_done(batch_id):
            # Whoever feeds the streams may have state of its own that only counts once they were
            # read to the end in this very run: Spark's operators before ours have.
            executor.replay()
            query.ownership.check()
            query.clean_up_orphans()
            return None
        work = BatchWork(query, executor, batch_id)
        work.up_to_results()
        query.ownership.check()
        moves = work.written(sink) if files is None else work.written_as(files, sink)
        return query.commit(batch_id, work.batches, moves, work.phases.spent_ms)
    except Exception as error:
        if query.ownership.is_lost():
            raise query.ownership.lost() from error  # the rest are consequences
        raise


class BatchWork(Generic[Rows]):
    """The work of one batch. Results are made when they are read."""

    def __init__(
        self, query: Query, executor: Executor[Rows], batch_id: int, *, is_last: bool = False
    ) -> None:
        self._query, self._executor, self._batch_id = query, executor, batch_id
        self._is_last = is_last
        self.batches: dict[str, Batch] = {}
        self.phases = Phases()
        self._emitting: StepTask | None = None

    def up_to_results(self) -> None:
        """Everything up to the rows of the last operator."""
        self._query.note_moment(self._batch_id)
        arrivals = self._executor.arrivals()
        self.phases.lap("ingest")
        failpoints.hit("arrivals.collected", self._query.root, self._batch_id)
        pipeline, cores = self._query.pipeline, self._executor.cores()
        for node in pipeline.nodes:
            mine = [a for a in arrivals if a.operator == node.name]
            batch = self._query.begin(
                node, self._batch_id, mine, self.batches, is_last=self._is_last
            )
            batch.cores = cores
            batch.instances = self._query.sizes[node.name].choose(node.operator, batch, cores)
            self.batches[node.name] = batch
            task = self._emitting_step(node)
            if node is not pipeline.root and task is not None:
                upper, i, feed = pipeline.above(node)
                ingest = self._query.ingest(upper, i.name)
                arrivals += self._executor.pass_on(task, node, ingest, feed)
                self._finish(node, task)
                self.phases.lap(self._phase(node, task.step.name))
        self._emitting = task

    def results(self) -> Rows:
        """The rows of the last operator; they are made when they are read."""
        root = self._query.pipeline.root
        if self._emitting is None:
            return self._executor.no_rows(root)
        return self._executor.rows(self._emitting, root)

    def _emitting_step(self, node: Node) -> StepTask | None:
        """Run the steps of an operator up to the one that emits, if one does."""
        coordinator, batch = self._query.coordinators[node.name], self.batches[node.name]
        step = coordinator.plan(batch)
        self.phases.lap(self._phase(node, "plan"))
        while step is not None:
            task = self._query.task(node, self._batch_id, step)
            batch.steps.append(step)
            if step.emits:
                return task
            self._note(node, task, _of_all(task, self._executor.reports(task)))
            self.phases.lap(self._phase(node, step.name))
            step = coordinator.next(batch)
        return None

    def _note(self, node: Node, task: StepTask, reports: Sequence[InstanceReport | None]) -> None:
        self.batches[node.name].reports.append(self._query.priced(task, reports))

    def _finish(self, node: Node, task: StepTask, *, wholly: bool = False) -> None:
        """Note what the instances report of a step that emits. Whoever took its rows may not have
        read all of them; but what must be made, and is not made now, would be missing."""
        reports = self._query.reports(task)
        if None in reports and (wholly or task.step.must_finish):
            self._executor.drain(self._executor.rows(task, node))
            reports = self._query.reports(task)
        self._note(node, task, reports)

    def _phase(self, node: Node, step: str) -> str:
        alone = len(self._query.pipeline.nodes) == 1
        return step if alone else f"{node.name}: {step}"

    def written_as(self, files: FileTarget, sink: Sink[Rows]) -> Moves:
        """Have the instances write the results. The first batch shows a file even if it has none,
        for its columns: that is the sink's. So are values that turn out to be such as only Spark
        writes: then the step is run again, which gives the same rows."""
        query, root, task = self._query, self._query.pipeline.root, self._emitting
        if task is None:
            return self.written(sink)
        output = files.output(query.folder, self._batch_id)
        failpoints.hit("sink.begun", query.root, self._batch_id)
        reports = _of_all(task, self._executor.reports(replace(task, output=output)))
        try:
            written = output.together([report.output for report in reports], query.folder)
        except NotAsSparkError as why:
            log.info("Spark writes the files of batch %d: %s", self._batch_id, why)
            query.folder.delete_folder(output.staged)
            return self.written(sink)
        self._note(root, task, reports)
        moves = files.moves(written, query.folder, self._batch_id)
        if not moves and self._batch_id == 0:
            moves = sink.write(self._executor.no_rows(root), self._batch_id)
        failpoints.hit("sink.staged", query.root, self._batch_id)
        self.phases.lap(self._phase(root, f"{task.step.name} and write"))
        return moves

    def written(self, sink: Sink[Rows]) -> Moves:
        """Hand the results to the sink, and see to it that all work is done."""
        root, task = self._query.pipeline.root, self._emitting
        moves: Moves = []
        if task is not None or self._batch_id == 0 or sink.shows_empty:
            failpoints.hit("sink.begun", self._query.root, self._batch_id)
            moves = sink.write(self.results(), self._batch_id)
            failpoints.hit("sink.staged", self._query.root, self._batch_id)
        phase = "write"
        if task is not None:
            self._finish(root, task, wholly=sink.may_skip)
            phase = self._phase(root, f"{task.step.name} and write")
        self.phases.lap(phase)
        return moves


def _of_all(task: StepTask, reports: Sequence[InstanceReport]) -> list[InstanceReport]:
    """The reports of a step that emits nothing, one of every instance. Without one of them, what
    that instance has made would get lost unseen."""
    found = sorted(reports, key=lambda report: report.load.instance)
    if [report.load.instance for report in found] != list(range(task.step.instances)):
        raise StateDamagedError(
            f"some instances of batch {task.batch_id} reported nothing of step {task.step.name!r}"
        )
    return found
