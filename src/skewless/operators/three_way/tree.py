"""BiStream + Tree, the baseline of TriJoin's paper: two two-way joins, one after the other.

The first step joins two streams and stores the pairs; the second joins pairs with the third stream.
So a triple waits for its pair, and every pair is written, read and stored as a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from skewless.operators.three_way.bindings import Bound, extend, triples
from skewless.operators.three_way.packs import PackKind, TakenApart, pack, probe_packs
from skewless.operators.three_way.reader import Shelf
from skewless.operators.three_way.spec import Tally, ThreePlan, ThreeSpec
from skewless.state.segments import Rows


def kind_of(spec: ThreeSpec, order: tuple[int, int, int]) -> PackKind:
    """How the pairs of the first two streams are stored: under one that the third can find."""
    first, second, third = order
    hub = second if spec.edge(second, third) is not None else first
    return PackKind(hub, first + second - hub)


def make_pairs(
    spec: ThreeSpec, plan: ThreePlan, kind: PackKind, instance: int, shelf: Shelf, tally: Tally
) -> Rows | None:
    """The first step: the new pairs of an instance's share of new rows."""
    edge = spec.edge(kind.hub, kind.partner)
    assert edge is not None
    found: list[Bound] = []
    for new in sorted((kind.hub, kind.partner)):
        other = edge.other(new)
        rows = list(shelf.new_rows(new, edge, instance, plan.instances))
        tally.rows += sum(map(len, rows))
        runs = shelf.stored(other, edge, with_new=other < new)
        found += extend(spec, rows, (new, other), runs, tally, new)
    return pack(spec, kind, found, packing=False)


def join_pairs(
    spec: ThreeSpec, plan: ThreePlan, kind: PackKind, instance: int, shelf: Shelf, tally: Tally
) -> Iterator[pa.RecordBatch]:
    """The second step: new pairs with all rows of the third stream, new rows of it with old
    pairs."""
    third, edge = kind.third, kind.edge(spec)
    for run in shelf.fresh_pairs(kind):
        pairs = TakenApart.of(spec, kind, run).pairs()
        mine = pairs.take(np.arange(instance, len(pairs), plan.instances))
        tally.shipped += len(mine)
        runs = shelf.stored(third, edge, with_new=True)
        found = extend(spec, [mine], (kind.hub, third), runs, tally, kind.hub)
        yield from triples(spec, found, tally)
    rows = list(shelf.new_rows(third, edge, instance, plan.instances))
    tally.rows += sum(map(len, rows))
    waiting = probe_packs(spec, kind, rows, shelf.packs(kind), tally)
    yield from triples(spec, waiting, tally)
