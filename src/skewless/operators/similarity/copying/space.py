"""Space partitions (section 6 of the S3J paper; ClusterJoin): one around each centroid.

A row is inner in the partition of the nearest centroid. Let x be inner in i and y in j, with
d(x, y) <= t. Then d(y, c_i) <= t + d(x, c_i) <= t + d(x, c_j) <= 2t + d(y, c_j): by criterion 1
y is in the outer partition of i, and x in that of j. The parity rule has only one of them sent, so
every pair meets in one partition, where one of its rows is inner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Ints
from skewless.operators.similarity.points import Points, concat, take
from skewless.operators.similarity.points_file import read_points, write_points
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.state.blobs import BlobInfo
from skewless.state.files import Folder

CENTROIDS = "centroids"
ROWS_AT_ONCE = 4096
ROWS_DRAWN_FROM = 500_000_000  # NumPy draws from no more than twice as many
SLACK, SLACK_OF_THRESHOLD = 1e-9, 1e-5  # rounding must not rule a pair out; a copy more is no harm


class Placed(NamedTuple):
    """The partition in which each row is inner; and copies, (row, partition in which it is
    outer)."""

    inner: Ints
    rows: Ints
    outer: Ints


@dataclass(frozen=True)
class Space:
    """The centroids of all partitions."""

    centroids: Points

    def __len__(self) -> int:
        return len(self.centroids)

    def place(self, spec: SimilaritySpec, points: Points) -> Placed:
        """Where rows belong."""
        parts = [
            self._place(spec, points, np.arange(begin, min(begin + ROWS_AT_ONCE, len(points))))
            for begin in range(0, len(points), ROWS_AT_ONCE)
        ]
        return Placed(*(np.concatenate(found) for found in zip(*parts, strict=True)))

    def _place(self, spec: SimilaritySpec, points: Points, some: Ints) -> Placed:
        metric, mine = spec.metric, take(points, some)
        inner, _ = metric.nearest(mine, self.centroids)
        nearest = metric.pairs(mine, np.arange(len(some)), self.centroids, inner)
        bounds = nearest + 2 * spec.threshold
        bounds += SLACK * (1 + bounds) + SLACK_OF_THRESHOLD * spec.threshold
        bounds += 2 * metric.cross_error(mine, self.centroids)
        outer, rows = metric.within(self.centroids, mine, bounds)
        sent = (inner[rows] != outer) & sends(inner[rows], outer)
        return Placed(inner, some[rows[sent]], outer[sent])


def sends(inner: Ints, outer: Ints) -> npt.NDArray[np.bool_]:
    """The parity rule: of two partitions, only one sends rows to the other."""
    return np.asarray((inner < outer) ^ ((inner + outer) % 2 == 1))


def sample_of(points: Points, most: int, seed: int) -> Points:
    """Some rows at random."""
    return take(points, np.random.default_rng(seed).permutation(len(points))[:most])


def choose_centroids(
    samples: Sequence[Points], rows: Sequence[int], partitions: int, seed: int
) -> Space:
    """As many rows as there are to be partitions, each row of the batch with equal chance: tasks
    have so many `rows`, and give a sample of these."""
    rng = np.random.default_rng(seed)
    rows_a_ticket = 1 + sum(rows) // ROWS_DRAWN_FROM
    tickets = [max(1, n // rows_a_ticket) for n in rows]
    shares = rng.multivariate_hypergeometric(tickets, min(partitions, sum(tickets)))
    taken = [take(s, np.arange(n)) for s, n in zip(samples, shares.tolist(), strict=True)]
    return Space(concat(taken))


def write_space(folder: Folder, centroids: Points) -> BlobInfo:
    return write_points(folder, CENTROIDS, centroids, {})


def read_space(folder: Folder, blob: BlobInfo) -> Space:
    return Space(read_points(folder, blob)[0])
