"""The state folder as a file system: local, and remote through a cache."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from skewless.engine import instance
from skewless.errors import ArgumentError, StateAccessError
from skewless.state import files
from skewless.state.cache import SegmentCache
from skewless.state.files import Folder, qualify
from tests.driver import Batch, Driver, Setup, assert_right
from tests.oracle import Question, answers
from tests.strategies import BANDS, spec_of


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bucket that is not a local folder to anyone who asks, and a cache of its own."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    store = pafs.SubTreeFileSystem(str(bucket), pafs.LocalFileSystem())
    reach = property(lambda self: (store, self.root.removeprefix("s3://bucket/")))
    monkeypatch.setattr(Folder, "_remote", reach)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return bucket


@pytest.fixture(params=["local", "remote"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "local":
        made = Folder(str(tmp_path / "state"))
    else:
        request.getfixturevalue("remote")
        made = Folder("s3://bucket/state")
    assert made.is_local == (request.param == "local")
    made.make()
    return made


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/data/ckpt", "/data/ckpt"),
        ("/data/x/../ckpt/", "/data/ckpt"),
        ("file:///data/ckpt", "/data/ckpt"),
        ("file:/data/ckpt", "/data/ckpt"),
        ("file:///data/my%20ckpt", "/data/my%20ckpt"),
        ("s3a://bucket/ckpt", "s3://bucket/ckpt"),
        ("s3n://bucket/ckpt", "s3://bucket/ckpt"),
        ("s3://bucket/ckpt", "s3://bucket/ckpt"),
        ("gcs://bucket/ckpt", "gs://bucket/ckpt"),
        ("hdfs://name:8020/ckpt", "hdfs://name:8020/ckpt"),
        ("/data/12:30/ckpt", "/data/12:30/ckpt"),
    ],
)
def test_qualify(location: str, expected: str) -> None:
    assert qualify(location) == expected
    assert qualify(expected) == expected


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert qualify("ckpt") == str(tmp_path / "ckpt")


def test_a_store_that_is_unknown_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`location` must be a path or URI.*'nosuch://x/y'"):
        Folder("nosuch://x/y").list()


def test_written_files_are_listed_sized_and_read(folder: Folder) -> None:
    folder.make("a/deep")
    folder.write("a/deep/one", b"123")
    folder.write("a/two", pa.py_buffer(b"4567"))
    folder.write_atomically("three", b"")
    assert folder.list() == ["a/deep/one", "a/two", "three"]
    assert folder.list("a") == ["deep/one", "two"]
    assert folder.list("nowhere") == []
    assert [folder.size(n) for n in ("a/deep/one", "a/two", "three", "a/none")] == [3, 4, 0, None]
    assert (folder.read("a/deep/one"), folder.read("a/two")) == (b"123", b"4567")
    assert folder.map("a/two").read() == b"4567"


def test_a_folder_is_no_file(folder: Folder) -> None:
    folder.make("a")
    assert folder.list() == []
    assert folder.is_local or folder.size("a") is None


def test_what_is_not_there(folder: Folder) -> None:
    for look in (folder.read, folder.map):
        with pytest.raises(FileNotFoundError):
            look("none")
    folder.delete("none")
    folder.delete_folder("none")


def test_deleting(folder: Folder) -> None:
    for name in ("a", "b", "b/c"):
        folder.make(name)
    for name in ("a/x", "b/y", "b/c/z"):
        folder.write(name, b"1")
    folder.delete("a/x")
    folder.delete_folder("b/c")
    assert folder.list() == ["b/y"]


def test_writing_again_replaces(folder: Folder) -> None:
    folder.write_atomically("x", b"long content")
    folder.write_atomically("x", b"short")
    assert folder.read("x") == b"short"
    assert folder.list() == ["x"]


@pytest.mark.parametrize("size", [0, 1, 4, 5, 13])
def test_large_files_are_written_in_pieces(folder: Folder, size: int) -> None:
    content = bytes(range(size))
    with mock.patch.object(files, "WRITE_BYTES", 4):
        folder.write("x", content)
        folder.write("y", pa.py_buffer(content))
    assert folder.read("x") == folder.read("y") == content


class _Full:
    """A file on a disk that is full after a few bytes."""

    def __init__(self, path: str, room: int) -> None:
        self._file, self._room = open(path, "wb", buffering=0), room  # noqa: SIM115

    def write(self, data: memoryview) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._file.write(data[: self._room])
        self._room -= taken
        return taken

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@pytest.mark.parametrize("room", [0, 3])
def test_an_atomic_write_shows_nothing_of_a_failed_one(tmp_path: Path, room: int) -> None:
    folder = Folder(str(tmp_path))
    folder.write_atomically("commit.json", b"before")
    full = mock.patch.object(files, "open", lambda path, *_, **__: _Full(path, room), create=True)
    with full, pytest.raises(StateAccessError, match=r"cannot write .*commit.json.*No space left"):
        folder.write_atomically("commit.json", b"afterwards")
    assert folder.read("commit.json") == b"before"
    assert folder.list() == ["commit.json"]


def test_readers_see_all_of_a_file_or_nothing(tmp_path: Path) -> None:
    """The name appears by one rename of the complete file."""
    folder = Folder(str(tmp_path))
    seen = []
    rename = os.replace

    def looking_rename(source: str, target: str) -> None:
        seen.append((Path(source).read_bytes(), os.path.exists(target)))
        rename(source, target)

    with mock.patch.object(os, "replace", looking_rename):
        folder.write_atomically("x", b"complete")
    assert seen == [(b"complete", False)]
    assert folder.list() == ["x"]


def test_a_file_in_place_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    folder = Folder(str(tmp_path / "x"))
    with pytest.raises(StateAccessError, match=r"cannot create the folder .*/x/y"):
        folder.make("y")
    with pytest.raises(StateAccessError, match=r"cannot write .*/x/y"):
        folder.write("y", b"")


def test_a_store_that_refuses_is_told(remote: Path) -> None:
    folder = Folder("s3://bucket/state")
    with pytest.raises(StateAccessError, match="cannot write s3://bucket/state/no/folder/x"):
        folder.write("no/folder/x", b"1")
    (remote / "state").write_text("in the way")
    with pytest.raises(StateAccessError, match="cannot create the folder s3://bucket/state/a"):
        folder.make("a")


# The cache of remote files.


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the files that are fetched."""
    names: list[str] = []
    fetch = pafs.copy_files

    def counting(source: str, *rest: object, **more: object) -> None:
        names.append(os.path.basename(source))
        fetch(source, *rest, **more)

    monkeypatch.setattr(pafs, "copy_files", counting)
    return names


