"""Rows copied to sets that have owners: what tasks write, and the steps of a batch.

*partition*, in the first batch only; *form*, where there are worksets; *join*. The centroids and
the worksets are blobs of the operator's state; which worksets have moved, and how many each
partition has ever had, are its facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skewless.engine.operator import Batch, IngestContext, Outcome, Step, Work
from skewless.operators.similarity.copying.covering import evenest
from skewless.operators.similarity.copying.dividing import divided
from skewless.operators.similarity.copying.form import FormWork
from skewless.operators.similarity.copying.join import OwnedWork
from skewless.operators.similarity.copying.partitioning import PartitionWork, StoreByPartition
from skewless.operators.similarity.copying.roles import (
    HOME,
    IN_PARTITIONS,
    IN_WORKSETS,
    INNER,
    OUTER,
    in_role,
    keep_after_us,
    layouts,
    named,
)
from skewless.operators.similarity.copying.space import (
    CENTROIDS,
    Space,
    choose_centroids,
    read_space,
    write_space,
)
from skewless.operators.similarity.running import Begun, Running, Storing
from skewless.operators.similarity.strategies.copying import CopyingStrategy
from skewless.operators.similarity.totals import counters_of, loads_of
from skewless.operators.similarity.worksets import WORKSETS
from skewless.placement.balancing.worksets import WorksetLoad
from skewless.placement.figures import Decision
from skewless.state.blobs import BlobInfo
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SegmentInfo

MOVES_SHOWN = 10
COUNTED = (
    "probes", "compared", "inner", "sent", "memberships", "space_distances", "workset_distances",
)  # fmt: skip


def _labelled(blobs: Sequence[BlobInfo], label: str) -> tuple[BlobInfo, ...]:
    return tuple(b for b in blobs if b.label == label)


@dataclass(frozen=True)
class CopyingWay:
    """How strategies work that copy rows to where partners may be."""

    strategy: CopyingStrategy

    def storing(self, begun: Begun, side: str, context: IngestContext) -> Storing:
        centroids = _labelled(begun.blobs, CENTROIDS)
        strategy = self.strategy
        return StoreByPartition(
            begun.spec,
            side,
            context.folder,
            read_space(context.folder, centroids[0]) if centroids else None,
            strategy.sampled_for(strategy.partitions_for(begun.instances)),
            strategy.seed,
            strategy.forms_worksets,
        )

    def running(self, begun: Begun) -> Running:
        return RunningCopies(begun, self.strategy)


class RunningCopies(Running):
    """Keeps the centroids and the worksets, and whose each is."""

    def __init__(self, begun: Begun, strategy: CopyingStrategy) -> None:
        self._spec, self._instances, self._strategy = begun.spec, begun.instances, strategy
        self._members = IN_WORKSETS if strategy.forms_worksets else IN_PARTITIONS
        self._centroids = _labelled(begun.blobs, CENTROIDS)
        self._worksets = _labelled(begun.blobs, WORKSETS)
        self._made: dict[int, int] = {int(p): n for p, n in begun.facts.get("made", {}).items()}
        self.owners = {int(i): owner for i, owner in begun.facts.get("owners", {}).items()}
        self._owned_by: int = begun.facts.get("instances", 0)

    def plan(self, batch: Batch) -> Step:
        if self._owned_by != batch.instances:
            self._owned_by, self.owners = batch.instances, {}
        aside = [s for a in batch.arrivals for s in a.scratch if s.side == a.input]
        if not aside:
            return self._after_partitioning(batch)
        if not self._centroids:
            self._draw_centroids(batch)
        work = PartitionWork(self._spec, tuple(aside), self._centroids[0], batch.watermark_us)
        return self._step("partition", work, batch)

    def next(self, batch: Batch) -> Step | None:
        done = batch.steps[-1].name
        return self._after_partitioning(batch) if done == "partition" else self._join(batch)

    def _draw_centroids(self, batch: Batch) -> None:
        """The centroids of all partitions, from what tasks have sampled."""
        given = [(a.blobs[0], a.detail["sampled_from"]) for a in batch.arrivals if a.blobs]
        strategy, partitions = self._strategy, self._strategy.partitions_for(self._instances)
        space = choose_centroids(
            [read_space(batch.folder, blob).centroids for blob, _ in given],
            [rows for _, rows in given],
            strategy.sampled_for(partitions),
            strategy.seed,
        )
        if strategy.draws_evenly:
            sample, seed = space.centroids, strategy.seed
            space = (
                divided(self._spec, sample, partitions, seed)
                if strategy.divides_further
                else Space(evenest(self._spec, sample, partitions, seed))
            )
        self._centroids = (write_space(batch.folder, space.centroids),)
        self._made = dict.fromkeys(range(len(space)), 0)

    def _new(self, batch: Batch, *roles: str) -> tuple[SegmentInfo, ...]:
        """What tasks and earlier steps of this batch have written, with the floor below which rows
        are late."""
        scratch = (s for arrival in batch.arrivals for s in arrival.scratch)
        of_batch = (replace(s, floor_us=batch.watermark_us) for s in scratch)
        runs = (run.segment for run in batch.new_runs())
        return in_role((*of_batch, *runs, *batch.written()), *roles)

    def _after_partitioning(self, batch: Batch) -> Step:
        new = self._new(batch, INNER, OUTER)
        if not new or not self._strategy.forms_worksets:
            return self._join(batch)
        kept = self._old(batch, OUTER, HOME)
        work = FormWork(
            self._spec,
            new,
            kept,
            self._worksets,
            self._made,
            keep_after_us(self._spec, batch.watermark_us),
            self._spec.keep_sets_after_us(batch.watermark_us),
        )
        return self._step("form", work, batch)

    def _join(self, batch: Batch) -> Step:
        home, copy = self._members.home, self._members.copy
        new = self._new(batch, home, copy)
        old = self._old(batch, home, copy)
        work = OwnedWork(self._spec, self._members, new, old, self.owners)
        step = self._step("join", work, batch)
        needed = keep_after_us(self._spec, batch.watermark_us)
        compaction = batch.compaction(batch.instances, step.layouts, needed)
        return replace(step, emits=True, compaction=compaction)

    def _old(self, batch: Batch, *roles: str) -> SegmentSet:
        """What is stored of rows in some roles."""
        sides = {named(side, role) for side in self._spec.sides for role in roles}
        return batch.state.segments.only(sides)

    def _step(self, name: str, work: Work, batch: Batch) -> Step:
        return Step(name, batch.instances, work, emits=False, layouts=layouts(self._spec))

    def conclude(self, batch: Batch) -> Outcome:
        self._take_note(batch)
        decisions: tuple[Decision, ...] = ()
        if batch.is_complete:
            decisions = self._balance(batch)
        return Outcome(
            segments=self._alive(batch),
            blobs=(*self._centroids, *self._worksets),
            facts={
                "owners": {str(i): owner for i, owner in self.owners.items()},
                "instances": batch.instances,
                "made": {str(p): n for p, n in self._made.items()},
            },
            loads=loads_of(batch),
            counters=self._counters(batch),
            decisions=decisions,
        )

    def _take_note(self, batch: Batch) -> None:
        """Note what was formed: worksets that are new, and those that are gone."""
        for step, reports in zip(batch.steps, batch.reports, strict=True):
            if step.name != "form":
                continue
            details = [report.detail for report in reports if report is not None]
            blobs = [detail["blob"] for detail in details]
            self._worksets = tuple(BlobInfo(**blob) for blob in blobs if blob is not None)
            self._made |= {p: n for detail in details for p, n in detail["made"]}
            gone = {i for detail in details for i in detail["gone"]}
            self.owners = {i: owner for i, owner in self.owners.items() if i not in gone}

    def _counters(self, batch: Batch) -> dict[str, int]:
        counted = counters_of(batch, COUNTED)
        if not self._strategy.forms_worksets:
            counted["memberships"] = counted["sent"]
        return counted

    def _balance(self, batch: Batch) -> tuple[Decision, ...]:
        """Have the strategy move sets between instances."""
        reports = batch.received()
        loads = [
            WorksetLoad(i, report.load.instance, float(pairs), rows)
            for report in reports
            for i, pairs, rows in report.detail["sets"]
        ]
        moves = self._strategy.balance(loads, batch.instances)
        self.owners = self.owners | {m.id: m.target for m in moves}
        weights = {w.id: w.load for w in loads}
        totals = [sum(pairs for _, pairs, _ in report.detail["sets"]) for report in reports]
        return tuple(
            Decision(
                "move",
                f"workset {m.id:016x}",
                f"instance {m.source}",
                f"instance {m.target}",
                f"{weights[m.id]:.0f} of {totals[m.source]} pairs there, where the mean is "
                f"{sum(totals) / len(totals):.0f}",
                True,
            )
            for m in sorted(moves, key=lambda m: -m.benefit)[:MOVES_SHOWN]
        )

    def _alive(self, batch: Batch) -> SegmentSet:
        """What can still meet a row to come, and what new worksets have to get copies of."""
        kept = {self._members.home, self._members.copy, OUTER}
        new = [s for s in self._new(batch, *kept) if s.time_max_us >= s.floor_us]
        needed = keep_after_us(self._spec, batch.next_watermark_us)
        return batch.old_after(batch.state.segments).added(new).kept(needed)
