"""The life of a query's state, whatever its operators: open, replay, commit, publish, clean up."""

from __future__ import annotations

import contextlib
import json
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from skewless import failpoints
from skewless.engine.ahead import FarAheadLog
from skewless.engine.clock import BatchClock
from skewless.engine.counted import MaybeReport, WorkPrices
from skewless.engine.exchange import Homes
from skewless.engine.idleness import idle_inputs, last_heard_us
from skewless.engine.instance import Start, StepTask
from skewless.engine.letters import Letter, letters_folder
from skewless.engine.listeners import tell_listeners
from skewless.engine.loss import LossLog
from skewless.engine.operator import Arrival, Batch, Coordinator, Input, Step
from skewless.engine.pipeline import IngestTask, Node, Pipeline
from skewless.engine.report import BatchReport, InstanceReport
from skewless.engine.sizing import Sizing
from skewless.engine.summary import batch_report
from skewless.engine.takeover import record, take_over
from skewless.engine.watermark import NEVER_US, advance, behind, reached
from skewless.errors import DataError, StateDamagedError
from skewless.state.blobs import BLOBS
from skewless.state.commits import (
    COMMITS,
    Commit,
    CommitLog,
    Move,
    OperatorState,
    TornError,
)
from skewless.state.delivery import Deliverer, deliver, shared_out
from skewless.state.epochs import OWNER, Ownership, claimed, epoch_of, own_folder
from skewless.state.files import Folder
from skewless.state.hiding import make_salt
from skewless.state.history import HISTORY, write_report
from skewless.state.janitor import Janitor
from skewless.state.opening import read_manifests, refuse_missing, without_unfinished
from skewless.state.output import check_confined
from skewless.state.parallel import each
from skewless.state.parts import is_far
from skewless.state.publish import (
    STAGED,
    is_shown,
    made_durable,
    note_shown,
    publish,
    staging_folder,
)
from skewless.state.recovery import last_whole_batch, sparks_folder
from skewless.state.rollback import refuse_if_unfinished
from skewless.state.segments import SCRATCH, SEGMENTS
from skewless.state.sparks_log import SparksLog

log = logging.getLogger("skewless")

REPORTS = "reports"
SWEEP_EVERY = 32  # batches
TRANSIENT = (SCRATCH, REPORTS, STAGED)  # folders whose content is of one batch only
DURABLE = (SEGMENTS, BLOBS)  # folders whose content commits refer to
NULL_TIMES = "null times"


