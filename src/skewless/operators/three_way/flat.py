"""Joining without intermediate results: a new row looks for its two partners at once.

A triple belongs to the new row that comes last in the order r, s, t, and its pair with the row of
the first hop to one instance: that of the new row or, if those are few, that of the other. So each
triple comes once however they are dealt out, as all instances can read all of the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from skewless.operators.three_way.spec import STREAMS, Routes
from skewless.operators.three_way.work import InstanceJoin, ThreeWork


@dataclass(frozen=True)
class FlatWork(ThreeWork):
    """The triples of an instance's share of the new rows, which find them along their `routes`."""

    routes: Routes

    def results(self, join: InstanceJoin) -> Iterator[pa.RecordBatch]:
        for new in STREAMS:
            first, second = self.routes[new]
            probing = join.reader.probing(first, with_new=first[1] < new, share=join.share)
            probing.count(join.tally)
            pairs = join.extend(probing.rows, first, probing.runs, new, probing.share)
            onward = self.spec.edge(*second)
            assert onward is not None
            runs = join.reader.stored(second[1], onward, with_new=second[1] < new)
            yield from join.triples(join.extend(pairs, second, runs, new))
