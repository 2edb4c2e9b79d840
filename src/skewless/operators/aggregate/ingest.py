"""From arriving rows to a file that the instances read their rows from: the first half of a batch.

Every input task has a grouper of its own, as every sender has in the papers: it goes on from what
the last commit says the grouper of this task had learned. Files of arrived rows live for one batch;
what stays are the partial results that the instances make of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from skewless.arrays import keys
from skewless.arrays.columns import Columns
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, Ints, UInts, frozen
from skewless.engine.operator import Arrival, HeavyKey, IngestContext
from skewless.operators.aggregate.arrived import KeyRun, RowFile
from skewless.operators.aggregate.groupers import DRIVER, label_of, resume_grouper, write_grouper
from skewless.operators.aggregate.reading import borders_of
from skewless.operators.aggregate.spec import INPUT, AggregateSpec
from skewless.operators.groups import hash_groups
from skewless.operators.ingesting import HEAVY_KEYS, HEAVY_SHARE_MIN, in_pieces, usable_rows
from skewless.placement.grouping import Grouper, Grouping
from skewless.state.files import Folder
from skewless.state.segments import SCRATCH, Rows, times_of, write_segment

RUNS_PER_INSTANCE = 16  # heavy keys that a task describes to the driver
RUN_SHARE_MIN = 1 / 64  # of what one instance gets: lighter keys need not be described


def ingest(
    batches: Iterable[pa.RecordBatch],
    spec: AggregateSpec,
    grouping: Grouping,
    instances: int,
    context: IngestContext,
) -> Iterator[Arrival]:
    """Store the rows of one task by who works on them; tell what was found."""
    label = DRIVER if grouping.planned_by_driver else label_of(context.task)
    grouper = resume_grouper(context.folder, context.state(), grouping, instances, label)
    for piece in in_pieces(batches):
        yield _ingest_some(piece, spec, grouper, context.folder)
    if not grouping.planned_by_driver:
        yield Arrival(INPUT, blobs=(write_grouper(context.folder, grouper, label),))


def _ingest_some(
    arrived: pa.RecordBatch, spec: AggregateSpec, grouper: Grouper, folder: Folder
) -> Arrival:
    rows = arrived.num_rows
    usable = usable_rows(arrived, replace(spec.input, keys=()))  # null is a key here
    refused = usable.dropped.get("null times") and not spec.drop_null_times
    if refused or not usable.rows.num_rows:
        # The driver refuses the batch, or there is nothing to keep.
        return Arrival(INPUT, rows, dropped=usable.dropped, time_max_us=usable.time_max_us)
    stored, bounds = _ordered(usable.rows, spec, grouper)
    begins, lengths = _runs(stored.hashes)
    runs = _described_runs(stored, spec, begins, lengths, grouper)
    file = write_segment(
        folder, INPUT, spec.input.schema, stored, floor_us=-FAR_US, level=0, batch_id=-1,
        place=SCRATCH, borders=borders_of(bounds, runs),
    )  # fmt: skip
    return Arrival(
        input=INPUT,
        rows=rows,
        scratch=(file,),
        dropped=usable.dropped,
        time_max_us=usable.time_max_us,
        heavy_keys=_heavy_keys(stored, spec, begins, lengths),
        detail=RowFile(file, tuple(bounds.tolist()), runs).detail(),
    )


def _ordered(arrived: pa.RecordBatch, spec: AggregateSpec, grouper: Grouper) -> tuple[Rows, Ints]:
    """The rows as they are stored, and where those of each instance begin."""
    key_columns = [arrived.column(k.index) for k in spec.input.keys]
    hashes = hash_groups(key_columns, spec.input, arrived.num_rows)
    times = times_of(arrived.columns, spec.input.time, arrived.num_rows)
    order, instances = sort_order(frozen(hashes), frozen(times)), grouper.instances
    places = grouper.first_places(hashes)  # a grouper sees rows in the order in which they came
    if not grouper.grouping.planned_by_driver:  # else places are ranges of hashes, in order already
        short = np.uint16 if instances <= 1 << 16 else np.int64  # short numbers sort faster
        order = order[np.argsort(places.astype(short)[order], kind="stable")]
    counts = np.bincount(places, minlength=instances)
    columns = Columns(arrived.columns).take(order)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    return Rows(hashes[order], times[order], columns), bounds


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


def _described_runs(
    stored: Rows, spec: AggregateSpec, begins: Ints, lengths: Ints, grouper: Grouper
) -> tuple[KeyRun, ...]:
    """The keys that the driver is to place: heavy ones, and those that are not at home."""
    if not grouper.grouping.planned_by_driver:
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