class Query:
    """A pipeline and its state folder, from the driver's view. `keep_commits` is how many batches
    one can go back to. `ownership` is for those who have to know the epoch, too. With `hide_keys`,
    hashes of keys are told instead of their values. A `deliverer` takes what is staged to where it
    cannot be moved."""

    def __init__(
        self,
        root: str | Folder,
        pipeline: Pipeline,
        keep_commits: int = 10,
        keep_history: int = 1000,
        ownership: Ownership | None = None,
        *,
        hide_keys: bool = False,
        deliverer: Deliverer | None = None,
    ) -> None:
        self.pipeline = pipeline
        self._deliverer = deliverer
        self.ownership = ownership or Ownership(Folder.at(root))
        self.root = self.folder.root
        self._fingerprint = pipeline.fingerprint()
        self._keep_commits, self._keep_history = max(keep_commits, 2), keep_history
        self._hides_keys = hide_keys
        self._commits = CommitLog(self.folder)
        self._kept: dict[int, Commit] = {}
        self._start = Start()
        self._janitor = Janitor(self.folder)
        self._sparks_log = SparksLog(self.folder)
        self.last: Commit | None = None
        self._notes: Mapping[str, tuple[str, ...]] = {}  # what has changed, until it is reported
        self._is_recorded = True
        self.coordinators: dict[str, Coordinator] = {}
        self.sizes = {node.name: Sizing() for node in pipeline.nodes}
        self._prices: defaultdict[tuple[str, str], WorkPrices] = defaultdict(WorkPrices)
        self._losses, self._far_ahead = LossLog(), FarAheadLog()
        self.clock = BatchClock(self.folder)
        self._moment_us: int | None = None
        self.is_open = False

    @property
    def folder(self) -> Folder:
        return self.ownership.folder

    @property
    def epoch(self) -> int:
        return self.ownership.epoch

    def open(self) -> None:
        """Make or check the state folder, and take it; finish what a crash left unfinished."""
        self._make_folders()
        refuse_if_unfinished(self.folder)
        with contextlib.suppress(TornError):  # of that below
            self._commits.latest()  # what another version wrote is refused before it is claimed
        if self._hides_keys:
            make_salt(self.folder)
        self.ownership.take(
            self._commits.newest_epoch(), lambda: last_whole_batch(self.folder, self._commits)
        )
        ids = self._commits.batch_ids()
        self._sparks_log.mend(ids[-1] if ids else -1)
        self._kept = dict(zip(ids, each(self.folder, self._commits.read, ids), strict=True))
        read_manifests(self.folder, self._kept.values())
        taken = take_over(self.folder, self.pipeline, self._kept[ids[-1]] if ids else None)
        self.last, self._notes, self._is_recorded = taken.last, taken.notes, taken.is_recorded
        if self.last is not None:
            self._start = Start(uuid.uuid4().hex, self.last.batch_id)
            self.last = without_unfinished(self.last)
            refuse_missing(self.folder, self.last, self._janitor.found([SEGMENTS]))
            check_confined(self.folder, self.last)
            if not is_shown(self.folder, self.last):
                publish(self.folder, self.last)
                deliver(self.folder, self.last, self._deliverer)
            note_shown(self.folder, self.last)
        self.coordinators = {
            node.name: node.operator.coordinator(self._state(node), self.folder)
            for node in self.pipeline.nodes
        }
        self.clean_up_orphans()
        self.ownership.prune()
        self.is_open = True

    def _make_folders(self) -> None:
        self.folder.check()
        for name in (COMMITS, HISTORY, OWNER, *DURABLE, *TRANSIENT):
            self.folder.make(name)
        self.folder.sync()
        with contextlib.suppress(OSError):  # it need not be ours to read
            sparks_folder(self.folder).sync()

    def homes(self) -> Homes:
        """Where the rows of the next batch are to go, if they are exchanged."""
        nodes = self.pipeline.nodes
        instances = {n.name: self.sizes[n.name].now or n.operator.instances for n in nodes}
        return self.pipeline.homes(self.folder, self.coordinators, instances)

    def _state(self, node: Node) -> OperatorState | None:
        return None if self.last is None else self.last.operators[node.name]

    def _referred(self) -> Callable[[], set[str]]:
        """All files that the commits of now refer to, when asked."""
        commits = tuple(self._kept.values())
        return lambda: set().union(*(commit.files for commit in commits))

    def _is_mine(self, name: str) -> bool:
        """Whether nobody after this epoch has written a file: what later ones write is theirs."""
        return epoch_of(name) <= self.epoch

    def _remove(self, places: Iterable[str], but: Iterable[str] = ()) -> None:
        """Remove what is in some places: left over from crashes and repeated tasks. Between two
        batches nobody of this epoch writes."""
        self._janitor.delete(set(self._janitor.found(places, self._is_mine)).difference(but))

    def clean_up_orphans(self) -> None:
        """Remove what was written for nothing: by a process that is gone, or for a batch that was
        committed before."""
        self._commits.sweep(self.epoch)
        self._remove(DURABLE, but=self._referred()())
        self._remove(TRANSIENT)
        former = [replace(self.folder, epoch=e) for e in claimed(self.folder) if e <= self.epoch]
        for transient in TRANSIENT:
            for folder in former:
                self.folder.delete_folder(own_folder(folder, transient))
        self.folder.make(own_folder(self.folder, STAGED))
        self.folder.sync(STAGED)

    def is_done(self, batch_id: int) -> bool:
        """Whether a batch is committed already: then it is replayed and must change nothing."""
        if self.last is None:
            if batch_id > 0:
                raise StateDamagedError(
                    f"Spark's log is at batch {batch_id}, but {self.folder.root} holds no commit. "
                    "Restore the state folder, or start with a new checkpointLocation."
                )
            return False
        if batch_id not in (self.last.batch_id, self.last.batch_id + 1):
            # Spark repeats at most its last batch. Skipping older ones would lose new rows unseen.
            raise StateDamagedError(
                f"Spark's log is at batch {batch_id}, but the last commit in {self.folder.root} is "
                f"of batch {self.last.batch_id}. Restore the whole checkpoint folder from one "
                "point in time, or start with a new checkpointLocation."
            )
        if batch_id == self.last.batch_id:
            self._sparks_log.refuse_another(batch_id, self.last.plan)
        return batch_id <= self.last.batch_id

    def note_moment(self, batch_id: int) -> None:
        """Write down when a batch began, before its rows are taken in, if anything goes by it."""
        if self.pipeline.goes_by_clock:
            self._moment_us = self.clock.moment_us(batch_id)

    def begin(
        self,
        node: Node,
        batch_id: int,
        arrivals: Sequence[Arrival],
        below: Mapping[str, Batch],
        *,
        is_last: bool = False,
    ) -> Batch:
        """A batch of one operator, now that its rows have arrived and those below are planned."""
        for i, feed in node.fed():
            _refuse_bad_values(i, arrivals)
            _refuse_null_times(i, arrivals)
            if feed.stream is not None and feed.rules.max_ahead_us is None and not is_last:
                self._far_ahead.watch(node.name, i, arrivals, self.clock.now_us())
        state = self._state(node)
        before = NEVER_US if state is None else state.watermark_us
        seen: Mapping[str, int | None] = {} if state is None else state.time_max_us
        latest = _latest(node, seen, arrivals)
        before_us = {} if state is None else state.heard_us
        heard = last_heard_us(node, before_us, arrivals, self._moment_us)
        idle = idle_inputs(node, heard, self._moment_us, below)
        now, then = (
            advance(before, [
                behind(getattr(below[feed.source], mark), feed.lag_us)
                if feed.source is not None
                else reached(times.get(i.name), i.late_us, feed.tick_us)
                for i, feed in node.fed()
                if i.name not in silent
            ])
            for times, mark, silent in (
                (seen, "watermark_us", ()),  # who was idle is in the watermark before
                (latest, "next_watermark_us", idle),
            )
        )  # fmt: skip
        base = OperatorState(now, latest) if state is None else state
        return Batch(
            batch_id=batch_id,
            folder=self.folder,
            state=OperatorState(now, latest, base.segments, base.blobs, base.facts, heard),
            arrivals=arrivals,
            watermark_us=now,
            next_watermark_us=max(now, then),
            is_last=is_last,
            idle=idle,
            is_idle=len(idle) == len(node.operator.inputs),
        )

    def ingest(self, node: Node, name: str) -> IngestTask:
        """The task that takes the rows of an input in. Before the state is open there is no epoch
        to tell it."""
        return node.ingest(name, self.folder, hides_keys=self._hides_keys)

    def task(self, node: Node, batch_id: int, step: Step) -> StepTask:
        """A step as it is sent out, with a folder for reports that no earlier try of the batch has
        written to."""
        reports = f"{own_folder(self.folder, REPORTS)}/{batch_id:012d}-{uuid.uuid4().hex}"
        if step.emits:
            self.folder.make(reports)
        return StepTask(
            step,
            self.folder,
            node.name,
            batch_id,
            reports,
            self._hides_keys,
            self._start,
            is_small=self.sizes[node.name].is_small and not is_far(self.folder),
            is_tiny=self.sizes[node.name].is_tiny and not is_far(self.folder),
        )

    def reports(self, task: StepTask) -> list[InstanceReport | None]:
        """What each instance has reported of a step that emits. A sink may have read only some of
        the rows, or none: then some have reported nothing."""

        def report(instance: int) -> InstanceReport | None:
            try:
                data = json.loads(self.folder.read(f"{task.report_folder}/{instance}.json"))
            except FileNotFoundError:
                return None
            return InstanceReport.from_json(data)

        return each(self.folder, report, range(task.step.instances))

    def priced(self, task: StepTask, reports: Sequence[MaybeReport]) -> list[MaybeReport]:
        """The reports of a step, with what the counted work comes to."""
        return self._prices[task.operator, task.step.name].priced(reports)

    def commit(
        self,
        batch_id: int,
        batches: Mapping[str, Batch],
        moves: Sequence[tuple[str, str]] = (),
        phases_ms: Mapping[str, float] | None = None,
    ) -> BatchReport:
        """Make the batch count: write its commit, show its output, clean up behind it. If another
        driver has taken over, the commit may or may not count: that one knows, and goes on."""
        outcomes = {
            name: self.coordinators[name].conclude(batch) for name, batch in batches.items()
        }
        for name, outcome in outcomes.items():
            self.sizes[name].learn(batches[name], outcome.loads)
        shows_schema = batch_id == 0 and self._deliverer is None
        if _emitted_nothing(batches[self.pipeline.root.name]) and not shows_schema:
            moves = ()  # files without rows; only the first batch shows one, for its schema
        states = {
            name: OperatorState(
                batch.next_watermark_us,
                batch.state.time_max_us,
                outcomes[name].segments.sealed(self.folder),
                outcomes[name].blobs,
                outcomes[name].facts,
                batch.state.heard_us,
            )
            for name, batch in batches.items()
        }
        staged, to_deliver = self._made_durable(moves), None
        if self._deliverer is not None:
            staged, to_deliver = (), shared_out(staged, self._deliverer)
        letters = [letter.move(batch_id) for letter in _letters_of(batches.values())]
        staged += made_durable(self.folder, letters)
        plan = self._sparks_log.keep(batch_id)
        commit = Commit(batch_id, states, staged, self._fingerprint, self.epoch, to_deliver, plan)
        notes = {name: (*self._notes.get(name, ()), *self.sizes[name].notes()) for name in batches}
        now_us = self.clock.now_us()
        report = batch_report(self.pipeline, batches, outcomes, notes, phases_ms or {}, now_us)
        self.ownership.check()
        write_report(self.folder, batch_id, report.to_json())
        failpoints.hit("history.written", self.root, batch_id)
        self._commits.write(commit)
        self.ownership.check()
        new = commit.files_beyond(self.last)
        self.last, self._notes = commit, {}
        self._kept[batch_id] = commit
        if not self._is_recorded:
            record(self.folder, commit)
            self._is_recorded = True
        publish(self.folder, commit)
        deliver(self.folder, commit, self._deliverer)
        note_shown(self.folder, commit)
        self._clean_up(batch_id, set(_files_of(batches.values())) - new)
        if letters:
            self.folder.delete_folder(letters_folder(self.folder))  # of repeated tasks
        failpoints.hit("cleanup.done", self.root, batch_id)
        self._losses.watch(report)
        tell_listeners(self.folder, report)
        return report

    def _made_durable(self, moves: Sequence[tuple[str, str]]) -> tuple[Move, ...]:
        """Let all that a commit refers to survive a loss of power. Contents do already, but for
        what Spark has written."""
        for durable in DURABLE:
            self.folder.sync(durable)
        return made_durable(self.folder, moves)

    def _clean_up(self, batch_id: int, unused: set[str]) -> None:
        """Delete what no kept commit refers to any more, and what the batch has written that is
        `unused`. Failing to is no reason to stop."""
        try:
            ids = sorted(self._kept)
            for old, later in pairwise(ids[: 1 - self._keep_commits]):
                self._commits.delete(old)
                # A file that a commit does not refer to any more does not come back.
                unused |= self._kept.pop(old).files_beyond(self._kept[later])
            self.folder.sync(COMMITS)  # a loss of power must not bring back one without its files
            self._janitor.delete(unused)
            for own in (own_folder(self.folder, REPORTS), staging_folder(self.folder, batch_id)):
                self.folder.delete_folder(own)
            self._janitor.end_sweep(self._referred())
            if batch_id % SWEEP_EVERY == SWEEP_EVERY - 1:
                self._janitor.begin_sweep(DURABLE, self._is_mine)
            if batch_id >= self._keep_history:
                self.folder.delete(f"{HISTORY}/{batch_id - self._keep_history:012d}.json")
        except OSError as error:
            log.warning("could not clean up behind batch %d: %s", batch_id, error)


