"""The life of an aggregation's state, batch by batch. Nothing here knows of Spark.

plan = runtime.plan(batch_id, arrivals)
told = [accumulate(spec, plan, i, cache) for i in range(plan.instances)]
finishing = runtime.finish_plan(plan, arrivals, told)
if finishing is not None:
    for i in range(finishing.instances): ... finish(spec, finishing, i, cache)
runtime.commit(plan, finishing, arrivals, told)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skewless import failpoints
from skewless.engine.lifecycle import NEVER_US, REPORTS, STAGED, StateRuntime, refuse_null_times
from skewless.engine.report import BatchReport, InstanceLoad, heaviest
from skewless.errors import StateDamagedError
from skewless.operators.aggregate.ingest import (
    ARRIVED,
    DRIVER,
    GROUPERS,
    resume_grouper,
    write_grouper,
)
from skewless.operators.aggregate.row_shares import fixed_shares, planned_shares
from skewless.operators.aggregate.spec import (
    INPUT,
    Accumulated,
    AccumulatePlan,
    AggregateSpec,
    FinishPlan,
    Mode,
    RowsArrived,
)
from skewless.placement.figures import Decision
from skewless.placement.grouping import BatchAware, BatchAwareGrouper, Grouper, Grouping
from skewless.state.commits import Commit, GrouperFile
from skewless.state.commits import Grouping as GroupingState
from skewless.state.compaction import choose_compactions
from skewless.state.segments import SEGMENTS, SegmentInfo


class AggregateRuntime(StateRuntime):
    """The state of one aggregation."""

    transient = (ARRIVED, REPORTS, STAGED)
    durable = (SEGMENTS, GROUPERS)

    def __init__(
        self,
        root: str,
        spec: AggregateSpec,
        grouping: Grouping,
        instances: int,
        mode: Mode,
        *,
        to_the_end: bool = False,
        **keeping: int,
    ) -> None:
        """`to_the_end`: the first batch is all there is, so that it closes every window."""
        super().__init__(root, spec.fingerprint(), {INPUT: spec.input.late_us}, **keeping)
        self.spec, self.grouping, self.instances, self.mode = spec, grouping, instances, mode
        self._to_the_end = to_the_end
        self._grouper: Grouper | None = None
        self._decisions: tuple[Decision, ...] = ()

    def plan(self, batch_id: int, arrivals: Sequence[RowsArrived]) -> AccumulatePlan:
        """Which rows every instance is to work on."""
        failpoints.hit("arrivals.collected", batch_id)
        time = self.spec.input.time
        if not self.spec.drop_null_times and time is not None:
            nulls = sum(a.null_times for a in arrivals)
            refuse_null_times(nulls, "input", self.spec.input.schema.field(time).name)
        if isinstance(self.grouping, BatchAware):
            state = None if self.last is None else self.last.grouping
            grouper = resume_grouper(self.folder, state, self.grouping, self.instances, DRIVER)
            assert isinstance(grouper, BatchAwareGrouper)
            shares, self._decisions = planned_shares(arrivals, grouper)
            self._grouper = grouper
        else:
            shares = fixed_shares(arrivals, self.instances)
        old = () if self.last is None else self.last.segments
        return AccumulatePlan(
            batch_id=batch_id,
            root=self.folder.root,
            closed_to_us=self.spec.closed_to_us(self.watermark_us()),
            shares=shares,
            compact=choose_compactions(list(old)),
        )

    def finish_plan(
        self, plan: AccumulatePlan, arrivals: Sequence[RowsArrived], told: Sequence[Accumulated]
    ) -> FinishPlan | None:
        """Which results come out of this batch; None if none can."""
        if sorted(t.load.instance for t in told) != list(range(plan.instances)):
            raise StateDamagedError(f"some instances of batch {plan.batch_id} told nothing")
        new = tuple(s for t in told for s in t.partials)
        old = self._old_segments(plan, told)
        watermark = self._watermark_after(arrivals)
        closed_to = self.spec.closed_to_us(watermark)
        if self._to_the_end:
            closed_to = -NEVER_US
        touched = self.mode == "update"
        if touched:
            if not new:
                return None
        elif not any(s.time_min_us <= closed_to for s in (*old, *new)):
            return None
        return FinishPlan(
            batch_id=plan.batch_id,
            root=self.folder.root,
            instances=plan.instances,
            old=old,
            new=new,
            after_us=plan.closed_to_us,
            closed_to_us=closed_to,
            touched=touched,
            report_folder=self._new_report_folder(plan.batch_id),
        )

    def _watermark_after(self, arrivals: Sequence[RowsArrived]) -> int:
        """The watermark that a batch leads to. Windows close by it at once: waiting for the next
        batch would hold results back while a stream pauses. Rows of the batch itself are late only
        by the watermark before it, so how a stream is cut into batches makes nothing late."""
        return self._watermark(self.watermark_us(), self._times(arrivals))

    def _times(self, arrivals: Sequence[RowsArrived]) -> dict[str, int | None]:
        return self._time_max_us((INPUT, a.time_max_us) for a in arrivals)

    def _old_segments(
        self, plan: AccumulatePlan, told: Sequence[Accumulated]
    ) -> tuple[SegmentInfo, ...]:
        """The state before this batch, as it is after the compactions that came with it."""
        replaced = {s.name for group in plan.compact for s in group}
        before = () if self.last is None else self.last.segments
        kept = [s for s in before if s.name not in replaced]
        return (*kept, *(s for t in told for s in t.compacted))

    def commit(
        self,
        plan: AccumulatePlan,
        finishing: FinishPlan | None,
        arrivals: Sequence[RowsArrived],
        told: Sequence[Accumulated],
        moves: Sequence[tuple[str, str]] = (),
        phases_ms: dict[str, float] | None = None,
    ) -> BatchReport:
        """Make the batch count: write its commit, show its output, clean up behind it."""
        results = self._results(finishing)
        if plan.batch_id > 0 and results == 0:
            moves = ()  # files without rows; only the first batch shows one, for its schema
        watermark = self._watermark_after(arrivals)
        closed_to = self.spec.closed_to_us(watermark)
        new = [s for t in told for s in t.partials]
        alive = [*self._old_segments(plan, told), *new]
        groupers = self._groupers(arrivals)
        commit = Commit(
            batch_id=plan.batch_id,
            watermark_us=watermark,
            time_max_us=self._times(arrivals),
            slots=plan.instances,
            instances=plan.instances,
            strategy=repr(self.grouping),
            segments=tuple(s for s in alive if s.time_max_us > closed_to),
            publish=tuple(moves),
            grouping=GroupingState(repr(self.grouping), self.instances, groupers),
        )
        report = self._report(plan, commit, arrivals, told, results or 0, phases_ms or {})
        self._save(commit, report)
        written = {s.name for s in new} | {s.name for t in told for s in t.compacted}
        written |= {a.file.name for a in arrivals if a.file is not None}
        self._clean_up(plan.batch_id, written,
                       [] if finishing is None else [finishing.report_folder])  # fmt: skip
        failpoints.hit("cleanup.done", plan.batch_id)
        return report

    def _groupers(self, arrivals: Sequence[RowsArrived]) -> tuple[GrouperFile, ...]:
        if self._grouper is not None:
            return (write_grouper(self.folder, self._grouper, DRIVER),)
        newest = {a.grouper.task: a.grouper for a in arrivals if a.grouper is not None}
        last = None if self.last is None else self.last.grouping
        if last is not None and (last.strategy, last.instances) == (
            repr(self.grouping),
            self.instances,
        ):
            # A task that had no rows this time may have some again.
            newest = {g.task: g for g in last.groupers} | newest
        return tuple(newest[task] for task in sorted(newest))

    def _results(self, finishing: FinishPlan | None) -> int | None:
        """How many results came out; None if the sink has not read all of them."""
        if finishing is None:
            return 0
        total = 0
        for told in self._reports(finishing.report_folder, finishing.instances):
            if told is None:
                return None
            total += int(told["results"])
        return total

    def _report(
        self,
        plan: AccumulatePlan,
        commit: Commit,
        arrivals: Sequence[RowsArrived],
        told: Sequence[Accumulated],
        results: int,
        phases_ms: dict[str, float],
    ) -> BatchReport:
        loads = sorted((t.load for t in told), key=lambda load: load.instance)
        return BatchReport(
            **self._common_figures(commit, self.watermark_us(), phases_ms),
            rows_left=sum(a.rows for a in arrivals),
            rows_right=0,
            late=sum(load.late_left for load in loads),
            null_keys=0,
            null_times=sum(a.null_times for a in arrivals),
            nan_bands=0,
            matches=results,
            instances=tuple(loads),
            heavy_keys=heaviest(arrivals),
            decisions=self._decisions,
            verdict=_verdict(loads),
        )


def _verdict(loads: Sequence[InstanceLoad]) -> str:
    """How even the work of a batch was, in one line."""
    rows = np.array([load.rows for load in loads], float)
    if len(rows) < 2 or not rows.sum():
        return ""
    over = rows.max() / rows.mean()
    busiest = loads[int(rows.argmax())].instance
    if over <= 1.1:
        return f"even: the busiest instance has {over:.2f} times the mean of rows"
    return f"instance {busiest} is the busiest, with {over:.2f} times the mean of rows"
