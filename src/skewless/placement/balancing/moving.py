"""What moves when a placement changes, and what that costs."""

from __future__ import annotations

import numpy as np

from skewless.arrays.types import Floats
from skewless.placement.balancing.view import View
from skewless.placement.places import Placement

PROBES_PER_ROW_MOVED = 0.25  # what a stored row costs that is read elsewhere from now on


def moved_rows(
    view: View, before: Placement, after: Placement, keys: frozenset[int] | None = None
) -> int:
    """Stored rows that change their instance. What lies at several counts by shares. Where it is
    known which `keys` may have changed, only these are looked at."""
    stored = view.slots.stored_left + view.slots.stored_right
    moved = float(stored[before.instance_of != after.instance_of].sum())
    for key in (
        before.isolated_by_hash.keys() | after.isolated_by_hash.keys() if keys is None else keys
    ):
        at = view.key_index.get(key)
        if at is None or before.isolated_key(key) == after.isolated_key(key):
            continue
        for rows, side in (
            (view.key_figures.stored_right[at], "left"),
            (view.key_figures.stored_left[at], "right"),
        ):
            stays = np.minimum(_shares(before, view, key, side), _shares(after, view, key, side))
            moved += float(rows * (1 - stays.sum()))
    return round(moved)


def _shares(placement: Placement, view: View, key: int, prober: str) -> Floats:
    """Which part of a key's work each instance has."""
    own = placement.isolated_key(key)
    slot = view.keys[view.key_index[key]].slot
    if own is None:
        here: tuple[int, ...] = (int(placement.instance_of[slot]),)
    else:
        here = own.left if prober == "left" else own.right
    shares: Floats = np.zeros(placement.instances)
    np.add.at(shares, list(here), 1 / len(here))
    return shares


class MovePrices:
    """How long instances stand still for a change: least squares over all changes, the recent ones
    counting most. Before two changes of different sizes were seen, what is known of it is ascribed
    to the pause and to the rows in equal parts."""

    MEMORY = 0.9

    def __init__(self) -> None:
        self._products = np.zeros((2, 2))
        self._times = np.zeros(2)
        self.pause_ms = 0.0
        self.row_ms = 0.0
        self.known = False

    def learn(self, rows: float, stopped_ms: float) -> None:
        done = np.array([1.0, max(rows, 1.0)])
        self._products = self.MEMORY * self._products + np.outer(done, done)
        self._times = self.MEMORY * self._times + done * stopped_ms
        unit = np.sqrt(np.diag(self._products))
        scaled = self._products / np.outer(unit, unit)
        found = np.linalg.lstsq(scaled, self._times / unit, rcond=1e-9)[0] / unit
        self.pause_ms, self.row_ms = np.maximum(found, 0.0).tolist()
        self.known = True
