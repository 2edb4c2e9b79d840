"""How many rows a new one has to be compared with, by time alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays.types import Ints
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.operators.similarity.worksets import BOUNDLESS
from skewless.state.segment_set import SegmentSet

SAMPLED = 512  # new rows that tell it for all
MIDDLE = 0.9  # of new rows: some come late


class Partners(NamedTuple):
    """How many rows a new one is compared with where everything is, and how many of these are known
    to lie in the workset without bounds, so that it is compared with them in any case."""

    every: float
    unbounded: float = 0.0


def partners_in_time(spec: SimilaritySpec, side: str, times: Ints, stored: SegmentSet) -> Partners:
    """Rows of the other side that a new row with one of these `times` has to be compared with, as
    they are near enough in time, on the average. Of new rows, as many are taken to come on the
    other side as on this one, and a pair of two is one comparison for both. Rows of a segment are
    taken to lie evenly before its last, over its length or, as few late rows make it long, for as
    long as so many new ones would need."""
    sample = np.sort(times[:: -(-len(times) // SAMPLED)])
    begin, end = partner_times(spec, side, sample)
    new = np.searchsorted(sample, end, "right") - np.searchsorted(sample, begin, "left")
    found = new * (len(times) / len(sample) / 2)
    early, recent = np.quantile(sample, [(1 - MIDDLE) / 2, (1 + MIDDLE) / 2])
    each_us = ((recent - early) / MIDDLE + 1) / len(times)
    unbounded = np.zeros(len(sample))
    for segment in stored.of_side(spec.other(side)):
        last, length = segment.time_max_us, segment.time_max_us - segment.time_min_us + 1
        length = min(length, max(1, round(each_us * segment.rows)))
        both = np.minimum(end, last) - np.maximum(begin, last - length + 1) + 1
        lying = segment.rows * np.maximum(both, 0) / length
        found += lying
        if segment.hash_max == BOUNDLESS:
            unbounded += lying
    return Partners(float(found.mean()), float(unbounded.mean()))


def partner_times(spec: SimilaritySpec, side: str, times: Ints) -> tuple[Ints, Ints]:
    """The first and the last time of a partner of rows with these times."""
    size = spec.window_us
    if size is not None:
        begin = times // size * size
        return begin, begin + size - 1
    lower, upper = spec.partner_bounds(side)
    return times + lower, times + upper
