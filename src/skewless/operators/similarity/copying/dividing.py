"""How many partitions S3J divides the space into, if nobody says it.

With p partitions of W worksets in all, a row is compared with p centroids and, in each partition
that it is sent to, with about W/p centers: the fewest at p = √W. How many worksets there will be
depends on the data and the threshold, so a sample of the first batch is asked. It begins with one
partition per instance, as in the paper, and doubles them as long as that saves distances. But rows
near a border are sent to the partitions on both sides, and stored there: no more than one in twenty
may be. Where everything is near to everything, as with many dimensions, it stays with one each.
"""

from __future__ import annotations

import numpy as np

from skewless.operators.similarity.copying.covering import evenest
from skewless.operators.similarity.copying.forming import Former
from skewless.operators.similarity.copying.space import Space
from skewless.operators.similarity.points import Points, take
from skewless.operators.similarity.spec import SimilaritySpec

SENT_MOST = 1.05  # partitions that a row is sent to
ROWS_EACH = 8  # of the sample, or it says nothing of a partition


def divided(spec: SimilaritySpec, sample: Points, least: int, seed: int) -> Space:
    """The space in at least so many partitions, in which the rows of a sample are compared with as
    few centers as can be."""
    space = Space(evenest(spec, sample, least, seed))
    # More partitions send more: then no sets have to be formed, which is long with long vectors.
    if 2 * least * ROWS_EACH > len(sample) or _sent(spec, space, sample) > SENT_MOST:
        return space
    centers = worksets_of(spec, sample)
    _, fewest = costs(spec, space, sample, centers)
    for partitions in _doubled(2 * least, len(sample) // ROWS_EACH):
        tried = Space(evenest(spec, sample, partitions, seed))
        sent, distances = costs(spec, tried, sample, centers)
        if sent > SENT_MOST or distances >= fewest:
            break
        space, fewest = tried, distances
    return space


def worksets_of(spec: SimilaritySpec, sample: Points) -> Points:
    """The centers of the worksets that a sample would form."""
    nobody = take(sample, np.empty(0, np.int64))
    former = Former(spec, 0, np.empty(0, np.uint64), nobody, np.empty(0), 0)
    former.take_in(sample)
    return former.centers


def costs(
    spec: SimilaritySpec, space: Space, sample: Points, centers: Points
) -> tuple[float, float]:
    """How many partitions a row is sent to, and how many distances from centroids and from the
    centers of worksets it takes."""
    placed, rows = space.place(spec, sample), len(sample)
    received = np.bincount(np.concatenate([placed.inner, placed.outer]), minlength=len(space))
    worksets = np.bincount(space.place(spec, centers).inner, minlength=len(space))
    distances = int((received * worksets).sum())
    return int(received.sum()) / rows, len(space) + distances / rows


def _sent(spec: SimilaritySpec, space: Space, sample: Points) -> float:
    return 1 + len(space.place(spec, sample).outer) / len(sample)


def _doubled(first: int, most: int) -> list[int]:
    """
    >>> _doubled(10, 128)
    [10, 20, 40, 80]
    """
    return [first << i for i in range(most.bit_length()) if first << i <= most]
