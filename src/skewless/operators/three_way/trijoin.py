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
from dataclasses import dataclass, field

import pyarrow as pa

from skewless.operators.three_way.bindings import Bound, StoredRun, extend, triples
from skewless.operators.three_way.packs import PackKind, hub_of, kinds_of, pack, probe_packs, run_of
from skewless.operators.three_way.portions import WHOLE, Share
from skewless.operators.three_way.reader import Shelf
from skewless.operators.three_way.spec import STREAMS, Edge, Tally, ThreePlan, ThreeSpec
from skewless.state.segments import Rows


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


@dataclass
class TriJoinInstance:
    """One instance at work on one batch: iterate over `results`, then take the `packs`."""

    spec: ThreeSpec
    plan: ThreePlan
    instance: int
    shelf: Shelf
    tally: Tally
    packs: list[tuple[PackKind, Rows]] = field(default_factory=list)

    def results(self) -> Iterator[pa.RecordBatch]:
        """The triples, in the order r, s, t of the new rows that complete them."""
        duties = duties_of(self.instance, self.plan.instances)
        for new in STREAMS:
            edge = self.spec.edges_of(new)[0]
            rows = list(self.shelf.new_rows(new, edge, 0, 1))
            count = sum(map(len, rows))
            self.tally.rows += count
            self.tally.shipped += count
            yield from triples(self.spec, self._from_packs(new, rows), self.tally)
            for duty in duties:
                if duty.stream != new and self.spec.edge(new, duty.stream) is not None:
                    yield from triples(self.spec, self._pair(new, rows, duty), self.tally)

    def _from_packs(self, new: int, rows: list[Bound]) -> Iterator[Bound]:
        """New rows with pairs that wait for them: this instance's part of those of earlier batches,
        and what it has made in this one."""
        mine = (self.instance, self.plan.instances)
        for kind in kinds_of(self.spec):
            if kind.third == new:
                runs = self.shelf.packs(kind, mine)
                runs += [run_of(made) for k, made in self.packs if k == kind]
                yield from probe_packs(self.spec, kind, rows, runs, self.tally)

    def _pair(self, new: int, rows: list[Bound], duty: Duty) -> Iterator[Bound]:
        """New rows with this instance's rows of another stream: packs for the third stream; and
        triples, if that cannot meet the pair in any other way."""
        edge = self.spec.edge(new, duty.stream)
        assert edge is not None
        hop = (new, duty.stream)
        pairs = list(extend(self.spec, rows, hop, self._runs(new, duty, edge), self.tally, new))
        hub = hub_of(self.spec, duty.stream, new)
        kind = PackKind(hub, new + duty.stream - hub)
        packed = pack(self.spec, kind, pairs, packing=self.plan.packing)
        if packed is not None:
            self.packs.append((kind, packed))
        far = 3 - new - duty.stream
        outer_pair = self.spec.edge(duty.stream, far) is None
        if outer_pair and duty.stream < far:
            onward = self.spec.edge(new, far)
            assert onward is not None
            runs = self.shelf.stored(far, onward, with_new=far < new)
            self.tally.shipped += sum(map(len, pairs))
            yield from extend(self.spec, pairs, (new, far), runs, self.tally, new)

    def _runs(self, new: int, duty: Duty, edge: Edge) -> list[StoredRun]:
        with_new = duty.stream < new
        return self.shelf.stored(duty.stream, edge, with_new=with_new, share=duty.share)
