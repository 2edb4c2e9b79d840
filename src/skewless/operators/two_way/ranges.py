"""Where the partners of probing rows lie, by their times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skewless.arrays.merging import match_ranges
from skewless.arrays.runs import Run
from skewless.arrays.types import FAR_US, Ints, Side, frozen
from skewless.operators.epochs import Epoch
from skewless.operators.pair import JoinSpec


def partner_ranges(
    spec: JoinSpec, side: Side, prober: Run, run: Run
) -> Iterator[tuple[Ints, Ints]]:
    """For every probing row of a side the range of stored rows that may be its partners; one for
    every epoch of the bounds, which is one in all unless they were changed."""
    for epoch in spec.epochs:
        bounds = epoch.partner_bounds(side)
        if side == "left":
            first, last = _matched(prober, run, bounds, run.floor_us)
            if len(spec.epochs) > 1:
                last = np.where(epoch.holds_at(prober.times), last, first)
        else:
            first, last = _matched(prober, run, bounds, max(run.floor_us, epoch.since_us))
            last = _without_later(epoch, prober, run, bounds, last)
        yield first, last


def _without_later(
    epoch: Epoch, prober: Run, run: Run, bounds: tuple[int, int], last: Ints
) -> Ints:
    """Where the ranges end if left rows of later epochs are left out, which lie at their ends."""
    if epoch.until_us >= FAR_US:
        return last
    later, end = _matched(prober, run, bounds, max(run.floor_us, epoch.until_us))
    return np.where(later < end, later, last)


def _matched(prober: Run, run: Run, bounds: tuple[int, int], floor_us: int) -> tuple[Ints, Ints]:
    first, last, _ = match_ranges(
        frozen(prober.hashes),
        frozen(prober.times),
        prober.floor_us,
        frozen(run.hashes),
        frozen(run.times),
        floor_us,
        *bounds,
    )
    return first, last
