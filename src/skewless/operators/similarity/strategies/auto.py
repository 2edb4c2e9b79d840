"""What is done where nothing is said: worksets where they pay, else everything is compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skewless.operators.similarity.looking.centers import in_reach
from skewless.operators.similarity.points import Points, take, width
from skewless.operators.similarity.strategies.looking import (
    ALONE,
    Assignment,
    OnTheFly,
    TaskView,
    form,
    unbounded,
)
from skewless.operators.similarity.worksets import Worksets

if TYPE_CHECKING:
    from skewless.operators.similarity.spec import SimilaritySpec

LONG_FROM = 16  # elements
ROWS_PER_LARGE_WORKSET = 16_384
SAMPLED = 512  # rows that tell what worksets rule out
TRIED = 32  # worksets, if the sample has so many
MEMBERS = 8  # of a workset that is tried, on the average: fewer do not show how wide it is
ENOUGH, HOPELESS = 4, 0.95  # so few worksets and such a share of all rows: more change little
LOOK = 200.0  # what a look into a workset costs, in compared pairs
# Some milliseconds: whatever is ruled out of them, to ask and to form costs as much.
FEW_PAIRS = 1 << 23
GAIN = 0.3  # what has to be gained, of the cost of comparing everything: tasks may disagree


@dataclass(frozen=True)
class AutoSimilarity(OnTheFly):
    """Worksets where they pay, else everything is compared, task by task. A sample of the new rows
    tells: a row costs its distances from all centers, once to be stored and once to look, a look
    into each workset in reach, and a comparison with each of their members that is near enough in
    time. Worksets that are there are judged as they are; if there are none, some are made of the
    sample.

    Rows that are put into no workset are looked for by all, so that any task may choose at any
    time, whatever others do.

    Half the root of the rows was the number of worksets that was the fastest in nearly all that was
    tried. Long vectors are compared by matrix products, which need large worksets to be fast: one
    for every 16,384 rows."""

    def limit(self, rows: int, dimension: int) -> int | None:
        if dimension >= LONG_FROM:
            return max(1, rows // ROWS_PER_LARGE_WORKSET)
        return max(1, math.isqrt(rows) // 2)

    def assign(
        self, spec: SimilaritySpec, points: Points, known: Worksets | None, task: TaskView = ALONE
    ) -> Assignment:
        waits = not task.founds and (known is None or known.open_ones() is None)
        if waits or not self._pays(spec, points, known, task):
            return unbounded(points)
        return super().assign(spec, points, known, task)

    def _pays(
        self, spec: SimilaritySpec, points: Points, known: Worksets | None, task: TaskView
    ) -> bool:
        """Whether worksets cost less than to compare new rows with all that are near in time."""
        rows = task.stored + len(points)
        partners = rows / len(spec.sides) if task.partners is None else task.partners
        most = self.limit(rows, width(points))
        if most == 1 or len(points) * partners * spec.metric.price < FEW_PAIRS:
            return False
        sample = take(points, np.arange(0, len(points), -(-len(points) // SAMPLED)))
        open_ones = None if known is None else known.open_ones()
        share, looks = self._met(spec, sample, open_ones, most or TRIED)
        centers = 2 * (most or 0)
        spent = share * partners + centers + looks * LOOK / spec.metric.price
        return spent < (1 - GAIN) * partners

    def _met(
        self, spec: SimilaritySpec, sample: Points, known: Worksets | None, most: int
    ) -> tuple[float, float]:
        """What share of all rows a new row meets, and how many worksets it looks into. Of worksets
        that are still to be made a few are tried, and some more: what looks have grown by says how
        many there will be where more worksets are made than a sample can have."""
        tried = max(1, min(most, TRIED, len(sample) // MEMBERS))
        if known is not None:
            share, looks, _ = _tried(spec, sample, known, min(len(known) + tried, most))
            return share, looks
        share, fewer_looks, fewer = _tried(spec, sample, None, max(1, tried // 4))
        if fewer >= ENOUGH and share > HOPELESS:
            return share, fewer_looks
        share, looks, made = _tried(spec, sample, None, tried)
        if fewer < made == tried:
            growth = math.log(looks / fewer_looks) / math.log(made / fewer)
            looks *= (most / made) ** min(max(growth, 0.0), 1.0)
        return share, looks


def _tried(
    spec: SimilaritySpec, sample: Points, known: Worksets | None, most: int
) -> tuple[float, float, int]:
    """If there were at most so many worksets: the share of a sample that each of its rows meets,
    how many worksets it looks into, and how many there are. Of a few members none is as far from
    the center as the furthest of all will be."""
    ids, distances, worksets = form(spec, sample, known, most)
    if known is None:
        distances = distances * (1 + 0.5 / math.sqrt(len(sample) / len(worksets)))
    worksets = worksets.with_members(ids, np.zeros(len(ids), np.int64), distances)
    members = np.bincount(np.searchsorted(worksets.ids, ids), minlength=len(worksets))
    _, numbers = in_reach(spec, sample, worksets)
    share = float(members[numbers].sum()) / len(sample) ** 2
    return share, len(numbers) / len(sample), len(worksets)
