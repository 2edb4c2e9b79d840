"""ClusterJoin: a fixed number of partitions around rows of the first batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skewless.operators.similarity.strategies.copying import CopyingStrategy, check_whole


@dataclass(frozen=True)
class ClusterJoin(CopyingStrategy):
    """A fixed number of partitions around rows of the first batch, chosen at random, each worked on
    by one instance. A row belongs to the nearest center, and is copied to every partition that can
    hold a row alike to it, in one direction of two. The baseline of S3J's paper.

    - `partitions`: more of them compare fewer rows, and cost more copies and more distances from
      centers.
    - `seed`: which rows of the first batch become centers.
    """

    partitions: int = 500
    seed: int = 0

    forms_worksets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole("partitions", self.partitions, 1)
        check_whole("seed", self.seed, 0)

    @property
    def workset_rule(self) -> str:
        return f"none, rows copied to {self.partitions} partitions"

    def partitions_for(self, instances: int) -> int:
        return self.partitions
