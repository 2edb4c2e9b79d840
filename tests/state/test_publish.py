"""Publishing: the moves of a commit, done as often as needed and seen once."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from skewless.errors import StateAccessError, StateDamagedError
from skewless.state import publish as publish_module
from skewless.state.commits import Commit, Move
from skewless.state.files import Folder
from skewless.state.publish import is_shown, made_durable, note_shown, publish
from skewless.state.stores.local import LocalStore
from tests.crashes import CrashError, crash_at
from tests.s3 import S3Server

EMPTY = Commit(0, {})


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(str(tmp_path / "state"))
    made.make("staged")
    return made


def stage(folder: Folder, out: Path | str, count: int = 3, *, sized: bool = True) -> Commit:
    moves = []
    for number in range(count):
        content = f"content {number}".encode()
        folder.write(f"staged/{number}", content)
        size = len(content) if sized else None
        moves.append(Move(f"staged/{number}", f"{out}/day={number}/part-{number}", size))
    return replace(EMPTY, publish=tuple(moves))


def visible(out: Path) -> dict[str, str]:
    return {
        str(p.relative_to(out)): p.read_text()
        for p in sorted(out.rglob("*"))
        if p.is_file() and not p.name.startswith((".", "_"))
    }


ALL = {f"day={n}/part-{n}": f"content {n}" for n in range(3)}


def test_files_are_moved_and_folders_made(folder: Folder, tmp_path: Path) -> None:
    commit = stage(folder, tmp_path / "out")
    publish(folder, commit)
    assert visible(tmp_path / "out") == ALL
    assert folder.list("staged") == []


def test_a_commit_without_files_needs_nothing(folder: Folder) -> None:
    publish(folder, EMPTY)


def test_the_target_may_be_a_file_uri(folder: Folder, tmp_path: Path) -> None:
    publish(folder, stage(folder, f"file://{tmp_path}/out"))
    assert visible(tmp_path / "out") == ALL


def test_publishing_again_changes_nothing(folder: Folder, tmp_path: Path) -> None:
    commit = stage(folder, tmp_path / "out", sized=False)  # as in commits of older versions
    publish(folder, commit)
    shutil.rmtree(tmp_path / "out" / "day=1")  # a reader may consume what it has seen
    publish(folder, commit)
    assert sorted(visible(tmp_path / "out")) == ["day=0/part-0", "day=2/part-2"]


def test_a_file_that_is_nowhere_was_not_moved(folder: Folder, tmp_path: Path) -> None:
    """As when somebody else has removed what was staged."""
    commit = stage(folder, tmp_path / "out")
    folder.delete("staged/1")
    with pytest.raises(StateDamagedError, match=r"day=1/part-1 is missing, and .*staged/1 is gone"):
        publish(folder, commit)


@pytest.mark.parametrize("what", ["staged", "shown"])
def test_a_file_of_another_size_is_refused(folder: Folder, tmp_path: Path, what: str) -> None:
    commit = stage(folder, tmp_path / "out")
    if what == "shown":
        publish(folder, commit)
        (tmp_path / "out" / "day=1" / "part-1").write_text("cont")
    else:
        folder.write("staged/1", b"cont")
    with pytest.raises(StateDamagedError, match="has 4 bytes, 9 were committed"):
        publish(folder, commit)


def test_what_was_shown_is_noted(folder: Folder, tmp_path: Path) -> None:
    """From then on a reader may remove it."""
    folder.make("owner")
    claimed = replace(folder, epoch=4)
    claimed.create("owner/000000000004.json", b"{}")
    commit = replace(stage(folder, tmp_path / "out"), batch_id=7, epoch=3)
    assert not is_shown(folder, commit)
    note_shown(claimed, commit)
    assert is_shown(folder, commit)
    assert not is_shown(folder, replace(commit, epoch=4))
    assert not is_shown(folder, replace(commit, batch_id=8))


def test_another_driver_may_move_the_same_files(folder: Folder, tmp_path: Path) -> None:
    """At any moment: between looking for a staged file and moving it, say."""
    commit = stage(folder, tmp_path / "out")
    move, first = publish_module._move, True

    def late(*given: object) -> bool:
        nonlocal first
        if first:
            first = False
            publish(folder, commit)
        return bool(move(*given))  # type: ignore[arg-type]

    with mock.patch.object(publish_module, "_move", late):
        publish(folder, commit)
    assert visible(tmp_path / "out") == ALL


def test_sizes_are_noted(folder: Folder, tmp_path: Path) -> None:
    commit = stage(folder, tmp_path / "out", sized=False)
    sized = made_durable(folder, [(m.staged, m.final) for m in commit.publish])
    assert sized == tuple(m._replace(bytes=9) for m in commit.publish)


@pytest.mark.parametrize("visits", [1, 2, 3])
def test_a_crash_between_moves_is_made_good(folder: Folder, tmp_path: Path, visits: int) -> None:
    commit = stage(folder, tmp_path / "out")
    with crash_at("publish.one", visits), pytest.raises(CrashError):
        publish(folder, commit)
    assert len(visible(tmp_path / "out")) == visits
    publish(folder, commit)
    assert visible(tmp_path / "out") == ALL


def test_where_both_exist_the_staged_file_is_moved_again(folder: Folder, tmp_path: Path) -> None:
    """As after a crash between the copy to another file system and the removal of the source."""
    commit = stage(folder, tmp_path / "out")
    (tmp_path / "out" / "day=1").mkdir(parents=True)
    (tmp_path / "out" / "day=1" / "part-1").write_text("content 1")
    publish(folder, commit)
    assert visible(tmp_path / "out") == ALL
    assert folder.list("staged") == []


def across_devices(folder: Folder) -> mock._patch:
    """Renaming out of the state folder fails, as between two file systems."""
    rename = os.replace

    def refuse(source: str, target: str) -> None:
        if str(source).startswith(folder.root) and not str(target).startswith(folder.root):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target)

    return mock.patch.object(os, "replace", refuse)


def test_across_file_systems_files_are_copied(folder: Folder, tmp_path: Path) -> None:
    commit = stage(folder, tmp_path / "out")
    with across_devices(folder):
        publish(folder, commit)
    assert visible(tmp_path / "out") == ALL
    assert folder.list("staged") == []
    assert [p for p in (tmp_path / "out").rglob(".*")] == []


def test_a_half_copied_file_is_never_visible(folder: Folder, tmp_path: Path) -> None:
    commit = stage(folder, tmp_path / "out", count=1)

    def half(self: LocalStore, name: str) -> Iterator[bytes]:
        yield b"cont"
        assert visible(tmp_path / "out") == {}
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        across_devices(folder),
        mock.patch.object(LocalStore, "pieces", half),
        pytest.raises(StateAccessError, match=r"cannot move the output file .*staged/0.*No space"),
    ):
        publish(folder, commit)
    assert visible(tmp_path / "out") == {}
    publish(folder, commit)
    assert visible(tmp_path / "out") == {"day=0/part-0": "content 0"}


def test_an_output_folder_that_cannot_be_made_is_told(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    commit = stage(folder, tmp_path / "out")
    with pytest.raises(StateAccessError, match="the move is then repeated"):
        publish(folder, commit)
    (tmp_path / "out").unlink()
    publish(folder, commit)
    assert visible(tmp_path / "out") == ALL


@pytest.mark.parametrize("state", ["s3", "local"])
@pytest.mark.parametrize("output", ["s3", "local"])
def test_remote_outputs(s3: S3Server, tmp_path: Path, state: str, output: str) -> None:
    """From any store to any: within one by copying there, between two through this process."""
    # A commit names its files; how their store is reached is known from the state folder.
    folder = s3.folder() if state == "s3" else replace(s3.folder(), root=str(tmp_path / "state"))
    out = s3.folder() if output == "s3" else Folder(str(tmp_path / "out"))
    folder.make("staged")
    commit = stage(folder, out.root)
    with crash_at("publish.one", 2), pytest.raises(CrashError):
        publish(folder, commit)
    publish(folder, commit)
    publish(folder, commit)
    assert {name: out.read(name).decode() for name in out.list()} == ALL
    assert folder.list("staged") == []


@pytest.mark.parametrize("kind", ["s3", "local"])
def test_a_commit_of_an_older_version_is_published(s3: S3Server, tmp_path: Path, kind: str) -> None:
    """It may name its output by another scheme."""
    folder = s3.folder()
    out = s3.folder() if kind == "s3" else Folder(str(tmp_path / "out"))
    named = out.root.replace("s3:", "s3a:") if kind == "s3" else f"file://{out.root}"
    publish(folder, stage(folder, named))
    assert {name: out.read(name).decode() for name in out.list()} == ALL
