"""BruteForce: everything is compared with everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skewless.operators.similarity.points import Points
from skewless.operators.similarity.strategies.looking import (
    ALONE,
    Assignment,
    LookingStrategy,
    TaskView,
    unbounded,
)
from skewless.operators.similarity.worksets import Worksets

if TYPE_CHECKING:
    from skewless.operators.similarity.spec import SimilaritySpec


@dataclass(frozen=True)
class BruteForce(LookingStrategy):
    """Every new row is compared with every row that is near enough in time."""

    @property
    def workset_rule(self) -> str:
        return "all in one"

    def assign(
        self, spec: SimilaritySpec, points: Points, known: Worksets | None, task: TaskView = ALONE
    ) -> Assignment:
        """The workset without bounds has all rows."""
        return unbounded(points)
