"""From arriving rows to sorted segments: the first half of a batch.

Every task of the input stage sorts its own rows by (key hash, event time) and writes them as a
segment. It needs to know nothing of the batch, the routing or the watermark, so this half is a
fixed part of the streaming plan; the instances then read their share straight from these files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from skewless.engine.operator import Arrival, IngestContext
from skewless.operators.ingesting import (
    cells_of,
    heavy_keys_of,
    in_pieces,
    sorted_rows,
    store,
    store_keyless,
    usable_rows,
)
from skewless.operators.pair import JoinSpec, keyless
from skewless.operators.two_way.probing import copies_elsewhere, probing


def ingest(
    batches: Iterable[pa.RecordBatch], spec: JoinSpec, side: str, context: IngestContext
) -> Iterator[Arrival]:
    """Sort and store the rows of one task; tell what was found."""
    for piece in in_pieces(batches):
        yield _ingest_some(piece, spec, side, context)


def _ingest_some(
    arrived: pa.RecordBatch, spec: JoinSpec, side: str, context: IngestContext
) -> Arrival:
    this, rows = spec.side(side), arrived.num_rows
    usable = usable_rows(arrived, this)
    found = Arrival(side, rows, dropped=usable.dropped, time_max_us=usable.time_max_us)
    if usable.dropped.get("null times") and not spec.drop_null_times:
        return found  # the driver refuses the batch
    if side in spec.how.unmatched and usable.keyless:
        # In SQL a row without a key is a row without a partner.
        keyless_run = store_keyless(usable.keyless, this, keyless(side), context.folder)
        dropped = {c: n for c, n in usable.dropped.items() if c == "null times"}
        found = replace(found, runs=(keyless_run,), dropped=dropped)
    if not usable.rows.num_rows:
        return found
    if context.outbox is not None:
        stored, cells = sorted_rows(usable.rows, this, cells_of(usable.rows.columns, this))
        context.outbox.put(side, stored)
        copies = None if cells is None else copies_elsewhere(stored, this, cells)
        if copies is not None:
            context.outbox.put(probing(side), copies)
        return replace(found, heavy_keys=heavy_keys_of(stored, this))
    run, stored = store(usable.rows, this, side, context.folder)
    return replace(found, runs=(run, *found.runs), heavy_keys=heavy_keys_of(stored, this))
