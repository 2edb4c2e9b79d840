"""What an instance does with its rows of a batch: make partial results and store them.

A partial result is a segment's row: a group's key and window, and the state of its aggregates. A
group has one per batch and instance that saw rows of it; compaction merges them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.merging import expand_ranges
from skewless.arrays.types import Ints, UInts, frozen
from skewless.engine.instance import Instance
from skewless.engine.report import InstanceLoad
from skewless.operators.aggregate.accumulators.base import State
from skewless.operators.aggregate.row_shares import FileShare, Shares
from skewless.operators.aggregate.spec import PARTIALS, Aggregate, AggregateSpec
from skewless.operators.groups import group_rows
from skewless.state.rewriting import SEGMENT_ROWS_MAX
from skewless.state.segments import Rows, read_segment

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
        time_index = self.spec.input.time
        shares = [
            (read_segment(instance.folder, share.file, time_index), share)
            for share in self.shares[instance.number]  # read once only: not for the cache
        ]
        instance.clock.reset()
        rows = 0
        for hashes, times, columns in _pieces(shares):
            rows += len(hashes)
            self._note_late(instance, times)
            partials = partials_of_rows(self.spec, hashes, times, columns, self.closed_to_us)
            for piece in partials.pieces(SEGMENT_ROWS_MAX):
                instance.write(PARTIALS, piece, kind=PARTIALS)
        made = sum(s.rows for s in instance.written)
        instance.load = InstanceLoad(instance.number, rows=rows, pairs=made)
        return iter(())

    def _note_late(self, instance: Instance, times: Ints) -> None:
        """Rows all of whose windows are closed are late by their last one."""
        window = self.spec.window
        if window is not None:
            early = times[times < self.closed_to_us + window.slide_us]
            instance.note_late(window.last_start_of(early), self.closed_to_us + 1)


def _pieces(
    shares: Sequence[tuple[Rows, FileShare]],
) -> Iterator[tuple[UInts, Ints, list[pa.Array]]]:
    """An instance's rows of all files, some at a time."""
    taken: list[tuple[UInts, Ints, list[pa.Array]]] = []
    room = ROWS_AT_ONCE
    for rows, share in shares:
        indices = positions_in(share.begins, share.ends)
        while len(indices):
            some, indices = indices[:room], indices[room:]
            room -= len(some)
            taken.append(_rows_at(rows, some))
            if not room:
                yield _together(taken)
                taken, room = [], ROWS_AT_ONCE
    if taken:
        yield _together(taken)


def positions_in(begins: Ints, ends: Ints) -> Ints:
    """All positions of some ranges."""
    total = int((ends - begins).sum())
    positions: Ints = expand_ranges(frozen(begins), frozen(ends), 0, 0, total)[1]
    return positions


def _rows_at(rows: Rows, indices: Ints) -> tuple[UInts, Ints, list[pa.Array]]:
    begin, end = int(indices[0]), int(indices[-1]) + 1
    if end - begin == len(indices):
        sliced = [c.slice(begin, end - begin) for c in rows.columns]
        return rows.hashes[begin:end], rows.times[begin:end], sliced
    taken = pa.array(indices)
    return rows.hashes[indices], rows.times[indices], [c.take(taken) for c in rows.columns]


def _together(
    parts: Sequence[tuple[UInts, Ints, list[pa.Array]]],
) -> tuple[UInts, Ints, list[pa.Array]]:
    if len(parts) == 1:
        return parts[0]
    columns = [pa.concat_arrays(list(c)) for c in zip(*(p[2] for p in parts), strict=True)]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), columns


def partials_of_rows(
    spec: AggregateSpec, hashes: UInts, times: Ints, columns: list[pa.Array], closed_to_us: int
) -> Rows:
    """One partial result per group of rows. Windows that began up to `closed_to_us` are closed."""
    windows = times
    if spec.window is not None:
        rows, windows = spec.window.starts_of(times)
        is_open = windows > closed_to_us
        if not is_open.all():
            rows, windows = rows[is_open], windows[is_open]
        if len(rows) != len(times) or spec.window.slide_us != spec.window.size_us:
            hashes = hashes[rows]
            columns = [c.take(pa.array(rows)) for c in columns]
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


def merge_partials(spec: AggregateSpec, rows: Sequence[Rows], among: int | None = None) -> Rows:
    """Partial results put together: one per group. With `among`, only groups that have one among
    so many of the first."""
    hashes = np.concatenate([r.hashes for r in rows])
    windows = np.concatenate([r.times for r in rows])
    columns = [pa.concat_arrays(list(c)) for c in zip(*(r.columns for r in rows), strict=True)]
    keys = columns[spec.keys_at : spec.keys_at + len(spec.input.keys)]
    grouped = group_rows(hashes, windows, keys, spec.input)
    firsts, order = grouped.order[grouped.firsts], pa.array(grouped.order)
    kept = [c.take(pa.array(firsts)) for c in keys]
    for aggregate, state in states_of(spec, columns):
        accumulator = aggregate.accumulator
        others = [c.take(order) for c in state]
        kept += accumulator.merge(accumulator.init(len(firsts)), grouped.groups, others)
    merged = _as_partials(spec, hashes[firsts], windows[firsts], kept)
    if among is None:
        return merged
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
    return Rows(hashes, times, checked)
