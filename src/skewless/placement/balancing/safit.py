"""SAFit, FastJoin's other way to choose keys: simulated annealing (algorithm 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from skewless.arrays.types import Floats
from skewless.placement.balancing.annealing import Schedule, anneal
from skewless.placement.balancing.greedyfit import (
    Direction,
    Indices,
    benefits,
    by_factor,
    feasible_part,
    gap,
    stored_rows,
)


def set_value(benefit: float, rows: float) -> float:
    """``Value(SK) = ΣF_k / Σ|R_k|`` (eq. 10). What moves no rows counts as one row, so that keys
    that move for free have a finite value, and more of them a larger one.

    >>> set_value(12.0, 4.0), set_value(12.0, 0.0), set_value(0.0, 0.0)
    (3.0, 12.0, 0.0)
    """
    return benefit / max(rows, 1.0)


def sa_fit(
    directions: Sequence[Direction],
    gap_min: float = 0.0,
    schedule: Schedule | None = None,
    seed: int = 0,
) -> Indices:
    """The keys to move, the most worthwhile first; none, where none fits.

    Value is eq. (10) and feasible is ``ΣF_k <= L_i - L_j``, as in the paper. Mind what that
    prefers: a ratio of sums is never larger than the largest of the ratios, so the best set is the
    key with the best factor that fits, together with such as move for free. Each plan moves little,
    at the best price, and the next one follows. GreedyFit, which goes on down the same order until
    the gap is full, is what to use where one plan has to do. Keys with a benefit below `gap_min`
    are left out, as GreedyFit does: it keeps tiny keys from being preferred for being tiny.

    The start is random, as in the paper, cut where the gap would be overfilled.
    """
    benefit, rows, room = benefits(directions), stored_rows(directions), gap(directions)
    fits = (benefit > 0) & (benefit >= gap_min) & (benefit <= room)
    able = np.flatnonzero(fits).astype(np.int64)
    if not len(able):
        return able
    items = np.column_stack([benefit[able], rows[able]])

    def judge(sums: Sequence[float]) -> tuple[float, float]:
        return set_value(sums[0], sums[1]), max(sums[0] - room, 0.0) / room

    found = anneal(items, _start(benefit[able], room, seed), judge, schedule or Schedule(), seed)
    chosen = able[np.array(found, np.int64)]
    order = by_factor(benefit[chosen], rows[chosen])
    return feasible_part(directions, chosen[order])


def _start(F: Floats, room: float, seed: int) -> list[int]:
    """Every other key or so, up to the first with which the gap would be overfilled."""
    flags = np.random.default_rng(seed).random(len(F)) < 0.5
    flags &= np.cumsum(F * flags) <= room
    # Summed exactly, the last may be too many by a rounding.
    while math.fsum(F[flags]) > room:
        flags[np.flatnonzero(flags)[-1]] = False
    picked: list[int] = np.flatnonzero(flags).tolist()
    return picked
