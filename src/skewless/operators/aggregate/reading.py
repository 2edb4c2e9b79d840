"""What an instance reads of a file of arrived rows: its own and, where fetching costs, few others.

Such a file is in the order of instances, or of their homes. On a remote store it has parts whose
borders are those of instances, and within heavy keys, which may be split, further ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from skewless.arrays.types import Flags, Ints
from skewless.operators.aggregate.arrived import KeyRun
from skewless.operators.aggregate.row_shares import FileShare
from skewless.state.files import Folder
from skewless.state.segments import Rows, read_parts, read_segment

PIECES_EACH = 4  # of the rows that an instance gets on average: heavy keys are cut that finely


def borders_of(bounds: Ints, runs: Sequence[KeyRun]) -> list[int]:
    """Where rows of different instances may meet in a file: at their bounds, where heavy keys begin
    and end, and at some places within these."""
    step = max(1, int(bounds[-1]) // (PIECES_EACH * (len(bounds) - 1)))
    inside = [np.arange(run.begin, run.begin + run.rows, step) for run in runs]
    ends = [run.begin + run.rows for run in runs]
    found: list[int] = np.unique(np.concatenate([bounds, *inside, ends])).astype(int).tolist()
    return found


def read_share(
    folder: Folder, share: FileShare, time_index: int | None, schema: pa.Schema
) -> tuple[Rows, FileShare]:
    """Rows of a file that a share needs, and where its own lie among them."""
    file, some = share.file, share.ends > share.begins
    begins, ends = share.begins[some], share.ends[some]
    needed, skipped = _needed(np.array([part.rows for part in file.parts], np.int64), begins, ends)
    if needed.all():  # or there are no parts
        return read_segment(folder, file, time_index), share
    parts = [file.parts[at] for at in np.flatnonzero(needed)]
    rows = read_parts(folder, file, parts, time_index, schema)
    return rows, FileShare(file, begins - skipped, ends - skipped)


def _needed(rows: Ints, begins: Ints, ends: Ints) -> tuple[Flags, Ints]:
    """Which parts of so many rows each hold rows of some ranges; and for each of these, how many
    rows lie before it in parts that do not."""
    part_ends = np.cumsum(rows)
    first, last = np.searchsorted(part_ends, begins, "right"), np.searchsorted(part_ends, ends)
    changes = np.zeros(len(rows) + 1, np.int64)
    if len(rows):
        np.add.at(changes, first, 1)
        np.add.at(changes, last + 1, -1)
    needed: Flags = np.cumsum(changes)[:-1] > 0
    skipped = np.cumsum(np.where(needed, 0, rows))
    return needed, skipped[first] if len(rows) else np.zeros_like(begins)
