"""Files of remote stores, kept on this machine's disk.

All workers of a user on a host share one folder that nobody else can enter. Beside each file lies
its size and checksum. What is damaged or gone is fetched again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from skewless.errors import StateAccessError, StateDamagedError
from skewless.state.stores.store import Check, Data
from skewless.state.stores.traffic import TRAFFIC

CACHE_BYTES_MAX = int(os.environ.get("SKEWLESS_CACHE_BYTES", str(20 << 30)))
FOLDER = "SKEWLESS_CACHE_DIR"
LOCKS = 64
READ_BYTES = 8 << 20
SUM = ".sum"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

Fetch = Callable[[], Iterable[Data]]


class FileCache:
    """What this process knows of the cache: which files it has looked through."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # versions of files that were whole
        self._unswept: int | None = None  # bytes fetched since the cache was made smaller

    def path(self, uri: str, fetch: Fetch, check: Check | None = None) -> str:
        """A local file with the content of a remote one. Whoever opens it has to do so at once:
        another process may need the room."""
        folder, path = self._place(uri)
        if self._is_whole(path, check):
            TRAFFIC.add(hits=1)
            return str(path)
        with _alone(folder, path.name):
            if self._is_whole(path, check):  # a neighbour has just fetched it
                TRAFFIC.add(hits=1)
                return str(path)
            TRAFFIC.add(misses=1)
            self._make_room(folder)
            found = self._stored(folder, path, fetch)
            if check is not None and found != check:
                path.unlink(missing_ok=True)
                raise StateDamagedError(
                    f"{uri} was truncated or altered: {found[0]} bytes with checksum {found[1]}, "
                    f"committed were {check[0]} with {check[1]}. Restore the checkpoint folder "
                    "from a backup, or start with a new checkpointLocation."
                )
            self._unswept = (self._unswept or 0) + found[0]
        return str(path)

    def keep(self, uri: str, data: Data) -> None:
        """Have the content of a file that this process has just stored. Where there is no room for
        it, it is fetched when it is needed."""
        folder, path = self._place(uri)
        with _alone(folder, path.name), contextlib.suppress(StateAccessError):
            self._make_room(folder)
            found = self._stored(folder, path, lambda: [data])
            self._unswept = (self._unswept or 0) + found[0]

    def held(self, uri: str) -> str | None:
        """Where a remote file lies on this disk, if it does."""
        _, path = self._place(uri)
        if not self._is_whole(path, None):
            return None
        TRAFFIC.add(hits=1)
        return str(path)

    def _place(self, uri: str) -> tuple[Path, Path]:
        folder = cache_folder()
        return folder, folder / hashlib.sha256(uri.encode()).hexdigest()

    def _is_whole(self, path: Path, check: Check | None) -> bool:
        """Whether a file is there as it was written. Its content is looked at once per process."""
        try:
            size, crc32 = map(int, Path(f"{path}{SUM}").read_text().split())
            status = path.stat()
            if status.st_size != size or (check is not None and check != (size, crc32)):
                return False
            if self._seen.get(path.name) != _version(status) and _crc32(path) != crc32:
                return False
            self._seen[path.name] = _version(status)
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))  # it was used: others leave
        except (OSError, ValueError):
            return False
        return True

    def _stored(self, folder: Path, path: Path, fetch: Fetch) -> Check:
        """Store a file. A disk may be full before the cache has come to its limit: then the half of
        it leaves that was used longest ago."""
        try:
            return _fetch(path, fetch())
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
        self._make_room(folder, by_half=True)
        try:
            return _fetch(path, fetch())
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            raise StateAccessError(
                f"there is no room for another file in the cache folder {folder}: {error}. Free "
                f"its disk, or set {FOLDER} to a folder on a larger one, then start the query "
                "again: it continues from its last commit."
            ) from error

    def _make_room(self, folder: Path, *, by_half: bool = False) -> None:
        """Keep the cache below its limit, least recently used first. Looking through it takes time,
        so that it is done only now and then, while it may grow over the limit by a little."""
        if not by_half and self._unswept is not None and self._unswept < CACHE_BYTES_MAX // 32:
            return
        self._unswept = 0
        files = self._least_used(folder)
        held = sum(size for _, size, _ in files)
        excess = held - (held // 2 if by_half else CACHE_BYTES_MAX)
        for _, size, path in files:
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            Path(f"{path}{SUM}").unlink(missing_ok=True)
            self._seen.pop(path.name, None)
            excess -= size

    def _least_used(self, folder: Path) -> list[tuple[float, int, Path]]:
        files = []
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process was quicker
                status = path.stat()
                if not path.name.startswith("lock-") and path.suffix != SUM:
                    files.append((status.st_atime, status.st_size, path))
        return sorted(files)


FILES = FileCache()  # of this process


def cache_folder() -> Path:
    """The folder of this user. One that others own or can enter is refused: they could read the
    rows, or put other rows there."""
    given = os.environ.get(FOLDER)
    folder = Path(given or Path(tempfile.gettempdir()) / f"skewless-cache-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, parents=given is not None, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise StateAccessError(
            f"cannot make the cache folder {folder}: {error}. Set {FOLDER} to another one."
        ) from error
    is_private = stat.S_ISDIR(status.st_mode) and not stat.S_IMODE(status.st_mode) & 0o077
    if status.st_uid != os.getuid() or not is_private:
        raise StateAccessError(
            f"{folder} cannot be used as cache folder: it must be a folder of this user that "
            f"nobody else can enter (mode 0700). Remove it, or set {FOLDER} to another one."
        )
    return folder


@contextlib.contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """One at a time fetches a file, of all threads and processes."""
    with open(folder / f"lock-{int(name[:8], 16) % LOCKS:02d}", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(path: Path, pieces: Iterable[Data]) -> Check:
    """Store the content beside the place first: what is half fetched does not count."""
    partial = path.with_suffix(f".{uuid.uuid4().hex}")
    size = crc32 = 0
    try:
        with open(partial, "xb") as out:
            for piece in pieces:
                view = memoryview(piece)
                out.write(view)
                size, crc32 = size + len(view), zlib.crc32(view, crc32)
        path.unlink(missing_ok=True)
        Path(f"{path}{SUM}").write_text(f"{size} {crc32}")
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return size, crc32


def _version(status: os.stat_result) -> tuple[int, int]:
    """Tells a file from the one that had its name before."""
    return status.st_ino, status.st_mtime_ns


def _crc32(path: Path) -> int:
    crc32 = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(READ_BYTES):
            crc32 = zlib.crc32(piece, crc32)
    return crc32
