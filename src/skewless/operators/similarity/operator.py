"""The similarity join as an operator. How rows are stored, and which steps find pairs, is for the
strategy to say; here is what holds for all: rows without a distance are refused, and vectors must
be of one length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from skewless.engine.changes import Adopted, Facts, adopt_columns
from skewless.engine.operator import (
    Arrival,
    Batch,
    Coordinator,
    IngestContext,
    Operator,
    Outcome,
    Step,
)
from skewless.errors import DataError
from skewless.operators.similarity.ingest import NOT_COMPARABLE, ingest_vectors
from skewless.operators.similarity.running import Begun
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.strategies import SimilarityStrategy
from skewless.state.commits import OperatorState
from skewless.state.files import Folder


@dataclass(frozen=True)
class SimilarityOperator(Operator):
    """A join of rows that are alike, of two inputs or of one with itself."""

    spec: SimilaritySpec
    strategy: SimilarityStrategy
    instances: int
    elastic: bool = False

    kind: ClassVar[str] = "similarity_join"

    @property
    def divided_by(self) -> str:
        return repr(self.strategy)

    def fingerprint(self) -> dict[str, str]:
        return self.spec.fingerprint() | {"worksets": self.strategy.workset_rule}

    def adopt(
        self, state: OperatorState | None, before: Facts, after: Facts, *, feeds: bool
    ) -> Adopted:
        columns = {f"{side} columns": f"the {side} input" for side in self.spec.sides}
        return adopt_columns(columns, state, before, after)

    def ingest(
        self, name: str, batches: Iterable[pa.RecordBatch], context: IngestContext
    ) -> Iterator[Arrival]:
        begun = Begun(self.spec, self.instances, context.state())
        store = self.strategy.way().storing(begun, name, context)
        return ingest_vectors(batches, self.spec, name, begun.facts.get("dimension"), store)

    def coordinator(self, state: OperatorState | None, folder: Folder) -> SimilarityCoordinator:
        return SimilarityCoordinator(self, state)


class SimilarityCoordinator(Coordinator):
    """Checks what has arrived; what the running strategy says is done."""

    def __init__(self, operator: SimilarityOperator, state: OperatorState | None) -> None:
        begun = Begun(operator.spec, operator.instances, state)
        self._spec = operator.spec
        self._dimension: int | None = begun.facts.get("dimension")
        self.running = operator.strategy.way().running(begun)

    def plan(self, batch: Batch) -> Step:
        self._refuse_bad(batch.arrivals)
        self._dimension = self._agreed_dimension(batch.arrivals)
        return self.running.plan(batch)

    def next(self, batch: Batch) -> Step | None:
        return self.running.next(batch)

    def conclude(self, batch: Batch) -> Outcome:
        outcome = self.running.conclude(batch)
        return replace(outcome, facts={"dimension": self._dimension, **outcome.facts})

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
        found = [
            self._spec.dimension,
            self._dimension,
            *(a.detail.get("dimension") for a in arrivals),
        ]
        known = sorted({dimension for dimension in found if dimension is not None})
        if len(known) > 1:
            raise DataError(
                f"vectors of {' and '.join(map(str, known))} elements cannot be compared. Filter "
                "the others out, or give `dimension` to have them dropped."
            )
        return known[0] if known else None
