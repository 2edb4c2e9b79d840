"""The state folder as a file system: local, and remote through a cache."""

from __future__ import annotations

import errno
import io
import ntpath
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from skewless.errors import ArgumentError, StateAccessError
from skewless.state import files
from skewless.state.files import Folder, qualify
from skewless.state.stores import hdfs, local, locations, objects
from skewless.state.stores.locations import check_location
from skewless.state.stores.settings import Settings
from tests.s3 import SECRET, S3Server


@pytest.fixture(params=["local", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "local":
        made = Folder(str(tmp_path / "state"))
    else:
        request.getfixturevalue("cache_folder")
        made = request.getfixturevalue("s3").folder()
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
        ("dbfs:/ckpt", "/dbfs/ckpt"),
        ("dbfs:///mnt/ckpt", "/dbfs/mnt/ckpt"),
        ("/Volumes/a/b/c", "/Volumes/a/b/c"),
        ("S3A://bucket/my%20ckpt", "s3://bucket/my%20ckpt"),
        (
            "abfss://box@account.dfs.core.windows.net/ckpt",
            "abfss://box@account.dfs.core.windows.net/ckpt",
        ),
        ("/data/12:30/ckpt", "/data/12:30/ckpt"),
    ],
)
def test_qualify(location: str, expected: str) -> None:
    assert qualify(location) == expected
    assert qualify(expected) == expected


@pytest.mark.parametrize(
    ("location", "default", "expected"),
    [
        ("/ckpt", "hdfs://names:8020", "hdfs://names:8020/ckpt"),
        ("/ckpt", "s3a://bucket/", "s3://bucket/ckpt"),
        ("/ckpt", "file:///", "/ckpt"),
        ("/ckpt", "dbfs:///", "/dbfs/ckpt"),
        ("/Volumes/a/b", "dbfs:///", "/Volumes/a/b"),
        ("hdfs:///ckpt", "hdfs://names:8020", "hdfs://names:8020/ckpt"),
        ("hdfs:/ckpt", "hdfs://names:8020/", "hdfs://names:8020/ckpt"),
        ("hdfs://other/ckpt", "hdfs://names:8020", "hdfs://other/ckpt"),
        ("s3a://bucket/ckpt", "hdfs://names:8020", "s3://bucket/ckpt"),
    ],
)
def test_paths_without_scheme_are_in_the_default_file_system(
    location: str, default: str, expected: str
) -> None:
    assert qualify(location, default) == expected


def test_a_relative_path_in_a_remote_default_file_system_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"an absolute path, since `fs.defaultFS` is hdfs://n"):
        qualify("ckpt", "hdfs://n")


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert qualify("ckpt") == str(tmp_path / "ckpt")


def test_a_store_that_is_unknown_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`location` must be a local path, or.*'nosuch://x/y'"):
        Folder("nosuch://x/y").list()
    with pytest.raises(ArgumentError, match=r"another store: adl: was shut down"):
        Folder("adl://lake.azuredatalakestore.net/x").list()
    with pytest.raises(ArgumentError, match=r"a URI with a bucket"):
        Folder("s3:///x").list()


@pytest.mark.parametrize("location", ["file:ckpt", "file:./ckpt", "dbfs:ckpt"])
def test_a_uri_of_no_absolute_path_is_refused(location: str) -> None:
    """It was taken for a folder of the root; Spark refuses it, too."""
    with pytest.raises(ArgumentError, match=r"such as (file:///|dbfs:/)data/ckpt"):
        Folder(location).list()


@pytest.mark.parametrize(
    "location", ["file://ckpt", "file://name/ckpt", "file://localhost/ckpt", "dbfs://name/ckpt"]
)
def test_a_local_uri_with_a_host_is_refused(location: str) -> None:
    """It was taken for /name/ckpt; Spark refuses it, too, even localhost."""
    with pytest.raises(ArgumentError, match=r"such as (file:///|dbfs:/)data/ckpt") as caught:
        check_location("path", location)
    assert (caught.value.argument, caught.value.received) == ("path", location)
    with pytest.raises(ArgumentError, match="without a host"):
        qualify(location)


