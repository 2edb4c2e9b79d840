"""Output files as a sink of files makes them: staged first, published by the commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from skewless.joining.lifecycle import staging_folder
from skewless.state.files import Folder


def stage(
    folder: Folder,
    batch_id: int,
    parts: Sequence[Sequence[pa.RecordBatch]],
    schema: pa.Schema,
    output: Path,
) -> list[tuple[str, str]]:
    """One file per part, and where each is to go."""
    moves = []
    folder.make(staging_folder(batch_id))
    for number, part in enumerate(parts):
        staged = f"{staging_folder(batch_id)}/{number}.arrow"
        with pa.ipc.new_file(folder.path(staged), schema) as out:
            for batch in part:
                out.write_batch(batch)
        moves.append((staged, str(output / f"{batch_id}-{number}.arrow")))
    return moves


def published(output: Path, schema: pa.Schema) -> pa.Table:
    """What a reader of the output folder sees."""
    files = sorted(output.rglob("*.arrow")) if output.exists() else []
    tables = [pa.ipc.open_file(str(file)).read_all() for file in files]
    return pa.concat_tables([schema.empty_table(), *tables])
