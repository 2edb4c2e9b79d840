"""Dead letters: rows that cannot be taken in, put aside as files, each once.

A task that comes upon such rows does not know the batch yet. It writes them below the checkpoint,
and its report names the files. The commit of the batch shows them, as it shows results: what a
repeated task has left is named by nobody.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.types import Flags
from skewless.files.parts import Parts
from skewless.files.writing import FileWriting
from skewless.state.epochs import own_folder
from skewless.state.files import Folder
from skewless.state.publish import STAGED, final_name

REASON, BATCH = "reason", "batch"  # columns of the files: in them, and in the names of folders


def letters_folder(folder: Folder) -> str:
    """Where dead letters wait for the commit of their batch."""
    return f"{own_folder(folder, STAGED)}/letters"


@dataclass(frozen=True)
class Letter:
    """A file of dead letters, as it waits, and the folder that it goes to."""

    staged: str
    path: str

    def move(self, batch_id: int) -> tuple[str, str]:
        name = final_name(self.staged.rpartition("/")[2], batch_id)
        return self.staged, f"{self.path}/{BATCH}={batch_id}/{name}"


@dataclass(frozen=True)
class LetterBox:
    """Where the dead letters of one stream go; `writing` is of its rows, with the reason last."""

    path: str
    writing: FileWriting

    def open(self, folder: Folder, task: int) -> OpenBox:
        part = f"part-{task:05d}-{uuid.uuid4()}"
        return OpenBox(self, self.writing.parts(folder, letters_folder(folder), part), folder)


class OpenBox:
    """The dead letters of one task."""

    def __init__(self, box: LetterBox, parts: Parts, folder: Folder) -> None:
        self._box, self._parts, self._folder = box, parts, folder

    def add(self, rows: pa.RecordBatch, bad: Flags, reason: str) -> None:
        some = rows.take(pa.array(np.flatnonzero(bad)))
        columns = [*some.columns, pa.repeat(pa.scalar(reason), some.num_rows)]
        schema = self._box.writing.schema
        made = [column.cast(f.type) for column, f in zip(columns, schema, strict=True)]
        self._parts.add("", pa.RecordBatch.from_arrays(made, schema=schema))

    def close(self) -> tuple[Letter, ...]:
        staged = letters_folder(self._folder)
        files = self._parts.finish()
        return tuple(Letter(f"{staged}/{file.name}", self._box.path) for file in files)

    def abort(self) -> None:
        self._parts.abort()
