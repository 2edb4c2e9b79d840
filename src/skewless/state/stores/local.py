"""Folders on a disk of this machine, or mounted there."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from skewless.state.stores.store import Check, Data, Store, temporary

WRITE_BYTES = 1 << 20
READ_BYTES = 8 << 20
SYNC = True  # whether what is written is to survive a loss of power
# What file systems without hard links say: FUSE mounts of object stores, FAT.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


class LocalStore(Store):
    """A folder by its absolute path."""

    is_local = True

    def __init__(self, root: str) -> None:
        self.root = root

    def _path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def make(self, name: str) -> None:
        _make(self._path(name))

    def write(self, name: str, data: Data, *, durable: bool = True) -> None:
        self._write(name, [data], durable=durable)

    def _write(
        self,
        name: str,
        pieces: Iterable[Data],
        mode: Literal["wb", "xb"] = "wb",
        *,
        durable: bool = True,
    ) -> None:
        with open(self._path(name), mode, buffering=0) as out:
            for piece in pieces:
                _write_in_pieces(out, piece)
            if durable and SYNC:
                os.fsync(out.fileno())

    def write_atomically(self, name: str, pieces: Iterable[Data], *, durable: bool = True) -> None:
        hidden = temporary(name)
        try:
            self._write(hidden, pieces, durable=durable)
            os.replace(self._path(hidden), self._path(name))
        except BaseException:
            self.delete(hidden)
            raise
        if durable:
            self.sync(os.path.dirname(name))

    def create(self, name: str, data: bytes) -> bool:
        hidden = temporary(name)
        try:
            self.write(hidden, data)
            os.link(self._path(hidden), self._path(name))
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return self._create_in_place(name, data)
        finally:
            self.delete(hidden)
        self.sync(os.path.dirname(name))
        return True

    def _create_in_place(self, name: str, data: bytes) -> bool:
        """Where there are no hard links. Still one alone creates the file, but others may see it
        before it is complete."""
        try:
            self._write(name, [data], "xb")
        except FileExistsError:
            return False
        self.sync(os.path.dirname(name))
        return True

    def sync(self, name: str) -> None:
        if SYNC:
            _sync(self._path(name))

    def read(self, name: str) -> bytes:
        return Path(self._path(name)).read_bytes()

    def pieces(self, name: str) -> Iterator[bytes]:
        with open(self._path(name), "rb", buffering=0) as file:
            while piece := file.read(READ_BYTES):
                yield piece

    def size(self, name: str) -> int | None:
        try:
            return os.stat(self._path(name)).st_size
        except FileNotFoundError:
            return None

    def list(self, name: str) -> list[str]:
        top = Path(self._path(name))
        return sorted(str(p.relative_to(top)) for p in top.rglob("*") if p.is_file())

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def delete_folder(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._path(name))

    def local_path(self, name: str, check: Check | None) -> str:
        return self._path(name)

    def local_part(self, name: str, offset: int, length: int) -> tuple[str, int]:
        return self._path(name), offset

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        with open(self._path(name), "rb") as file:
            file.seek(offset)
            return file.read(length)

    def take(self, source: Store, name: str, target: str) -> bool:
        if not isinstance(source, LocalStore):
            return False
        path = source._path(name)
        self.make(os.path.dirname(target))
        if SYNC:
            _sync(path)  # whoever wrote it may not have
        try:
            os.replace(path, self._path(target))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False  # another file system
        self.sync(os.path.dirname(target))
        return True


def _make(path: str) -> None:
    """Make a folder with those above it, so that they survive a loss of power."""
    if SYNC and not os.path.isdir(path) and os.path.dirname(path) != path:
        _make(os.path.dirname(path))
        os.makedirs(path, exist_ok=True)
        _sync(os.path.dirname(path))
    else:
        os.makedirs(path, exist_ok=True)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_in_pieces(out: io.FileIO, data: Data) -> None:
    """Hand data to the kernel a little at a time: on ext4, one write of 20 MiB was seen to take
    eight times as long as twenty of 1 MiB."""
    view = memoryview(data)
    while view:
        view = view[out.write(view[:WRITE_BYTES]) :]
