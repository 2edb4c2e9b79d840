"""S3J: worksets formed on the fly in partitions of the space, moved from busy to idle instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewless.errors import ArgumentError
from skewless.operators.similarity.strategies.copying import CopyingStrategy, check_whole
from skewless.placement.balancing.worksets import WorksetLoad, WorksetMove, balance_worksets


@dataclass(frozen=True)
class S3J(CopyingStrategy):
    """The paper's two levels (Siachamis et al., "Adaptive Distributed Streaming Similarity Joins").
    The space is divided around rows of the first batch, drawn to make even parts. In each of them a
    row further than the threshold t from all centers becomes the center of a new workset. Rows are
    copied to the worksets that may hold a row alike, in one direction of two. Rows within t/2 of
    one center are alike without being compared. A workset is with the instance that made it until
    it is moved.

    - `partitions`: into how many parts the space is divided. More of them compare rows with fewer
      centers, and copy more rows. The paper has one per instance. None: so many, and twice as many
      again as long as, on a sample of the first batch, a row is compared with fewer centroids and
      centers, and at most one row in twenty is sent to a second partition.
    - `tolerance`: how far above the mean the busiest instance may be before worksets are moved.
    - `migration_cost`: what moving a row costs, in comparisons. A workset only moves if it gains
      more than that.
    - `seed`: which rows of the first batch the space is divided around.
    """

    partitions: int | None = None
    tolerance: float = 0.1
    migration_cost: float = 1.0
    seed: int = 0

    forms_worksets: ClassVar[bool] = True
    draws_evenly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.partitions is not None:
            check_whole("partitions", self.partitions, 1, ", or None")
        check_whole("seed", self.seed, 0)
        for name in ("tolerance", "migration_cost"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value < math.inf:
                raise ArgumentError(name, value, "a number of at least 0")

    @property
    def workset_rule(self) -> str:
        # Not "or more": how many there are is in the state, and earlier checkpoints go on.
        space = "one per instance" if self.partitions is None else f"{self.partitions}"
        return f"formed in partitions of the space ({space}), rows copied in reach"

    def partitions_for(self, instances: int) -> int:
        return instances if self.partitions is None else self.partitions

    @property
    def divides_further(self) -> bool:
        return self.partitions is None

    def balance(self, loads: Sequence[WorksetLoad], instances: int) -> list[WorksetMove]:
        """Worksets go from busy to idle instances, if the busiest is too busy."""
        places, weights = [w.instance for w in loads], [w.load for w in loads]
        totals = np.bincount(places, weights, minlength=instances) if loads else np.zeros(1)
        if totals.max() <= (1 + self.tolerance) * totals.mean():
            return []
        return balance_worksets([w for w in loads if w.load], instances, self.migration_cost)
