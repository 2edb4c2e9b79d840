"""Which rows are compared, and who does it; the result is the same."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skewless.errors import ArgumentError

LONG_FROM = 16  # elements
ROWS_PER_LARGE_WORKSET = 16_384


class SimilarityStrategy:
    """A way to find pairs that are alike. Configurations are frozen."""

    @property
    def worksets_told(self) -> str:
        """How rows are put into worksets: a checkpoint is tied to it."""
        raise TypeError("of a subclass")


@dataclass(frozen=True)
class S3J(SimilarityStrategy):
    """Worksets formed on the fly (Siachamis et al., "Adaptive Distributed Streaming Similarity
    Joins"). A row further than the threshold t from all centers becomes the center of a new
    workset; any other is in that of the nearest center. Two rows of one workset whose distances
    from the center are t at most together are alike without being compared; the paper's inner sets,
    of rows within t/2, are a special case. A new row looks into the worksets whose centers are
    within 2t or, where members are closer, t more than the furthest of them.

    - `dealt`: new rows are dealt out to the instances, each of which looks into all worksets, so
      that no workset can be too heavy. False gives each workset to one instance, as the paper does,
      and moves worksets from busy to idle ones between batches.
    - `most`: from so many worksets on, rows are put into the nearest one however far that is, and
      worksets reach further. Distances from centers, and so the cost of a row, stay bounded where
      most rows are far from one another, as in many dimensions. None: no limit, as in the paper.
    - `tolerance`: with ``dealt=False``, how far above the mean the busiest instance may be.
    """

    dealt: bool = True
    most: int | None = None
    tolerance: float = 0.1

    def __post_init__(self) -> None:
        if not isinstance(self.dealt, bool):
            raise ArgumentError("dealt", self.dealt, "True or False")
        if self.most is not None and (
            not isinstance(self.most, int) or isinstance(self.most, bool) or self.most < 1
        ):
            raise ArgumentError("most", self.most, "a whole number of at least 1, or None")
        number = isinstance(self.tolerance, int | float) and not isinstance(self.tolerance, bool)
        if not number or not 0 <= self.tolerance < math.inf:
            raise ArgumentError("tolerance", self.tolerance, "a number of at least 0")

    @property
    def worksets_told(self) -> str:
        return "formed on the fly"

    def limit(self, rows: int, dimension: int) -> int | None:
        """The most worksets with so many rows in the state, of so many elements each."""
        return self.most


@dataclass(frozen=True)
class AutoSimilarity(S3J):
    """S3J with rows dealt out and a limit on worksets: half the root of the rows was the fastest in
    nearly all that was tried, since a row is compared with all centers, and with all members of the
    few worksets in its reach. Long vectors are compared by matrix products, which need large
    worksets to be fast, and far apart as they are, worksets rule little out: one for every 16,384
    rows."""

    def limit(self, rows: int, dimension: int) -> int | None:
        if dimension >= LONG_FROM:
            return max(1, rows // ROWS_PER_LARGE_WORKSET)
        return max(1, math.isqrt(rows) // 2)


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
    def worksets_told(self) -> str:
        return f"{self.partitions} partitions"


@dataclass(frozen=True)
class BruteForce(SimilarityStrategy):
    """Every new row is compared with every row that is near enough in time."""

    @property
    def worksets_told(self) -> str:
        return "all in one"
