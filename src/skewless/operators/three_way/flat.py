"""Joining without intermediate results: a new row looks for its two partners at once.

A triple belongs to the new row that comes last in the order r, s, t, and its pair with the row of
the first hop to one instance: that of the new row or, if those are few, that of the other. So each
triple comes once however they are dealt out, as all instances can read all of the state.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from skewless.operators.three_way.bindings import extend, triples
from skewless.operators.three_way.reader import Shelf
from skewless.operators.three_way.spec import STREAMS, Tally, ThreePlan, ThreeSpec


def join_flat(
    spec: ThreeSpec, plan: ThreePlan, instance: int, shelf: Shelf, tally: Tally
) -> Iterator[pa.RecordBatch]:
    """The triples of an instance's share of the new rows."""
    for new in STREAMS:
        first, second = plan.routes[new]
        share = (instance, plan.instances)
        met = shelf.meeting(first, with_new=first[1] < new, share=share)
        met.note(tally)
        pairs = extend(spec, met.rows, first, met.runs, tally, new, met.share)
        onward = spec.edge(*second)
        assert onward is not None
        runs = shelf.stored(second[1], onward, with_new=second[1] < new)
        yield from triples(spec, extend(spec, pairs, second, runs, tally, new), tally)
