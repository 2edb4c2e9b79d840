"""Who works on a set: the instance that has its space partition, unless the set was moved."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skewless.arrays.types import Ints, UInts
from skewless.operators.similarity.copying.roles import partitions_of


def owned(ids: UInts, moved: Mapping[int, int], instance: int, instances: int) -> Ints:
    """The rows of one instance, of rows that lie together by set."""
    if not len(ids):
        return np.empty(0, np.int64)
    begins = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
    sets = ids[begins]
    owners = partitions_of(sets) % instances
    if moved:
        known = np.array(sorted(moved), np.uint64)
        place = np.minimum(np.searchsorted(known, sets), len(known) - 1)
        is_moved = known[place] == sets
        owners[is_moved] = np.array([moved[int(i)] for i in known])[place[is_moved]]
    lengths = np.diff(np.append(begins, len(ids)))
    return np.flatnonzero(np.repeat(owners == instance, lengths))
