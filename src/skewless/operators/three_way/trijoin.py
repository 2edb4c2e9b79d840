"""TriJoin (section 3): every pair that fits is kept, packed, until its third row comes.

Instances form three groups, one per stream; each holds a part of its stream's rows, and every new
row is sent to all of the other two groups. An instance joins it with the packs it has, which gives
triples, and with its part of the rows, which gives new packs. A pair is made where its earlier row
is, so the third row, which everybody gets, finds it there without waiting for anyone.

The paper's instances hold rows and packs in memory; here they lie in files that all can read, and
parts are positions in them. In a chain the two outer streams have no pairs: a new row of the inner
one meets one end in its instance and then the other end, whose rows the paper has to send for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from skewless.operators.three_way.bindings import Bound
from skewless.operators.three_way.packs import PackKind, hub_of, kinds_of, run_of
from skewless.operators.three_way.portions import WHOLE, Share
from skewless.operators.three_way.reader import BatchSegments
from skewless.operators.three_way.spec import STREAMS, ThreeSpec
from skewless.operators.three_way.strategies.base import RunningStrategy
from skewless.operators.three_way.work import InstanceJoin, ThreeWork


@dataclass(frozen=True)
class Duty:
    """A part of one stream's stored rows."""

    stream: int
    share: Share


def duties_of(instance: int, instances: int) -> list[Duty]:
    """What an instance holds: group g has the instances g, g + 3, …; fewer than three instances
    share the groups.

    >>> duties_of(4, 6)
    [Duty(stream=1, share=(1, 2))]
    >>> [d.stream for d in duties_of(0, 2)]
    [0, 2]
    """
    if instances < 3:
        return [Duty(g, WHOLE) for g in STREAMS if g % instances == instance]
    group = instance % 3
    return [Duty(group, (instance // 3, len(range(group, instances, 3))))]


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
    """The triples of an instance, in the order r, s, t of the new rows that complete them; and the
    packs of all pairs that it finds on the way."""

    packing: bool

    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        duties = duties_of(*join.share)
        for new in STREAMS:
            edge = self.spec.edges_of(new)[0]
            rows = list(join.reader.new_rows(new, edge, WHOLE))
            count = sum(map(len, rows))
            join.tally.rows += count
            join.tally.shipped += count
            yield from join.triples(self._from_packs(join, new, rows))
            for duty in duties:
                if duty.stream != new and self.spec.edge(new, duty.stream) is not None:
                    yield from join.triples(self._pair(join, new, rows, duty))

    def _from_packs(self, join: InstanceJoin, new: int, rows: list[Bound]) -> Iterator[Bound]:
        """New rows with pairs that wait for them: this instance's part of those of earlier batches,
        and what it has made in this one."""
        for kind in kinds_of(self.spec):
            if kind.third == new:
                runs = join.reader.old_packs(kind, join.share)
                runs += [run_of(made) for k, made in join.packs if k == kind]
                yield from join.probe_packs(kind, rows, runs)

    def _pair(self, join: InstanceJoin, new: int, rows: list[Bound], duty: Duty) -> Iterator[Bound]:
        """New rows with this instance's rows of another stream: packs for the third stream; and
        triples, if that cannot meet the pair in any other way."""
        edge = self.spec.edge(new, duty.stream)
        assert edge is not None
        held = join.reader.stored(duty.stream, edge, with_new=duty.stream < new, share=duty.share)
        pairs = list(join.extend(rows, (new, duty.stream), held, new))
        hub = hub_of(self.spec, duty.stream, new)
        join.keep(PackKind(hub, new + duty.stream - hub), pairs, packing=self.packing)
        far = 3 - new - duty.stream
        outer_pair = self.spec.edge(duty.stream, far) is None
        if outer_pair and duty.stream < far:
            onward = self.spec.edge(new, far)
            assert onward is not None
            runs = join.reader.stored(far, onward, with_new=far < new)
            join.tally.shipped += sum(map(len, pairs))
            yield from join.extend(pairs, (new, far), runs, new)
