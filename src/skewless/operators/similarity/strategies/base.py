"""What a strategy is: a value that says how rows that are alike find each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # compiles loops, which would make importing skewless slow
    from skewless.operators.similarity.running import Way


class SimilarityStrategy(ABC):
    """A way to find pairs that are alike. Configurations are frozen and picklable."""

    @property
    @abstractmethod
    def workset_rule(self) -> str:
        """How rows are stored, and in which sets: a checkpoint is tied to it."""

    @abstractmethod
    def way(self) -> Way:
        """Whether rows are stored once and look into other sets, or are copied to these."""
