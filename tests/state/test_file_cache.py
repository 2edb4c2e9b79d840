"""The cache of remote files: fetched once, private, checksummed, bounded."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skewless.errors import StateAccessError, StateDamagedError
from skewless.state.stores import cache
from skewless.state.stores.cache import FileCache
from skewless.state.stores.store import Check, Data
from skewless.state.stores.traffic import TRAFFIC
from tests.s3 import S3Server

pytestmark = pytest.mark.usefixtures("cache_folder")


class Source:
    """A remote file, and how often it was fetched."""

    def __init__(self, content: bytes = b"content") -> None:
        self.content, self.fetched = content, 0

    def __call__(self) -> Iterator[bytes]:
        self.fetched += 1
        for at in range(0, len(self.content), 3):
            yield self.content[at : at + 3]

    @property
    def check(self) -> tuple[int, int]:
        return len(self.content), zlib.crc32(self.content)


def data_files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if not f.suffix and "lock" not in f.name)


def read(source: Source, files: FileCache | None = None, uri: str = "s3://b/x") -> bytes:
    return Path((files or FileCache()).path(uri, source, source.check)).read_bytes()


def test_a_file_is_fetched_once_by_all_processes() -> None:
    source = Source()
    files = FileCache()
    for user in (files, files, FileCache(), FileCache()):  # a new one is a new process
        assert read(source, user) == b"content"
    assert source.fetched == 1
    assert read(Source(b"other"), files, "s3://b/y") == b"other"


def test_many_at_a_time_fetch_once() -> None:
    source = Source(bytes(1000))

    def slowly() -> Iterator[bytes]:
        time.sleep(0.05)
        yield from source()

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: FileCache().path("s3://b/x", slowly, None), range(16)))
    assert len(set(paths)) == 1
    assert source.fetched == 1


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("harm", ["lost", "cut", "altered", "longer", "sum lost", "sum altered"])
def test_what_is_damaged_is_fetched_again(cache_folder: Path, harm: str, known: bool) -> None:
    source = Source()
    assert read(source) == b"content"
    [file] = data_files(cache_folder)
    beside = Path(f"{file}.sum")
    harms: dict[str, Callable[[], object]] = {
        "lost": file.unlink,
        "cut": lambda: file.write_bytes(b"con"),
        "altered": lambda: file.write_bytes(b"cOntent"),
        "longer": lambda: file.write_bytes(b"contents"),
        "sum lost": beside.unlink,
        "sum altered": lambda: beside.write_text("7 1"),
    }
    harms[harm]()
    path = FileCache().path("s3://b/x", source, source.check if known else None)
    assert Path(path).read_bytes() == b"content"
    assert source.fetched == 2


def test_what_is_damaged_in_the_store_is_refused(cache_folder: Path) -> None:
    source = Source()
    committed = source.check
    source.content = b"cOntent"
    with pytest.raises(StateDamagedError, match=r"s3://b/x was truncated or altered: 7 bytes"):
        FileCache().path("s3://b/x", source, committed)
    assert data_files(cache_folder) == []
    source.content = b"content"  # restored
    assert Path(FileCache().path("s3://b/x", source, committed)).read_bytes() == b"content"


def test_a_cached_file_that_was_replaced_in_the_store_is_not_taken() -> None:
    source = Source(b"old")
    read(source)
    source.content = b"new one"
    assert read(source) == b"new one"


def test_a_fetch_that_fails_leaves_nothing(cache_folder: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"con"
        raise OSError(errno.EIO, "connection lost")

    with pytest.raises(OSError, match="connection lost"):
        FileCache().path("s3://b/x", broken, None)
    assert [f for f in cache_folder.iterdir() if "lock" not in f.name] == []
    assert read(Source()) == b"content"


def test_the_least_recently_used_leave_first(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "CACHE_BYTES_MAX", 25)
    files = FileCache()
    sources = {name: Source(name.encode() * 10) for name in "abcd"}

    def use(name: str) -> None:
        read(sources[name], files, name)
        time.sleep(0.01)

    for name in "abac":  # 20 bytes, then 30: over the limit, but only seen at the next fetch
        use(name)
    use("d")  # makes room: b was used longest ago
    assert [sources[name].fetched for name in "abcd"] == [1, 1, 1, 1]
    for name in "acdb":
        use(name)
    assert [sources[name].fetched for name in "abcd"] == [1, 2, 1, 1]
    assert sum(f.stat().st_size for f in data_files(cache_folder)) <= 25 + 10


def test_the_folder_is_looked_through_now_and_then(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at every fetch, and yet it stays near its limit."""
    monkeypatch.setattr(cache, "CACHE_BYTES_MAX", 6400)
    looked = []
    monkeypatch.setattr(
        cache.FileCache,
        "_least_used",
        lambda self, folder, do=cache.FileCache._least_used: looked.append(1) or do(self, folder),
    )
    files = FileCache()
    for number in range(200):
        read(Source(bytes(100)), files, f"s3://b/{number}")
    assert len(looked) < 110
    assert sum(f.stat().st_size for f in data_files(cache_folder)) <= 6400 + 300


