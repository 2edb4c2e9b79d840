"""BiStream + Tree, the baseline of TriJoin's paper (its figure 1): two joins of two streams each.

Instances form four groups. Three hold a stream each, the fourth the pairs of the first two. Two
groups that face each other are a biclique: what is new is stored on its own side, in one instance,
and sent to all instances of the other side, which join it with what they hold. The pairs that the
first biclique finds are sent on like a third stream's rows: to the group that stores pairs, and to
all who hold the third stream.

That is a second step, which begins when the first has ended: new rows of the third stream wait
until all pairs of earlier rows are there, as the paper has it. What is stored lies in files that
all can read; being sent means that an instance reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from skewless.operators.three_way.bindings import Bound, reaching
from skewless.operators.three_way.duties import Duty, duties_of
from skewless.operators.three_way.packs import PackKind, UnpackedPairs
from skewless.operators.three_way.reader import BatchSegments
from skewless.operators.three_way.spec import Edge, ThreeSpec
from skewless.operators.three_way.strategies.base import RunningStrategy
from skewless.operators.three_way.work import InstanceJoin, ThreeWork
from skewless.state.commits import OperatorState

GROUPS = HUBS, PARTNERS, THIRDS, PAIRS = range(4)


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
    subgroups: int

    def first_work(self, state: OperatorState, segments: BatchSegments) -> ThreeWork:
        return TreePairsWork(self.spec, segments, self.kind, self.subgroups)

    def work(self, segments: BatchSegments) -> ThreeWork:
        return TreeWork(self.spec, segments, self.kind, self.subgroups)


@dataclass(frozen=True)
class BicliqueWork(ThreeWork):
    """One of the two joins: what is new on either side meets what an instance holds."""

    kind: PackKind
    subgroups: int

    def duties(self, join: InstanceJoin) -> list[Duty]:
        return duties_of(*join.share, len(GROUPS), self.subgroups)

    def new_rows(self, join: InstanceJoin, stream: int, edge: Edge, duty: Duty) -> list[Bound]:
        """The new rows of a stream that are sent to whoever has this duty."""
        rows = _sent(join, join.reader.new_rows(stream, edge), stream, edge, duty)
        join.tally.rows += sum(map(len, rows))
        return rows


@dataclass(frozen=True)
class TreePairsWork(BicliqueWork):
    """The first join: new pairs, which are left to those who hold pairs."""

    emits: ClassVar[bool] = False

    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        kind, found = self.kind, list[Bound]()
        edge = self.spec.edge(kind.hub, kind.partner)
        assert edge is not None
        for duty in self.duties(join):
            if duty.group in (HUBS, PARTNERS):
                held = kind.hub if duty.group == HUBS else kind.partner
                new = edge.other(held)
                rows = self.new_rows(join, new, edge, duty)
                runs = join.reader.stored(held, edge, with_new=held < new, part=duty.part)
                found += join.extend(rows, (new, held), runs, new)
        join.keep(kind, found, packing=False)
        join.tally.shipped += sum(map(len, found))
        yield from ()


@dataclass(frozen=True)
class TreeWork(BicliqueWork):
    """The second join: new pairs with all rows of the third stream, new rows of it with old
    pairs."""

    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        for duty in self.duties(join):
            if duty.group == THIRDS:
                yield from join.triples(self._of_new_pairs(join, duty))
            elif duty.group == PAIRS:
                yield from join.triples(self._of_new_rows(join, duty))

    def _of_new_pairs(self, join: InstanceJoin, duty: Duty) -> Iterator[Bound]:
        kind, edge = self.kind, self.kind.edge(self.spec)
        made = (UnpackedPairs.of(self.spec, kind, run) for run in join.reader.made_packs(kind))
        every = (pairs for packs in made for pairs in packs.pairs())
        pairs = _sent(join, every, kind.hub, edge, duty)
        runs = join.reader.stored(kind.third, edge, with_new=True, part=duty.part)
        return join.extend(pairs, (kind.hub, kind.third), runs, kind.hub)

    def _of_new_rows(self, join: InstanceJoin, duty: Duty) -> Iterator[Bound]:
        kind, edge = self.kind, self.kind.edge(self.spec)
        rows = self.new_rows(join, kind.third, edge, duty)
        return join.probe_packs(kind, rows, join.reader.old_packs(kind, duty.part))


def _sent(
    join: InstanceJoin, parts: Iterable[Bound], stream: int, edge: Edge, duty: Duty
) -> list[Bound]:
    """What goes to an instance: all of it, or what may find partners in its subgroup."""
    sent = [reaching(part, stream, edge, duty.part.subgroup) for part in parts]
    join.tally.shipped += sum(map(len, sent))
    return sent
