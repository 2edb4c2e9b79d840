"""Centroids that cover the space (section 6.2 of the S3J paper): at random, and evenly.

A row is compared with all centers of its partition, so that the work grows with the squares of the
partitions' sizes: drawn blindly, a few partitions have most of it. The paper's own figures fall as
those of even partitions do, with 1/n.
"""

from __future__ import annotations

import numpy as np

from skewless.arrays.types import Ints
from skewless.operators.similarity.points import Points, take
from skewless.operators.similarity.spec import SimilaritySpec

TRIES = 200


def evenest(spec: SimilaritySpec, sample: Points, partitions: int, seed: int) -> Points:
    """Centroids from a sample: some at random, of which one after the other gives way to another
    row, chosen at random, wherever that makes the partitions more even."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(sample))
    chosen, others = order[:partitions], order[partitions:]
    if not len(others):
        return take(sample, chosen)
    uneven = _uneven(spec, sample, chosen)
    for _ in range(TRIES):
        place, other = rng.integers(len(chosen)), rng.integers(len(others))
        tried = chosen.copy()
        tried[place] = others[other]
        now = _uneven(spec, sample, tried)
        if now < uneven:
            others[other] = chosen[place]
            chosen, uneven = tried, now
    return take(sample, chosen)


def _uneven(spec: SimilaritySpec, sample: Points, chosen: Ints) -> int:
    """The sum of the squares of the partitions' sizes."""
    homes, _ = spec.metric.nearest(sample, take(sample, chosen))
    return int((np.bincount(homes) ** 2).sum())
