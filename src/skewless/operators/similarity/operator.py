"""The life of a similarity join's state, batch by batch. Nothing here knows of Spark.

plan = runtime.plan(batch_id, arrivals)
for i in range(plan.instances): for batch in run_similarity(spec, plan, strategy, i): …
runtime.commit(plan, arrivals)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from skewless import failpoints
from skewless.arrays.types import FAR_US
from skewless.engine.lifecycle import REPORTS, STAGED, StateRuntime, refuse_null_times
from skewless.engine.report import BatchReport, InstanceLoad
from skewless.errors import DataError
from skewless.operators.similarity.spec import SimilarityPlan, SimilaritySpec, Told, VectorArrival
from skewless.operators.similarity.strategies import (
    S3J,
    BruteForce,
    ClusterJoin,
    SimilarityStrategy,
)
from skewless.operators.similarity.worksets import (
    NEVER,
    WORKSETS,
    Worksets,
    read_worksets,
    thin,
    write_worksets,
)
from skewless.placement.balancing.worksets import WorksetLoad, balance_worksets
from skewless.placement.figures import Decision
from skewless.state.commits import Commit, GrouperFile
from skewless.state.commits import Grouping as WorksetFiles
from skewless.state.compaction import choose_compactions, expired
from skewless.state.segments import SEGMENTS

MOVES_TOLD = 10


class SimilarityRuntime(StateRuntime):
    """The state of one similarity join."""

    transient = (REPORTS, STAGED)
    durable = (SEGMENTS, WORKSETS)

    def __init__(
        self,
        root: str,
        spec: SimilaritySpec,
        strategy: SimilarityStrategy,
        instances: int,
        **keeping: int,
    ) -> None:
        lates_us: dict[str, int] = {side: spec.side(side).late_us for side in spec.sides}
        fingerprint = spec.fingerprint() | {"worksets": strategy.worksets_told}
        super().__init__(root, fingerprint, lates_us, **keeping)
        self.spec, self.strategy, self.instances = spec, strategy, instances
        self._owners: dict[int, int] = {}

    def _adopt(self, last: Commit) -> None:
        stored = (last.placement or {}).get("owners", {})
        if last.instances == self.instances:
            self._owners = {int(i): owner for i, owner in stored.items()}

    def plan(self, batch_id: int, arrivals: Sequence[VectorArrival]) -> SimilarityPlan:
        """What every instance is to do in this batch."""
        failpoints.hit("arrivals.collected", batch_id)
        self._refuse_bad(arrivals)
        watermark = self.watermark_us()
        new = tuple(
            replace(a.segment, floor_us=watermark, batch_id=batch_id)
            for a in arrivals
            if a.segment is not None
        )
        old = () if self.last is None else self.last.segments
        worksets = self._worksets(arrivals, watermark)
        alive = set() if worksets is None else set(worksets.ids.tolist())
        self._owners = {i: owner for i, owner in self._owners.items() if i in alive}
        fixed_places = isinstance(self.strategy, S3J) and not self.strategy.dealt
        return SimilarityPlan(
            batch_id=batch_id,
            root=self.folder.root,
            watermark_us=watermark,
            instances=self.instances,
            keep_after_us={s: self.spec.keep_after_us(s, watermark) for s in self.spec.sides},
            new=new,
            old=old,
            worksets=None if worksets is None else write_worksets(self.folder, worksets),
            owners=self._owners if fixed_places else None,
            compact=choose_compactions(list(old)),
            report_folder=self._new_report_folder(batch_id),
        )

    def _refuse_bad(self, arrivals: Sequence[VectorArrival]) -> None:
        spec = self.spec
        for side in spec.sides:
            mine = [a for a in arrivals if a.side == side]
            this = spec.side(side)
            if not spec.drop_null_times:
                nulls = sum(a.null_times for a in mine)
                refuse_null_times(nulls, f"{side} input", this.schema.field(this.time).name)
            bad = sum(a.bad for a in mine)
            if bad and not spec.drop_bad:
                names = ", ".join(this.schema.names[i] for i in this.vector)
                raise DataError(
                    f"{bad} row{'s' * (bad > 1)} of the {side} input cannot be compared by "
                    f"{spec.metric!r} ({names}): a number that is null, NaN or infinite, another "
                    "number of elements than the rows before, a zero vector without a direction, "
                    'or a latitude beyond 90 degrees. Filter such rows out, or pass on_bad="drop" '
                    "to drop and count them."
                )
        if spec.metric.has_dimension:
            stored = None if self.last is None else (self.last.placement or {}).get("dimension")
            told = [spec.dimension, stored, *(a.dimension for a in arrivals)]
            found = {dimension for dimension in told if dimension is not None}
            if len(found) > 1:
                raise DataError(
                    f"vectors of {' and '.join(map(str, sorted(found)))} elements cannot be "
                    "compared. Filter the others out, or give `dimension` to have them dropped."
                )

    def _dimension(self) -> int | None:
        if self.spec.dimension is not None or self.last is None:
            return self.spec.dimension
        known: int | None = (self.last.placement or {}).get("dimension")
        return known

    def _worksets(self, arrivals: Sequence[VectorArrival], watermark_us: int) -> Worksets | None:
        """All worksets that hold rows, those of this batch included, and those that held some not
        long ago: what comes next is likely to be like what has been."""
        known = None
        if self.last is not None and self.last.grouping is not None:
            known = self._read(self.last.grouping.groupers)
        touched = self._read([a.worksets for a in arrivals if a.worksets is not None])
        every = Worksets.joined([w for w in (known, touched) if w is not None])
        if every is None or isinstance(self.strategy, BruteForce):
            return every
        rows = sum(a.rows for a in arrivals)
        rows += 0 if self.last is None else sum(s.rows for s in self.last.segments)
        every = thin(self.spec, self.strategy, every, known, rows)
        keep_after = min(self.spec.keep_after_us(s, watermark_us) for s in self.spec.sides)
        keep_open_after = max(keep_after - self.spec.span_us, -FAR_US)
        if isinstance(self.strategy, ClusterJoin):
            keep_open_after = NEVER
        keep = every.last_us >= np.where(every.is_open, keep_open_after, keep_after)
        return every.take(np.flatnonzero(keep))

    def _read(self, files: Sequence[GrouperFile]) -> Worksets | None:
        return Worksets.joined([read_worksets(self.folder, file) for file in files])

    def commit(
        self,
        plan: SimilarityPlan,
        arrivals: Sequence[VectorArrival],
        moves: Sequence[tuple[str, str]] = (),
        phases_ms: dict[str, float] | None = None,
    ) -> BatchReport:
        """Make the batch count: write its commit, show its output, clean up behind it."""
        told, complete = self._told(plan)
        if complete and plan.batch_id > 0 and not any(t.load.matches for t in told):
            moves = ()  # files without rows; only the first batch shows one, for its schema
        decisions = self._balance(plan, told) if complete and plan.owners is not None else ()
        commit = self._next_commit(plan, arrivals, told, moves, complete=complete)
        report = self._report(plan, arrivals, commit, told, decisions, phases_ms or {})
        self._save(commit, report)
        written = {a.segment.name for a in arrivals if a.segment is not None}
        written |= {a.worksets.name for a in arrivals if a.worksets is not None}
        written |= {s.name for t in told for s in t.compacted}
        self._clean_up(plan.batch_id, written, [plan.report_folder])
        failpoints.hit("cleanup.done", plan.batch_id)
        return report

    def _told(self, plan: SimilarityPlan) -> tuple[list[Told], bool]:
        reports = self._reports(plan.report_folder, plan.instances)
        told = [
            Told(InstanceLoad(i)) if report is None else Told.from_json(report)
            for i, report in enumerate(reports)
        ]
        return told, None not in reports

    def _balance(self, plan: SimilarityPlan, told: Sequence[Told]) -> tuple[Decision, ...]:
        """Move worksets from busy to idle instances, if the busiest is too busy."""
        assert isinstance(self.strategy, S3J)
        totals = [sum(n for _, n in t.by_workset) for t in told]
        mean = sum(totals) / len(totals)
        if not mean or max(totals) <= (1 + self.strategy.tolerance) * mean:
            return ()
        loads = [
            WorksetLoad(i, t.load.instance, float(n)) for t in told for i, n in t.by_workset if n
        ]
        moves = balance_worksets(loads, plan.instances)
        self._owners = dict(self._owners) | {m.id: m.target for m in moves}
        weights = {w.id: w.load for w in loads}
        return tuple(
            Decision(
                "move",
                f"workset {m.id:016x}",
                f"instance {m.source}",
                f"instance {m.target}",
                f"{weights[m.id]:.0f} of {totals[m.source]} pairs there, where the mean is "
                f"{mean:.0f}",
                True,
            )
            for m in sorted(moves, key=lambda m: -m.benefit)[:MOVES_TOLD]
        )

    def _next_commit(
        self,
        plan: SimilarityPlan,
        arrivals: Sequence[VectorArrival],
        told: Sequence[Told],
        moves: Sequence[tuple[str, str]],
        *,
        complete: bool,
    ) -> Commit:
        time_max = self._time_max_us((a.side, a.time_max_us) for a in arrivals)
        watermark = self._watermark(plan.watermark_us, time_max)
        replaced = {s.name for group in plan.compact for s in group} if complete else set()
        alive = [s for s in plan.old if s.name not in replaced]
        if complete:
            alive += [s for t in told for s in t.compacted]
        alive += [s for s in plan.new if s.time_max_us >= s.floor_us]
        dimensions = [a.dimension for a in arrivals if a.dimension is not None]
        known = self._dimension()
        alive = [s for s in alive if not expired(s, self.spec.keep_after_us(s.side, watermark))]
        return Commit(
            batch_id=plan.batch_id,
            watermark_us=watermark,
            time_max_us=time_max,
            slots=plan.instances,
            instances=plan.instances,
            strategy=repr(self.strategy),
            segments=tuple(alive),
            publish=tuple(moves),
            placement={
                "dimension": known if known is not None else next(iter(dimensions), None),
                "owners": {str(i): owner for i, owner in self._owners.items()},
            },
            grouping=WorksetFiles(
                repr(self.strategy),
                plan.instances,
                () if plan.worksets is None else (plan.worksets,),
            ),
        )

    def _report(
        self,
        plan: SimilarityPlan,
        arrivals: Sequence[VectorArrival],
        commit: Commit,
        told: Sequence[Told],
        decisions: tuple[Decision, ...],
        phases_ms: dict[str, float],
    ) -> BatchReport:
        def total(name: str, side: str | None = None) -> int:
            return sum(getattr(a, name) for a in arrivals if side in (None, a.side))

        return BatchReport(
            **self._common_figures(commit, plan.watermark_us, phases_ms),
            rows_left=total("rows", "left"),
            rows_right=total("rows", "right"),
            late=sum(t.load.late_left for t in told),
            null_keys=total("null_keys"),
            null_times=total("null_times"),
            nan_bands=total("bad"),
            matches=sum(t.load.matches for t in told),
            instances=tuple(t.load for t in told),
            decisions=decisions,
            comparisons={
                "probes": sum(t.probes for t in told),
                "compared": sum(t.load.pairs - t.inner for t in told),
                "inner": sum(t.inner for t in told),
            },
        )
