"""The files that one task writes: rows are gathered by folder, and few files are open at a time.

Rows wait in memory until there are enough of them for a file to be read well. A file is opened when
its first rows leave, so that many small folders are written one after the other. On a remote store
a file is made on this machine's disk, and goes there once it is complete.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from skewless.errors import StateAccessError
from skewless.state.files import Folder

GROUP_ROWS = 1 << 20  # that leave together
GROUP_BYTES = 64 << 20
HELD_BYTES = 128 << 20  # in memory, of all folders
OPEN_FILES = 64


@dataclass(frozen=True)
class WrittenFile:
    """A file, by its name below the staging folder."""

    name: str
    rows: int
    bytes: int


class NotAsSparkError(Exception):
    """Some values are not written here as Spark would write them, which was only seen now."""


class Encoder(Protocol):
    """A file of some format that is being written."""

    def write(self, rows: pa.Table) -> None:
        """Raises `NotAsSparkError`; then nothing of the task counts."""

    def close(self) -> None: ...


Encode = Callable[[pa.NativeFile, pa.Table], Encoder]  # the sink, and the first rows


@dataclass
class _Open:
    name: str
    path: str
    sink: pa.NativeFile
    encoder: Encoder
    rows: int = 0


@dataclass
class _Part:
    """What is known of one folder."""

    folder: str
    held: list[pa.RecordBatch] = field(default_factory=list)
    held_rows: int = 0
    held_bytes: int = 0
    files: int = 0
    open: _Open | None = None


class Parts:
    """Files named ``{begin}000{ending}``, ``{begin}001{ending}`` … in every folder below `staged`,
    each of at most `rows_max` rows (0: any number)."""

    def __init__(
        self, encode: Encode, folder: Folder, staged: str, begin: str, ending: str, rows_max: int
    ) -> None:
        self._encode, self._folder, self._staged = encode, folder, staged
        self._begin, self._ending, self._rows_max = begin, ending, rows_max
        self._parts: dict[str, _Part] = {}
        self._open: dict[str, _Part] = {}  # least recently written to first
        self._held_bytes = 0
        self._written: list[WrittenFile] = []
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def add(self, folder: str, rows: pa.RecordBatch) -> None:
        part = self._parts.setdefault(folder, _Part(folder))
        part.held.append(rows)
        part.held_rows += rows.num_rows
        part.held_bytes += rows.nbytes
        self._held_bytes += rows.nbytes
        if part.held_rows >= GROUP_ROWS or part.held_bytes >= GROUP_BYTES:
            self._release(part)
        while self._held_bytes > HELD_BYTES:
            self._release(max(self._parts.values(), key=lambda some: some.held_bytes))

    def finish(self) -> list[WrittenFile]:
        for part in self._parts.values():
            self._release(part)
            self._close(part)
        self._clean_up()
        return self._written

    def abort(self) -> None:
        """Leave nothing behind: neither open files nor any that nobody will ask for."""
        for part in self._open.values():
            assert part.open is not None
            with contextlib.suppress(Exception):
                part.open.sink.close()
            if self._folder.is_local:
                with contextlib.suppress(OSError):
                    os.unlink(part.open.path)
        for file in self._written:
            with contextlib.suppress(OSError):
                self._folder.delete(f"{self._staged}/{file.name}")
        self._clean_up()

    def _clean_up(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def _release(self, part: _Part) -> None:
        """Let the rows that wait go to their file, or to as many as it takes."""
        if not part.held_rows:
            return
        rows = pa.Table.from_batches(part.held)
        self._held_bytes -= part.held_bytes
        part.held, part.held_rows, part.held_bytes = [], 0, 0
        while rows.num_rows:
            file = self._opened(part, rows)
            room = self._rows_max - file.rows if self._rows_max else rows.num_rows
            some, rows = rows.slice(0, room), rows.slice(room)
            with self._telling(file.name):
                file.encoder.write(some)
            file.rows += some.num_rows
            if file.rows == self._rows_max:
                self._close(part)

    def _opened(self, part: _Part, rows: pa.Table) -> _Open:
        self._open.pop(part.folder, None)
        if part.open is None:
            if len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open.values())))  # what comes for it has another file
            part.open = self._create(part, rows)
        self._open[part.folder] = part
        return part.open

    def _create(self, part: _Part, rows: pa.Table) -> _Open:
        name = f"{self._begin}{part.files:03d}{self._ending}"
        name = f"{part.folder}/{name}" if part.folder else name
        part.files += 1
        with self._telling(name):
            path = self._local_path(name)
            sink = pa.OSFile(path, "wb")
            try:
                return _Open(name, path, sink, self._encode(sink, rows))
            except BaseException:
                sink.close()
                os.unlink(path)
                raise

    def _local_path(self, name: str) -> str:
        """Where a file is made: where it is to be, if that is on this machine. That its folder
        survives a loss of power is for whoever commits it to see to."""
        if self._folder.is_local:
            path = self._folder.path(f"{self._staged}/{name}")
        else:
            if self._temporary is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="skewless-")
            path = f"{self._temporary.name}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def _close(self, part: _Part) -> None:
        file = part.open
        if file is None:
            return
        with self._telling(file.name):
            file.encoder.close()
            file.sink.close()
            size = os.path.getsize(file.path)
            if self._temporary is not None:
                made = Folder(self._temporary.name)
                made.move(file.name, self._folder, f"{self._staged}/{file.name}")
        self._written.append(WrittenFile(file.name, file.rows, size))
        part.open = None
        self._open.pop(part.folder, None)

    @contextlib.contextmanager
    def _telling(self, name: str) -> Any:
        try:
            yield
        except OSError as error:
            raise StateAccessError(
                f"cannot write {self._folder.path(f'{self._staged}/{name}')}: {error}. Free or "
                "enlarge the disk, or check the permissions, then start the query again: it "
                "continues from its last commit."
            ) from error
