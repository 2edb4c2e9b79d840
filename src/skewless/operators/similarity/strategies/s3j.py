"""S3J: worksets formed on the fly around rows that no other covers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from skewless.arrays.types import Floats, Ints, UInts
from skewless.errors import ArgumentError
from skewless.operators.similarity.centers import nearest, new_ids
from skewless.operators.similarity.points import Points, take, width
from skewless.operators.similarity.strategies.base import Assignment, SimilarityStrategy
from skewless.operators.similarity.worksets import Worksets
from skewless.placement.balancing.worksets import WorksetLoad, WorksetMove, balance_worksets

if TYPE_CHECKING:
    from skewless.operators.similarity.spec import SimilaritySpec

COMPARED_MOST = 4096  # new worksets: the driver compares each with all that stay, in half a second


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
      worksets become wider. Distances from centers, and so the cost of a row, stay bounded where
      most rows are far from one another, as in many dimensions. None: no limit, as in the paper.
    - `tolerance`: with ``dealt=False``, how far above the mean the busiest instance may be.
    """

    dealt: bool = True
    most: int | None = None
    tolerance: float = 0.1

    counts_inner: ClassVar[bool] = True

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
    def workset_rule(self) -> str:
        return "formed on the fly"

    @property
    def has_owners(self) -> bool:
        return not self.dealt

    def limit(self, rows: int, dimension: int) -> int | None:
        """The most worksets with so many rows in the state, of so many elements each."""
        return self.most

    def assign(
        self, spec: SimilaritySpec, points: Points, known: Worksets | None, stored: int = 0
    ) -> Assignment:
        known = None if known is None else known.open_ones()
        return form(spec, points, known, self.limit(stored + len(points), width(points)))

    def close_redundant(
        self, spec: SimilaritySpec, worksets: Worksets, known: Worksets | None, rows: int
    ) -> Worksets:
        """New worksets near another are closed, and those beyond the most there may be."""
        new = worksets.not_in(known)
        new = new[worksets.is_open[new]]
        if len(new) > COMPARED_MOST:
            return worksets.with_open(new, new)
        before = None if known is None else known.open_ones()
        centers = take(worksets.centers, new)
        *_, stays = _on_the_fly(spec, centers, before, self.limit(rows, width(centers)))
        return worksets.with_open(new, new[stays])

    def balance(self, loads: Sequence[WorksetLoad], instances: int) -> list[WorksetMove]:
        """Worksets go from busy to idle instances, if the busiest is too busy."""
        places, weights = [w.instance for w in loads], [w.load for w in loads]
        totals = np.bincount(places, weights, minlength=instances) if loads else np.zeros(1)
        if totals.max() <= (1 + self.tolerance) * totals.mean():
            return []
        return balance_worksets([w for w in loads if w.load], instances)


def form(
    spec: SimilaritySpec, points: Points, known: Worksets | None, most: int | None
) -> Assignment:
    """Give rows a workset, those `known` or new ones, at most so many together."""
    ids, distances, made = _on_the_fly(spec, points, known, most)
    new = Worksets.around(ids[made], take(points, made))
    found = Worksets.joined([known, new])
    assert found is not None
    return Assignment(ids, distances, found)


def _on_the_fly(
    spec: SimilaritySpec, points: Points, known: Worksets | None, most: int | None
) -> tuple[UInts, Floats, Ints]:
    """Rows that no center covers become centers themselves, in the order in which they came: the
    workset of each, the distance from its center, and which of them are centers.

    Tasks do this on their own, so two of them may make centers that are near each other: rows are
    stored in one workset all the same, and who looks for them looks into every one in reach;
    `close_redundant` then closes one. When there are `most` worksets, rows stay with the nearest,
    however far."""
    rows = len(points)
    ids, distances = np.zeros(rows, np.uint64), np.full(rows, np.inf)
    if known is not None and len(known):
        homes, distances = nearest(spec, points, known)
        ids = known.ids[homes]
    uncovered = np.flatnonzero(distances > spec.threshold)
    centers: list[int] = []
    room = np.inf if most is None else most - (0 if known is None else len(known))
    while len(uncovered) and (len(centers) < room or not np.isfinite(distances[uncovered]).all()):
        # The first that is left covers what it can: one round per new workset, not per row.
        center = uncovered[:1]
        apart = spec.metric.cross(take(points, uncovered), take(points, center))[:, 0]
        identity = new_ids(1)[0]
        nearer = apart < distances[uncovered]
        ids[uncovered[nearer]] = identity
        distances[uncovered[nearer]] = apart[nearer]
        centers.append(int(center[0]))
        ids[center], distances[center] = identity, 0.0
        uncovered = uncovered[distances[uncovered] > spec.threshold]
    return ids, distances, np.array(centers, np.int64)
