"""What an instance measures while it works: rows, pairs and matches per slot and per heavy key.

Everything here works on sorted hashes: a slot is a range of them, so its figures are differences
of running sums at its ends, and the cost hardly depends on the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from skewless.arrays.counting import heaviest_keys
from skewless.arrays.types import SIDES, Floats, Ints, Side, UInts, frozen
from skewless.placement.units import WorkUnit, slot_ends, slot_of

EMPTY = np.empty(0, np.int64)


@dataclass
class _Probed:
    """One run of probing rows, with running sums of what they met."""

    side: Side
    hashes: UInts
    pairs: Ints
    matches: Ints
    describe: Any
    is_new: bool


@dataclass
class _Stored:
    """Some stored rows of a side, and the hash ranges this instance has to do with. Each stands for
    as many as its weight."""

    side: Side
    hashes: UInts
    row_bytes: float
    units: Sequence[WorkUnit]
    weight: float


@dataclass
class Meter:
    """Takes note of everything an instance probes and is probed with; asked once, at the end."""

    slots: int
    keys_watched: int | None  # None: all that probe
    # What the instance works on.
    units: tuple[WorkUnit, ...] = ()
    _probed: list[_Probed] = field(default_factory=list)
    _stored: list[_Stored] = field(default_factory=list)

    @property
    def _own(self) -> UInts:
        return np.array([unit.hash_min for unit in self.units if unit.isolated], np.uint64)

    def probed(
        self,
        side: Side,
        hashes: UInts,
        pairs: Ints,
        matches: Ints | npt.NDArray[np.bool_],
        describe: Any,
        *,
        is_new: bool = True,
    ) -> None:
        """Probing rows, how many pairs and matches each had, and how to write the key of one. Rows
        that are not new make work, too, but are stored already."""
        sums = [np.concatenate([[0], np.cumsum(counts)]) for counts in (pairs, matches)]
        self._probed.append(_Probed(side, hashes, sums[0], sums[1], describe, is_new))

    def stored(
        self,
        side: Side,
        hashes: UInts,
        row_bytes: float,
        units: Sequence[WorkUnit],
        weight: float = 1.0,
    ) -> None:
        """Stored rows that were there to be found, of which those in `units` count."""
        self._stored.append(_Stored(side, hashes, row_bytes, units, weight))

    def report(self) -> dict[str, Any]:
        """Figures of the slots and keys that this instance had to do with. Those of keys that have
        a place of their own are not among their slots'."""
        low, high, slot = self._pieces()
        touched = np.unique(slot)
        slots = {}
        for name, values in self._figures(low, high).items():
            slots[name] = np.zeros(len(touched))
            np.add.at(slots[name], np.searchsorted(touched, slot), values)
        keys, figures = self._heaviest()
        return {
            "slot": touched.tolist(),
            "slots": {name: values.tolist() for name, values in slots.items()},
            "key": [int(key) for key in keys],
            "value": [self._describe(key) for key in keys],
            "keys": {name: values.tolist() for name, values in figures.items()},
        }

    def _pieces(self) -> tuple[UInts, UInts, Ints]:
        """The ranges this instance works on, cut at the ends of slots: first hash, last, slot."""
        lows, highs = slot_ends(self.slots)
        low, high, slot = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)], [EMPTY]
        for unit in self.units:
            if not unit.isolated:
                ends = slot_of(unit.hash_min, self.slots), slot_of(unit.hash_max, self.slots)
                mine = np.arange(ends[0], ends[1] + 1)
                low.append(np.maximum(lows[mine], np.uint64(unit.hash_min)))
                high.append(np.minimum(highs[mine], np.uint64(unit.hash_max)))
                slot.append(mine)
        return np.concatenate(low), np.concatenate(high), np.concatenate(slot)

    def _heaviest(self) -> tuple[UInts, dict[str, Floats]]:
        """The keys that stand out, and their figures."""
        candidates = [self._own]
        for probed in self._probed:
            candidates.append(self._standing_out(probed))
        keys = np.unique(np.concatenate(candidates))
        figures = self._figures(keys, keys)
        if self.keys_watched is None:
            return keys, figures
        names = [f"{what}_{side}" for what in ("probing", "pairs") for side in SIDES]
        weight = sum((figures[name] for name in names), np.zeros(len(keys)))
        weight[np.isin(keys, self._own)] = np.inf
        heaviest = np.argsort(-weight, kind="stable")[: self.keys_watched + len(self._own)]
        kept = np.sort(heaviest)
        return keys[kept], {name: values[kept] for name, values in figures.items()}

    def _standing_out(self, probed: _Probed) -> UInts:
        if self.keys_watched is None:
            return probed.hashes
        pairs = np.diff(probed.pairs)
        return heaviest_keys(frozen(probed.hashes), frozen(pairs), self.keys_watched)

    def _figures(self, low: UInts, high: UInts) -> dict[str, Floats]:
        """Figures of ranges of hashes."""
        names = [f"{what}_{side}" for what in ("stored", "bytes", "probing", "pairs")
                 for side in SIDES]  # fmt: skip
        figures = {name: np.zeros(len(low)) for name in (*names, "matches")}
        for probed in self._probed:
            begin = np.searchsorted(probed.hashes, low, "left")
            end = np.searchsorted(probed.hashes, high, "right")
            figures[f"probing_{probed.side}"] += (end - begin) * probed.is_new
            figures[f"pairs_{probed.side}"] += probed.pairs[end] - probed.pairs[begin]
            figures["matches"] += probed.matches[end] - probed.matches[begin]
        for stored in self._stored:
            mine = _within(low, high, stored.units)
            begin = np.searchsorted(stored.hashes, low[mine], "left")
            end = np.searchsorted(stored.hashes, high[mine], "right")
            rows = (end - begin) * stored.weight
            figures[f"stored_{stored.side}"][mine] += rows
            figures[f"bytes_{stored.side}"][mine] += rows * stored.row_bytes
        return figures

    def _describe(self, key: np.uint64) -> str:
        for probed in self._probed:
            at = int(np.searchsorted(probed.hashes, key, "left"))
            if at < len(probed.hashes) and probed.hashes[at] == key:
                return str(probed.describe(at))
        return ""


def _within(low: UInts, high: UInts, units: Sequence[WorkUnit]) -> np.ndarray[Any, Any]:
    """Which ranges of hashes meet one of the units."""
    mine = np.zeros(len(low), np.bool_)
    for unit in units:
        mine |= (high >= np.uint64(unit.hash_min)) & (low <= np.uint64(unit.hash_max))
    return mine
