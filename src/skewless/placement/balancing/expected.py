"""Measured time, looked a little ahead.

What is decided after a batch takes effect in the next ones. A key that has just turned hot has many
rows that probe but few stored ones to meet yet; with every batch it meets more of them, until the
first fall out of the join's window. Sharing it by what it cost so far would be too little, batch
after batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skewless.arrays.types import Floats
from skewless.placement.balancing.loads import LoadModel, MeasuredTime
from skewless.placement.balancing.view import View
from skewless.placement.figures import Figures
from skewless.placement.places import Placement

AHEAD = 2.0  # batches: the next one, and half a window of averaging
GROWTH_MAX = 16.0  # more is not believed


@dataclass(frozen=True)
class ExpectedTime(LoadModel):
    """Milliseconds per batch as `MeasuredTime` has it, with the pairs of watched keys as they are
    to be expected."""

    def of_instances(self, view: View, placement: Placement) -> Floats:
        return MeasuredTime().of_instances(expected(view), placement)


def expected(view: View) -> View:
    """The same view, in which keys whose stored rows grow faster than is usual have grown."""
    left, right = (extra for extra, _ in _growth_ms(view))
    slots, keys = view.slots, view.key_figures
    of_slots = [slots.time_left_ms.copy(), slots.time_right_ms.copy()]
    inside = np.array([not key.isolated for key in view.keys], bool)
    at = np.array([key.slot for key in view.keys], np.int64)[inside]
    for times, extra in zip(of_slots, (left, right), strict=True):
        np.add.at(times, at, extra[inside])
    return replace(
        view,
        slots=replace(slots, time_left_ms=of_slots[0], time_right_ms=of_slots[1]),
        key_figures=replace(
            keys, time_left_ms=keys.time_left_ms + left, time_right_ms=keys.time_right_ms + right
        ),
    )


def still_growing_ms(view: View) -> Floats:
    """By how much each key's time will have grown beyond what is expected next, once it has as many
    stored rows for its new ones as is usual."""
    (left, left_later), (right, right_later) = _growth_ms(view)
    return np.maximum(left_later - left, 0.0) + np.maximum(right_later - right, 0.0)


def _growth_ms(view: View) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """For the left and the right rows of every key: how much more time they will take soon, and in
    the end."""
    keys, usual = view.key_figures, _new_per_met(view.slots)
    left, right = (
        _grown(view.pair_ms * pairs, pace * _beyond_chance(new), float(np.median(of_slots)))
        for pairs, new, pace, of_slots in zip(
            (keys.pairs_left, keys.pairs_right), (keys.probing_right, keys.probing_left),
            _new_per_met(keys), usual, strict=True,
        )
    )  # fmt: skip
    return left, right


def _beyond_chance(rows: Floats) -> Floats:
    """What is left of a pace if it is counted from so few rows: three standard deviations less."""
    return np.maximum(1 - 3 / np.sqrt(np.maximum(rows, 1.0)), 0.0)


def _grown(time_ms: Floats, pace: Floats, usual: float) -> tuple[Floats, Floats]:
    """What is stored grows by `pace`, relatively, in a batch. In most slots rows fall out of the
    window as fast as they come, so that their pace, the usual one, is no growth at all."""
    soon = (1 + AHEAD * pace) / (1 + AHEAD * usual)
    later = pace / usual if usual > 0 else soon
    now, then = (time_ms * (np.clip(f, 1.0, GROWTH_MAX) - 1) for f in (soon, later))
    return now, then


def _new_per_met(figures: Figures) -> tuple[Floats, Floats]:
    """Rows stored now for every row that was met, by left rows and by right rows. Left rows met
    what was stored on the right before the batch; right rows met what is stored on the left with
    it."""
    new_left, new_right = figures.probing_left, figures.probing_right
    met_left, met_right = figures.stored_left, figures.stored_right - new_right
    none = np.zeros(len(figures))
    return (
        np.divide(new_right, met_right, out=none.copy(), where=met_right > 0),
        np.divide(new_left, met_left, out=none.copy(), where=met_left > 0),
    )
