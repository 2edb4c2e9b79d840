"""The life of a three-way join's state, batch by batch. Nothing here knows of Spark.

plan = runtime.plan(batch_id, arrivals)
if runtime.has_first_step(plan):
    plan = runtime.with_pairs(plan, [run_pairs(spec, plan, strategy, i) for i in …])
for i in range(plan.instances): for batch in run_three(spec, plan, strategy, i): …
runtime.commit(plan, arrivals)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skewless import failpoints
from skewless.engine.lifecycle import NEVER_US, REPORTS, STAGED, StateRuntime, refuse_null_times
from skewless.engine.operator import RunRef
from skewless.engine.report import BatchReport, InstanceLoad, heaviest
from skewless.operators.ingesting import PROBES
from skewless.operators.three_way.materialization import KeepChooser
from skewless.operators.three_way.packs import is_pack, kind_named, kinds_of
from skewless.operators.three_way.routes import RouteChooser
from skewless.operators.three_way.spec import (
    NAMES,
    STREAMS,
    StreamArrival,
    ThreePlan,
    ThreeSpec,
    Told,
)
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy, Tree, TriJoin
from skewless.operators.three_way.tree import kind_of
from skewless.operators.three_way.work import tree_order
from skewless.placement.figures import Decision
from skewless.state.commits import Commit
from skewless.state.compaction import choose_compactions, expired
from skewless.state.segments import SegmentInfo

SETTLED_AFTER = 20  # batches, for bounds so long that the state never fills


class ThreeRuntime(StateRuntime):
    """The state of one three-way join."""

    transient = (PROBES, REPORTS, STAGED)

    def __init__(
        self, root: str, spec: ThreeSpec, strategy: ThreeStrategy, instances: int, **keeping: int
    ) -> None:
        lates_us = {NAMES[x]: spec.streams[x].late_us for x in STREAMS}
        kept = strategy.intermediates
        if isinstance(strategy, Tree):
            kept = f"pairs, {kind_of(spec, tree_order(spec, strategy)).name.removeprefix('pack-')}"
        fingerprint = spec.fingerprint() | {"intermediate results": kept}
        super().__init__(root, fingerprint, lates_us, **keeping)
        self.spec, self.strategy, self.instances = spec, strategy, instances
        self._chooser = RouteChooser(spec)
        self._keeper = KeepChooser(spec, None)
        self._first_step: list[Told] = []
        self._is_settled = False

    def _adopt(self, last: Commit) -> None:
        kept = (last.placement or {}).get("kept")
        self._keeper = KeepChooser(self.spec, None if kept is None else kind_named(self.spec, kept))

    def has_first_step(self, plan: ThreePlan) -> bool:
        """Whether a batch has a step before its last: pairs that must be there for the last."""
        return isinstance(self.strategy, Tree) or plan.fills

    def plan(self, batch_id: int, arrivals: Sequence[StreamArrival]) -> ThreePlan:
        """What every instance is to do in this batch."""
        failpoints.hit("arrivals.collected", batch_id)
        self._refuse_null_times(arrivals)
        self._first_step = []
        watermark = self.watermark_us()
        new = tuple(
            RunRef(replace(r.segment, floor_us=watermark, batch_id=batch_id), r.probe_file)
            for a in arrivals
            for r in a.segments
        )
        kept = self._keeper.kept
        kept_before = None if self.last is None else (self.last.placement or {}).get("kept")
        old = () if self.last is None else self.last.segments
        if isinstance(self.strategy, AutoThree):
            wanted = () if kept is None or kept.name != kept_before else (kept.name,)
            old = tuple(s for s in old if not is_pack(s) or s.side in wanted)
        return ThreePlan(
            batch_id=batch_id,
            root=self.folder.root,
            watermark_us=watermark,
            instances=self.instances,
            keep_after_us=self._keep_after_us(watermark),
            new=new,
            old=old,
            routes=self._chooser.routes,
            packing=self.strategy.packing if isinstance(self.strategy, TriJoin) else False,
            compact=choose_compactions(list(old)),
            report_folder=self._new_report_folder(batch_id),
            kept=None if kept is None else kept.name,
            fills=kept is not None and kept.name != kept_before and bool(old),
        )

    def _refuse_null_times(self, arrivals: Sequence[StreamArrival]) -> None:
        if self.spec.drop_null_times:
            return
        for x in STREAMS:
            count = sum(a.null_times for a in arrivals if a.stream == x)
            this = self.spec.streams[x]
            refuse_null_times(count, f"input {NAMES[x]}", this.schema.field(this.time).name)

    def _keep_after_us(self, watermark_us: int) -> dict[str, int]:
        """From when on the segments of each side are still needed: rows as long as any triple can
        be completed, packs as long as their hub can meet a third row."""
        spec = self.spec
        rows = {
            spec.side_name(x, edge): spec.keep_after_us(x, watermark_us)
            for x in STREAMS
            for edge in spec.edges_of(x)
        }
        packs = {
            kind.name: max(watermark_us - spec.reach_us(kind.hub, kind.third), NEVER_US)
            for kind in kinds_of(spec)
        }
        return rows | packs

    def with_pairs(self, plan: ThreePlan, told: Sequence[Told]) -> ThreePlan:
        """The plan for the last step, now that the first is done. A tree's pairs are new ones;
        others are pairs of old rows."""
        self._first_step = list(told)
        made = tuple(s for t in told for s in t.written)
        if isinstance(self.strategy, Tree):
            return replace(plan, pairs=made)
        return replace(plan, old=(*plan.old, *made))

    def is_complete(self, plan: ThreePlan) -> bool:
        """Whether every instance has told what it did. A sink may read only some of the result, or
        none; where instances keep intermediate results, somebody must then make them work."""
        return None not in self._reports(plan.report_folder, plan.instances)

    @property
    def needs_all(self) -> bool:
        """Whether the instances keep intermediate results: then all of them must have worked."""
        return isinstance(self.strategy, TriJoin) or self._keeper.kept is not None

    def commit(
        self,
        plan: ThreePlan,
        arrivals: Sequence[StreamArrival],
        moves: Sequence[tuple[str, str]] = (),
        phases_ms: dict[str, float] | None = None,
    ) -> BatchReport:
        """Make the batch count: write its commit, show its output, clean up behind it."""
        told, complete = self._told(plan)
        loads = self._loads(told)
        if complete and plan.batch_id > 0 and not any(load.matches for load in loads):
            moves = ()  # files without rows; only the first batch shows one, for its schema
        commit = self._next_commit(plan, arrivals, told, moves, complete=complete)
        decisions = self._decide(plan, arrivals, told) if complete else ()
        report = self._report(plan, arrivals, commit, loads, decisions, phases_ms or {})
        self._save(commit, report)
        written = {r.segment.name for a in arrivals for r in a.segments}
        written |= {r.probe_file for a in arrivals for r in a.segments if r.probe_file is not None}
        written |= {s.name for t in (*told, *self._first_step) for s in (*t.written, *t.compacted)}
        self._clean_up(plan.batch_id, written, [plan.report_folder])
        failpoints.hit("cleanup.done", plan.batch_id)
        return report

    def _decide(
        self, plan: ThreePlan, arrivals: Sequence[StreamArrival], told: Sequence[Told]
    ) -> tuple[Decision, ...]:
        """How the next batch is to be joined, where that is to choose."""
        self._is_settled |= self._settles(plan)
        if not isinstance(self.strategy, AutoThree) or not self._is_settled:
            return ()
        rows = [sum(a.rows for a in arrivals if a.stream == x) for x in STREAMS]
        decisions = () if plan.kept is not None else self._chooser.observe(plan.routes, told)
        return (*decisions, *self._keeper.observe(told, rows))

    def _settles(self, plan: ThreePlan) -> bool:
        """Whether figures can be trusted: the state is full, since rows in it are too old by now,
        or it takes too long to wait for that. Against a nearly empty state every way is cheap."""
        full = any(s.time_min_us < plan.keep_after_us[s.side] for s in plan.old)
        return full or plan.batch_id >= SETTLED_AFTER

    def _told(self, plan: ThreePlan) -> tuple[list[Told], bool]:
        reports = self._reports(plan.report_folder, plan.instances)
        told = [
            Told(InstanceLoad(i)) if report is None else Told.from_json(report)
            for i, report in enumerate(reports)
        ]
        return told, None not in reports

    def _loads(self, told: Sequence[Told]) -> list[InstanceLoad]:
        """What the instances did in all steps of the batch."""
        before = {t.load.instance: t.load for t in self._first_step}
        loads = []
        for load in (t.load for t in told):
            first = before.get(load.instance, InstanceLoad(load.instance))
            loads.append(
                replace(
                    load,
                    rows=load.rows + first.rows,
                    pairs=load.pairs + first.pairs,
                    time_ms=round(load.time_ms + first.time_ms, 3),
                )
            )
        return loads

    def _next_commit(
        self,
        plan: ThreePlan,
        arrivals: Sequence[StreamArrival],
        told: Sequence[Told],
        moves: Sequence[tuple[str, str]],
        *,
        complete: bool,
    ) -> Commit:
        time_max = self._time_max_us((NAMES[a.stream], a.time_max_us) for a in arrivals)
        watermark = self._watermark(plan.watermark_us, time_max)
        replaced = {s.name for group in plan.compact for s in group} if complete else set()
        alive = [s for s in plan.old if s.name not in replaced]
        if complete:
            alive += [s for t in told for s in t.compacted]
        alive += [*plan.pairs, *(s for t in told for s in t.written)]
        alive += [r.segment for r in plan.new if r.segment.time_max_us >= r.segment.floor_us]
        keep_after = self._keep_after_us(watermark)
        return Commit(
            batch_id=plan.batch_id,
            watermark_us=watermark,
            time_max_us=time_max,
            slots=plan.instances,
            instances=plan.instances,
            strategy=repr(self.strategy),
            segments=tuple(s for s in alive if not expired(s, keep_after[s.side])),
            publish=tuple(moves),
            placement={"kept": plan.kept} if isinstance(self.strategy, AutoThree) else None,
        )

    def _report(
        self,
        plan: ThreePlan,
        arrivals: Sequence[StreamArrival],
        commit: Commit,
        loads: list[InstanceLoad],
        decisions: tuple[Decision, ...],
        phases_ms: dict[str, float],
    ) -> BatchReport:
        def total(name: str) -> int:
            return sum(getattr(a, name) for a in arrivals)

        return BatchReport(
            **self._common_figures(commit, plan.watermark_us, phases_ms),
            rows_left=sum(a.rows for a in arrivals if a.stream == 0),
            rows_right=sum(a.rows for a in arrivals if a.stream == 1),
            rows_third=sum(a.rows for a in arrivals if a.stream == 2),
            late=sum(load.late_left for load in loads),
            null_keys=total("null_keys"),
            null_times=total("null_times"),
            nan_bands=total("nan_bands"),
            matches=sum(load.matches for load in loads),
            intermediates=_intermediates(commit.segments),
            instances=tuple(loads),
            heavy_keys=heaviest(arrivals),
            decisions=decisions,
            verdict="",
        )


def _intermediates(segments: Sequence[SegmentInfo]) -> int:
    """How many packs or pairs lie in the state."""
    return sum(s.rows for s in segments if is_pack(s))
