"""Joining with one kind of pairs kept: the third stream then finds pairs at once.

New rows of the two streams look for each other; the new pairs are packed and kept, and go on to the
third stream, its new rows included. New rows of the third stream look only for pairs of earlier
batches. So a triple comes with its pair if that is new, else with its third row: once, and in one
step, as who makes a pair also takes it on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from skewless.operators.three_way.bindings import Bound, extend, triples
from skewless.operators.three_way.packs import PackKind, pack, probe_packs
from skewless.operators.three_way.reader import Shelf
from skewless.operators.three_way.spec import Tally, ThreePlan, ThreeSpec
from skewless.state.segments import Rows


class KeptInstance:
    """One instance at work on one batch: iterate over `results`, then take the `packs`."""

    def __init__(
        self,
        spec: ThreeSpec,
        plan: ThreePlan,
        kind: PackKind,
        instance: int,
        shelf: Shelf,
        tally: Tally,
    ) -> None:
        self._spec, self._plan, self._kind, self._instance = spec, plan, kind, instance
        self._shelf, self._tally = shelf, tally
        self.packs: list[tuple[PackKind, Rows]] = []

    def results(self) -> Iterator[pa.RecordBatch]:
        spec, kind, tally = self._spec, self._kind, self._tally
        between = spec.edge(kind.hub, kind.partner)
        assert between is not None
        onward, share = (kind.hub, kind.third), (self._instance, self._plan.instances)
        third_runs = self._shelf.stored(kind.third, kind.edge(spec), with_new=True)
        made: list[Bound] = []
        for new in sorted((kind.hub, kind.partner)):
            other = between.other(new)
            met = self._shelf.meeting((new, other), with_new=other < new, share=share)
            met.note(tally)
            pairs = list(extend(spec, met.rows, (new, other), met.runs, tally, new, met.share))
            made += pairs
            found = extend(spec, pairs, onward, third_runs, tally, new)
            yield from triples(spec, found, tally)
        met = self._shelf.meeting_packs(kind, share=share)
        met.note(tally)
        waiting = probe_packs(spec, kind, met.rows, met.runs, tally, met.share)
        yield from triples(spec, waiting, tally)
        packed = pack(spec, kind, made, packing=True)
        if packed is not None:
            self.packs.append((kind, packed))


def old_pairs(
    spec: ThreeSpec, plan: ThreePlan, kind: PackKind, instance: int, shelf: Shelf, tally: Tally
) -> Rows | None:
    """An instance's share of the pairs of all rows in the state: what would be kept by now, had it
    been kept from the beginning."""
    between = spec.edge(kind.hub, kind.partner)
    assert between is not None
    mine = []
    for run in shelf.stored(kind.hub, between, with_new=False):
        taken = np.arange(instance, len(run), plan.instances)
        taken = taken[run.times[taken] >= run.floor_us]
        indices = pa.array(taken)
        columns = {kind.hub: [c.take(indices) for c in run.columns]}
        mine.append(Bound(columns, {kind.hub: run.times[taken]}))
    runs = shelf.stored(kind.partner, between, with_new=False)
    hop = (kind.hub, kind.partner)
    return pack(spec, kind, extend(spec, mine, hop, runs, tally, kind.hub), packing=True)
