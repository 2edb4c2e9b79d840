"""The work of a batch per key, and its division over instances as a routing table says."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import SIDES, Floats, Side
from skewless.placement.units import Cut, RoutingTable

UInts = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

_NOTHING, _PROBERS, _STORED = range(3)  # what a unit's cut divides
_OF = {"probers": _PROBERS, "stored": _STORED}


@dataclass(frozen=True)
class Work:
    """Figures per key, or per range of keys: new rows of a side, which probe and are then stored;
    rows it had stored before; and the pairs that its new rows are compared with."""

    new_left: Floats
    new_right: Floats
    stored_left: Floats
    stored_right: Floats
    pairs_left: Floats
    pairs_right: Floats

    def arrays(self) -> dict[str, Floats]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def met(self, prober: Side) -> Floats:
        """The stored rows that new rows of a side find. Left rows of a batch are stored before its
        right rows probe, so that two newcomers meet once."""
        return self.stored_right if prober == "left" else self.stored_left + self.new_left


@dataclass(frozen=True)
class Loads:
    """Figures per instance. `probing` counts a row at every instance it probes. `stored` and `new`
    rows are at home with the other side's probers, by shares where these are divided; `met` are
    those that a prober finds there, whole where only probers are divided."""

    probing_left: Floats
    probing_right: Floats
    pairs_left: Floats
    pairs_right: Floats
    stored_left: Floats
    stored_right: Floats
    new_left: Floats
    new_right: Floats
    met_left: Floats
    met_right: Floats

    @property
    def probing(self) -> Floats:
        return self.probing_left + self.probing_right

    @property
    def pairs(self) -> Floats:
        return self.pairs_left + self.pairs_right


class Division:
    """A routing table, made ready for one set of keys: a unit is a stretch of their sorted
    hashes."""

    def __init__(self, table: RoutingTable, hashes: UInts) -> None:
        units = [(i, unit) for i, mine in enumerate(table.units) for unit in mine]
        self.instances = table.instances
        self.units = len(units)
        self._instance = np.array([i for i, _ in units], np.int64)
        low = np.array([unit.hash_min for _, unit in units], np.uint64)
        high = np.array([unit.hash_max for _, unit in units], np.uint64)
        begin = np.searchsorted(hashes, low, "left")
        end = np.searchsorted(hashes, high, "right")
        # Units that share a range are cuts of it; its sums are needed once.
        ranges, self._range = np.unique(np.stack([begin, end], axis=1), axis=0, return_inverse=True)
        self._range = self._range.reshape(-1)
        self._ends = np.ascontiguousarray(ranges).reshape(-1)
        self._empty = ranges[:, 0] >= ranges[:, 1]
        self._cuts = {side: _cuts([unit.cut(side) for _, unit in units]) for side in SIDES}

    def loads(self, work: Work) -> Loads:
        """The work of each instance."""
        of_range = Work(**{name: self._sums(values) for name, values in work.arrays().items()})
        of_unit = Work(**{name: values[self._range] for name, values in of_range.arrays().items()})
        left, right = self._side(of_unit, "left"), self._side(of_unit, "right")
        return Loads(**{name: self._total(values) for name, values in (left | right).items()})

    def _sums(self, values: Floats) -> Floats:
        """Of each range of keys."""
        sums = np.add.reduceat(np.append(values, 0.0), self._ends)[::2]
        sums[self._empty] = 0.0
        return sums

    def _total(self, of_unit: Floats) -> Floats:
        total: Floats = np.bincount(self._instance, of_unit, minlength=self.instances).astype(float)
        return total

    def _side(self, work: Work, prober: Side) -> dict[str, Floats]:
        """What each unit's share is of one side's probing, and of the rows that it finds."""
        part, parts, of = self._cuts[prober]
        other = "right" if prober == "left" else "left"
        probing = work.new_left if prober == "left" else work.new_right
        stored, new = getattr(work, f"stored_{other}"), getattr(work, f"new_{other}")
        met = work.met(prober)
        even = np.where(of == _NOTHING, 0.0, 1 / np.maximum(parts, 1))
        of_probers = _share(probing, part, parts)
        of_met = _share(met, part, parts)
        cut = np.choose(of, [even, of_probers, of_met])
        at_home = np.where(of == _STORED, of_met, even)
        return {
            f"probing_{prober}": probing * np.choose(of, [0.0, of_probers, 1.0]),
            f"pairs_{prober}": getattr(work, f"pairs_{prober}") * cut,
            f"stored_{other}": stored * at_home,
            f"new_{other}": new * at_home,
            f"met_{other}": met * np.choose(of, [0.0, 1.0, of_met]),
        }


def _cuts(cuts: list[Cut | None]) -> tuple[Ints, Ints, Ints]:
    """Part, parts and what is cut, one after the other."""
    described = [(0, 0, _NOTHING) if c is None else (c.part, c.parts, _OF[c.of]) for c in cuts]
    part, parts, of = np.array(described, np.int64).reshape(-1, 3).T
    return part, parts, of


def _share(rows: Floats, part: Ints, parts: Ints) -> Floats:
    """The share of a part where whole rows are divided: parts of few rows are not equal."""
    parts = np.maximum(parts, 1)
    share = np.floor(rows * (part + 1) / parts) - np.floor(rows * part / parts)
    result: Floats = np.divide(share, rows, out=1.0 / parts, where=rows > 0)
    return result
