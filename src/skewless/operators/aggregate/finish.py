"""From partial results to results: every instance merges those of its range of hashes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.merging import match_ranges
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, frozen
from skewless.engine.instance import Instance
from skewless.errors import DataError
from skewless.operators.aggregate.accumulate import merge_partials, positions_in, states_of
from skewless.operators.aggregate.spec import PARTIALS, AggregateSpec
from skewless.operators.groups import by_changes
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import Rows, SegmentInfo
from skewless.state.turns import in_turn

RESULT_ROWS = 65_536


@dataclass(frozen=True)
class FinishWork:
    """The results of windows that began after `after_us` up to `closed_to_us` or, if `touched`, of
    every group that `new` has a part of."""

    spec: AggregateSpec
    old: SegmentSet
    new: tuple[SegmentInfo, ...]
    after_us: int
    closed_to_us: int
    touched: bool

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        instance.reads = {PARTIALS: [instance.own_range]}
        fresh, old = self._touched(instance) if self.touched else ([], self._closed(instance))
        parts = [*fresh, *old]
        for ranges in in_turn(parts):
            some = [rows.slice(at.start, at.stop) for rows, at in zip(parts, ranges, strict=True)]
            yield from self._results(some[: len(fresh)], some[len(fresh) :])

    def _results(self, fresh: list[Rows], old: list[Rows]) -> Iterator[pa.RecordBatch]:
        fresh, old = ([rows for rows in some if len(rows)] for some in (fresh, old))
        if not fresh and (self.touched or not old):
            return
        # Keys that only share their hash with a touched one have come along: they are left out.
        merged = merge_partials(self.spec, [*fresh, *old], len(fresh) if self.touched else None)
        results = results_of(self.spec, merged)
        for begin in range(0, results.num_rows, RESULT_ROWS):
            yield results.slice(begin, RESULT_ROWS)

    def _closed(self, instance: Instance) -> list[Rows]:
        """The partial results of the windows that close with this batch."""
        found = []
        for segment in (*self.old, *self.new):
            if segment.time_min_us > self.closed_to_us or segment.time_max_us <= self.after_us:
                continue
            rows = instance.own_rows(segment)
            closing = (rows.times > self.after_us) & (rows.times <= self.closed_to_us)
            found.append(rows.take(np.flatnonzero(closing)))
        return found

    def _touched(self, instance: Instance) -> tuple[list[Rows], list[Rows]]:
        """The partial results of all groups that this batch has changed, new and old. Work follows
        the batch: old ones are found by a merge of sorted runs, as in a join."""
        fresh = [instance.own_rows(segment) for segment in self.new]
        fresh = [rows for rows in fresh if len(rows)]
        if not fresh:
            return [], []
        # Every (hash, window) once, in order.
        all_hashes = np.concatenate([r.hashes for r in fresh])
        all_windows = np.concatenate([r.times for r in fresh])
        grouped = by_changes(sort_order(frozen(all_hashes), frozen(all_windows)),
                             [all_hashes, all_windows])  # fmt: skip
        firsts = grouped.order[grouped.firsts]
        hashes, windows = frozen(all_hashes[firsts]), frozen(all_windows[firsts])
        found = []
        for segment in self.old:
            rows = instance.rows(segment)
            first, last, _ = match_ranges(
                hashes, windows, -FAR_US, frozen(rows.hashes), frozen(rows.times), -FAR_US, 0, 0
            )
            found.append(rows.take(positions_in(first, last)))
        return fresh, found


def results_of(spec: AggregateSpec, merged: Rows) -> pa.RecordBatch:
    """Merged partial results as the rows that users see."""
    schema = spec.output_schema()
    columns: list[pa.Array] = []
    if spec.window is not None:
        kind = schema.field(0).type
        ends = [merged.times, merged.times + spec.window.size_us]
        moments = [pa.array(e).cast(kind.field(i).type) for i, e in enumerate(ends)]
        columns.append(pa.StructArray.from_arrays(moments, fields=list(kind)))
    columns += merged.columns[spec.keys_at : spec.keys_at + len(spec.input.keys)]
    for aggregate, state in states_of(spec, merged.columns):
        outcome = aggregate.accumulator.finish(state)
        if len(outcome) != len(merged):
            raise DataError(
                f"the aggregate {aggregate.name!r} finished {len(merged)} groups with "
                f"{len(outcome)} outcomes; there must be one per group"
            )
        kind = aggregate.accumulator.result
        columns.append(outcome if outcome.type == kind else outcome.cast(kind))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
