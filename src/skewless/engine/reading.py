"""Files that arrive in a stream, read as columns by the tasks that take their rows in.

Whoever follows the stream tells which files a batch has. They are divided among tasks by their
bytes, large ones by parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skewless.engine.exchange import Packet
from skewless.engine.operator import Arrival
from skewless.engine.pipeline import IngestTask
from skewless.expressions import Shape
from skewless.expressions.shape import shaped
from skewless.files.reading import FileFormat, is_splittable
from skewless.files.splits import FileRef, Split, splits

Stream = tuple[str, str]  # whose input it is: operator and name
Files = Mapping[Stream, Sequence[FileRef]]


@dataclass(frozen=True)
class FileReading:
    """How the files of one stream become rows of an input: some columns of them are read, `shapes`
    are what is done to these, and then they are taken in."""

    ingest: IngestTask
    format: FileFormat
    columns: tuple[int, ...]
    shapes: tuple[Shape, ...] = ()

    def __call__(self, parts: Sequence[Split], number: int) -> Iterator[Arrival | Packet]:
        folder = self.ingest.folder
        first = self.shapes[0].condition if self.shapes else None
        condition = None if first is None else first.root
        rows = (
            shaped(batch, self.shapes)
            for part in parts
            for batch in self.format.read(part, folder, self.columns, condition)
        )
        return self.ingest(rows, number)


@dataclass(frozen=True)
class ReadTask:
    """The files of a batch, by who reads them: task i has the parts `shares[i]` of one stream."""

    readings: Mapping[Stream, FileReading]
    shares: tuple[tuple[Stream, tuple[Split, ...]], ...]

    @staticmethod
    def of(readings: Mapping[Stream, FileReading], files: Files, tasks: int) -> ReadTask:
        """Each task reads files of one stream, and a stream has tasks as it has bytes."""
        sizes = {stream: sum(file.size for file in some) for stream, some in files.items()}
        all_bytes = max(sum(sizes.values()), 1)
        shares = [
            (stream, part)
            for stream, some in files.items()
            for part in splits(
                some,
                max(round(tasks * sizes[stream] / all_bytes), 1),
                splittable=all(is_splittable(readings[stream].format, file.path) for file in some),
            )
        ]
        return ReadTask(readings, tuple(shares))

    def __call__(self, number: int) -> Iterator[Arrival | Packet]:
        stream, parts = self.shares[number]
        return self.readings[stream](parts, number)
