"""Opening a file that Spark told of: mapped where it lies on this machine, else read by ranges."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

from skewless.state.files import Folder, qualify

AHEAD_BYTES = 1 << 20  # a request costs as much time as this many bytes


class RangeFile(io.RawIOBase):
    """A file of a remote store that is read where somebody looks. A little more than is asked for
    is fetched, since small reads of a format stand next to each other."""

    def __init__(self, folder: Folder, name: str, size: int) -> None:
        super().__init__()
        self._folder, self._name, self._size = folder, name, size
        self._at = 0
        self._begin, self._held = 0, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._size - self._at if size is None or size < 0 else size
        wanted = max(0, min(wanted, self._size - self._at))
        if wanted and not self._begin <= self._at <= self._begin + len(self._held) - wanted:
            self._fetch(wanted)
        start = self._at - self._begin
        found = self._held[start : start + wanted]
        self._at += len(found)
        return found

    def _fetch(self, wanted: int) -> None:
        """At the end of a file lies its footer: it is fetched with what stands before."""
        begin = self._at
        if self._size - begin < AHEAD_BYTES // 16:
            begin = max(0, self._size - AHEAD_BYTES // 16)
        length = min(max(wanted + self._at - begin, AHEAD_BYTES), self._size - begin)
        self._held = self._folder.read_range(self._name, begin, length)
        self._begin = begin


def place_of(path: str, folder: Folder) -> tuple[Folder, str]:
    """The folder that a file lies in, reached by the settings of another, and its name there."""
    parent, _, name = qualify(path).rpartition("/")
    return folder.other(parent or "/"), name


def opened(path: str, size: int, folder: Folder) -> pa.NativeFile:
    """A file to read at any position; FileNotFoundError if there is none."""
    parent, name = place_of(path, folder)
    if parent.is_local:
        return pa.memory_map(parent.path(name))
    source: Any = RangeFile(parent, name, size)
    return pa.PythonFile(source, mode="r")


def is_far(path: str) -> bool:
    """Whether a file is read by requests to a store."""
    return not qualify(path).startswith("/")
