"""The state folder as a small file system, in any store (`stores/`).

Local files are memory-mapped where they lie. Files of a remote store are fetched once into a cache
on this machine's disk and mapped there; what the cache loses is fetched again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from skewless.errors import ArgumentError, StateAccessError
from skewless.state.stores import open_store
from skewless.state.stores.locations import DBFS, qualify, scheme_of
from skewless.state.stores.settings import Settings
from skewless.state.stores.store import Check, Store, move

__all__ = ["STATE_FOLDER", "Folder", "naming", "qualify"]

MAP_TRIES = 3
STATE_FOLDER = "skewless"  # within the checkpoint location


@dataclass(frozen=True)
class Folder:
    """A folder, by absolute path or URI. Names are relative to it, with forward slashes. How its
    store is reached goes along with it, and is never shown. `epoch` is of who writes, and goes into
    the names of new files (`state/epochs.py`)."""

    root: str
    settings: Settings = field(default=Settings(), repr=False)
    epoch: int = 0

    @staticmethod
    def at(root: str | Folder) -> Folder:
        """The folder itself, or the one at a path."""
        return root if isinstance(root, Folder) else Folder(root)

    @cached_property
    def _store(self) -> Store:
        return open_store(self.root, self.settings)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_store"}

    @property
    def is_local(self) -> bool:
        return os.path.isabs(self.root)

    def path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def other(self, location: str) -> Folder:
        """Another folder that is reached by the same settings."""
        return replace(self, root=location)

    def reach(self, argument: str, given: str) -> None:
        """See that there is a way to its store, of which nothing is asked yet. If there is none,
        the `argument` is named that asked for it, and what was given."""
        if scheme_of(given) == "dbfs" and not os.path.isdir(DBFS):
            accepted = f"on a store that can be opened here: dbfs: is what Databricks has at {DBFS}"
            raise ArgumentError(argument, given, accepted)
        try:
            with naming(argument, given):
                assert self._store is not None
        except ArgumentError as error:
            raise ArgumentError(argument, given, error.accepted) from error

    def check(self) -> None:
        """See whether files can be stored: one is written, looked at and removed."""
        self.make()
        quick, probe = self._store.quick(), f".probe-{uuid.uuid4().hex}"
        with self._telling(f"cannot store a file in {self.root}", _ASK):
            try:
                quick.write(probe, b"skewless")
                size = self.size(probe)
            finally:
                with contextlib.suppress(OSError):
                    quick.delete(probe)
        if size != 8:
            raise StateAccessError(f"cannot store a file in {self.root}: is the disk full?")

    def make(self, name: str = "") -> None:
        hint = "Give a path or checkpointLocation that this user may write to."
        with self._telling(f"cannot create the folder {self.path(name)}", hint):
            self._store.make(name)

    def write(
        self, name: str, data: pa.Buffer | bytes, *, keep: bool = False, durable: bool = True
    ) -> None:
        """Write a file under a name that nobody looks at before it is complete. It survives a loss
        of power if it is to be `durable`; that its name does takes `sync`. With `keep`, it is then
        not fetched to be read on this machine."""
        with self._telling(f"cannot write {self.path(name)}", _FREE):
            self._store.write(name, data, durable=durable)
            if keep:
                self._store.keep(name, data)

    def write_atomically(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Write a file so that readers see all of it or nothing, and the one that was there before
        until then. It survives a loss of power if it is to be `durable`."""
        with self._telling(f"cannot write {self.path(name)}", _FREE):
            self._store.write_atomically(name, [data], durable=durable)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file as `write_atomically` does, unless there is one: then nothing is changed.
        Of several who try at the same time, one learns that the file is its own. What they write
        has to differ: a store may lose its answer, and then the content tells whose it is."""
        with self._telling(f"cannot write {self.path(name)}", _FREE):
            return self._store.create(name, data)

    def sync(self, name: str = "") -> None:
        """Let the names in a folder survive a loss of power. On a remote store they do."""
        self._store.sync(name)

    def read(self, name: str) -> bytes:
        """The content of a file; FileNotFoundError if there is none."""
        return self._store.read(name)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Some bytes of a file, kept nowhere; fewer if it ends before. FileNotFoundError if there
        is none."""
        return self._store.read_range(name, offset, length)

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, None if there is none."""
        return self._store.size(name)

    def list(self, name: str = "") -> list[str]:
        """All files below a folder, relative to it; empty if it does not exist."""
        return self._store.list(name)

    def delete(self, name: str) -> None:
        """Remove a file; nothing happens if it is gone."""
        self._store.delete(name)

    def delete_folder(self, name: str) -> None:
        """Remove a folder and all in it; nothing happens if it is gone."""
        self._store.delete_folder(name)

    def move(self, name: str, target: Folder, target_name: str) -> None:
        """Move a file into a folder of this or another store, in place of one that is there. It is
        never seen half; it survives a loss of power. FileNotFoundError if there is none."""
        move(self._store, name, target._store, target_name)

    def map(self, name: str, check: Check | None = None) -> pa.MemoryMappedFile:
        """A file mapped into memory; FileNotFoundError if there is none. What is fetched from a
        remote store is compared with the size and CRC32 of `check`, and refused if it differs."""
        return _mapped(lambda: pa.memory_map(self._store.local_path(name, check)))

    def map_bytes(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Some bytes of a file, mapped into memory; of a remote one, no others are fetched."""

        def mapped() -> pa.Buffer:
            path, begin = self._store.local_part(name, offset, length)
            with pa.memory_map(path) as source:
                source.seek(begin)
                return source.read_buffer(length)

        return _mapped(mapped)

    @contextlib.contextmanager
    def _telling(self, what: str, hint: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = _FREE if error.errno in _FULL else hint
            raise StateAccessError(f"{what}: {error}. {hint}") from error


@contextlib.contextmanager
def naming(argument: str, given: str) -> Iterator[None]:
    """What cannot be reached is told as the user has named it, too."""
    try:
        yield
    except StateAccessError as error:
        raise StateAccessError(f"{argument}={given!r}: {error}") from error


def _mapped(again: Callable[[], Any]) -> Any:
    """What is in the cache may be gone a moment later: another process may need the room."""
    for _ in range(MAP_TRIES - 1):
        with contextlib.suppress(FileNotFoundError):
            return again()
    return again()


_FULL = (errno.ENOSPC, errno.EDQUOT)
_ASK = (
    "Check the location and the settings of its store: docs/stores.md of skewless has their names."
)
_FREE = (
    "Free or enlarge the disk, or check the permissions, then start the query again: it continues "
    "from its last commit."
)