def cached(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "tmp" / "skewless-cache").iterdir())


def test_a_remote_file_is_fetched_once(remote: Path, fetched: list[str], tmp_path: Path) -> None:
    for root in ("s3://bucket/a", "s3://bucket/b"):
        Folder(root).make()
        Folder(root).write("x", root.encode())
    for _ in range(3):
        assert Folder("s3://bucket/a").map("x").read() == b"s3://bucket/a"
    assert Folder("s3://bucket/b").map("x").read() == b"s3://bucket/b"
    assert fetched == ["x", "x"]
    assert len(cached(tmp_path)) == 2


def test_what_the_cache_loses_is_fetched_again(
    remote: Path, fetched: list[str], tmp_path: Path
) -> None:
    folder = Folder("s3://bucket/a")
    folder.make()
    folder.write("x", b"content")
    mapped = folder.map("x")
    for file in cached(tmp_path):
        file.unlink()
    assert mapped.read() == b"content"
    assert folder.map("x").read() == b"content"
    assert fetched == ["x", "x"]


@pytest.mark.parametrize("moment", ["found", "fetched"])
def test_another_process_may_make_room_at_any_moment(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It deletes the file after it was found in the cache, or while it was being fetched."""
    folder = Folder("s3://bucket/a")
    folder.make()
    folder.write("x", b"content")
    if moment == "found":
        folder.map("x")
    pending = [True]

    def make_room(do: Callable[..., None]) -> Callable[..., None]:
        def then(*arguments: object, **more: object) -> None:
            if pending and pending.pop():
                for file in cached(tmp_path):
                    file.unlink()
            do(*arguments, **more)

        return then

    called = "utime" if moment == "found" else "replace"
    monkeypatch.setattr(os, called, make_room(getattr(os, called)))
    assert folder.map("x").read() == b"content"
    assert not pending


def test_the_least_recently_used_leave_first(
    remote: Path, fetched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CACHE_BYTES_MAX", 25)
    folder = Folder("s3://bucket/a")
    folder.make()
    clock = iter(range(1000, 9000))

    def use(name: str) -> None:
        before = set(cached(tmp_path)) if (tmp_path / "tmp" / "skewless-cache").exists() else set()
        folder.map(name)
        now = next(clock)
        for file in set(cached(tmp_path)) - before or {touched(name)}:
            os.utime(file, (now, now))

    def touched(name: str) -> Path:
        return Path(folder._cached(name))

    for name in "abcd":
        folder.write(name, name.encode() * 10)
    for name in "abac":  # 20 bytes, then 30: over the limit, but only seen at the next fetch
        use(name)
    use("d")  # makes room: b was used longest ago
    del fetched[:]
    for name in "acd":
        use(name)
    assert fetched == []
    use("b")
    assert fetched == ["b"]


def test_a_fetch_that_fails_leaves_no_file_behind_that_counts(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder("s3://bucket/a")
    folder.make()
    folder.write("x", b"content")

    def broken(source: str, target: str, **_: object) -> None:
        Path(target).write_bytes(b"con")
        raise OSError(errno.EIO, "connection lost")

    with monkeypatch.context() as patch:
        patch.setattr(pafs, "copy_files", broken)
        with pytest.raises(OSError, match="connection lost"):
            folder.map("x")
    assert folder.map("x").read() == b"content"


def test_a_join_on_remote_state(remote: Path, fetched: list[str], tmp_path: Path) -> None:
    """The whole life of a join, its cache lost in between."""
    question = Question((), ((0, 0, 2),), (1, 1), (-20, 20), (0, 0))
    spec = spec_of((BANDS[0],), question)

    def task(at: int) -> list[pa.RecordBatch]:
        columns = [[10, 11, 13, 0], [at, at + 1, at, at], range(4)]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, spec.left.schema, strict=True)]
        return [pa.RecordBatch.from_arrays(arrays, schema=spec.left.schema)]

    batches = [Batch((task(10 * n), task(10 * n)), (task(10 * n),)) for n in range(6)]
    expected = answers(question, [batch.tables() for batch in batches])
    driver = Driver("s3://bucket/state", spec, Setup(instances=3), keep_commits=2)
    outcomes = []
    for number, batch in enumerate(batches):
        with mock.patch.object(instance, "CACHE", SegmentCache()):
            outcomes.append(driver.run(number, batch))
        driver.reopen()
        if number == 3:
            for file in cached(tmp_path):
                file.unlink()
            del fetched[:]
    assert_right(outcomes, expected)
    assert len(fetched) == len(set(fetched))
    assert not list((tmp_path / "tmp").glob("skewless-cache/*.*"))
    kept = {Path(s.name).name for s in driver.query.last.segments}
    assert kept <= {file.name for file in (remote / "state" / "segments").iterdir()}


def test_of_those_who_create_a_file_one_does(folder: Folder) -> None:
    assert folder.create("owner.json", b"first")
    assert not folder.create("owner.json", b"second")
    assert folder.read("owner.json") == b"first"
    assert folder.list() == ["owner.json"]


def test_a_file_is_created_once_by_many_at_a_time(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: folder.create("owner.json", b"%d" % i), range(64)))
    assert won.count(True) == 1
    assert folder.read("owner.json") == b"%d" % won.index(True)
