"""Rows of a set that meet: which of them are near enough in time, and which of these are alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skewless.arrays.merging import match_ranges
from skewless.arrays.types import FAR_US, Floats, Ints, Side, UInts, frozen
from skewless.engine.report import InstanceLoad
from skewless.operators.similarity import screening
from skewless.operators.similarity.output import Chosen, PairOutput
from skewless.operators.similarity.points import Points
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.state.segments import Rows


@dataclass
class Tally:
    """What an instance counts while it works: `probes` are new rows times sets they look into,
    `compared` pairs whose distance had to decide, `inner` pairs that the triangle inequality has
    decided, `centers` distances of new rows from centers; `met` are sets with pairs that met there,
    again and again."""

    rows: int = 0
    probes: int = 0
    compared: int = 0
    inner: int = 0
    centers: int = 0
    matches: int = 0
    met: list[tuple[UInts, Ints]] = field(default_factory=list)

    def load(self, instance: int) -> InstanceLoad:
        return InstanceLoad(instance, self.rows, self.compared + self.inner, self.matches)

    def figures(self) -> dict[str, Any]:
        return {
            "probes": self.probes,
            "compared": self.compared,
            "inner": self.inner,
            "workset_distances": self.centers,
        }

    def by_set(self) -> tuple[UInts, Ints]:
        """The sets in which pairs met, ids ascending, and how many did."""
        if not self.met:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        ids, number = np.unique(np.concatenate([i for i, _ in self.met]), return_inverse=True)
        pairs = np.bincount(number, np.concatenate([n for _, n in self.met]))
        return ids, pairs.astype(np.int64)


@dataclass(frozen=True)
class Run:
    """Rows of a segment by set and time, with what is compared: their points, and how far each is
    from its center, if that is known. `number` is the place of the segment among all. `taken` says
    which rows of the segment they are; None: all."""

    segment: Rows
    hashes: UInts
    times: Ints
    points: Points
    from_center: Floats | None
    floor_us: int
    number: int
    taken: Ints | None = None

    def chosen(self, rows: Ints) -> Chosen:
        """Some of the rows, as rows of the segment."""
        return self.segment, rows if self.taken is None else self.taken[rows]


@dataclass(frozen=True)
class Probes:
    """New rows of a side with the sets they look into, sorted by set and time."""

    side: Side
    run: Run
    ids: UInts
    times: Ints
    rows: Ints


class Meetings:
    """Has rows meet, and counts. A subclass says which pairs are known to be alike."""

    counts_by_set: ClassVar[bool] = False

    def __init__(self, spec: SimilaritySpec) -> None:
        self.spec, self.tally, self._output = spec, Tally(), PairOutput.of(spec)

    def inner(self, probes: Probes, run: Run, first: Ints, last: Ints) -> int:
        """How many pairs are alike by the triangle inequality: their own distance is computed to be
        told, not to decide."""
        return 0

    def look_into(self, probes: Probes, run: Run) -> Iterator[pa.RecordBatch]:
        """New rows meet the rows of a segment that are in the same set and near in time."""
        first, last = self._ranges(probes, run)
        pairs = int((last - first).sum())
        if not pairs:
            return
        inner = self.inner(probes, run, first, last)
        self.tally.inner += inner
        self.tally.compared += pairs - inner
        if self.counts_by_set:
            some = last > first
            self.tally.met.append((probes.ids[some], (last - first)[some]))
        points, rows, spec = probes.run.points, probes.rows, self.spec
        if screening.pays(points, pairs):
            near = screening.near_after_screening(
                spec, (points, rows, probes.ids), run.points, first, last
            )
        else:
            near = spec.metric.near(points, rows, run.points, first, last, spec.threshold)
        for found, partners, distances in near:
            if len(found):
                self.tally.matches += len(found)
                new, old = probes.run.chosen(found), run.chosen(partners)
                yield from self._output.rows(probes.side, new, old, distances)

    def _ranges(self, probes: Probes, run: Run) -> tuple[Ints, Ints]:
        """Where in a segment the possible partners of each probe lie."""
        times, size = probes.times, self.spec.window_us
        bounds = self.spec.partner_bounds(probes.side)
        if size is not None:
            times, bounds = times // size * size, (0, size - 1)  # all of the row's window
        first, last, _ = match_ranges(
            frozen(probes.ids), frozen(times), -FAR_US,
            frozen(run.hashes), frozen(run.times), run.floor_us, *bounds,
        )  # fmt: skip
        if run is probes.run:  # of a stream joined with itself: rows before the one that looks
            last = np.minimum(last, probes.rows)
            first = np.minimum(first, last)
        return first, last


def looked_into(spec: SimilaritySpec, side: Side, old: list[Run], new: list[Run]) -> list[Run]:
    """What new rows of a side look into, of old and new rows of the other: two newcomers meet where
    the right one looks or, in a self-join, the later one."""
    return [*old, *new] if side == "right" or spec.is_self_join else old


def lies_before(spec: SimilaritySpec, partners: Run, run: Run) -> bool:
    """Of two new rows of one stream, the one that lies later looks for the other."""
    return not spec.is_self_join or partners.number <= run.number
