"""What a way to join three streams is: a configuration, and what it becomes when it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skewless.placement.figures import Decision

if TYPE_CHECKING:
    from skewless.engine.operator import Batch
    from skewless.operators.three_way.reader import BatchSegments
    from skewless.operators.three_way.spec import ThreeSpec
    from skewless.operators.three_way.work import ThreeWork
    from skewless.state.commits import OperatorState
    from skewless.state.segment_set import SegmentSet


class ThreeStrategy(ABC):
    """A way to join three streams. Configurations are frozen."""

    @abstractmethod
    def intermediates(self, spec: ThreeSpec) -> str:
        """What lies in the state besides rows: a checkpoint is tied to it, since what earlier
        batches have not stored cannot be found."""

    @abstractmethod
    def begin(self, spec: ThreeSpec, facts: Mapping[str, Any]) -> RunningStrategy:
        """Begin, or go on from the `facts` of the last batch."""

    def check(self, spec: ThreeSpec) -> None:  # noqa: B027 (most can do any join)
        """Refuse a join that this cannot do."""


class RunningStrategy(ABC):
    """A strategy at work on one join, on the driver."""

    @property
    def stores_pairs(self) -> bool:
        """Whether the last step of a batch stores pairs: then every instance has to work."""
        return False

    def segments(self, state: OperatorState) -> SegmentSet:
        """The segments of the state that are still wanted."""
        return state.segments

    def first_work(self, state: OperatorState, segments: BatchSegments) -> ThreeWork | None:
        """A step before the last one, if there must be pairs for the last one to find."""
        return None

    @abstractmethod
    def work(self, segments: BatchSegments) -> ThreeWork:
        """The last step of a batch, which finds the triples."""

    def facts(self) -> dict[str, Any]:
        """What has to be known of this batch when the next one begins, even after a restart."""
        return {}

    def observe(self, batch: Batch) -> Sequence[Decision]:
        """Take note of a batch that all instances have worked on; decide about the next."""
        return ()
