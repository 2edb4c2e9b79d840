"""Whether candidate pairs really match: equal hashes need not mean equal keys, and there may be a
further condition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from skewless.arrays import keys
from skewless.arrays.runs import Run
from skewless.arrays.types import Flags, Ints, Side
from skewless.operators.pair import JoinSpec


@dataclass(frozen=True)
class _Pairs:
    """Candidate pairs: rows of two runs, by their positions."""

    left: Run
    left_rows: Ints
    right: Run
    right_rows: Ints

    def __len__(self) -> int:
        return len(self.left_rows)

    def keep(self, flags: Flags) -> _Pairs:
        if flags.all():
            return self
        return _Pairs(self.left, self.left_rows[flags], self.right, self.right_rows[flags])

    def column(self, side: Side, index: int) -> pa.Array:
        """A column of one side, for every pair."""
        if side == "left":
            return self.left.column(index, self.left_rows)
        return self.right.column(index, self.right_rows)


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

    def matching(
        self, side: Side, prober: Run, probes: Ints, run: Run, partners: Ints
    ) -> Flags | None:
        """Which candidate pairs match; None: all, for certain."""
        if self.exact:
            return None
        if side == "left":
            pairs = _Pairs(prober, probes, run, partners)
        else:
            pairs = _Pairs(run, partners, prober, probes)
        same = None if self._same_hash_is_same_key else self._same_keys(pairs)
        if self.spec.on_pairs is None:
            return same
        # Asked only of pairs with equal keys: it may fail on others, as on a division by zero.
        alike = pairs if same is None else pairs.keep(same)
        fulfilled = self.spec.on_pairs.matching(alike.column, len(alike))
        if same is None:
            return fulfilled
        same[same] = fulfilled
        return same

    def _same_keys(self, pairs: _Pairs) -> Flags:
        """Which pairs have keys that are equal and near."""
        spec, same = self.spec, np.ones(len(pairs), np.bool_)
        if spec.left.keys:
            same &= keys.keys_equal(
                [pairs.column("left", k.index) for k in spec.left.keys],
                [pairs.column("right", k.index) for k in spec.right.keys],
                spec.left.keys,
            )
        for a, b in zip(spec.left.bands, spec.right.bands, strict=True):
            same &= keys.within_band(
                pairs.column("left", a.index), pairs.column("right", b.index), a
            )
        return same
