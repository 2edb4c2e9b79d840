"""Loads kept up change by change.

A round may propose hundreds of changes, and each is judged by the loads before and after it. A
change touches one slot or one key, so the loads after it are those before, and a difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skewless.arrays.types import Floats
from skewless.placement.balancing.changes import Change, Move
from skewless.placement.balancing.expected import ExpectedTime, expected
from skewless.placement.balancing.loads import (
    LoadModel,
    MeasuredTime,
    StoredTimesProbing,
    WeightedResources,
)
from skewless.placement.balancing.view import View
from skewless.placement.places import CutOf, IsolatedKey, Placement


@dataclass(frozen=True)
class _Column:
    """An additive figure: per slot, and per key as what belongs to its left and its right rows'
    probing. Of that, `whole_left` and `whole_right` are not divided where stored rows are cut."""

    slots: Floats
    left: Floats
    right: Floats
    whole_left: Floats
    whole_right: Floats

    def parts(self, at: int, own: IsolatedKey) -> list[tuple[tuple[int, ...], float]]:
        """What each instance has of a key."""
        return [
            (own.left, _part(self.left[at], self.whole_left[at], len(own.left), own.left_of)),
            (own.right, _part(self.right[at], self.whole_right[at], len(own.right), own.right_of)),
        ]


def _part(value: float, whole: float, ways: int, of: CutOf) -> float:
    extra = whole * (1 - 1 / ways) if of == "stored" else 0.0
    return float(value / ways + extra)


def _columns(model: LoadModel, view: View) -> list[_Column] | None:
    """The figures that a load is made of; None: it is not known how."""
    slots, keys = view.slots, view.key_figures
    none = np.zeros(len(view.keys))
    if isinstance(model, MeasuredTime):
        whole = view.row_ms * keys.probing_left, view.row_ms * keys.probing_right
        time = slots.time_left_ms + slots.time_right_ms
        return [_Column(time, keys.time_left_ms, keys.time_right_ms, *whole)]
    if isinstance(model, StoredTimesProbing):
        # Stored rows of a side lie where the other side's rows probe them.
        return [
            _Column(slots.stored_left, none, keys.stored_left, none, none),
            _Column(slots.probing_right, none, keys.probing_right, none, none),
            _Column(slots.stored_right, keys.stored_right, none, none, none),
            _Column(slots.probing_left, keys.probing_left, none, none, none),
        ]
    if isinstance(model, WeightedResources):
        half = model.of_items(keys) / 2
        return [_Column(model.of_items(slots), half, half, none, none)]
    return None


class Tally:
    """The loads of a placement, which is the one its view was made for, or has come from it by
    changes that were told with `enact`."""

    def __init__(self, view: View, placement: Placement, model: LoadModel) -> None:
        if isinstance(model, ExpectedTime):
            view, model = expected(view), MeasuredTime()
        self._view, self._placement, self._model = view, placement, model
        self._columns = _columns(model, view)
        columns = self._columns or []
        self._slots = [column.slots.copy() for column in columns]
        self._sums = [self._sum(column) for column in columns]

    def _sum(self, column: _Column) -> Floats:
        placement = self._placement
        sums: Floats = np.zeros(placement.instances)
        np.add.at(sums, placement.instance_of, column.slots)
        for own in placement.isolated:
            at = self._view.key_index.get(own.hash)
            if at is not None:
                for here, part in column.parts(at, own):
                    sums[list(here)] += part
        return sums

    def loads(self) -> Floats:
        if self._columns is None:
            return self._model.of_instances(self._view, self._placement)
        return self._combined(self._sums)

    def loads_after(self, change: Change, after: Placement) -> Floats:
        """The loads, were a change enacted that leads to a placement."""
        if self._columns is None:
            return self._model.of_instances(self._view, after)
        sums = [values.copy() for values in self._sums]
        self._apply(change, after, sums, None)
        return self._combined(sums)

    def enact(self, change: Change, after: Placement) -> None:
        if self._columns is not None:
            self._apply(change, after, self._sums, self._slots)
        self._placement = after

    def _combined(self, sums: list[Floats]) -> Floats:
        if isinstance(self._model, StoredTimesProbing):
            stored_left, probing_right, stored_right, probing_left = sums
            return stored_left * probing_right + stored_right * probing_left
        return sums[0].copy()

    def _apply(
        self, change: Change, after: Placement, sums: list[Floats], slots: list[Floats] | None
    ) -> None:
        before = self._placement
        if isinstance(change, Move) and change.key is None:
            source, target = (int(p.instance_of[change.slot]) for p in (before, after))
            for values, of_slots in zip(sums, self._slots, strict=True):
                values[source] -= of_slots[change.slot]
                values[target] += of_slots[change.slot]
            return
        key = change.key_hash
        assert key is not None  # a move of a slot has been dealt with
        at = self._view.key_index.get(key)
        if at is None:
            return
        slot = self._view.keys[at].slot
        for sign, placement in ((-1, before), (1, after)):
            own, home = placement.isolated_key(key), int(placement.instance_of[slot])
            for i, column in enumerate(self._columns or []):
                if own is not None:
                    for here, part in column.parts(at, own):
                        sums[i][list(here)] += sign * part
                    continue
                whole = float(column.left[at] + column.right[at])
                sums[i][home] += sign * whole
                if slots is not None:
                    slots[i][slot] += sign * whole
