"""The frame of an instance's work in a three-way join: what it works with, what it tells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from skewless.engine.instance import Instance
from skewless.engine.report import InstanceLoad
from skewless.operators.three_way.bindings import Bound, StoredRun, extend, triples
from skewless.operators.three_way.packs import PACKS, PackKind, extend_packs, pack, probe_packs
from skewless.operators.three_way.portions import WHOLE, Share
from skewless.operators.three_way.reader import BatchSegments, SegmentReader
from skewless.operators.three_way.spec import STREAMS, Hop, ThreeSpec
from skewless.operators.three_way.tally import Tally
from skewless.state.segments import Rows


@dataclass
class InstanceJoin:
    """One instance at work on one step: its share, the rows it can read, what it counts, and the
    packs that it leaves to later batches."""

    spec: ThreeSpec
    share: Share
    reader: SegmentReader
    tally: Tally = field(default_factory=Tally)
    packs: list[tuple[PackKind, Rows]] = field(default_factory=list)

    def extend(
        self,
        parts: Iterable[Bound],
        hop: Hop,
        runs: Sequence[StoredRun],
        new: int,
        share: Share = WHOLE,
    ) -> Iterator[Bound]:
        """Bound rows with each of their partners in a further stream."""
        return extend(self.spec, parts, hop, runs, self.tally, new, share)

    def probe_packs(
        self,
        kind: PackKind,
        parts: Iterable[Bound],
        runs: Sequence[StoredRun],
        share: Share = WHOLE,
    ) -> Iterator[Bound]:
        """Rows of the third stream with the pairs in the packs they fit."""
        return probe_packs(self.spec, kind, parts, runs, self.tally, share)

    def triples(self, parts: Iterable[Bound]) -> Iterator[pa.RecordBatch]:
        """Combinations of all three streams as rows of the result."""
        return triples(self.spec, parts, self.tally)

    def extend_packs(
        self, kind: PackKind, packs: StoredRun, runs: Sequence[StoredRun], new: int
    ) -> Iterator[Bound]:
        """Packs with each row of the third stream that they fit."""
        return extend_packs(self.spec, kind, packs, runs, self.tally, new)

    def keep(self, kind: PackKind, pairs: Iterable[Bound], *, packing: bool) -> list[Rows]:
        """Leave pairs to later batches; how they are packed."""
        packed = list(pack(self.spec, kind, pairs, packing=packing))
        self.packs += [(kind, packs) for packs in packed]
        return packed


@dataclass(frozen=True)
class ThreeWork(ABC):
    """The work of every instance in one step of a batch. It is sent to the tasks."""

    spec: ThreeSpec
    segments: BatchSegments

    emits: ClassVar[bool] = True

    @abstractmethod
    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        """The triples of an instance. None if this is a step that only makes pairs."""

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        reader = SegmentReader(self.spec, self.segments, instance.rows)
        join = InstanceJoin(self.spec, (instance.number, instance.instances), reader)
        yield from self.results(join)
        for kind, rows in join.packs:
            instance.write(kind.side, rows, PACKS)
        tally = join.tally
        if self.emits and instance.number == 0:
            for stream in STREAMS:
                for times, floor_us in reader.new_times(stream):
                    instance.note_late(times, floor_us)
        instance.load = InstanceLoad(
            instance.number,
            rows=tally.rows,
            pairs=sum(tally.candidates.values()),
            matches=tally.matches,
        )
        instance.detail = {"shipped": tally.shipped, "hops": [list(met) for met in tally.hops()]}