def _latest(
    node: Node, seen: Mapping[str, int | None], arrivals: Sequence[Arrival]
) -> dict[str, int | None]:
    """The latest event time of each input, now that a batch has arrived."""
    latest: dict[str, int | None] = {}
    for i in node.operator.inputs:
        times = [seen.get(i.name), *(a.time_max_us for a in arrivals if a.input == i.name)]
        latest[i.name] = max((t for t in times if t is not None), default=None)
    return latest


def _files_of(batches: Iterable[Batch]) -> Iterable[str]:
    """All that a batch has written and that may not be state."""
    for batch in batches:
        for arrival in batch.arrivals:
            yield from arrival.files
        for report in (r for step in batch.reports for r in step if r is not None):
            yield from (s.name for s in (*report.written, *report.compacted))


def _letters_of(batches: Iterable[Batch]) -> Iterable[Letter]:
    return (one for batch in batches for arrival in batch.arrivals for one in arrival.letters)


def _emitted_nothing(batch: Batch) -> bool:
    """Whether it is certain that a batch has no results."""
    return batch.is_complete and not any(r.emitted for step in batch.reports for r in step if r)


def _refuse_bad_values(i: Input, arrivals: Sequence[Arrival]) -> None:
    """Stop the query at texts that cannot be parsed, where that is asked for."""
    refused = [a for a in arrivals if a.input == i.name and a.refused]
    if refused:
        count = sum(a.bad_values for a in refused)
        who = "1 bad value" if count == 1 else f"{count} bad values"
        raise DataError(
            f"{who} of the {i.title or f'{i.name} input'}: {refused[0].refused}. They are no JSON "
            'of the given schema. Pass on_bad="null" to read them as nulls, on_bad="drop" to drop '
            "and count them, or on_bad=sk.DeadLetters(path) to have them in files."
        )


def _refuse_null_times(i: Input, arrivals: Sequence[Arrival]) -> None:
    """Stop the query at rows that have no event time."""
    count = sum(a.dropped.get(NULL_TIMES, 0) for a in arrivals if a.input == i.name)
    if count and not i.drop_null_times:
        who = "1 row" if count == 1 else f"{count} rows"
        raise DataError(
            f"{who} of the {i.title or f'{i.name} input'} without event time (column "
            f"{i.time_name!r} is null). Filter such rows out, or pass "
            'on_null_time="drop" to drop and count them.'
        )
