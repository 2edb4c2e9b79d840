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
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from skewless import faults
from skewless.balancing.base import Balancing
from skewless.balancing.governor import Governor
from skewless.balancing.monitor import Work
from skewless.balancing.placement import OwnKey, Placement
from skewless.balancing.verdict import verdict
from skewless.errors import ArgumentError
from skewless.joining.compact import compact
from skewless.joining.ingest import PROBES
from skewless.joining.keys import hash_of_value
from skewless.joining.lifecycle import (
    REPORTS,
    STAGED,
    StateRuntime,
    log,
    refuse_null_times,
)
from skewless.joining.meter import slot_of
from skewless.joining.reports import load_report
from skewless.joining.two_way import InstanceJoin
from skewless.model import (
    SIDES,
    Arrival,
    BatchPlan,
    BatchReport,
    Decision,
    Floats,
    HeavyKey,
    InstanceLoad,
    JoinSpec,
    KeyShare,
    LoadReport,
    RoutingTable,
    RunRef,
    SegmentInfo,
    Side,
)
from skewless.routing import Routing
from skewless.state.commits import Commit
from skewless.state.compaction import choose_compactions, expired
from skewless.state.files import Folder
from skewless.state.segments import SegmentCache

HEAVY_KEYS_TOLD = 10

CACHE = SegmentCache()

Told = tuple[InstanceLoad, dict[str, Any]]  # by one instance
NOTHING_MEASURED: dict[str, Any] = {"slot": [], "slots": {}, "key": [], "value": [], "keys": {}}
KEYS_WATCHED = 8  # per instance, where nothing depends on it


def run_instance(spec: JoinSpec, plan: BatchPlan, instance: int) -> Iterator[pa.RecordBatch]:
    """The work of one instance in one batch: its matches; then its report, as a small file. Running
    it twice gives the same rows and does no harm."""
    faults.reach("instance.begun", plan.batch_id)
    folder = Folder(plan.root)
    join = InstanceJoin(spec, plan, instance, CACHE)
    yield from join.results()
    faults.reach("instance.joined", plan.batch_id)
    begun = time.perf_counter()
    compacted = [s.to_json() for s in compact(spec, plan, instance, CACHE)]
    compact_ms = (time.perf_counter() - begun) * 1000
    report = {
        "load": asdict(join.load),
        "figures": join.figures,
        "compacted": compacted,
        "compact_ms": compact_ms,
    }
    folder.write_atomically(f"{plan.report_folder}/{instance}.json", json.dumps(report).encode())
    CACHE.keep_only(folder, {s.name for s in (*plan.old, *(r.segment for r in plan.new))})
    faults.reach("instance.reported", plan.batch_id)


class HeavyKeysTold(Protocol):
    """What a task tells of its rows' keys."""

    @property
    def rows(self) -> int: ...
    @property
    def heavy_keys(self) -> tuple[HeavyKey, ...]: ...


@dataclass(frozen=True)
class Balance:
    """How the load of a batch was, what was decided about it, and that in one line."""

    load: LoadReport
    decisions: tuple[Decision, ...]
    verdict: str


