"""An instance's share of a compaction: its rows of some segments, written anew as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless import faults
from skewless.joining.kernels import frozen, sort_order
from skewless.joining.two_way import Run
from skewless.model import FAR_US, SIDES, BatchPlan, JoinSpec, SegmentInfo
from skewless.state.files import Folder
from skewless.state.segments import Rows, SegmentCache, write_segment

# A generation in small pieces costs every later batch more, as each is looked into.
PIECE_ROWS_MIN, PIECE_BYTES_MIN = 100_000, 16 << 20
SEGMENT_ROWS_MAX = 8_000_000  # keeps a column of strings below Arrow's 2 GiB


def compact(
    spec: JoinSpec, plan: BatchPlan, instance: int, cache: SegmentCache
) -> Iterator[SegmentInfo]:
    """An instance's share of a two-way join's compactions."""
    layout = Layout(
        {side: spec.side(side).schema for side in SIDES},
        {side: spec.side(side).time for side in SIDES},
        plan.keep_after_us,
    )
    share = (instance, plan.routing.instances)
    return compact_groups(Folder(plan.root), plan.compact, share, layout, plan.batch_id, cache)


@dataclass(frozen=True)
class Layout:
    """What segments of each side look like: columns, which of them is the time, and from when on
    rows are still needed."""

    schemas: Mapping[str, pa.Schema]
    time_index: Mapping[str, int | None]
    keep_after_us: Mapping[str, int]


def compact_groups(
    folder: Folder,
    groups: Sequence[Sequence[SegmentInfo]],
    share: tuple[int, int],
    layout: Layout,
    batch_id: int,
    cache: SegmentCache,
) -> Iterator[SegmentInfo]:
    """Rewrite what falls to an instance, number i of n, of some groups of segments; leave out what
    is late or expired. The sources stay as they are until a commit no longer lists them."""
    for group, piece_of in pieces_for(groups, share):
        side = group[0].side
        rows = _gather(folder, group, piece_of, layout, cache)
        if rows is None:
            continue
        for begin in range(0, len(rows), SEGMENT_ROWS_MAX):
            end = min(begin + SEGMENT_ROWS_MAX, len(rows))
            piece = Rows(
                rows.hashes[begin:end],
                rows.times[begin:end],
                [c.slice(begin, end - begin) for c in rows.columns],
            )
            yield write_segment(
                folder,
                side,
                layout.schemas[side],
                piece,
                floor_us=-FAR_US,
                level=max(s.level for s in group) + 1,
                batch_id=batch_id,
            )
            faults.reach("compaction.written", batch_id)


def pieces_for(
    groups: Sequence[Sequence[SegmentInfo]], share: tuple[int, int]
) -> Iterator[tuple[Sequence[SegmentInfo], tuple[int, int]]]:
    """The groups that an instance takes part in rewriting, and which piece of how many is its own:
    large groups are for all instances, small ones for few, each for others."""
    instance, instances = share
    for number, group in enumerate(groups):
        rows, size = sum(s.rows for s in group), sum(s.bytes for s in group)
        pieces = min(instances, max(1, rows // PIECE_ROWS_MIN, size // PIECE_BYTES_MIN))
        piece = (instance - number) % instances
        if piece < pieces:
            yield group, (piece, pieces)


def _gather(
    folder: Folder,
    group: Sequence[SegmentInfo],
    share: tuple[int, int],
    layout: Layout,
    cache: SegmentCache,
) -> Rows | None:
    side = group[0].side
    sources = [cache.rows(folder, segment, layout.time_index[side]) for segment in group]
    kept: list[Run] = []
    for segment, rows, (begin, end) in zip(group, sources, shares_of(sources, *share), strict=True):
        run = Run(rows.hashes, rows.times, rows.columns, 0).slice(begin, end)
        kept.append(_alive(run, max(segment.floor_us, layout.keep_after_us[side])))
    kept = [run for run in kept if len(run)]
    if not kept:
        return None
    hashes = np.concatenate([run.hashes for run in kept])
    times = np.concatenate([run.times for run in kept])
    order = sort_order(frozen(hashes), frozen(times))
    indices = pa.array(order)
    columns = [
        pa.chunked_array([run.columns[i] for run in kept]).take(indices).combine_chunks()
        for i in range(len(kept[0].columns))
    ]
    return Rows(hashes[order], times[order], [_one_array(c) for c in columns])


def shares_of(sources: list[Rows], instance: int, instances: int) -> list[tuple[int, int]]:
    """The range of each source that falls to an instance: what lies between two rows of the largest
    source, by hash and time. So work is even even where one key is most of the state."""
    largest = max(sources, key=len)
    return [
        (
            _position(rows, largest, instance, instances),
            _position(rows, largest, instance + 1, instances),
        )
        for rows in sources
    ]


def _position(rows: Rows, largest: Rows, share: int, shares: int) -> int:
    """Where in some rows the share of that number begins."""
    if share == 0:
        return 0
    if share == shares:
        return len(rows)
    at = len(largest) * share // shares
    h, t = largest.hashes[at], largest.times[at]
    begin, end = (int(np.searchsorted(rows.hashes, h, side)) for side in ("left", "right"))
    return begin + int(np.searchsorted(rows.times[begin:end], t, "left"))


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _alive(run: Run, floor_us: int) -> Run:
    keep = run.times >= floor_us
    if keep.all():
        return run
    mask = pa.array(keep)
    return Run(run.hashes[keep], run.times[keep], [c.filter(mask) for c in run.columns], 0)
