"""Rows and the centers of worksets: which is the nearest, and which sets can hold a partner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from skewless.arrays.types import Floats, Ints, UInts
from skewless.operators.similarity.points import Points, take
from skewless.operators.similarity.worksets import Worksets

if TYPE_CHECKING:
    from skewless.operators.similarity.spec import SimilaritySpec

SLACK = 1e-9  # relative: rounding must not rule a pair out
ROWS_AT_ONCE = 4096


def new_ids(count: int) -> UInts:
    """Ids that no other task gives, as worksets are made in many places at once; and none is that
    of the workset without bounds."""
    return np.frombuffer(os.urandom(8 * count), np.uint64) | np.uint64(1)


def nearest(spec: SimilaritySpec, points: Points, centers: Points) -> tuple[Ints, Floats]:
    """The nearest center of each row, and its distance."""
    homes, distances = np.empty(len(points), np.int64), np.empty(len(points))
    for begin in range(0, len(points), ROWS_AT_ONCE):
        some = np.arange(begin, min(begin + ROWS_AT_ONCE, len(points)))
        homes[some], distances[some] = spec.metric.nearest(take(points, some), centers)
    return homes, distances


def in_reach(spec: SimilaritySpec, points: Points, worksets: Worksets) -> tuple[Ints, Ints]:
    """Which worksets can hold a row within the threshold of each row, by the triangle inequality:
    (row, number of the workset)."""
    boundless = np.flatnonzero(np.isinf(worksets.radius))
    rows, numbers = np.arange(len(points)), np.repeat(boundless, len(points))
    found = [(np.tile(rows, len(boundless)), numbers)]
    bounded = np.flatnonzero(np.isfinite(worksets.radius))
    if len(bounded):
        some = worksets.take(bounded)
        found += [(r, bounded[n]) for r, n in _within_reach(spec, points, some)]
    return np.concatenate([r for r, _ in found]), np.concatenate([n for _, n in found])


def _within_reach(
    spec: SimilaritySpec, points: Points, worksets: Worksets
) -> Iterator[tuple[Ints, Ints]]:
    bound = worksets.radius + spec.threshold
    bound = bound + SLACK * (1 + bound)
    for begin in range(0, len(points), ROWS_AT_ONCE):
        some = np.arange(begin, min(begin + ROWS_AT_ONCE, len(points)))
        rows, numbers = spec.metric.within(take(points, some), worksets.centers, bound)
        yield rows + begin, numbers
