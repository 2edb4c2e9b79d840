"""The similarity join as an operator: one step a batch, in which new rows look for partners.

What a row is compared with, and where it is stored, is the strategy's to say. The worksets are a
blob of the operator's state; how long vectors are, and whose a workset is, are its facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from skewless.arrays.types import FAR_US
from skewless.engine.operator import (
    Arrival,
    Batch,
    Coordinator,
    IngestContext,
    Operator,
    Outcome,
    Step,
)
from skewless.engine.report import InstanceLoad, InstanceReport
from skewless.errors import DataError
from skewless.operators.similarity.ingest import NOT_COMPARABLE, ingest_vectors
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies import SimilarityStrategy
from skewless.operators.similarity.work import SimilarityPlan, SimilarityWork
from skewless.operators.similarity.worksets import Worksets, read_all, write_worksets
from skewless.placement.balancing.worksets import WorksetLoad
from skewless.placement.figures import Decision
from skewless.state.blobs import BlobInfo
from skewless.state.commits import OperatorState
from skewless.state.compaction import expired
from skewless.state.files import Folder
from skewless.state.segments import SegmentInfo

MOVES_SHOWN = 10
COUNTED = ("probes", "compared", "inner")
NOTHING_COUNTED: dict[str, Any] = dict.fromkeys(COUNTED, 0) | {"worksets": []}


@dataclass(frozen=True)
class SimilarityOperator(Operator):
    """A join of rows that are alike, of two inputs or of one with itself."""

    spec: SimilaritySpec
    strategy: SimilarityStrategy
    instances: int

    kind: ClassVar[str] = "similarity_join"

    def fingerprint(self) -> dict[str, str]:
        return self.spec.fingerprint() | {"worksets": self.strategy.workset_rule}

    def ingest(
        self, name: str, batches: Iterable[pa.RecordBatch], context: IngestContext
    ) -> Iterator[Arrival]:
        return ingest_vectors(batches, self.spec, self.strategy, name, context)

    def coordinator(self, state: OperatorState | None, folder: Folder) -> SimilarityCoordinator:
        return SimilarityCoordinator(self, state)


class SimilarityCoordinator(Coordinator):
    """Keeps the worksets: which there are, and, where they have owners, whose they are."""

    def __init__(self, operator: SimilarityOperator, state: OperatorState | None) -> None:
        self._spec, self._strategy = operator.spec, operator.strategy
        self._instances = operator.instances
        facts: Mapping[str, Any] = {} if state is None else state.facts
        self._dimension: int | None = facts.get("dimension")
        self._worksets: BlobInfo | None = None
        self.owners: dict[int, int] = {}
        if facts.get("instances") == self._instances:
            self.owners = {int(i): owner for i, owner in facts["owners"].items()}

    def _keep_after_us(self, watermark_us: int) -> dict[str, int]:
        return {side: self._spec.keep_after_us(side, watermark_us) for side in self._spec.sides}

    def plan(self, batch: Batch) -> Step:
        self._refuse_bad(batch.arrivals)
        self._dimension = self._agreed_dimension(batch.arrivals)
        worksets = self._all_worksets(batch)
        alive = set() if worksets is None else set(worksets.ids.tolist())
        self.owners = {i: owner for i, owner in self.owners.items() if i in alive}
        self._worksets = None if worksets is None else write_worksets(batch.folder, worksets)
        keep_after_us, layouts = self._keep_after_us(batch.watermark_us), self._spec.layouts()
        new, old = tuple(run.segment for run in batch.new_runs()), batch.state.segments
        owners = self.owners if self._strategy.has_owners else None
        plan = SimilarityPlan(keep_after_us, new, old, self._worksets, owners)
        return Step(
            name="join",
            instances=self._instances,
            work=SimilarityWork(self._spec, self._strategy, plan),
            emits=True,
            reads=(*old, *new),
            layouts=layouts,
            compaction=batch.compaction(layouts, keep_after_us),
        )

    def _refuse_bad(self, arrivals: Sequence[Arrival]) -> None:
        """Stop the query at rows that have no distance."""
        spec = self._spec
        for side in spec.sides:
            bad = sum(a.dropped.get(NOT_COMPARABLE, 0) for a in arrivals if a.input == side)
            if bad and not spec.drop_bad:
                this = spec.side(side)
                names = ", ".join(this.schema.names[i] for i in this.vector)
                raise DataError(
                    f"{bad} row{'s' * (bad > 1)} of the {side} input cannot be compared by "
                    f"{spec.metric!r} ({names}): a number that is null, NaN or infinite, another "
                    "number of elements than the rows before, a zero vector without a direction, "
                    'or a latitude beyond 90 degrees. Filter such rows out, or pass on_bad="drop" '
                    "to drop and count them."
                )

    def _agreed_dimension(self, arrivals: Sequence[Arrival]) -> int | None:
        """How many numbers vectors have, if that is known; tasks must not have found different
        numbers."""
        found = [self._spec.dimension, self._dimension, *(a.detail["dimension"] for a in arrivals)]
        known = sorted({dimension for dimension in found if dimension is not None})
        if len(known) > 1:
            raise DataError(
                f"vectors of {' and '.join(map(str, known))} elements cannot be compared. Filter "
                "the others out, or give `dimension` to have them dropped."
            )
        return known[0] if known else None

    def _all_worksets(self, batch: Batch) -> Worksets | None:
        """All worksets that hold rows, those of this batch included, and those that held some not
        long ago."""
        known = read_all(batch.folder, batch.state.blobs)
        touched = read_all(batch.folder, (b for a in batch.arrivals for b in a.blobs))
        every = Worksets.joined([known, touched])
        if every is None:
            return None
        rows = sum(a.rows for a in batch.arrivals) + sum(s.rows for s in batch.state.segments)
        every = self._strategy.close_redundant(self._spec, every, known, rows)
        keep_after_us = min(self._keep_after_us(batch.watermark_us).values())
        keep_open_after_us = max(keep_after_us - self._spec.span_us, -FAR_US)
        return self._strategy.retire(every, keep_after_us, keep_open_after_us)

    def conclude(self, batch: Batch) -> Outcome:
        reports = [
            InstanceReport(InstanceLoad(i), detail=NOTHING_COUNTED) if report is None else report
            for i, report in enumerate(batch.reports[-1])
        ]
        decisions: tuple[Decision, ...] = ()
        if self._strategy.has_owners and batch.is_complete:
            decisions = self._balance(reports)
        return Outcome(
            segments=self._alive(batch),
            blobs=() if self._worksets is None else (self._worksets,),
            facts={
                "dimension": self._dimension,
                "owners": {str(i): owner for i, owner in self.owners.items()},
                "instances": self._instances,
            },
            loads=tuple(report.load for report in reports),
            counters={name: sum(r.detail[name] for r in reports) for name in COUNTED},
            decisions=decisions,
        )

    def _balance(self, reports: Sequence[InstanceReport]) -> tuple[Decision, ...]:
        """Have the strategy move worksets between instances."""
        loads = [
            WorksetLoad(i, report.load.instance, float(pairs))
            for report in reports
            for i, pairs in report.detail["worksets"]
        ]
        moves = self._strategy.balance(loads, self._instances)
        self.owners = self.owners | {m.id: m.target for m in moves}
        weights = {w.id: w.load for w in loads}
        totals = [sum(pairs for _, pairs in report.detail["worksets"]) for report in reports]
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

    def _alive(self, batch: Batch) -> tuple[SegmentInfo, ...]:
        """What can still meet a row to come."""
        new = (run.segment for run in batch.new_runs())
        alive = batch.old_after(batch.state.segments)
        alive += [s for s in new if s.time_max_us >= s.floor_us]
        keep_after_us = self._keep_after_us(batch.next_watermark_us)
        return tuple(s for s in alive if not expired(s, keep_after_us[s.side]))
