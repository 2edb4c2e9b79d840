"""From arriving rows to a file that the instances read their rows from: the first step of a batch.

Every task of the input stage has a grouper of its own, as every sender has in the papers: it goes
on from what the last commit says the grouper of this task had learned. Files of arrived rows live
for one batch; what stays are the partial results that the instances make of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.arrays import keys
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, Ints, UInts, frozen
from skewless.engine.operator import HeavyKey
from skewless.operators.aggregate.groups import hash_groups
from skewless.operators.aggregate.spec import INPUT, AggregateSpec, KeyRun, RowsArrived
from skewless.operators.ingesting import HEAVY_KEYS, HEAVY_SHARE_MIN, in_pieces
from skewless.placement.grouping import BatchAware, BatchAwareGrouper, Grouper, Grouping
from skewless.state.blobs import read_kept, write_kept
from skewless.state.commits import CommitLog, GrouperFile
from skewless.state.commits import Grouping as GroupingState
from skewless.state.files import Folder
from skewless.state.segments import Rows, times_of, write_segment

ARRIVED = "arrived"
GROUPERS = "groupers"
DRIVER = -1
RUNS_PER_INSTANCE = 16  # heavy keys that a task tells the driver of
RUN_SHARE_MIN = 1 / 64  # of what one instance gets: lighter keys need not be told


def ingest_rows(
    batches: Iterable[pa.RecordBatch],
    spec: AggregateSpec,
    grouping: Grouping,
    instances: int,
    task: int,
    root: str,
) -> Iterator[RowsArrived]:
    """Store the rows of one task by who works on them; tell what was found."""
    folder = Folder(root)
    last = CommitLog(folder).latest()
    state = None if last is None else last.grouping
    of_driver = isinstance(grouping, BatchAware)
    grouper = resume_grouper(folder, state, grouping, instances, DRIVER if of_driver else task)
    for piece in in_pieces(batches):
        yield _ingest_piece(piece, spec, grouper, folder)
    if not of_driver:
        yield RowsArrived(None, grouper=write_grouper(folder, grouper, task))


def resume_grouper(
    folder: Folder, state: GroupingState | None, grouping: Grouping, instances: int, task: int
) -> Grouper:
    """The grouper of a task as the last commit left it; a new one where there was none, or where
    the query now groups otherwise: results do not depend on it."""
    if state is None or (state.strategy, state.instances) != (repr(grouping), instances):
        return grouping.build(instances)
    file = next((g for g in state.groupers if g.task == task), None)
    if file is None:
        return grouping.build(instances)
    return grouping.resume(read_kept(folder, file))


def write_grouper(folder: Folder, grouper: Grouper, task: int) -> GrouperFile:
    """Store what a grouper knows; it counts when a commit lists it."""
    return write_kept(folder, GROUPERS, grouper.snapshot(), task=task)


def _ingest_piece(
    batches: list[pa.RecordBatch],
    spec: AggregateSpec,
    grouper: Grouper,
    folder: Folder,
) -> RowsArrived:
    arrived = pa.concat_batches(batches)
    rows, null_times, time_max_us = arrived.num_rows, 0, None
    time = spec.input.time
    if time is not None:
        null_times = arrived.column(time).null_count
        if null_times:
            arrived = arrived.filter(arrived.column(time).is_valid())
        if arrived.num_rows:
            time_max_us = pc.max(arrived.column(time).view(pa.int64())).as_py()
    if (null_times and not spec.drop_null_times) or not arrived.num_rows:
        return RowsArrived(None, rows, null_times, time_max_us)
    hashes = hash_groups([arrived.column(k.index) for k in spec.input.keys], spec.input,
                         arrived.num_rows)  # fmt: skip
    times = times_of(arrived.columns, time, arrived.num_rows)
    order, bounds = _order(hashes, times, grouper)
    columns = [column.take(pa.array(order)) for column in arrived.columns]
    stored = Rows(hashes[order], times[order], columns)
    file = write_segment(
        folder, INPUT, spec.input.schema, stored, floor_us=-FAR_US, level=0, batch_id=-1,
        place=ARRIVED,
    )  # fmt: skip
    begins, lengths = _runs(stored.hashes)
    return RowsArrived(
        file=file,
        rows=rows,
        null_times=null_times,
        time_max_us=time_max_us,
        bounds=tuple(bounds.tolist()),
        runs=_told_runs(stored, spec, begins, lengths, grouper),
        heavy_keys=_heavy_keys(stored, spec, begins, lengths),
    )


def _order(hashes: UInts, times: Ints, grouper: Grouper) -> tuple[Ints, Ints]:
    """The order in which rows are stored, and where each instance's begin in it."""
    order, instances = sort_order(frozen(hashes), frozen(times)), grouper.instances
    if isinstance(grouper, BatchAwareGrouper):
        targets = grouper.homes(hashes)  # ranges of hashes: the order is right already
    else:
        # The grouper sees rows in the order in which they came. Short numbers sort faster.
        short = np.uint16 if instances <= 1 << 16 else np.int64
        targets = grouper.assign(hashes).astype(short)
        order = order[np.argsort(targets[order], kind="stable")]
    counts = np.bincount(targets, minlength=instances)
    return order, np.concatenate([[0], np.cumsum(counts)])


def _runs(hashes: UInts) -> tuple[Ints, Ints]:
    """Where runs of equal hashes begin, and how long they are."""
    new = np.ones(len(hashes), np.bool_)
    new[1:] = hashes[1:] != hashes[:-1]
    begins = np.flatnonzero(new)
    return begins, np.diff(np.append(begins, len(hashes)))


def _longest(lengths: Ints, most: int, least: float) -> Ints:
    heavy = np.flatnonzero(lengths >= least)
    if len(heavy) > most:
        heavy = heavy[np.argpartition(-lengths[heavy], most)[:most]]
    return np.sort(heavy)


def _told_runs(
    stored: Rows, spec: AggregateSpec, begins: Ints, lengths: Ints, grouper: Grouper
) -> tuple[KeyRun, ...]:
    """The keys that the driver is to place: heavy ones, and those that are not at home."""
    if not isinstance(grouper, BatchAwareGrouper):
        return ()
    least = max(2.0, len(stored) / grouper.instances * RUN_SHARE_MIN)
    heavy = _longest(lengths, RUNS_PER_INSTANCE * grouper.instances, least)
    elsewhere = np.flatnonzero(np.isin(stored.hashes[begins], grouper.tracked_keys))
    return tuple(
        KeyRun(
            int(stored.hashes[begins[i]]),
            keys.describe(stored.columns, spec.input, int(begins[i])),
            int(begins[i]),
            int(lengths[i]),
        )
        for i in np.union1d(heavy, elsewhere).tolist()
    )


def _heavy_keys(
    stored: Rows, spec: AggregateSpec, begins: Ints, lengths: Ints
) -> tuple[HeavyKey, ...]:
    """The heaviest keys by value. Rows may be in the order of instances: a key is then found in
    several runs, which add up."""
    heavy = _longest(lengths, HEAVY_KEYS * 4, max(2, int(len(stored) * HEAVY_SHARE_MIN)))
    rows: dict[int, tuple[int, int]] = {}
    for i in heavy.tolist():
        key = int(stored.hashes[begins[i]])
        at, before = rows.get(key, (int(begins[i]), 0))
        rows[key] = (at, before + int(lengths[i]))
    found = [HeavyKey(keys.describe(stored.columns, spec.input, at), n) for at, n in rows.values()]
    return tuple(sorted(found, key=lambda k: (-k.rows, k.value))[:HEAVY_KEYS])
