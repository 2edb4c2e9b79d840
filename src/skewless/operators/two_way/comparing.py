"""Whether candidate pairs really match: equal hashes need not mean equal keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from skewless.arrays import keys
from skewless.arrays.runs import Run
from skewless.arrays.types import Ints, Side
from skewless.operators.pair import JoinSpec

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Comparison:
    """Compares rows of both sides by value."""

    spec: JoinSpec

    @cached_property
    def exact(self) -> bool:
        """Whether every candidate pair matches."""
        return keys.is_exact(self.spec.left)

    def matching(
        self, side: Side, prober: Run, probes: Ints, run: Run, partners: Ints
    ) -> Flags | None:
        """Which candidate pairs have keys that are equal and near; None: all, for certain."""
        if self.exact:
            return None
        spec, same = self.spec, np.ones(len(probes), np.bool_)
        left, left_rows, right, right_rows = (
            (prober, probes, run, partners) if side == "left" else (run, partners, prober, probes)
        )
        of_left, of_right = left.indices(left_rows), right.indices(right_rows)
        if spec.left.keys:
            same &= keys.keys_equal(
                [left.columns[k.index].take(of_left) for k in spec.left.keys],
                [right.columns[k.index].take(of_right) for k in spec.right.keys],
                spec.left.keys,
            )
        for a, b in zip(spec.left.bands, spec.right.bands, strict=True):
            same &= keys.within_band(
                left.columns[a.index].take(of_left), right.columns[b.index].take(of_right), a
            )
        return same
