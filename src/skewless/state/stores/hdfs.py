"""Folders in HDFS, through Hadoop's own library (libhdfs), which pyarrow loads.

A file is seen while it is being written, so that what must be whole is written under another name
and renamed.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.fs as pafs

from skewless.errors import ArgumentError
from skewless.state.stores.remote import RemoteStore
from skewless.state.stores.store import Data, Store, temporary
from skewless.state.stores.traffic import TRAFFIC

READ_BYTES = 8 << 20
CLAIMS = ".claims"
SHOWING_ATTEMPTS = 10


class HdfsStore(RemoteStore):
    """A folder by its path in a file system."""

    def __init__(self, filesystem: pafs.FileSystem, uri: str, base: str) -> None:
        self._fs, self._uri, self._base = filesystem, uri, base.rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}".rstrip("/") or "/"

    def make(self, name: str) -> None:
        self._fs.create_dir(self._path(name), recursive=True)

    def write(self, name: str, data: Data, *, durable: bool = True) -> None:
        self._write(name, [data])

    def _write(self, name: str, pieces: Iterable[Data]) -> None:
        with self._fs.open_output_stream(self._path(name)) as out:
            for piece in pieces:
                out.write(piece)
                TRAFFIC.add(written_bytes=len(memoryview(piece)))
        TRAFFIC.add(requests=1)

    def write_atomically(self, name: str, pieces: Iterable[Data], *, durable: bool = True) -> None:
        """A file that was there before is gone for a moment: HDFS renames onto no other, so that
        pyarrow removes it first."""
        hidden = temporary(name)
        try:
            self._write(hidden, pieces)
            self._fs.move(self._path(hidden), self._path(name))
        except BaseException:
            self.delete(hidden)
            raise

    def create(self, name: str, data: bytes) -> bool:
        """pyarrow's way of renaming files replaces what is there; renaming folders does not: HDFS
        moves a folder *into* one that has the name already. So everybody renames a folder with the
        content to one name. The first has it; the content of all others is a level deeper, and they
        finish what the first may not have got to."""
        if self.size(name) is not None:
            return False
        mine, claim = uuid.uuid4().hex, _claim(name)
        self.make(f"{claim}-{mine}")
        self._write(f"{claim}-{mine}/{mine}", [data])
        self._fs.move(self._path(f"{claim}-{mine}"), self._path(claim))
        first = next(n for n in self._below(claim) if "/" not in n)
        self._show(name, f"{claim}/{first}")
        return first == mine

    def _show(self, name: str, content: str) -> None:
        """Several may be at it, with one content. Each removes what another has just put there, and
        fails if a third comes in between."""
        for attempts_left in reversed(range(SHOWING_ATTEMPTS)):
            if self.size(name) is not None:
                return
            try:
                self.write_atomically(name, self.pieces(content))
            except OSError:
                if not attempts_left and self.size(name) is None:
                    raise

    def pieces(self, name: str) -> Iterator[bytes]:
        TRAFFIC.add(requests=1)
        with self._fs.open_input_stream(self._path(name)) as file:
            while piece := file.read(READ_BYTES):
                TRAFFIC.add(fetched_bytes=len(piece))
                yield piece

    def size(self, name: str) -> int | None:
        TRAFFIC.add(requests=1)
        info = self._fs.get_file_info(self._path(name))
        return int(info.size) if info.type == pafs.FileType.File else None

    def list(self, name: str) -> list[str]:
        return [found for found in self._below(name) if CLAIMS not in found.split("/")]

    def _below(self, name: str) -> builtins.list[str]:
        TRAFFIC.add(requests=1)
        top = self._path(name)
        wanted = pafs.FileSelector(top, allow_not_found=True, recursive=True)
        files = (i for i in self._fs.get_file_info(wanted) if i.type == pafs.FileType.File)
        return sorted(i.path.strip("/").removeprefix(f"{top.strip('/')}/") for i in files)

    def delete(self, name: str) -> None:
        """What remains of its creation goes first: it stands for a file that is there."""
        self.delete_folder(_claim(name))
        TRAFFIC.add(requests=1)
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self._path(name))

    def delete_folder(self, name: str) -> None:
        TRAFFIC.add(requests=1)
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(self._path(name))

    def uri(self, name: str) -> str:
        return f"{self._uri}{self._path(name)}"

    def part(self, name: str, offset: int, length: int) -> bytes:
        with self._fs.open_input_file(self._path(name)) as file:
            found: bytes = file.read_at(length, offset)
        TRAFFIC.add(requests=1, fetched_bytes=len(found))
        return found

    def take(self, source: Store, name: str, target: str) -> bool:
        if not isinstance(source, HdfsStore) or not source._fs.equals(self._fs):
            return False
        self.make(target.rpartition("/")[0])
        self._fs.move(source._path(name), self._path(target))
        return True


def _claim(name: str) -> str:
    """The folder that belongs to whoever creates a file."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}{CLAIMS}/{base}"


@functools.lru_cache(maxsize=8)
def hadoop(scheme: str, authority: str) -> pafs.FileSystem:
    """The file system of a cluster, by the Hadoop configuration of this machine."""
    uri = f"{scheme}://{authority or 'default'}/"
    try:
        return pafs.FileSystem.from_uri(uri)[0]
    except (pa.ArrowInvalid, OSError) as error:
        accepted = (
            "on a store that can be opened here: HDFS takes HADOOP_HOME or ARROW_LIBHDFS_DIR, and "
            f"CLASSPATH as `hadoop classpath --glob` prints it ({error})"
        )
        raise ArgumentError("location", uri, accepted) from error