@pytest.fixture
def small_disk(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The disk is full long before the cache has come to its limit."""
    most, fetch = 100, cache._fetch

    def fetched(path: Path, pieces: Iterable[Data]) -> Check:
        content = b"".join(bytes(piece) for piece in pieces)
        if sum(f.stat().st_size for f in data_files(cache_folder)) + len(content) > most:
            raise OSError(errno.ENOSPC, "No space left on device")
        return fetch(path, [content])

    monkeypatch.setattr(cache, "_fetch", fetched)
    return most


def test_on_a_full_disk_the_least_used_make_room(cache_folder: Path, small_disk: int) -> None:
    files = FileCache()
    sources = [Source(bytes([n]) * 20) for n in range(12)]
    for number, source in enumerate(sources):
        assert read(source, files, f"s3://b/{number}") == bytes([number]) * 20
        time.sleep(0.01)
    assert sum(f.stat().st_size for f in data_files(cache_folder)) <= small_disk
    before = sources[-1].fetched
    read(sources[-1], files, "s3://b/11")
    assert sources[-1].fetched == before, "what came last is there"
    with pytest.raises(StateAccessError, match=r"no room .* SKEWLESS_CACHE_DIR"):
        read(Source(bytes(small_disk + 1)), files, "s3://b/large")


@pytest.mark.usefixtures("small_disk")
def test_what_has_no_room_here_is_in_the_store_all_the_same(s3: S3Server) -> None:
    folder, data = s3.folder(), bytes(101)
    folder.write("x", data, keep=True)
    assert folder.read("x") == data


def test_only_this_user_can_enter(cache_folder: Path) -> None:
    read(Source())
    assert stat.S_IMODE(cache_folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["open", "link", "file", "foreign"])
def test_a_folder_that_others_could_use_is_refused(
    cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "open":
        cache_folder.mkdir()
        cache_folder.chmod(0o755)
    elif how == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        cache_folder.symlink_to(tmp_path / "theirs")
    elif how == "file":
        cache_folder.write_text("in the way")
    else:
        cache_folder.mkdir(mode=0o700)
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(StateAccessError, match="SKEWLESS_CACHE_DIR"):
        read(Source())


def test_the_folder_is_the_users_own_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKEWLESS_CACHE_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache.cache_folder() == tmp_path / f"skewless-cache-{os.getuid()}"


def test_another_process_may_make_room_at_any_moment(s3: S3Server, cache_folder: Path) -> None:
    """Files vanish all the time; everybody gets the content all the same."""
    folder = s3.folder()
    folder.write("x", b"content")
    check = (7, zlib.crc32(b"content"))
    done = threading.Event()

    def make_room() -> None:
        while not done.is_set():
            for file in data_files(cache_folder) if cache_folder.exists() else ():
                file.unlink(missing_ok=True)
            time.sleep(0.005)

    thread = threading.Thread(target=make_room)
    thread.start()
    try:
        found = [folder.map("x", check).read() for _ in range(30)]
    finally:
        done.set()
        thread.join()
    assert found == [b"content"] * 30


PROCESS = """
import sys, zlib
from skewless.state.stores.cache import FileCache
def fetch():
    print("fetched")
    yield b"content"
path = FileCache().path("s3://b/x", fetch, (7, zlib.crc32(b"content")))
assert open(path, "rb").read() == b"content"
"""


def test_processes_share_it() -> None:
    runs = [
        subprocess.Popen([sys.executable, "-c", PROCESS], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [run.communicate()[0] for run in runs]
    assert all(run.returncode == 0 for run in runs)
    assert "".join(said) == "fetched\n"


def test_traffic_is_counted(s3: S3Server) -> None:
    folder = s3.folder()
    before = TRAFFIC.so_far()
    folder.write("x", bytes(1000))
    for _ in range(3):
        folder.map("x", (1000, zlib.crc32(bytes(1000))))
    folder.read("x")
    folder.write("y", bytes(1000))
    assert folder.map_bytes("y", 10, 20).size == folder.map_bytes("y", 10, 20).size == 20
    spent = {name: count - before[name] for name, count in TRAFFIC.so_far().items()}
    assert spent == {
        "fetched_bytes": 2020, "written_bytes": 2000, "requests": 5, "hits": 3, "misses": 2,
    }  # fmt: skip


def test_what_was_written_here_is_not_fetched(s3: S3Server) -> None:
    folder, data = s3.folder(), bytes(range(200))
    before = TRAFFIC.so_far()
    folder.write("x", data, keep=True)
    assert folder.map("x", (200, zlib.crc32(data))).read() == data
    assert folder.map_bytes("x", 10, 20).to_pybytes() == data[10:30]
    spent = {name: count - before[name] for name, count in TRAFFIC.so_far().items()}
    assert spent == {
        "fetched_bytes": 0, "written_bytes": 200, "requests": 1, "hits": 2, "misses": 0,
    }  # fmt: skip


def test_a_copy_of_what_was_written_that_is_damaged_is_fetched(s3: S3Server) -> None:
    folder, data = s3.folder(), bytes(range(200))
    folder.write("x", data, keep=True)
    [copy] = [p for p in cache.cache_folder().iterdir() if p.is_file() and p.stat().st_size == 200]
    copy.write_bytes(bytes(200))
    assert folder.map("x", (200, zlib.crc32(data))).read() == data
    copy.write_bytes(bytes(200))
    assert folder.map_bytes("x", 10, 20).to_pybytes() == data[10:30]
