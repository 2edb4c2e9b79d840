"""The state folder as a small file system: local, or anything pyarrow.fs reaches.

Local files are memory-mapped where they lie. Files of a remote store are fetched once into a cache
on this machine's disk and mapped there; what the cache loses is fetched again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from skewless.errors import ArgumentError, StateAccessError
from skewless.state.stores.traffic import TRAFFIC

CACHE_BYTES_MAX = int(os.environ.get("SKEWLESS_CACHE_BYTES", str(20 << 30)))
CACHE_TRIES = 3
WRITE_BYTES = 1 << 20
SYNC = True  # whether what is written is to survive a loss of power
STATE_FOLDER = "skewless"  # within the checkpoint location

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}  # Hadoop's names for what Arrow calls otherwise


def qualify(location: str) -> str:
    """A location as an absolute local path or a URI that pyarrow.fs knows.

    >>> qualify("file:///data/ckpt"), qualify("s3a://bucket/ckpt")
    ('/data/ckpt', 's3://bucket/ckpt')
    """
    scheme, _, rest = location.partition(":")
    if not rest or len(scheme) == 1:
        return os.path.abspath(location)
    if scheme == "file":
        # As Hadoop reads it: nothing in the path is escaped.
        return os.path.abspath("/" + rest.lstrip("/"))
    return f"{_SCHEMES.get(scheme, scheme)}:{rest}"


@dataclass(frozen=True)
class Folder:
    """A folder, by absolute path or URI. Names are relative to it, with forward slashes."""

    root: str

    @property
    def is_local(self) -> bool:
        return os.path.isabs(self.root)

    @cached_property
    def _remote(self) -> tuple[pafs.FileSystem, str]:
        try:
            filesystem, path = pafs.FileSystem.from_uri(self.root)
        except (pa.ArrowInvalid, OSError) as error:
            raise ArgumentError(
                "location", self.root, f"a path or URI that pyarrow.fs can open ({error})"
            ) from error
        return filesystem, path.rstrip("/")

    def path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def make(self, name: str = "") -> None:
        try:
            if self.is_local:
                os.makedirs(self.path(name), exist_ok=True)
            else:
                filesystem, base = self._remote
                filesystem.create_dir(f"{base}/{name}".rstrip("/"), recursive=True)
        except OSError as error:
            raise StateAccessError(
                f"cannot create the folder {self.path(name)}: {error}. "
                "Give a checkpointLocation that this user may write to."
            ) from error

    def write(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a file under a name that nobody looks at before it is complete. It survives a loss
        of power; that its name does takes `sync`."""
        try:
            if self.is_local:
                with open(self.path(name), "wb", buffering=0) as out:
                    _write_in_pieces(out, data)
                    if SYNC:
                        os.fsync(out.fileno())
            else:
                filesystem, base = self._remote
                with filesystem.open_output_stream(f"{base}/{name}") as out:
                    out.write(data)
                TRAFFIC.add(requests=1, written_bytes=memoryview(data).nbytes)
        except OSError as error:
            raise StateAccessError(
                f"cannot write {self.path(name)}: {error}. Free or enlarge the disk, or check the "
                "permissions, then start the query again: it continues from its last commit."
            ) from error

    def write_atomically(self, name: str, data: bytes) -> None:
        """Write a file so that readers see all of it or nothing, and the one that was there before
        until then. It survives a loss of power."""
        if not self.is_local:
            self.write(name, data)  # object stores show an object when its upload is complete
            return
        temporary = _temporary(name)
        try:
            self.write(temporary, data)
            os.replace(self.path(temporary), self.path(name))
        except BaseException:
            self.delete(temporary)
            raise
        self.sync(os.path.dirname(name))

    def create(self, name: str, data: bytes) -> bool:
        """Write a file as `write_atomically` does, unless there is one: then nothing is changed.
        Of several who try at the same time, one learns that the file is its own."""
        if not self.is_local:
            if self.size(name) is not None:
                return False
            self.write(name, data)
            return True
        temporary = _temporary(name)
        try:
            self.write(temporary, data)
            os.link(self.path(temporary), self.path(name))
        except FileExistsError:
            return False
        finally:
            self.delete(temporary)
        self.sync(os.path.dirname(name))
        return True

    def sync(self, name: str = "") -> None:
        """Let the names in a folder survive a loss of power. On a remote store they do."""
        if self.is_local and SYNC:
            descriptor = os.open(self.path(name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read(self, name: str) -> bytes:
        """The content of a file; FileNotFoundError if there is none."""
        if self.is_local:
            return Path(self.path(name)).read_bytes()
        filesystem, base = self._remote
        with filesystem.open_input_file(f"{base}/{name}") as source:
            data = bytes(source.read())
        TRAFFIC.add(requests=1, fetched_bytes=len(data))
        return data

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, None if there is none."""
        if self.is_local:
            try:
                return os.stat(self.path(name)).st_size
            except FileNotFoundError:
                return None
        filesystem, base = self._remote
        info = filesystem.get_file_info(f"{base}/{name}")
        return int(info.size) if info.type == pafs.FileType.File else None

    def list(self, name: str = "") -> list[str]:
        """All files below a folder, relative to it; empty if it does not exist."""
        if self.is_local:
            top = Path(self.path(name))
            return sorted(str(p.relative_to(top)) for p in top.rglob("*") if p.is_file())
        filesystem, base = self._remote
        top_path = f"{base}/{name}".rstrip("/")
        wanted = pafs.FileSelector(top_path, allow_not_found=True, recursive=True)
        files = (i for i in filesystem.get_file_info(wanted) if i.type == pafs.FileType.File)
        return sorted(i.path.removeprefix(top_path).lstrip("/") for i in files)

    def delete(self, name: str) -> None:
        """Remove a file; nothing happens if it is gone."""
        try:
            if self.is_local:
                os.unlink(self.path(name))
            else:
                filesystem, base = self._remote
                filesystem.delete_file(f"{base}/{name}")
        except FileNotFoundError:
            pass

    def delete_folder(self, name: str) -> None:
        """Remove a folder and all in it; nothing happens if it is gone."""
        try:
            if self.is_local:
                shutil.rmtree(self.path(name))
            else:
                filesystem, base = self._remote
                filesystem.delete_dir(f"{base}/{name}")
        except FileNotFoundError:
            pass

    def map_bytes(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Some bytes of a file, mapped into memory; of a remote one, no others are fetched."""
        if self.is_local:
            with pa.memory_map(self.path(name)) as source:
                source.seek(offset)
                return source.read_buffer(length)
        with pa.memory_map(self._cached_bytes(name, offset, length)) as source:
            return source.read_buffer()

    def _cached_bytes(self, name: str, offset: int, length: int) -> str:
        cache = Path(tempfile.gettempdir()) / "skewless-cache"
        digest = hashlib.sha256(f"{self.path(name)}#{offset}+{length}".encode()).hexdigest()
        local = cache / digest
        if local.exists():
            TRAFFIC.add(hits=1)
        else:
            cache.mkdir(parents=True, exist_ok=True)
            _evict(cache)
            partial = cache / f"{digest}.{uuid.uuid4().hex}"
            filesystem, base = self._remote
            with filesystem.open_input_file(f"{base}/{name}") as source:
                partial.write_bytes(source.read_at(length, offset))
            TRAFFIC.add(requests=1, fetched_bytes=length, misses=1)
            os.replace(partial, local)
        os.utime(local)
        return str(local)

    def map(self, name: str) -> pa.MemoryMappedFile:
        """A file mapped into memory; FileNotFoundError if there is none."""
        if self.is_local:
            return pa.memory_map(self.path(name))
        for _ in range(CACHE_TRIES - 1):
            with contextlib.suppress(FileNotFoundError):  # another process has just made room
                return pa.memory_map(self._cached(name))
        return pa.memory_map(self._cached(name))

    def _cached(self, name: str) -> str:
        cache = Path(tempfile.gettempdir()) / "skewless-cache"
        digest = hashlib.sha256(self.path(name).encode()).hexdigest()
        local = cache / digest
        if local.exists():
            TRAFFIC.add(hits=1)
        else:
            cache.mkdir(parents=True, exist_ok=True)
            _evict(cache)
            partial = cache / f"{digest}.{uuid.uuid4().hex}"
            filesystem, base = self._remote
            pafs.copy_files(
                f"{base}/{name}",
                str(partial),
                source_filesystem=filesystem,
                destination_filesystem=pafs.LocalFileSystem(),
            )
            TRAFFIC.add(requests=1, fetched_bytes=partial.stat().st_size, misses=1)
            os.replace(partial, local)
        os.utime(local)
        return str(local)


def _temporary(name: str) -> str:
    """A name beside another that readers skip."""
    folder, _, base = name.rpartition("/")
    return f"{folder}/.{base}.{uuid.uuid4().hex}.tmp".lstrip("/")


def _write_in_pieces(out: io.FileIO, data: pa.Buffer | bytes) -> None:
    """Hand data to the kernel a little at a time: on ext4, one write of 20 MiB was seen to take
    eight times as long as twenty of 1 MiB."""
    view = memoryview(data)
    while view:
        view = view[out.write(view[:WRITE_BYTES]) :]


def _evict(cache: Path) -> None:
    """Keep the cache below its limit, least recently used first."""
    files = []
    for path in cache.iterdir():
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # another process was quicker
        files.append((status.st_mtime, status.st_size, path))
    excess = sum(size for _, size, _ in files) - CACHE_BYTES_MAX
    for _, size, path in sorted(files):
        if excess <= 0:
            break
        path.unlink(missing_ok=True)
        excess -= size