@pytest.mark.parametrize(
    "location", ["s3a:x", "s3:x/y", "gs:x", "abfss:x", "s3a:/x", "gs:", "s3a:///x"]
)
def test_an_object_store_needs_a_bucket(location: str) -> None:
    """`s3a:x` was taken for the bucket x, and asked for it."""
    with pytest.raises(ArgumentError, match=r"`path` must be a URI with a bucket"):
        check_location("path", location)


@pytest.mark.parametrize("location", ["hdfs:x", "hdfs:", "viewfs:x/y"])
def test_a_cluster_needs_an_absolute_path(location: str) -> None:
    with pytest.raises(ArgumentError, match=r"`path` must be a URI of an absolute path, such as"):
        check_location("path", location)


@pytest.mark.parametrize("location", ["abfss://noat/x", "wasbs://@a.b.c/x", "abfs://box@account/x"])
def test_a_container_needs_an_account(location: str) -> None:
    with pytest.raises(ArgumentError, match=r"such as abfss://container@account") as caught:
        check_location("path", location)
    assert (caught.value.argument, caught.value.received) == ("path", location)


@pytest.mark.parametrize("location", ["a:b/ckpt", "12:30/ckpt", "C:/ckpt", "C:\\ckpt", "a:"])
def test_a_path_that_spark_takes_for_a_uri_is_refused(location: str) -> None:
    with pytest.raises(ArgumentError, match=r"`path` must be a path that Spark takes for one"):
        check_location("path", location)


@pytest.mark.parametrize("location", ["C:/ckpt", "C:\\ckpt"])
def test_windows_drives_are_paths_there(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "os", SimpleNamespace(path=ntpath))
    check_location("path", location)
    with pytest.raises(ArgumentError, match="a path that Spark takes for one"):
        check_location("path", "ab c:d/ckpt")


@pytest.mark.parametrize(
    "location",
    ["ckpt", "./a:b/ckpt", "/12:30/ckpt", "x/12:30", "file:/ckpt", "file:////ckpt", "dbfs:/ckpt",
     "hdfs:/ckpt", "hdfs:///ckpt", "hdfs://names", "viewfs:/ckpt", "s3n://b", "gcs://b/x"],
)  # fmt: skip
def test_locations_that_are_taken(location: str) -> None:
    check_location("path", location)


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
    with mock.patch.object(local, "WRITE_BYTES", 4):
        folder.write("x", content)
        folder.write("y", pa.py_buffer(content))
    assert folder.read("x") == folder.read("y") == content


