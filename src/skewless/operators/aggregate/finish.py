"""From partial results to results: every instance merges those of its range of hashes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from skewless import failpoints
from skewless.arrays.merging import match_ranges
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, frozen
from skewless.errors import DataError
from skewless.operators.aggregate.accumulate import (
    merge_partials,
    open_rows,
    positions_in,
    states_of,
    take_rows,
)
from skewless.operators.aggregate.groups import by_changes
from skewless.operators.aggregate.spec import AggregateSpec, FinishPlan
from skewless.placement.units import slot_bounds
from skewless.state.cache import SegmentCache
from skewless.state.files import Folder
from skewless.state.segments import Rows, SegmentInfo

RESULT_ROWS = 65_536


def finish(
    spec: AggregateSpec, plan: FinishPlan, instance: int, cache: SegmentCache
) -> Iterator[pa.RecordBatch]:
    """The results of one instance; then how many they are, as a small file."""
    folder = Folder(plan.root)
    find = _touched if plan.touched else _closed
    fresh, old = find(spec, plan, instance, cache)
    parts = [rows for rows in (*fresh, *old) if len(rows)]
    results = 0
    if parts:
        # Keys that only share their hash with a touched one have come along: they are left out.
        among = sum(map(len, fresh)) if plan.touched else None
        merged = merge_partials(spec, parts, among)
        results = len(merged)
        outcome = results_of(spec, merged)
        for begin in range(0, results, RESULT_ROWS):
            yield outcome.slice(begin, RESULT_ROWS)
    failpoints.hit("instance.worked", plan.batch_id)
    cache.keep_only(folder, {s.name for s in (*plan.old, *plan.new)})
    told = json.dumps({"results": results}).encode()
    folder.write_atomically(f"{plan.report_folder}/{instance}.json", told)
    failpoints.hit("instance.reported", plan.batch_id)


def _range_of(plan: FinishPlan, instance: int, rows: Rows) -> tuple[int, int]:
    low, high = slot_bounds(instance, instance, plan.instances)
    begin = int(np.searchsorted(rows.hashes, np.uint64(low), "left"))
    return begin, int(np.searchsorted(rows.hashes, np.uint64(high), "right"))


def _closed(
    spec: AggregateSpec, plan: FinishPlan, instance: int, cache: SegmentCache
) -> tuple[list[Rows], list[Rows]]:
    """The partial results of the windows that close with this batch."""
    found = []
    for segment in (*plan.old, *plan.new):
        if segment.time_min_us > plan.closed_to_us or segment.time_max_us <= plan.after_us:
            continue
        rows = _rows(spec, plan, segment, cache)
        begin, end = _range_of(plan, instance, rows)
        times = rows.times[begin:end]
        closing = (times > plan.after_us) & (times <= plan.closed_to_us)
        found.append(take_rows(rows, np.flatnonzero(closing) + begin))
    return [], found


def _touched(
    spec: AggregateSpec, plan: FinishPlan, instance: int, cache: SegmentCache
) -> tuple[list[Rows], list[Rows]]:
    """The partial results of all groups that this batch has changed, new and old. Work follows the
    batch: old ones are found by a merge of sorted runs, as in a join."""
    fresh = []
    for segment in plan.new:
        rows = _rows(spec, plan, segment, cache)
        fresh.append(open_rows(rows, *_range_of(plan, instance, rows), -FAR_US))
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
    for segment in plan.old:
        rows = _rows(spec, plan, segment, cache)
        first, last, _ = match_ranges(
            hashes, windows, -FAR_US, frozen(rows.hashes), frozen(rows.times), -FAR_US, 0, 0
        )
        found.append(take_rows(rows, positions_in(first, last)))
    return fresh, found


def _rows(spec: AggregateSpec, plan: FinishPlan, segment: SegmentInfo, cache: SegmentCache) -> Rows:
    return cache.rows(Folder(plan.root), segment, spec.window_index)


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
