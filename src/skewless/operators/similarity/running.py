"""What a strategy becomes when a query runs: what tasks store, and which steps a batch has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from skewless.engine.operator import Batch, IngestContext, Outcome, RunRef, Step
    from skewless.operators.similarity.points import Points
    from skewless.operators.similarity.spec import SimilaritySpec
    from skewless.state.blobs import BlobInfo
    from skewless.state.commits import OperatorState
    from skewless.state.segments import SegmentInfo


@dataclass(frozen=True)
class Begun:
    """What is known when a query, or a task of it, begins: what is joined, by how many instances,
    and what the last commit says."""

    spec: SimilaritySpec
    instances: int
    state: OperatorState | None

    @property
    def blobs(self) -> tuple[BlobInfo, ...]:
        return () if self.state is None else self.state.blobs

    @property
    def facts(self) -> Mapping[str, Any]:
        return {} if self.state is None else self.state.facts


@dataclass(frozen=True)
class Stored:
    """What a task has written of some rows: segments that will be state, files of this batch only,
    blobs; and what it has counted."""

    runs: tuple[RunRef, ...] = ()
    scratch: tuple[SegmentInfo, ...] = ()
    blobs: tuple[BlobInfo, ...] = ()
    counted: Mapping[str, int] = field(default_factory=dict)


class Storing(Protocol):
    """How a task stores rows of one input, all of which can be compared."""

    def __call__(self, arrived: pa.RecordBatch, points: Points) -> Stored: ...


class Running(ABC):
    """A strategy at work on one join, on the driver."""

    @abstractmethod
    def plan(self, batch: Batch) -> Step:
        """The first step of a batch."""

    def next(self, batch: Batch) -> Step | None:
        """A further step, after one that emits nothing."""
        return None

    @abstractmethod
    def conclude(self, batch: Batch) -> Outcome:
        """What the batch came to."""


class Way(Protocol):
    """How a strategy gets rows to those who compare them."""

    def storing(self, begun: Begun, side: str, context: IngestContext) -> Storing:
        """What a task does with the rows of an input."""

    def running(self, begun: Begun) -> Running:
        """What the driver does."""
