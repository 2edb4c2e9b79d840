"""Strategies that copy rows to every set that may hold a partner; each set has an owner."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from skewless.errors import ArgumentError
from skewless.operators.similarity.strategies.base import SimilarityStrategy
from skewless.placement.balancing.worksets import WorksetLoad, WorksetMove

if TYPE_CHECKING:
    from skewless.operators.similarity.running import Way

SAMPLED = 1024  # rows tell how even partitions are


class CopyingStrategy(SimilarityStrategy):
    """Divides the space around rows of the first batch, drawn at random by a `seed`. Rows meet in
    the worksets of a partition where it `forms_worksets`, else in the partition itself."""

    forms_worksets: ClassVar[bool]
    draws_evenly: ClassVar[bool] = False
    """Whether partitions are to be even; if not, every row may become a centroid alike."""
    seed: int

    def way(self) -> Way:
        from skewless.operators.similarity.copying.way import CopyingWay

        return CopyingWay(self)

    @abstractmethod
    def partitions_for(self, instances: int) -> int:
        """Into how many partitions the space is divided, at least."""

    @property
    def divides_further(self) -> bool:
        """Whether there are to be more partitions where that saves distances."""
        return False

    def sampled_for(self, partitions: int) -> int:
        """How many rows of the first batch the centroids of so many partitions are drawn from."""
        return max(partitions, SAMPLED) if self.draws_evenly else partitions

    def balance(self, loads: Sequence[WorksetLoad], instances: int) -> list[WorksetMove]:
        """Which sets go to another instance."""
        return []


def check_whole(name: str, value: object, least: int, accepted: str = "") -> None:
    """Refuse what is no whole number, or too small."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ArgumentError(name, value, f"a whole number of at least {least}{accepted}")
