"""Joining with one kind of pairs materialized: the third stream then finds pairs at once.

New rows of the two streams look for each other; the new pairs are packed and stored, and go on to
the third stream, its new rows included. New rows of the third stream look only for pairs of earlier
batches. So a triple comes with its pair if that is new, else with its third row: once, and in one
step, as who makes a pair also takes it on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skewless.operators.three_way.bindings import Bound, StoredRun
from skewless.operators.three_way.packs import PackKind
from skewless.operators.three_way.portions import Share
from skewless.operators.three_way.work import InstanceJoin, ThreeWork


@dataclass(frozen=True)
class MaterializedWork(ThreeWork):
    """The triples of an instance's share of the new rows; it stores its new pairs."""

    kind: PackKind

    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        spec, kind, reader = self.spec, self.kind, join.reader
        between = spec.edge(kind.hub, kind.partner)
        assert between is not None
        third_runs = reader.stored(kind.third, kind.edge(spec), with_new=True)
        made: list[Bound] = []
        for new in sorted((kind.hub, kind.partner)):
            hop = (new, between.other(new))
            probing = reader.probing(hop, with_new=hop[1] < new, share=join.share)
            probing.count(join.tally)
            pairs = list(join.extend(probing.rows, hop, probing.runs, new, probing.share))
            made += pairs
            yield from join.triples(join.extend(pairs, (kind.hub, kind.third), third_runs, new))
        probing = reader.probing_packs(kind, share=join.share)
        probing.count(join.tally)
        waiting = join.probe_packs(kind, probing.rows, probing.runs, probing.share)
        yield from join.triples(waiting)
        join.keep(kind, made, packing=True)


@dataclass(frozen=True)
class OldPairsWork(ThreeWork):
    """An instance's share of the pairs of all rows in the state: what would be stored by now, had
    this kind been materialized from the beginning."""

    kind: PackKind

    emits: ClassVar[bool] = False

    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        kind = self.kind
        between = self.spec.edge(kind.hub, kind.partner)
        assert between is not None
        hubs = join.reader.stored(kind.hub, between, with_new=False)
        mine = [_dealt(kind.hub, run, join.share) for run in hubs]
        runs = join.reader.stored(kind.partner, between, with_new=False)
        pairs = join.extend(mine, (kind.hub, kind.partner), runs, kind.hub)
        join.keep(kind, pairs, packing=True)
        yield from ()


def _dealt(stream: int, run: StoredRun, share: Share) -> Bound:
    """An instance's share of stored rows."""
    part, parts = share
    taken = np.arange(part, len(run), parts)
    columns, times = run.taken(taken[run.times[taken] >= run.floor_us])
    return Bound({stream: columns}, {stream: times})
