"""BiStream + Tree, the baseline of TriJoin's paper: two two-way joins, one after the other.

The first step joins two streams and stores the pairs; the second joins pairs with the third stream.
So a triple waits for its pair, and every pair is written, read and stored as a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skewless.operators.three_way.bindings import Bound
from skewless.operators.three_way.packs import PackKind, UnpackedPairs
from skewless.operators.three_way.reader import BatchSegments
from skewless.operators.three_way.spec import Edge, ThreeSpec
from skewless.operators.three_way.strategies.base import RunningStrategy
from skewless.operators.three_way.work import InstanceJoin, ThreeWork
from skewless.state.commits import OperatorState


def kind_of(spec: ThreeSpec, order: tuple[int, int, int]) -> PackKind:
    """How the pairs of the first two streams are stored: under one that the third can find."""
    first, second, third = order
    hub = second if spec.edge(second, third) is not None else first
    return PackKind(hub, first + second - hub)


@dataclass(frozen=True)
class RunningTree(RunningStrategy):
    """Two steps in every batch. Only the first one stores pairs, and it always runs to its end."""

    spec: ThreeSpec
    kind: PackKind

    def first_work(self, state: OperatorState, segments: BatchSegments) -> ThreeWork:
        return TreePairsWork(self.spec, segments, self.kind)

    def work(self, segments: BatchSegments) -> ThreeWork:
        return TreeWork(self.spec, segments, self.kind)


@dataclass(frozen=True)
class TreePairsWork(ThreeWork):
    """The first step: the new pairs of an instance's share of new rows."""

    kind: PackKind

    emits: ClassVar[bool] = False

    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        kind = self.kind
        edge = self.spec.edge(kind.hub, kind.partner)
        assert edge is not None
        found: list[Bound] = []
        for new in sorted((kind.hub, kind.partner)):
            other = edge.other(new)
            rows = _share_of_new(join, new, edge)
            runs = join.reader.stored(other, edge, with_new=other < new)
            found += join.extend(rows, (new, other), runs, new)
        join.keep(kind, found, packing=False)
        yield from ()


@dataclass(frozen=True)
class TreeWork(ThreeWork):
    """The second step: new pairs with all rows of the third stream, new rows of it with old
    pairs."""

    kind: PackKind

    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        kind, edge, (part, parts) = self.kind, self.kind.edge(self.spec), join.share
        for run in join.reader.made_packs(kind):
            pairs = UnpackedPairs.of(self.spec, kind, run).pairs()
            mine = pairs.take(np.arange(part, len(pairs), parts))
            join.tally.shipped += len(mine)
            runs = join.reader.stored(kind.third, edge, with_new=True)
            found = join.extend([mine], (kind.hub, kind.third), runs, kind.hub)
            yield from join.triples(found)
        rows = _share_of_new(join, kind.third, edge)
        yield from join.triples(join.probe_packs(kind, rows, join.reader.old_packs(kind)))


def _share_of_new(join: InstanceJoin, stream: int, edge: Edge) -> list[Bound]:
    rows = list(join.reader.new_rows(stream, edge, join.share))
    join.tally.rows += sum(map(len, rows))
    return rows
