"""Strategies that store a row once, in its home; new rows look into the sets of others."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from skewless.arrays.types import Flags, Floats, Ints, UInts
from skewless.operators.similarity.looking.centers import in_reach, nearest, new_ids
from skewless.operators.similarity.points import Points, take, width
from skewless.operators.similarity.strategies.base import SimilarityStrategy
from skewless.operators.similarity.worksets import BOUNDLESS, Worksets

if TYPE_CHECKING:
    from skewless.operators.similarity.looking.partners import Partners
    from skewless.operators.similarity.running import Way
    from skewless.operators.similarity.spec import SimilaritySpec

ROWS_AT_ONCE, CENTERS_AT_ONCE = 512, 32  # among which centers are sought, and which may be some
COMPARED_MOST = 4096  # new worksets: the driver compares each with all that stay, in half a second


class Assignment(NamedTuple):
    """The workset of each row, its distance from the center, and all worksets that take rows."""

    ids: UInts
    from_center: Floats
    worksets: Worksets


def unbounded(points: Points) -> Assignment:
    """All rows in the workset without bounds: no distance is computed."""
    count = len(points)
    ids, far = np.full(count, BOUNDLESS), np.full(count, np.inf)
    return Assignment(ids, far, Worksets.boundless(points))


class TaskView(NamedTuple):
    """What a task goes by besides its rows and the worksets that there are: how many rows are
    `stored` already; which `partners` a new row has (None: half of all rows); in how many
    `segments` they lie; and whether it `founds` worksets. If all tasks did, they would make the
    same ones."""

    stored: int = 0
    partners: Partners | None = None
    segments: int = 1
    founds: bool = True

    def rows(self, points: Points) -> int:
        """How many rows there are that can meet new ones, those of all inputs: for so many are
        there worksets."""
        return (
            self.stored + len(points) if self.partners is None else round(2 * self.partners.every)
        )


ALONE = TaskView()


class LookingStrategy(SimilarityStrategy):
    """Says where a row is stored, where it looks for partners, and how worksets end."""

    counts_inner: ClassVar[bool] = False
    """Whether pairs are counted apart that the triangle inequality decides."""

    def way(self) -> Way:
        from skewless.operators.similarity.looking.way import LookingWay

        return LookingWay(self)

    @abstractmethod
    def assign(
        self, spec: SimilaritySpec, points: Points, known: Worksets | None, task: TaskView = ALONE
    ) -> Assignment:
        """Give new rows their worksets, those `known` that are open or new ones. Tasks do this on
        their own, side by side."""

    def probe(self, spec: SimilaritySpec, points: Points, worksets: Worksets) -> tuple[Ints, Ints]:
        """Which worksets rows have to look into: (row, number of the workset)."""
        return in_reach(spec, points, worksets)

    def close_redundant(
        self, spec: SimilaritySpec, worksets: Worksets, known: Worksets | None, rows: int
    ) -> Worksets:
        """Close worksets that there would not be, had one task seen all `rows` that can meet. Their
        members stay where they are; new rows go elsewhere, so that closed ones are empty in the
        end. Those `known` before stay as they are."""
        return worksets


class OnTheFly(LookingStrategy):
    """Worksets around rows that no other covers: a row further than the threshold t from all
    centers becomes the center of a new one, any other is in that of the nearest. A new row looks
    into the worksets whose centers are within 2t or, where members are closer, t more than the
    furthest of them. Two rows of one workset whose distances from the center are t at most together
    are alike without being compared. From a limit on, rows are put into the nearest workset however
    far that is, and worksets become wider."""

    counts_inner: ClassVar[bool] = True

    @property
    def workset_rule(self) -> str:
        return "formed on the fly"

    @abstractmethod
    def limit(self, rows: int, dimension: int) -> int | None:
        """The most worksets with so many rows that can meet, of so many elements each."""

    def assign(
        self, spec: SimilaritySpec, points: Points, known: Worksets | None, task: TaskView = ALONE
    ) -> Assignment:
        known = None if known is None else known.open_ones()
        most = self.limit(task.rows(points), width(points))
        if task.founds or most is None or (known is not None and len(known) >= most):
            return form(spec, points, known, most)
        return unbounded(points) if known is None else into_known(spec, points, known)

    def close_redundant(
        self, spec: SimilaritySpec, worksets: Worksets, known: Worksets | None, rows: int
    ) -> Worksets:
        """New worksets near another are closed, and those beyond the most there may be."""
        new = worksets.not_in(known)
        new = new[worksets.is_open[new]]
        if len(new) > COMPARED_MOST:
            return worksets.with_open(new, new)
        before = None if known is None else known.open_ones()
        centers = take(worksets.centers, new)
        *_, stays = _on_the_fly(spec, centers, before, self.limit(rows, width(centers)))
        return worksets.with_open(new, new[stays])


def form(
    spec: SimilaritySpec, points: Points, known: Worksets | None, most: int | None
) -> Assignment:
    """Give rows a workset, those `known` or new ones, at most so many together."""
    ids, distances, made = _on_the_fly(spec, points, known, most)
    new = Worksets.around(ids[made], take(points, made))
    found = Worksets.joined([known, new])
    assert found is not None
    return Assignment(ids, distances, found)


def into_known(spec: SimilaritySpec, points: Points, known: Worksets) -> Assignment:
    """Give rows a workset that there is, if they are near enough not to make it wider."""
    homes, distances = nearest(spec, points, known.centers)
    far = distances > np.maximum(known.radius[homes], spec.threshold)
    ids = np.where(far, BOUNDLESS, known.ids[homes])
    every = Worksets.joined([known, Worksets.boundless(points)])
    assert every is not None
    return Assignment(ids, np.where(far, np.inf, distances), every)


def _on_the_fly(
    spec: SimilaritySpec, points: Points, known: Worksets | None, most: int | None
) -> tuple[UInts, Floats, Ints]:
    """Rows that no center covers become centers themselves, in the order in which they came: the
    workset of each, the distance from its center, and which of them are centers.

    Tasks do this on their own, so two of them may make centers that are near each other: rows are
    stored in one workset all the same, and who looks for them looks into every one in reach;
    `close_redundant` then closes one. When there are `most` worksets, rows stay with the nearest,
    however far."""
    rows = len(points)
    ids, distances = np.zeros(rows, np.uint64), np.full(rows, np.inf)
    if known is not None and len(known):
        homes, distances = nearest(spec, points, known.centers)
        ids = known.ids[homes]
    room = rows if most is None else most - (0 if known is None else len(known))
    uncovered = np.flatnonzero(distances > spec.threshold)
    made = _covering(spec, points, uncovered, room)
    if len(made):
        homes, apart = nearest(spec, take(points, uncovered), take(points, made))
        nearer = apart < distances[uncovered]
        ids[uncovered[nearer]] = (own := new_ids(len(made)))[homes[nearer]]
        distances[uncovered[nearer]] = apart[nearer]
        ids[made], distances[made] = own, 0.0
    return ids, distances, made


def _covering(spec: SimilaritySpec, points: Points, rows: Ints, room: int) -> Ints:
    """The first of some rows that are further than the threshold from all such before them, as
    many as there is room for. What is left of the rows is not looked at, as it may be nearly all
    of them."""
    metric, threshold, found = spec.metric, spec.threshold, rows[:0]

    def uncovered(left: Ints, by: Ints) -> Ints:
        if not len(left) or not len(by):
            return left
        return left[metric.nearest(take(points, left), take(points, by))[1] > threshold]

    for begin in range(0, len(rows), ROWS_AT_ONCE):
        if len(found) >= room:
            break
        left = uncovered(rows[begin : begin + ROWS_AT_ONCE], found)
        while len(left) and len(found) < room:
            some, left = left[:CENTERS_AT_ONCE], left[CENTERS_AT_ONCE:]
            near = metric.cross(take(points, some), take(points, some)) <= threshold
            picked = some[_apart(near, room - len(found))]
            found, left = np.concatenate([found, picked]), uncovered(left, picked)
    return found


def _apart(near: Flags, room: int) -> list[int]:
    """The first points that are near none before them, where those are that are near each other."""
    found: list[int] = []
    left = np.ones(len(near), np.bool_)
    while len(found) < room and left.any():
        first = int(left.argmax())
        found.append(first)
        left &= ~near[first]
        left[first] = False
    return found
