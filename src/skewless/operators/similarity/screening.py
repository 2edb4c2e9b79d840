"""Long vectors: which pairs need not be compared one by one, by products of matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skewless.arrays.types import Floats, Ints, UInts
from skewless.operators.similarity.points import Points, matrix, width
from skewless.operators.similarity.spec import SimilaritySpec

SCREENED_FROM_DIMENSION = 16  # shorter vectors are compared faster one by one
SCREENED_FROM_PAIRS = 1024
BLOCK_ROWS, BLOCK_STORED = 512, 4096  # 8 MiB of single precision


def pays(points: Points, pairs: int) -> bool:
    """Whether vectors are long enough, and pairs enough, for a matrix product to pay."""
    return pairs >= SCREENED_FROM_PAIRS and width(points) >= SCREENED_FROM_DIMENSION


def near_after_screening(
    spec: SimilaritySpec,
    probing: tuple[Points, Ints, UInts],
    stored: Points,
    first: Ints,
    last: Ints,
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Of pairs of a probing row with each stored row from `first` to `last`, those within the
    threshold: row, stored row, distance. `probing` are points, which of them look into a workset,
    and into which; those of one workset lie together."""
    points, rows, ids = probing
    for some in _blocks(ids):
        candidates = _candidates(spec, points, rows[some], stored, first[some], last[some])
        for found, partners in candidates:
            distances = spec.metric.pairs(points, found, stored, partners)
            near = distances <= spec.threshold
            yield found[near], partners[near], distances[near]


def _blocks(ids: UInts) -> Iterator[slice]:
    """One workset after the other, as those who look into one meet the same rows."""
    ends = [*(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        for at in range(begin, end, BLOCK_ROWS):
            yield slice(at, min(at + BLOCK_ROWS, end))


def _candidates(
    spec: SimilaritySpec, points: Points, rows: Ints, stored: Points, first: Ints, last: Ints
) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of a block that a matrix product in single precision does not rule out."""
    some = first < last
    if not some.any():
        return
    rows, first, last = rows[some], first[some], last[some]
    mine = matrix(points)[rows]
    for at in range(int(first.min()), int(last.max()), BLOCK_STORED):
        numbers = np.arange(at, min(at + BLOCK_STORED, int(last.max())))
        in_range = (numbers >= first[:, None]) & (numbers < last[:, None])
        near = spec.metric.maybe_near(mine, matrix(stored)[numbers], spec.threshold)
        found, partners = np.nonzero(in_range if near is None else in_range & near)
        if len(found):
            yield rows[found], numbers[partners]
