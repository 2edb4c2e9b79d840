"""GreedyFit, the way FastJoin chooses the keys that leave the heaviest instance (algorithm 1).

The paper has two groups of instances, one per stored stream, and balances each alone. An instance
of skewless serves both directions, and its load is their sum, ``|R|·φ_S + |S|·φ_R``: stored left
rows times right rows that probe, and the other way round. All of the paper's load arithmetic is
linear in such products, so it carries over as sums over the two directions.

The paper's eq. (6) has wrong signs; the target gets ``L'_j = L_j + |R_ik|·φ_sj + |R_j|·φ_sik +
|R_ik|·φ_sik``. With it the product term cancels in ``L'_i - L'_j``, and eq. (8) is what definition
(7) says. The same holds for a set of keys: the products of its sums cancel as well, so that eq. (9)
is exact, but for rounding. The true loads are worked out all the same before a plan is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Floats

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Direction:
    """Stored rows of one side and the rows of the other that probe them: of the instance keys may
    leave, of the one they may go to, and, as `stored` and `probing`, of every key that may go."""

    stored_source: float
    stored_target: float
    probing_source: float
    probing_target: float
    stored: Floats
    probing: Floats

    @property
    def gap(self) -> float:
        """How much more load the source has (eq. 1)."""
        heavy, light = self.loads_after(np.zeros(0, np.int64))
        return heavy - light

    def benefits(self) -> Floats:
        """By how much the gap shrinks for each key (eq. 8)."""
        stored = self.stored_source + self.stored_target
        probing = self.probing_source + self.probing_target
        return stored * self.probing + probing * self.stored

    def loads_after(self, chosen: Indices) -> tuple[float, float]:
        """The true loads of source and target once the chosen keys have moved (eqs. 5 and 6)."""
        stored, probing = float(self.stored[chosen].sum()), float(self.probing[chosen].sum())
        return (
            (self.stored_source - stored) * (self.probing_source - probing),
            (self.stored_target + stored) * (self.probing_target + probing),
        )


def gap(directions: Sequence[Direction]) -> float:
    """``L_i - L_j``, what there is to fill."""
    return sum(direction.gap for direction in directions)


def benefits(directions: Sequence[Direction]) -> Floats:
    """``F_k`` of every key: the sum of eq. (8) over the directions."""
    total: Floats = np.sum([direction.benefits() for direction in directions], axis=0)
    return total


def stored_rows(directions: Sequence[Direction]) -> Floats:
    """``|R_ik|`` of every key: the rows of both sides that come along."""
    total: Floats = np.sum([direction.stored for direction in directions], axis=0)
    return total


def loads_after(directions: Sequence[Direction], chosen: Indices) -> tuple[float, float]:
    """``L'_i`` and ``L'_j``."""
    loads = [direction.loads_after(chosen) for direction in directions]
    return sum(source for source, _ in loads), sum(target for _, target in loads)


def by_factor(F: Floats, rows: Floats) -> Indices:
    """Keys in descending order of ``F_k/|R_ik|``. A key without stored rows moves for free: its
    factor is infinite. Equal factors: the larger benefit first, then the first."""
    with np.errstate(over="ignore"):  # as good as free
        factor = np.divide(F, rows, out=np.full(len(F), np.inf), where=rows > 0)
    return np.lexsort((np.arange(len(F)), -F, -factor)).astype(np.int64)


def feasible_part(directions: Sequence[Direction], chosen: Indices) -> Indices:
    """A plan without its last keys, as many as it takes for the target not to end up heavier than
    the source."""
    while len(chosen):
        source, target = loads_after(directions, chosen)
        if target <= source:
            break
        chosen = chosen[:-1]
    return chosen


def greedy_fit(directions: Sequence[Direction], gap_min: float = 0.0) -> Indices:
    """The keys to move, the most worthwhile first. Taken in the order of their factors, each that
    fits into what is left of the gap; none whose benefit is below `gap_min`, the paper's θ_gap, or
    that has no benefit at all.

    >>> import numpy as np
    >>> left = Direction(10, 0, 10, 0, np.array([5.0, 1.0]), np.array([5.0, 2.0]))
    >>> greedy_fit([left]).tolist()  # 100 to fill; 10·5 + 10·5 would leave nothing
    [1]
    """
    F = benefits(directions)
    left, chosen = gap(directions), []
    for key in by_factor(F, stored_rows(directions)).tolist():
        if left > F[key] >= gap_min and F[key] > 0:
            left -= float(F[key])
            chosen.append(key)
    return feasible_part(directions, np.array(chosen, np.int64))
