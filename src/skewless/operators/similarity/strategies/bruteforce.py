"""BruteForce: everything is compared with everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skewless.arrays.types import Ints
from skewless.operators.similarity.points import Points, take
from skewless.operators.similarity.strategies.looking import Assignment, LookingStrategy
from skewless.operators.similarity.worksets import Worksets

if TYPE_CHECKING:
    from skewless.operators.similarity.spec import SimilaritySpec

THE_ONE = np.uint64(0)


@dataclass(frozen=True)
class BruteForce(LookingStrategy):
    """Every new row is compared with every row that is near enough in time."""

    @property
    def workset_rule(self) -> str:
        return "all in one"

    def assign(
        self, spec: SimilaritySpec, points: Points, known: Worksets | None, stored: int = 0
    ) -> Assignment:
        """One workset has all rows; its center says nothing."""
        one = Worksets.around(np.array([THE_ONE]), take(points, np.zeros(1, np.int64)))
        return Assignment(np.full(len(points), THE_ONE), np.zeros(len(points)), one)

    def probe(self, spec: SimilaritySpec, points: Points, worksets: Worksets) -> tuple[Ints, Ints]:
        numbers = np.arange(len(worksets))
        return np.repeat(np.arange(len(points)), len(numbers)), np.tile(numbers, len(points))
