"""TriJoin (section 3): every pair that fits is kept, packed, until its third row comes.

Instances form three groups, one per stream; each holds a part of its stream's rows, and every new
row is sent to all of the other two groups. An instance joins it with the packs it has, which gives
triples, and with its part of the rows, which gives new packs. A pair is made where its earlier row
is, so the third row, which is sent there, too, finds it without waiting for anyone.

The paper's instances hold rows and packs in memory; here they lie in files that all can read, and
parts are positions in them. In a chain the two outer streams have no pairs: a new row of the inner
one meets one end in its instance, and the packs go on to the other end. The paper sends them to the
instances that hold it, both ways; here they go one way, and who made them reads the other end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from skewless.operators.three_way.bindings import Bound
from skewless.operators.three_way.duties import Duty, duties_of, members
from skewless.operators.three_way.packs import PackKind, hub_of, kinds_of, run_of
from skewless.operators.three_way.portions import Part
from skewless.operators.three_way.reader import BatchSegments
from skewless.operators.three_way.spec import STREAMS, ThreeSpec
from skewless.operators.three_way.strategies.base import RunningStrategy
from skewless.operators.three_way.work import InstanceJoin, ThreeWork

GROUPS = len(STREAMS)


def makers_of(spec: ThreeSpec, kind: PackKind) -> list[int]:
    """The groups in which packs of a kind are made, and stay: one in a cycle, where the later row
    is the hub; in a chain both, as the hub is always of the inner stream."""
    pair = (kind.hub, kind.partner)
    return [g for g in sorted(pair) if hub_of(spec, g, sum(pair) - g) == kind.hub]


def part_of_packs(spec: ThreeSpec, kind: PackKind, duty: Duty, instances: int) -> Part:
    """The part of all packs of a kind that whoever has a duty holds."""
    makers = makers_of(spec, kind)
    sizes = [members(group, instances, GROUPS) for group in makers]
    before = sum(sizes[: makers.index(duty.group)])
    return Part((before + duty.part.share[0], sum(sizes)))


@dataclass(frozen=True)
class RunningTriJoin(RunningStrategy):
    """Nothing changes from batch to batch."""

    spec: ThreeSpec
    packing: bool

    @property
    def stores_pairs(self) -> bool:
        return True

    def work(self, segments: BatchSegments) -> ThreeWork:
        return TriJoinWork(self.spec, segments, self.packing)


@dataclass(frozen=True)
class TriJoinWork(ThreeWork):
    """The triples of an instance, and the packs of all pairs that it finds on the way. Triples come
    first whose pair is there already: they wait for nothing. Then new rows meet those that came
    with them, in the order r, s, t."""

    packing: bool

    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        duties = duties_of(*join.share, GROUPS)
        sent = {x: self._sent(join, x) for x in STREAMS if any(d.group != x for d in duties)}
        yield from join.triples(self._with_old_packs(join, sent, duties))
        for new, rows in sent.items():
            yield from join.triples(self._with_new_packs(join, new, rows))
            for duty in duties:
                if duty.group != new and self.spec.edge(new, duty.group) is not None:
                    yield from join.triples(self._pair(join, new, rows, duty))

    def _sent(self, join: InstanceJoin, new: int) -> list[Bound]:
        """All new rows of a stream: they come to everybody in the other two groups."""
        rows = list(join.reader.new_rows(new, self.spec.edges_of(new)[0]))
        count = sum(map(len, rows))
        join.tally.rows += count
        join.tally.shipped += count
        return rows

    def _with_old_packs(
        self, join: InstanceJoin, sent: Mapping[int, list[Bound]], duties: list[Duty]
    ) -> Iterator[Bound]:
        """New rows with pairs of earlier batches that wait for them here."""
        for kind in kinds_of(self.spec):
            for duty in duties:
                if duty.group in makers_of(self.spec, kind):
                    part = part_of_packs(self.spec, kind, duty, join.share[1])
                    runs = join.reader.old_packs(kind, part)
                    yield from join.probe_packs(kind, sent[kind.third], runs)

    def _with_new_packs(self, join: InstanceJoin, new: int, rows: list[Bound]) -> Iterator[Bound]:
        """New rows with pairs that this instance has made in this batch."""
        for kind in kinds_of(self.spec):
            made = [run_of(packs) for k, packs in join.packs if k == kind]
            if kind.third == new and made:
                yield from join.probe_packs(kind, rows, made)

    def _pair(self, join: InstanceJoin, new: int, rows: list[Bound], duty: Duty) -> Iterator[Bound]:
        """New rows with this instance's rows of another stream: packs for the third stream; and
        triples, if that cannot meet the pair in any other way."""
        edge = self.spec.edge(new, duty.group)
        assert edge is not None
        held = join.reader.stored(duty.group, edge, with_new=duty.group < new, part=duty.part)
        pairs = join.extend(rows, (new, duty.group), held, new)
        hub = hub_of(self.spec, duty.group, new)
        kind = PackKind(hub, new + duty.group - hub)
        made = join.keep(kind, pairs, packing=self.packing)
        outer_pair = self.spec.edge(duty.group, kind.third) is None
        if made and outer_pair and duty.group < kind.third:
            runs = join.reader.stored(kind.third, kind.edge(self.spec), with_new=kind.third < new)
            for packs in made:
                join.tally.shipped += len(packs) * members(kind.third, join.share[1], GROUPS)
                yield from join.extend_packs(kind, run_of(packs), runs, new)