class JoinRuntime(StateRuntime):
    """The state of one join."""

    transient = (PROBES, REPORTS, STAGED)

    def __init__(
        self,
        root: str,
        spec: JoinSpec,
        routing: Routing | Balancing,
        instances: int,
        slots: int,
        **keeping: int,
    ) -> None:
        lates_us: dict[str, int] = {side: spec.side(side).late_us for side in SIDES}
        super().__init__(root, spec.fingerprint(), lates_us, **keeping)
        self.spec = spec
        self._routing, self._instances, self._slots = routing, instances, slots
        self._governor: Governor | None = None
        self._table = self._start_table()

    def _start_table(self, last: Commit | None = None) -> RoutingTable:
        """The routing to begin with: a balanced join goes on from where its last commit left it, if
        the sizes are still the same."""
        if isinstance(self._routing, Routing):
            return self._routing.table(self._slots, self._instances)
        stored = None if last is None else last.placement
        placement = None if stored is None else Placement.from_json(stored)
        if placement is None or (placement.instances, placement.slots) != self._sizes:
            placement = self._routing.start(self._slots, self._instances)
        self._governor = Governor(self._routing, placement, self._pinned(self._routing))
        return self._governor.placement.table(self._routing.name)

    @property
    def _sizes(self) -> tuple[int, int]:
        return self._instances, self._slots

    def _pinned(self, balancing: Balancing) -> dict[int, OwnKey]:
        pinned = {}
        for value, instance in balancing.pinned:
            if instance >= self._instances:
                accepted = f"{{key: instance}}, instances from 0 to {self._instances - 1}"
                raise ArgumentError("pin", {value: instance}, accepted)
            key, here = hash_of_value(value, self.spec.left), (instance,)
            told = ", ".join(map(str, value if isinstance(value, tuple) else (value,)))
            pinned[key] = OwnKey(key, told, slot_of(key, self._slots), here, here)
        return pinned

    def _adopt(self, last: Commit) -> None:
        if last.slots != self._slots:
            log.warning(
                "the checkpoint has %d slots, %d were asked for: %d are used",
                last.slots, self._slots, last.slots,
            )  # fmt: skip
            self._slots = last.slots
        self._table = self._start_table(last)

    @property
    def routing_table(self) -> RoutingTable:
        return self._table

    @property
    def placement(self) -> Placement | None:
        """Where the work of the next batch is, if it is balanced."""
        return None if self._governor is None else self._governor.placement

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
        return BatchPlan(
            batch_id=batch_id,
            root=self.folder.root,
            watermark_us=watermark,
            keep_after_us={s: self.spec.keep_after_us(s, watermark) for s in SIDES},
            routing=self._table,
            new=new,
            old=old,
            compact=choose_compactions(list(old)),
            report_folder=self._new_report_folder(batch_id),
            keys_watched=(
                KEYS_WATCHED if isinstance(self._routing, Routing) else self._routing.keys_watched
            ),
        )

    def _refuse_null_times(self, arrivals: Sequence[Arrival]) -> None:
        if self.spec.drop_null_times:
            return
        for side in SIDES:
            count = sum(a.null_times for a in arrivals if a.side == side)
            this = self.spec.side(side)
            if count and this.time is not None:
                refuse_null_times(count, f"{side} input", this.schema.field(this.time).name)

    def commit(
        self,
        plan: BatchPlan,
        arrivals: Sequence[Arrival],
        moves: Sequence[tuple[str, str]] = (),
        phases_ms: dict[str, float] | None = None,
    ) -> BatchReport:
        """Make the batch count: write its commit, show its output, clean up behind it."""
        begun = time.perf_counter()
        told, compacted, rewritten = self._instance_reports(plan)
        loads = [load for load, _ in told]
        if compacted is not None and plan.batch_id > 0 and not any(x.matches for x in loads):
            moves = ()  # files without rows; only the first batch shows one, for its schema
        balance = self._balance(plan, told, complete=compacted is not None)
        commit = self._next_commit(plan, arrivals, compacted, moves)
        phases = dict(phases_ms or {})
        report = self._report(plan, arrivals, commit, loads, phases, balance)
        self._save(commit, report)
        if self._governor is not None and any(d.accepted for d in balance.decisions):
            self._table = self._governor.placement.table(plan.routing.strategy)
        written = {a.segment.name for a in arrivals if a.segment is not None}
        written |= {s.name for s in rewritten}
        written |= {a.probe_file for a in arrivals if a.probe_file is not None}
        self._clean_up(plan.batch_id, written, [plan.report_folder])
        faults.reach("cleanup.done", plan.batch_id)
        log.debug("batch %d committed in %.1f ms", plan.batch_id,
                  (time.perf_counter() - begun) * 1000)  # fmt: skip
        return report

    def _instance_reports(
        self, plan: BatchPlan
    ) -> tuple[list[Told], list[SegmentInfo] | None, list[SegmentInfo]]:
        """What the instances told. A sink may have read only some of the result, or none: then some
        reports are missing, and a compaction counts only if every instance did its share; None, and
        what some have rewritten, otherwise."""
        told: list[Told] = []
        rewritten: list[SegmentInfo] = []
        reports = self._reports(plan.report_folder, plan.routing.instances)
        for instance, report in enumerate(reports):
            if report is None:
                told.append((InstanceLoad(instance), NOTHING_MEASURED))
                continue
            told.append((InstanceLoad(**report["load"]), report["figures"]))
            rewritten += [SegmentInfo.from_json(s) for s in report["compacted"]]
        return told, None if None in reports else rewritten, rewritten

    def _balance(self, plan: BatchPlan, told: list[Told], *, complete: bool) -> Balance:
        """Take note of a batch's load; decide about the next batch's routing."""
        load = load_report(plan.batch_id, plan.routing, told)
        times = np.array(load.instance_ms)
        governor = self._governor
        if governor is None:
            return Balance(load, (), verdict(load, times, {}))
        said = verdict(load, times, governor.placement.own_by_hash)
        decisions: list[Decision] = []
        if complete:

            def each(name: str) -> Floats:
                return np.array([getattr(load, name) for load, _ in told], float)

            rows, pairs = each("rows"), each("pairs")
            own = Work(each("own_rows"), each("own_pairs"), each("own_ms"))
            decisions = governor.observe(load, rows, pairs, own)
        return Balance(load, tuple(decisions), said)

    def _next_commit(
        self,
        plan: BatchPlan,
        arrivals: Sequence[Arrival],
        compacted: list[SegmentInfo] | None,
        moves: Sequence[tuple[str, str]],
    ) -> Commit:
        time_max = self._time_max_us((a.side, a.time_max_us) for a in arrivals)
        watermark = self._watermark(plan.watermark_us, time_max)
        replaced = {s.name for group in plan.compact for s in group}
        alive = [s for s in plan.old if compacted is None or s.name not in replaced]
        alive += compacted or []
        alive += [r.segment for r in plan.new if r.segment.time_max_us >= r.segment.floor_us]
        keep_after: dict[str, int] = {s: self.spec.keep_after_us(s, watermark) for s in SIDES}
        return Commit(
            batch_id=plan.batch_id,
            watermark_us=watermark,
            time_max_us=time_max,
            slots=plan.routing.slots,
            instances=plan.routing.instances,
            strategy=plan.routing.strategy,
            segments=tuple(s for s in alive if not expired(s, keep_after[s.side])),
            publish=tuple(moves),
            placement=None if self._governor is None else self._governor.placement.to_json(),
        )

    def _report(
        self,
        plan: BatchPlan,
        arrivals: Sequence[Arrival],
        commit: Commit,
        loads: list[InstanceLoad],
        phases_ms: dict[str, float],
        balance: Balance,
    ) -> BatchReport:
        def total(field: str, side: Side | None = None) -> int:
            return sum(getattr(a, field) for a in arrivals if side in (None, a.side))

        return BatchReport(
            **self._common_figures(commit, plan.watermark_us, phases_ms),
            rows_left=total("rows", "left"),
            rows_right=total("rows", "right"),
            late=sum(x.late_left + x.late_right for x in loads),
            null_keys=total("null_keys"),
            null_times=total("null_times"),
            nan_bands=total("nan_bands"),
            matches=sum(x.matches for x in loads),
            instances=tuple(loads),
            heavy_keys=heaviest(arrivals),
            decisions=balance.decisions,
            verdict=balance.verdict,
            slots=balance.load.slots,
            keys=balance.load.keys,
            key_figures=balance.load.key_figures,
        )


def heaviest(arrivals: Sequence[HeavyKeysTold]) -> tuple[KeyShare, ...]:
    """The heaviest keys of a batch by their share of its rows, both sides together."""
    rows: dict[str, int] = {}
    for arrival in arrivals:
        for key in arrival.heavy_keys:
            rows[key.value] = rows.get(key.value, 0) + key.rows
    all_rows = sum(a.rows for a in arrivals)
    ranked = sorted(rows.items(), key=lambda item: (-item[1], item[0]))[:HEAVY_KEYS_TOLD]
    return tuple(KeyShare(value, round(count / all_rows, 6)) for value, count in ranked)
