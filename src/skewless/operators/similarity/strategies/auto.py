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
# In compared pairs: what a distance from a center costs, to be stored and to look; a look into a
# workset, and that for each segment in which partners lie, of which new rows have about so many.
TO_STORE, TO_LOOK, LOOK, LOOK_SEGMENT = 1.0, 2.0, 40.0, 4.0
NEW_SEGMENTS = 8
# Some milliseconds: whatever is ruled out of them, to ask and to form costs as much; and to ask
# alone, where there are worksets.
FEW_PAIRS, FEW_PAIRS_BESIDE = 1 << 23, 1 << 21
# Of the cost of comparing everything: what has to be gained, as tasks may disagree; and what may be
# lost for as long as rows are kept that lie in no workset.
GAIN, LOST = 0.3, 0.15


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

    def limit(self, rows: int, dimension: int) -> int:
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
        partners, most = task.rows(points) / 2, self.limit(task.rows(points), width(points))
        open_ones = None if known is None else known.open_ones()
        few = FEW_PAIRS if open_ones is None else FEW_PAIRS_BESIDE
        if most == 1 or len(points) * partners * spec.metric.price < few:
            return False
        sample = take(points, np.arange(0, len(points), -(-len(points) // SAMPLED)))
        share, looks = self._met(spec, sample, open_ones, most)
        # The first worksets are made by tasks of every side, and all look into all.
        sides = len(spec.sides) if open_ones is None else 1
        look = LOOK + LOOK_SEGMENT * max(task.segments, NEW_SEGMENTS)
        centers = max(most, 0 if open_ones is None else len(open_ones)) * spec.metric.center_price
        beside = centers * (TO_STORE + sides * TO_LOOK) + sides * looks * look / spec.metric.price
        bounded = partners - (0.0 if task.partners is None else task.partners.unbounded)
        saved_now, saved = (1 - share) * bounded - beside, (1 - share) * partners - beside
        return saved > GAIN * partners and saved_now > -LOST * partners

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
