"""Results that instances write to files themselves: what a task is told, and what comes of it.

The files lie under the checkpoint until the commit shows them, as those that Spark writes do. Only
what the reports of a batch name is shown: a task that ran twice left files that nobody names.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skewless.expressions import Shape
from skewless.expressions.shape import shaped
from skewless.files.parts import NotAsSparkError, WrittenFile
from skewless.state.files import Folder
from skewless.state.publish import Moves, final_name, staging_folder

if TYPE_CHECKING:
    from skewless.files.writing import FileWriting

# Instances that found so little leave it to the driver, which makes one file of it. All of them
# together send no more than a driver easily holds.
LITTLE_BYTES = 128 << 10
LITTLE_BYTES_IN_ALL = 4 << 20


@dataclass(frozen=True)
class Written:
    """What became of the rows of an instance: files, or, if they were few, the rows themselves. Or
    why they are `left` to Spark."""

    files: tuple[WrittenFile, ...] = ()
    little: str = ""
    left: str = ""

    @staticmethod
    def from_json(data: dict[str, Any]) -> Written:
        files = tuple(WrittenFile(**f) for f in data["files"])
        return Written(files, data["little"], data["left"])


NOTHING_WRITTEN = Written()


@dataclass(frozen=True)
class FileOutput:
    """How the instances of a step write their rows, in one batch. `shapes` are what is done to rows
    before."""

    writing: FileWriting
    shapes: tuple[Shape, ...]
    staged: str

    def write(
        self, rows: Iterable[pa.RecordBatch], folder: Folder, number: int, instances: int
    ) -> Written:
        """The rows of one instance."""
        most = min(LITTLE_BYTES, LITTLE_BYTES_IN_ALL // instances) if instances > 1 else -1
        shaped_rows = (shaped(batch, self.shapes) for batch in rows)
        some = (batch for batch in shaped_rows if batch.num_rows)
        first: list[pa.RecordBatch] = []
        size = 0
        for batch in some:
            first.append(batch)
            size += batch.nbytes
            if size > most:
                try:
                    return Written(tuple(self._files(chain(first, some), folder, number)))
                except NotAsSparkError as why:
                    return Written(left=str(why))
        return Written(little=_as_text(first))

    def _files(
        self, rows: Iterable[pa.RecordBatch], folder: Folder, number: int
    ) -> list[WrittenFile]:
        part = f"part-{number:05d}-{uuid.uuid4()}"
        return self.writing.write(rows, folder, self.staged, part)

    def together(self, written: Sequence[Written], folder: Folder) -> list[WrittenFile]:
        """All files of a batch, with one of what was little. `NotAsSparkError`: none of them are as
        Spark writes them."""
        for why in (one.left for one in written if one.left):
            raise NotAsSparkError(why)
        files = [file for one in written for file in one.files]
        rows = [batch for one in written for batch in _from_text(one.little)]
        return files + (self._files(rows, folder, len(written)) if rows else [])


@dataclass(frozen=True)
class FileTarget:
    """Where a query's results go as files that its instances write."""

    path: str
    writing: FileWriting
    shapes: tuple[Shape, ...] = field(default=())

    def output(self, folder: Folder, batch_id: int) -> FileOutput:
        return FileOutput(self.writing, self.shapes, staging_folder(folder, batch_id))

    def moves(self, files: Iterable[WrittenFile], folder: Folder, batch_id: int) -> Moves:
        staged = staging_folder(folder, batch_id)
        return [
            (f"{staged}/{file.name}", f"{self.path}/{final_name(file.name, batch_id)}")
            for file in files
        ]


def _as_text(batches: Sequence[pa.RecordBatch]) -> str:
    """Rows on their way to the driver, within JSON."""
    if not batches:
        return ""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return base64.b64encode(out.getvalue()).decode()


def _from_text(text: str) -> Iterator[pa.RecordBatch]:
    if text:
        yield from pa.ipc.open_stream(base64.b64decode(text))
