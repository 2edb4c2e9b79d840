"""What an instance does with its rows of a batch: make partial results and store them.

A partial result is a segment's row: a group's key and window, and the state of its aggregates. A
group has one per batch and instance that saw rows of it; compaction merges them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.columns import Columns, gathered, pieces_of
from skewless.arrays.merging import expand_ranges
from skewless.arrays.types import Ints, UInts, frozen
from skewless.engine.instance import Instance
from skewless.engine.report import InstanceLoad
from skewless.operators.aggregate.accumulators.base import State
from skewless.operators.aggregate.reading import read_share
from skewless.operators.aggregate.row_shares import FileShare, Shares
from skewless.operators.aggregate.spec import PARTIALS, Aggregate, AggregateSpec
from skewless.operators.groups import group_rows
from skewless.state.segments import Rows
from skewless.state.turns import too_many

# So many rows are worked on at once: bounds an instance's memory, sliding windows included.
ROWS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class AccumulateWork:
    """Partial results of the rows of a batch: `shares[i]` are those of instance i. Windows that
    began up to `closed_to_us` are closed; rows for them are late."""

    spec: AggregateSpec
    shares: Shares
    closed_to_us: int

    def __call__(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        time_index, window = self.spec.input.time, self.spec.window
        shares = [
            read_share(instance.folder, share, time_index, self.spec.input.schema)
            for share in self.shares[instance.number]  # read once only: not for the cache
        ]
        instance.clock.reset()
        rows = 0
        for some in _pieces(shares, 1 if window is None else window.per_row):
            rows += len(some)
            self._note_late(instance, some.times)
            partials = partials_of_rows(self.spec, some, self.closed_to_us)
            instance.write(PARTIALS, partials, kind=PARTIALS)
        made = sum(s.rows for s in instance.written)
        instance.load = InstanceLoad(instance.number, rows=rows, pairs=made)
        return iter(())

    def _note_late(self, instance: Instance, times: Ints) -> None:
        """Rows all of whose windows are closed are late by their last one."""
        window = self.spec.window
        if window is not None:
            early = times[times < self.closed_to_us + window.slide_us]
            instance.note_late(window.last_start_of(early), self.closed_to_us + 1)


def _pieces(shares: Sequence[tuple[Rows, FileShare]], copies: int) -> Iterator[Rows]:
    """An instance's rows of all files, some at a time: each will be there in so many copies."""
    parts = (part for rows, share in shares for part in _parts(rows, share, copies))
    for some in gathered(parts, lambda rows: copies * rows.nbytes, ROWS_AT_ONCE):
        yield _together(some)


def _parts(rows: Rows, share: FileShare, copies: int) -> Iterator[Rows]:
    indices = positions_in(share.begins, share.ends)
    for piece in pieces_of((rows.columns, indices), copies=copies):
        for begin in range(piece.start, piece.stop, ROWS_AT_ONCE):
            yield _rows_at(rows, indices[begin : min(begin + ROWS_AT_ONCE, piece.stop)])


def positions_in(begins: Ints, ends: Ints) -> Ints:
    """All positions of some ranges."""
    total = int((ends - begins).sum())
    positions: Ints = expand_ranges(frozen(begins), frozen(ends), 0, 0, total)[1]
    return positions


def _rows_at(rows: Rows, indices: Ints) -> Rows:
    begin, end = int(indices[0]), int(indices[-1]) + 1
    return rows.slice(begin, end) if end - begin == len(indices) else rows.take(indices)


def _together(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    columns = Columns.concat([rows.columns for rows in parts])
    hashes = np.concatenate([rows.hashes for rows in parts])
    return Rows(hashes, np.concatenate([rows.times for rows in parts]), columns)


def partials_of_rows(spec: AggregateSpec, of: Rows, closed_to_us: int) -> Rows:
    """One partial result per group of rows. Windows that began up to `closed_to_us` are closed."""
    hashes, times, columns = of.hashes, of.times, of.columns
    windows = times
    if spec.window is not None:
        rows, windows = spec.window.starts_of(times)
        is_open = windows > closed_to_us
        if not is_open.all():
            rows, windows = rows[is_open], windows[is_open]
        if len(rows) != len(times) or spec.window.slide_us != spec.window.size_us:
            hashes = hashes[rows]
            columns = columns.take(rows)
    key_columns = [columns[k.index] for k in spec.input.keys]
    grouped = group_rows(hashes, windows, key_columns, spec.input)
    order = pa.array(grouped.order)
    firsts = grouped.order[grouped.firsts]
    kept: list[pa.Array] = [c.take(pa.array(firsts)) for c in key_columns]
    ordered: dict[int, pa.Array] = {}
    for aggregate in spec.aggregates:
        for i in aggregate.columns:
            if i not in ordered:
                ordered[i] = columns[i].take(order)
        state = aggregate.accumulator.init(len(firsts))
        values = [ordered[i] for i in aggregate.columns]
        kept += aggregate.accumulator.update(state, grouped.groups, *values)
    return _as_partials(spec, hashes[firsts], windows[firsts], kept)


def merge_partials(spec: AggregateSpec, rows: Sequence[Rows], touched: int | None = None) -> Rows:
    """Partial results put together: one per group. With `touched`, only groups that have one in so
    many of the first parts."""
    if len(rows) > 2 and too_many(rows):  # of one group, as a rule
        half = touched if touched is not None and touched < len(rows) else len(rows) // 2
        halves = [merge_partials(spec, some) for some in (rows[:half], rows[half:])]
        return merge_partials(spec, halves, None if touched is None else 1 + (half != touched))
    every = _together(rows)
    hashes, windows, columns = every.hashes, every.times, every.columns
    keys = columns[spec.keys_at : spec.keys_at + len(spec.input.keys)]
    grouped = group_rows(hashes, windows, keys, spec.input)
    firsts, order = grouped.order[grouped.firsts], pa.array(grouped.order)
    kept = [c.take(pa.array(firsts)) for c in keys]
    for aggregate, state in states_of(spec, columns):
        accumulator = aggregate.accumulator
        others = [c.take(order) for c in state]
        kept += accumulator.merge(accumulator.init(len(firsts)), grouped.groups, others)
    merged = _as_partials(spec, hashes[firsts], windows[firsts], kept)
    if touched is None:
        return merged
    among = sum(map(len, rows[:touched]))
    wanted = np.unique(grouped.groups[grouped.order < among])
    return merged if len(wanted) == len(merged) else merged.take(wanted)


def states_of(spec: AggregateSpec, columns: list[pa.Array]) -> Iterator[tuple[Aggregate, State]]:
    """Each aggregate with its columns of partial results."""
    at = spec.keys_at + len(spec.input.keys)
    for aggregate in spec.aggregates:
        width = len(aggregate.accumulator.state)
        yield aggregate, columns[at : at + width]
        at += width


def _as_partials(spec: AggregateSpec, hashes: UInts, windows: Ints, kept: list[pa.Array]) -> Rows:
    columns = kept if spec.window is None else [pa.array(windows), *kept]
    types = spec.partial_schema().types
    checked = [
        c if c.type == kind else c.cast(kind) for c, kind in zip(columns, types, strict=True)
    ]
    times = windows if spec.window is not None else np.zeros(len(hashes), np.int64)
    return Rows(hashes, times, Columns(checked))
