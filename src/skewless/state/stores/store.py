"""What a store can do, whatever its kind."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

Data: TypeAlias = pa.Buffer | bytes | memoryview


class Store(ABC):
    """A folder of a store. Names are relative to it, with forward slashes. A file that is not there
    is a FileNotFoundError, whatever else goes wrong another OSError."""

    is_local = False

    @abstractmethod
    def make(self, name: str) -> None:
        """See to it that there is a folder, where a store has such."""

    @abstractmethod
    def write(self, name: str, data: Data, *, durable: bool = True) -> None:
        """Write a file under a name that nobody looks at before it is complete. One that is not
        `durable` may be gone after a loss of power."""

    def keep(self, name: str, data: Data) -> None:  # noqa: B027  # most have no need to
        """Have a file at hand that was just written, as it will be read here."""

    @abstractmethod
    def write_atomically(self, name: str, pieces: Iterable[Data], *, durable: bool = True) -> None:
        """Write a file so that others see all of it or nothing, and until then what was there."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Write a file atomically unless there is one; whether this one was written."""

    @abstractmethod
    def pieces(self, name: str) -> Iterator[Data]:
        """The content of a file, a little at a time."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """The size of a file in bytes, None if there is none."""

    @abstractmethod
    def list(self, name: str) -> list[str]:
        """All files below a folder, relative to it, in order; empty if it does not exist."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file; nothing happens if it is gone."""

    @abstractmethod
    def delete_folder(self, name: str) -> None:
        """Remove a folder and all in it; nothing happens if it is gone."""

    @abstractmethod
    def local_path(self, name: str, check: Check | None) -> str:
        """Where on this machine the content of a file can be mapped."""

    @abstractmethod
    def local_part(self, name: str, offset: int, length: int) -> tuple[str, int]:
        """The same for some bytes of a file: which file has them, from where on."""

    @abstractmethod
    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Some bytes of a file, kept nowhere; fewer if it ends before."""

    def quick(self) -> Store:
        """The same, but whoever asks learns at once that a store does not answer."""
        return self

    def sync(self, name: str) -> None:  # noqa: B027
        """Let the names in a folder survive a loss of power: most stores see to it themselves."""

    def read(self, name: str) -> bytes:
        return b"".join(bytes(memoryview(piece)) for piece in self.pieces(name))

    def take(self, source: Store, name: str, target: str) -> bool:
        """Move a file here out of another folder without its content going through this process.
        False if these two cannot: then nothing has happened."""
        return False


Check: TypeAlias = tuple[int, int]  # size and CRC32 that a file was written with


def move(source: Store, name: str, target: Store, target_name: str) -> None:
    """Move a file, within a store or to another. It is never seen half, and while it is moved it
    may be seen in both places."""
    if not target.take(source, name, target_name):
        target.make(target_name.rpartition("/")[0])
        target.write_atomically(target_name, source.pieces(name))
        source.delete(name)


def temporary(name: str) -> str:
    """A name beside another that readers skip."""
    folder, _, base = name.rpartition("/")
    return f"{folder}/.{base}.{uuid.uuid4().hex}.tmp".lstrip("/")