class _Full(io.FileIO):
    """A file on a disk that is full after a few bytes."""

    room = 0

    def write(self, data: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = super().write(data[: self.room])
        self.room -= taken
        return taken


@pytest.mark.parametrize("room", [0, 3])
def test_an_atomic_write_shows_nothing_of_a_failed_one(tmp_path: Path, room: int) -> None:
    folder = Folder(str(tmp_path))
    folder.write_atomically("commit.json", b"before")
    full = type("Full", (_Full,), {"room": room})
    with (
        mock.patch.object(local, "open", lambda path, mode, **_: full(path, mode), create=True),
        pytest.raises(StateAccessError, match=r"cannot write .*commit.json.*No space left"),
    ):
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


def test_a_store_that_does_not_answer_is_named_soon(s3: S3Server) -> None:
    nobody = {**s3.hadoop, "fs.s3a.endpoint": "http://127.0.0.1:9"}
    with pytest.raises(
        StateAccessError, match=r"cannot store a file in s3://bucket/x: .*stores.md"
    ):
        Folder("s3://bucket/x", settings=Settings.of(nobody)).check()
    with pytest.raises(StateAccessError, match=r"in s3://missing/x: .*NoSuchBucket"):
        Folder("s3://missing/x", settings=s3.folder().settings).check()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("at", ["write", "make"])
def test_a_disk_that_is_full_from_the_start_is_told(tmp_path: Path, number: int, at: str) -> None:
    """It is not the settings of a store that are to be looked at."""
    full = mock.Mock(side_effect=OSError(number, os.strerror(number)))
    with (
        mock.patch.object(local.LocalStore, at, full),
        pytest.raises(StateAccessError, match="Free or enlarge the disk") as caught,
    ):
        Folder(str(tmp_path)).check()
    assert "stores.md" not in str(caught.value) and "may write to" not in str(caught.value)


def test_a_check_leaves_nothing(folder: Folder) -> None:
    folder.check()
    assert folder.list() == []


def test_settings_go_along_and_are_not_shown(s3: S3Server) -> None:
    folder = s3.folder()
    folder.write("x", b"1")
    sent = pickle.loads(pickle.dumps(folder))
    assert (sent, sent.read("x")) == (folder, b"1")
    shown = f"{folder!r} {folder} {folder.settings!r} {folder.settings}"
    assert SECRET not in shown and "fs.s3a.secret.key" in shown
    bad = {**s3.hadoop, "fs.s3a.endpoint": "no url at all"}
    with pytest.raises(ArgumentError, match=r"`fs.s3a.endpoint` must be a URL") as raised:
        Folder("s3://bucket/x", settings=Settings.of(bad)).check()
    assert SECRET not in str(raised.value)


def test_folders_of_others_are_not_part_of_this(folder: Folder) -> None:
    """A prefix of a name is no folder."""
    folder.make("a")
    folder.make("ab")
    folder.write("a/x", b"1")
    folder.write("ab/y", b"2")
    assert folder.list("a") == ["x"]
    folder.delete_folder("a")
    assert folder.list() == ["ab/y"]


def test_objects_that_stand_for_folders_are_no_files(s3: S3Server) -> None:
    """Hadoop leaves such."""
    folder = s3.folder()
    prefix = folder.root.removeprefix("s3://bucket/")
    for key in (f"{prefix}/", f"{prefix}/d/", f"{prefix}/e/"):
        s3.client.put_object(Bucket="bucket", Key=key, Body=b"")
    folder.write("d/x", b"1")
    folder.write("empty", b"")
    assert folder.list() == ["d/x", "empty"]
    assert folder.list("e") == []
    folder.delete_folder("d")
    assert folder.list() == ["empty"]


def test_listings_of_many_pages(folder: Folder) -> None:
    names = [f"{n:04d}" for n in range(12)]
    for name in names:
        folder.write(name, b"1")
    with mock.patch.object(objects, "LIST_NAMES", 5):
        assert folder.list() == names
        folder.make("d")
        folder.delete_folder("d")


# Moving.

NAMES = ["plain", "day=1/x", "p=a%2Fb/x", "p=a b/x", "p=ü/é", "p=%25/x", "p=a%20b/x", "p=#?&+~/x"]


@pytest.fixture(params=["local to s3", "s3 to local", "s3 to s3", "local to local"])
def both(
    request: pytest.FixtureRequest, tmp_path: Path, s3: S3Server, cache_folder: Path
) -> tuple[Folder, Folder]:
    kinds = request.param.split(" to ")
    made = [
        s3.folder() if kind == "s3" else Folder(str(tmp_path / f"{number} x"))
        for number, kind in enumerate(kinds)
    ]
    for folder in made:
        folder.make()
    return made[0], made[1]


def test_files_are_moved_under_just_that_name(both: tuple[Folder, Folder], s3: S3Server) -> None:
    source, target = both
    for name in NAMES:
        source.make(os.path.dirname(name))
        source.write(name, name.encode())
        source.move(name, target, f"out/{name}")
    assert source.list() == []
    assert target.list() == sorted(f"out/{name}" for name in NAMES)
    assert [target.read(f"out/{name}") for name in NAMES] == [n.encode() for n in NAMES]
    if not target.is_local:
        prefix = target.root.removeprefix("s3://bucket/")
        assert s3.keys(prefix) == sorted(f"{prefix}/out/{name}" for name in NAMES)


def test_a_move_replaces_and_needs_a_source(both: tuple[Folder, Folder]) -> None:
    source, target = both
    source.write("x", b"new")
    target.write("y", b"what was there before")
    source.move("x", target, "y")
    assert target.read("y") == b"new"
    with pytest.raises(FileNotFoundError):
        source.move("x", target, "y")
    assert target.list() == ["y"]
    assert target.read("y") == b"new"


@pytest.mark.parametrize("size", [0, 1, 20 << 20])
def test_what_one_request_cannot_copy_goes_in_parts(s3: S3Server, size: int) -> None:
    content = os.urandom(size)
    one, two = s3.folder(), s3.folder()
    one.write("x", content)
    with mock.patch.object(objects, "COPY_BYTES_MAX", 0), mock.patch("obstore.copy") as copy:
        one.move("x", two, "y")
    copy.assert_not_called()
    assert (one.list(), two.list()) == ([], ["y"])
    assert two.read("y") == content


def test_a_moved_file_survives_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content is on disk before its name is seen, and so are the folders above it."""
    monkeypatch.setattr(local, "SYNC", True)
    folder, out = Folder(str(tmp_path / "a")), Folder(str(tmp_path / "b"))
    folder.make()
    (tmp_path / "a" / "x").write_bytes(b"by somebody who did not care")
    steps: list[str] = []
    sync, rename = os.fsync, os.replace

    def syncing(descriptor: int) -> None:
        steps.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        sync(descriptor)

    def renaming(source: str, target: str) -> None:
        steps.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "replace", renaming)
    folder.move("x", out, "day=1/x")
    assert steps == [".", "b", "a/x", "rename", "b/day=1"]


def test_where_there_are_no_hard_links_one_still_creates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a mounted bucket."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    folder = Folder(str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: folder.create("owner.json", b"%d" % i), range(16)))
    assert won.count(True) == 1
    assert folder.read("owner.json") == b"%d" % won.index(True)
    assert folder.list() == ["owner.json"]


def test_of_those_who_create_a_file_one_does(folder: Folder) -> None:
    assert folder.create("owner.json", b"first")
    assert not folder.create("owner.json", b"second")
    assert folder.read("owner.json") == b"first"
    assert folder.list() == ["owner.json"]


def test_a_file_is_created_once_by_many_at_a_time(folder: Folder) -> None:
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda i: folder.create("owner.json", b"%d" % i), range(64)))
    assert won.count(True) == 1
    assert folder.read("owner.json") == b"%d" % won.index(True)


def test_a_store_that_there_is_no_way_to_is_named_by_its_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_hadoop(scheme: str, authority: str) -> None:
        raise ArgumentError("location", f"{scheme}://{authority}/", "on a store that can be opened")

    monkeypatch.setattr(hdfs, "hadoop", no_hadoop)
    with pytest.raises(ArgumentError, match=r"`checkpointLocation` must .*'hdfs://names/ckpt'"):
        Folder("hdfs://names/ckpt/skewless").reach("checkpointLocation", "hdfs://names/ckpt")
    monkeypatch.setattr(files, "DBFS", str(tmp_path / "dbfs"))
    with pytest.raises(ArgumentError, match=r"`path` must be on a store .*Databricks.*'dbfs:/out'"):
        Folder(str(tmp_path / "dbfs" / "out")).reach("path", "dbfs:/out")
    (tmp_path / "dbfs").mkdir()
    Folder(str(tmp_path / "dbfs" / "out")).reach("path", "dbfs:/out")
    assert not (tmp_path / "dbfs" / "out").exists()
