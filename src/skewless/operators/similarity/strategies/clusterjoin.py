"""ClusterJoin: a fixed number of partitions around rows of the first batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skewless.errors import ArgumentError
from skewless.operators.similarity.centers import nearest, new_ids
from skewless.operators.similarity.points import Points, take
from skewless.operators.similarity.strategies.base import Assignment, SimilarityStrategy
from skewless.operators.similarity.worksets import NEVER_US, Worksets

if TYPE_CHECKING:
    from skewless.operators.similarity.spec import SimilaritySpec


@dataclass(frozen=True)
class ClusterJoin(SimilarityStrategy):
    """A fixed number of partitions around rows of the first batch, chosen at random; a row belongs
    to the nearest center, and a new row looks into every partition that can hold a row alike to it.
    The paper's baseline.

    - `partitions`: more of them compare fewer rows, and cost more distances from centers.
    - `seed`: which rows of the first batch become centers.
    """

    partitions: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, least in (("partitions", self.partitions, 1), ("seed", self.seed, 0)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ArgumentError(name, value, f"a whole number of at least {least}")

    @property
    def workset_rule(self) -> str:
        return f"{self.partitions} partitions"

    def assign(
        self, spec: SimilaritySpec, points: Points, known: Worksets | None, stored: int = 0
    ) -> Assignment:
        before = None if known is None else known.open_ones()
        worksets = self._random_centers(points) if before is None else before
        homes, distances = nearest(spec, points, worksets)
        return Assignment(worksets.ids[homes], distances, worksets)

    def _random_centers(self, points: Points) -> Worksets:
        rng = np.random.default_rng(self.seed)
        chosen = rng.permutation(len(points))[: self.partitions]
        return Worksets.around(new_ids(len(chosen)), take(points, chosen))

    def close_redundant(
        self, spec: SimilaritySpec, worksets: Worksets, known: Worksets | None, rows: int
    ) -> Worksets:
        """Every task of the first batch has made partitions of its own: the first ones stay."""
        new = worksets.not_in(known)
        before = 0 if known is None else int(known.is_open.sum())
        return worksets.with_open(new, new[: max(0, self.partitions - before)])

    def retire(self, worksets: Worksets, keep_after_us: int, keep_open_after_us: int) -> Worksets:
        """Partitions stay, even if they are empty."""
        return super().retire(worksets, keep_after_us, NEVER_US)
