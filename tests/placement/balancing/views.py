"""Views made by hand: work per slot and heavy keys, at a price of 1 ms per row that probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from skewless.placement.balancing.view import View
from skewless.placement.figures import Figures, LoadReport, WatchedKey
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.units import slot_bounds


def key_in(slot: int, slots: int, number: int = 0) -> int:
    """A hash that belongs to a slot."""
    return slot_bounds(slot, slot, slots)[0] + number


def figures(rows: Sequence[float], stored: float = 10.0) -> Figures:
    """Items with so many left rows that probe, as many milliseconds, and `stored` times the rows
    stored on either side."""
    left = np.array(rows, float)
    return replace(
        Figures.zeros(len(left)),
        probing_left=left,
        stored_left=left * stored,
        stored_right=left * stored,
        time_left_ms=left.copy(),
    )


def view(
    slots: Sequence[float],
    instances: int,
    keys: Mapping[int, float] | None = None,
    placement: Placement | None = None,
    batch_id: int = 9,
) -> View:
    """Slots with so much work, all of them told; `keys` of it at heavy keys, by hash."""
    placement = placement or Placement.spread(len(slots), instances)
    watched = [
        WatchedKey(h, str(h % 1000), (h * len(slots)) >> 64, h in placement.isolated_by_hash)
        for h in sorted(keys or {})
    ]
    of_keys = figures([(keys or {})[key.hash] for key in watched])
    return View(batch_id, placement, figures(slots), tuple(watched), of_keys, 1.0, 1.0)


def report(
    slots: Sequence[float],
    instances: int,
    keys: Mapping[int, float] | None = None,
    placement: Placement | None = None,
    batch_id: int = 0,
) -> LoadReport:
    """The same as what a batch reports."""
    seen = view(slots, instances, keys, placement)
    work = seen.sums(
        seen.placement, seen.slots.time_left_ms, seen.key_figures.time_left_ms,
        np.zeros(len(seen.keys)),
    )  # fmt: skip
    return LoadReport(batch_id, seen.slots, seen.keys, seen.key_figures, tuple(work.tolist()))


def own(key: int, slots: int, *instances: int) -> IsolatedKey:
    return IsolatedKey(key, str(key % 1000), (key * slots) >> 64, instances, instances)
