"""Whether candidate pairs really match: equal hashes need not mean equal keys, and there may be a
further condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from skewless.arrays import keys
from skewless.arrays.pairs import Pairs, PairsAt
from skewless.arrays.types import Flags, Side
from skewless.operators.pair import JoinSpec


@dataclass(frozen=True)
class Comparison:
    """Compares rows of both sides by value."""

    spec: JoinSpec

    @cached_property
    def exact(self) -> bool:
        """Whether every candidate pair matches."""
        return self.spec.on_pairs is None and self._same_hash_is_same_key

    @cached_property
    def _same_hash_is_same_key(self) -> bool:
        return keys.is_exact(self.spec.left)

    def matching(self, side: Side, pairs: Pairs) -> Flags | None:
        """Which candidate pairs match, of rows of `side` that probe; None: all, for certain."""
        if self.exact:
            return None
        same = None if self._same_hash_is_same_key else self._same_keys(side, pairs)
        if self.spec.on_pairs is None:
            return same
        # Asked only of pairs with equal keys: it may fail on others, as on a division by zero.
        alike = pairs if same is None or same.all() else pairs.keep(same)
        fulfilled = self.spec.on_pairs.matching(_columns_of(side, alike), len(alike))
        if same is None:
            return fulfilled
        same[same] = fulfilled
        return same

    def kept(self, side: Side, pairs: Pairs) -> PairsAt:
        """The pairs that match."""
        same = self.matching(side, pairs)
        return pairs.by_position() if same is None else pairs.keep(same)

    def _same_keys(self, side: Side, pairs: Pairs) -> Flags:
        """Which pairs have keys that are equal and near."""
        spec, same, column = self.spec, np.ones(len(pairs), np.bool_), _columns_of(side, pairs)
        if spec.left.keys:
            same &= keys.keys_equal(
                [column("left", k.index) for k in spec.left.keys],
                [column("right", k.index) for k in spec.right.keys],
                spec.left.keys,
            )
        for a, b in zip(spec.left.bands, spec.right.bands, strict=True):
            same &= keys.within_band(column("left", a.index), column("right", b.index), a)
        return same


def _columns_of(probing: Side, pairs: Pairs) -> Callable[[Side, int], pa.Array]:
    """What gives a column of one side, for every pair."""
    return lambda side, index: pairs.probing(index) if side == probing else pairs.stored(index)
