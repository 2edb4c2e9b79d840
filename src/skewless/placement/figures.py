"""What strategies are shown of a batch, and what they decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from skewless.arrays.types import Floats


@dataclass(frozen=True)
class Figures:
    """Work and state, item by item: one array per figure, one element per slot or key.

    Of one batch: `probing` rows of a side, the `pairs` they were compared with, and the time that
    took. And what lies `stored`. A pair belongs to the side whose row probed.
    """

    stored_left: Floats
    stored_right: Floats
    bytes_left: Floats
    bytes_right: Floats
    probing_left: Floats
    probing_right: Floats
    pairs_left: Floats
    pairs_right: Floats
    matches: Floats
    time_left_ms: Floats
    time_right_ms: Floats

    @staticmethod
    def zeros(items: int) -> Figures:
        return Figures(*(np.zeros(items) for _ in fields(Figures)))

    def __len__(self) -> int:
        return len(self.stored_left)

    def arrays(self) -> dict[str, Floats]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def take(self, items: Any) -> Figures:
        return Figures(*(array[items] for array in self.arrays().values()))

    def plus(self, other: Figures, factor: float = 1.0) -> Figures:
        pairs = zip(self.arrays().values(), other.arrays().values(), strict=True)
        return Figures(*(mine + factor * theirs for mine, theirs in pairs))

    def times(self, factor: float) -> Figures:
        return Figures(*(array * factor for array in self.arrays().values()))

    @staticmethod
    def joined(parts: Sequence[Figures]) -> Figures:
        """The items of several, one after the other."""
        names = [f.name for f in fields(Figures)]
        return Figures(*(np.concatenate([np.zeros(0), *(getattr(p, n) for p in parts)])
                         for n in names))  # fmt: skip

    def to_json(self) -> dict[str, list[float]]:
        return {name: np.round(array, 6).tolist() for name, array in self.arrays().items()}

    @staticmethod
    def from_json(data: dict[str, list[float]]) -> Figures:
        return Figures(**{name: np.array(values, float) for name, values in data.items()})


@dataclass(frozen=True)
class WatchedKey:
    """A key heavy enough to be told apart: its hash, its value as people write it, its slot, and
    whether it has a place of its own (then its figures are not among those of its slot)."""

    hash: int
    value: str
    slot: int
    isolated: bool = False


@dataclass(frozen=True)
class LoadReport:
    """The figures of one batch, all instances together: per slot, without the keys that have places
    of their own, and per watched key; and per instance its measured time. `stopped_ms` is how long
    an instance stood still at most for what was moved before; here, nobody has to."""

    batch_id: int
    slots: Figures
    keys: tuple[WatchedKey, ...]
    key_figures: Figures
    instance_ms: tuple[float, ...]
    stopped_ms: float = 0.0


@dataclass(frozen=True)
class Work:
    """What each instance did: rows that probed, pairs compared, milliseconds."""

    rows: Floats
    pairs: Floats
    ms: Floats

    def minus(self, other: Work) -> Work:
        return Work(self.rows - other.rows, self.pairs - other.pairs, self.ms - other.ms)


@dataclass(frozen=True)
class Decision:
    """A change of the routing that was proposed, and what became of it. `rows` are the stored rows
    that came along."""

    kind: str
    subject: str
    source: str
    target: str
    reason: str
    accepted: bool
    rows: int = 0
