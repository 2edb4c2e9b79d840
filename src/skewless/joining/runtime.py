"""The life of a join's state, batch by batch: open, plan, join, commit.

Nothing here knows of Spark. Whoever drives it (a streaming query, a test, a simulation) feeds rows
to `ingest`, asks for a plan, has every instance work by it with `run_instance`, and commits:

    plan = runtime.plan(batch_id, arrivals)
    for instance in range(plan.routing.instances):
        for batch in run_instance(spec, plan, instance): ...
    runtime.commit(plan, arrivals)
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import pyarrow as pa

from skewless import faults
from skewless.errors import DataError, StateAccessError, StateDamagedError
from skewless.joining.compact import compact
from skewless.joining.ingest import PROBES
from skewless.joining.two_way import InstanceJoin
from skewless.model import (
    FAR_US,
    SIDES,
    Arrival,
    BatchPlan,
    BatchReport,
    InstanceLoad,
    JoinSpec,
    KeyShare,
    RoutingTable,
    RunRef,
    SegmentInfo,
    Side,
)
from skewless.routing import Routing
from skewless.state.commits import COMMITS, Commit, CommitLog, claim
from skewless.state.compaction import choose_compactions, expired
from skewless.state.files import Folder
from skewless.state.history import HISTORY, write_report
from skewless.state.publish import publish
from skewless.state.segments import SEGMENTS, SegmentCache, verify_segment

log = logging.getLogger("skewless")

REPORTS = "reports"
STAGED = "staged"
HEAVY_KEYS_TOLD = 10
NEVER_US = -FAR_US

_cache = SegmentCache()


def staging_folder(batch_id: int) -> str:
    """Where the output files of a batch wait for its commit."""
    return f"{STAGED}/{batch_id:012d}"


def run_instance(spec: JoinSpec, plan: BatchPlan, instance: int) -> Iterator[pa.RecordBatch]:
    """The work of one instance in one batch: its matches; then its report, as a small file. Running
    it twice gives the same rows and does no harm."""
    faults.reach("instance.begun", plan.batch_id)
    folder = Folder(plan.root)
    join = InstanceJoin(spec, plan, instance, _cache)
    yield from join.results()
    faults.reach("instance.joined", plan.batch_id)
    begun = time.perf_counter()
    compacted = [s.to_json() for s in compact(spec, plan, instance, _cache)]
    compact_ms = (time.perf_counter() - begun) * 1000
    report = {"load": asdict(join.load), "compacted": compacted, "compact_ms": compact_ms}
    folder.write_atomically(f"{plan.report_folder}/{instance}.json", json.dumps(report).encode())
    _cache.keep_only(folder, {s.name for s in (*plan.old, *(r.segment for r in plan.new))})
    faults.reach("instance.reported", plan.batch_id)


class JoinRuntime:
    """The state of one join. `keep_commits` is how many batches one can go back to."""

    def __init__(
        self,
        root: str,
        spec: JoinSpec,
        routing: Routing,
        instances: int,
        slots: int,
        keep_commits: int = 10,
        keep_history: int = 1000,
    ) -> None:
        self.folder = Folder(root)
        self.spec = spec
        self._routing, self._instances, self._slots = routing, instances, slots
        self._keep_commits, self._keep_history = max(keep_commits, 2), keep_history
        self._commits = CommitLog(self.folder)
        self._kept: dict[int, set[str]] = {}
        self.last: Commit | None = None
        self._table: RoutingTable = routing.table(slots, instances)
        self.is_open = False

    def open(self) -> None:
        """Make or check the state folder; finish what a crash left unfinished."""
        self.folder.make()
        self._check_writable()
        for name in (COMMITS, SEGMENTS, PROBES, REPORTS, STAGED, HISTORY):
            self.folder.make(name)
        claim(self.folder, self.spec.fingerprint())
        ids = self._commits.batch_ids()
        self._kept = {i: {s.name for s in self._commits.read(i).segments} for i in ids}
        self.last = self._commits.read(ids[-1]) if ids else None
        if self.last is not None:
            self._adopt(self.last)
        self._clean_orphans()
        self.is_open = True

    def _check_writable(self) -> None:
        probe = f".probe-{uuid.uuid4().hex}"
        try:
            self.folder.write(probe, b"skewless")
            size = self.folder.size(probe)
        finally:
            self.folder.delete(probe)
        if size != 8:
            raise StateAccessError(f"cannot store a file in {self.folder.root}: is the disk full?")

    def _adopt(self, last: Commit) -> None:
        if last.slots != self._slots:
            log.warning(
                "the checkpoint has %d slots, %d were asked for: %d are used",
                last.slots, self._slots, last.slots,
            )  # fmt: skip
            self._slots = last.slots
        self._table = self._routing.table(self._slots, self._instances)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda s: verify_segment(self.folder, s), last.segments))
        publish(self.folder, last)

    def _clean_orphans(self) -> None:
        """Remove what no commit refers to: left over from crashes and repeated tasks."""
        referred = set().union(*self._kept.values()) if self._kept else set()
        for name in self.folder.list(SEGMENTS):
            if f"{SEGMENTS}/{name}" not in referred:
                self.folder.delete(f"{SEGMENTS}/{name}")
        for transient in (PROBES, REPORTS, STAGED):
            self.folder.delete_folder(transient)
            self.folder.make(transient)

    @property
    def routing_table(self) -> RoutingTable:
        return self._table

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
        return batch_id <= self.last.batch_id

    def watermark_us(self) -> int:
        """The watermark for the next batch: the lesser of what the sides have reached."""
        if self.last is None:
            return NEVER_US
        return self._watermark(self.last.watermark_us, self.last.time_max_us)

    def _watermark(self, before: int, time_max_us: dict[Side, int | None]) -> int:
        reached = [
            NEVER_US if (seen := time_max_us[side]) is None else seen - self.spec.side(side).late_us
            for side in SIDES
        ]
        return max(before, min(reached))

    def plan(self, batch_id: int, arrivals: Sequence[Arrival]) -> BatchPlan:
        """What every instance is to do in this batch."""
        faults.reach("arrivals.collected", batch_id)
        self._refuse_null_times(arrivals)
        watermark = self.watermark_us()
        new = tuple(
            RunRef(replace(a.segment, floor_us=watermark, batch_id=batch_id), a.probe_file)
            for a in arrivals
            if a.segment is not None
        )
        old = () if self.last is None else self.last.segments
        report_folder = f"{REPORTS}/{batch_id:012d}-{uuid.uuid4().hex}"
        self.folder.make(report_folder)
        return BatchPlan(
            batch_id=batch_id,
            root=self.folder.root,
            watermark_us=watermark,
            keep_after_us={s: self.spec.keep_after_us(s, watermark) for s in SIDES},
            routing=self._table,
            new=new,
            old=old,
            compact=choose_compactions(list(old)),
            report_folder=report_folder,
        )

    def _refuse_null_times(self, arrivals: Sequence[Arrival]) -> None:
        if self.spec.drop_null_times:
            return
        for side in SIDES:
            count = sum(a.null_times for a in arrivals if a.side == side)
            if count:
                this = self.spec.side(side)
                assert this.time is not None
                name = this.schema.field(this.time).name
                who = "1 row" if count == 1 else f"{count} rows"
                raise DataError(
                    f"{who} of the {side} input without event time (column {name!r} is null). "
                    'Filter such rows out, or pass on_null_time="drop" to drop and count them.'
                )

    def commit(
        self,
        plan: BatchPlan,
        arrivals: Sequence[Arrival],
        moves: Sequence[tuple[str, str]] = (),
        phases_ms: dict[str, float] | None = None,
    ) -> BatchReport:
        """Make the batch count: write its commit, show its output, clean up behind it."""
        begun = time.perf_counter()
        loads, compacted, rewritten = self._instance_reports(plan)
        if compacted is not None and plan.batch_id > 0 and not any(x.matches for x in loads):
            moves = ()  # files without rows; only the first batch shows one, for its schema
        commit = self._next_commit(plan, arrivals, compacted, moves)
        phases = dict(phases_ms or {})
        report = self._report(plan, arrivals, commit, loads, phases)
        write_report(self.folder, report)
        faults.reach("history.written", plan.batch_id)
        self._commits.write(commit)
        self.last = commit
        self._kept[commit.batch_id] = {s.name for s in commit.segments}
        publish(self.folder, commit)
        self._clean_up(plan, arrivals, rewritten)
        faults.reach("cleanup.done", plan.batch_id)
        log.debug("batch %d committed in %.1f ms", plan.batch_id,
                  (time.perf_counter() - begun) * 1000)  # fmt: skip
        return report

    def _instance_reports(
        self, plan: BatchPlan
    ) -> tuple[list[InstanceLoad], list[SegmentInfo] | None, list[SegmentInfo]]:
        """What the instances told. A sink may have read only some of the result, or none: then some
        reports are missing, and a compaction counts only if every instance did its share; None, and
        what some have rewritten, otherwise."""
        loads: list[InstanceLoad] = []
        rewritten: list[SegmentInfo] = []
        complete = True
        for instance in range(plan.routing.instances):
            try:
                report = json.loads(self.folder.read(f"{plan.report_folder}/{instance}.json"))
            except FileNotFoundError:
                loads.append(InstanceLoad(instance))
                complete = False
                continue
            loads.append(InstanceLoad(**report["load"]))
            rewritten += [SegmentInfo.from_json(s) for s in report["compacted"]]
        return loads, rewritten if complete else None, rewritten

    def _next_commit(
        self,
        plan: BatchPlan,
        arrivals: Sequence[Arrival],
        compacted: list[SegmentInfo] | None,
        moves: Sequence[tuple[str, str]],
    ) -> Commit:
        time_max: dict[Side, int | None] = {}
        for side in SIDES:
            seen = [a.time_max_us for a in arrivals if a.side == side and a.time_max_us is not None]
            before = None if self.last is None else self.last.time_max_us[side]
            time_max[side] = max([*seen, *([] if before is None else [before])], default=None)
        watermark = self._watermark(plan.watermark_us, time_max)
        replaced = {s.name for group in plan.compact for s in group}
        alive = [s for s in plan.old if compacted is None or s.name not in replaced]
        alive += compacted or []
        alive += [r.segment for r in plan.new if r.segment.time_max_us >= r.segment.floor_us]
        keep_after = {s: self.spec.keep_after_us(s, watermark) for s in SIDES}
        return Commit(
            batch_id=plan.batch_id,
            watermark_us=watermark,
            time_max_us=time_max,
            slots=plan.routing.slots,
            instances=plan.routing.instances,
            strategy=plan.routing.strategy,
            segments=tuple(s for s in alive if not expired(s, keep_after[s.side])),
            publish=tuple(moves),
        )

    def _report(
        self,
        plan: BatchPlan,
        arrivals: Sequence[Arrival],
        commit: Commit,
        loads: list[InstanceLoad],
        phases_ms: dict[str, float],
    ) -> BatchReport:
        def total(field: str, side: Side | None = None) -> int:
            return sum(getattr(a, field) for a in arrivals if side in (None, a.side))

        return BatchReport(
            batch_id=plan.batch_id,
            rows_left=total("rows", "left"),
            rows_right=total("rows", "right"),
            late=sum(x.late_left + x.late_right for x in loads),
            null_keys=total("null_keys"),
            null_times=total("null_times"),
            nan_bands=total("nan_bands"),
            matches=sum(x.matches for x in loads),
            duration_ms=round(sum(phases_ms.values()), 3),
            phases_ms={k: round(v, 3) for k, v in phases_ms.items()},
            state_rows=sum(s.rows for s in commit.segments),
            state_bytes=sum(s.bytes for s in commit.segments),
            segments=len(commit.segments),
            watermark_us=None if plan.watermark_us <= NEVER_US // 2 else plan.watermark_us,
            instances=tuple(loads),
            heavy_keys=heaviest(arrivals),
        )

    def _clean_up(
        self, plan: BatchPlan, arrivals: Sequence[Arrival], rewritten: list[SegmentInfo]
    ) -> None:
        """Delete what no kept commit refers to any more. Failing to is no reason to stop."""
        try:
            for old in sorted(self._kept)[: -self._keep_commits]:
                self._commits.delete(old)
                gone = self._kept.pop(old)
                for name in gone - set().union(*self._kept.values()):
                    self.folder.delete(name)
            written = [a.segment for a in arrivals if a.segment is not None] + rewritten
            for name in {s.name for s in written} - self._kept[plan.batch_id]:
                self.folder.delete(name)
            for arrival in arrivals:
                if arrival.probe_file is not None:
                    self.folder.delete(arrival.probe_file)
            self.folder.delete_folder(plan.report_folder)
            self.folder.delete_folder(staging_folder(plan.batch_id))
            if plan.batch_id >= self._keep_history:
                self.folder.delete(f"{HISTORY}/{plan.batch_id - self._keep_history:012d}.json")
        except OSError as error:
            log.warning("could not clean up behind batch %d: %s", plan.batch_id, error)


def heaviest(arrivals: Sequence[Arrival]) -> tuple[KeyShare, ...]:
    """The heaviest keys of a batch by their share of its rows, both sides together."""
    rows: dict[str, int] = {}
    for arrival in arrivals:
        for key in arrival.heavy_keys:
            rows[key.value] = rows.get(key.value, 0) + key.rows
    all_rows = sum(a.rows for a in arrivals)
    ranked = sorted(rows.items(), key=lambda item: (-item[1], item[0]))[:HEAVY_KEYS_TOLD]
    return tuple(KeyShare(value, round(count / all_rows, 6)) for value, count in ranked)
