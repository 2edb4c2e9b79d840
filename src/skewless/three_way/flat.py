"""Joining without intermediate results: a new row looks for its two partners at once.

A triple belongs to the new row that comes last in the order r, s, t, and a new row to one instance.
So each triple comes once however rows are dealt out, and nothing is sent to several instances: all
of them can read all of the state.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from skewless.three_way.bindings import StoredRun, extend, triples
from skewless.three_way.shelf import Shelf
from skewless.three_way.spec import STREAMS, Hop, Tally, ThreePlan, ThreeSpec


def join_flat(
    spec: ThreeSpec, plan: ThreePlan, instance: int, shelf: Shelf, tally: Tally
) -> Iterator[pa.RecordBatch]:
    """The triples of an instance's share of the new rows."""
    for new in STREAMS:
        first, second = plan.routes[new]
        edge = spec.edge(*first)
        assert edge is not None
        rows = list(shelf.new_rows(new, edge, instance, plan.instances))
        tally.rows += sum(map(len, rows))
        pairs = extend(spec, rows, first, _runs(spec, shelf, new, first), tally, new)
        found = extend(spec, pairs, second, _runs(spec, shelf, new, second), tally, new)
        yield from triples(spec, found, tally)


def _runs(spec: ThreeSpec, shelf: Shelf, new: int, hop: Hop) -> list[StoredRun]:
    """Where a hop finds partners: rows that come before the new one."""
    edge = spec.edge(*hop)
    assert edge is not None
    return shelf.stored(hop[1], edge, with_new=hop[1] < new)
