"""Whose an output folder is: a new checkpoint must be told what to do with files of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from skewless.errors import ArgumentError, StateAccessError, StateDamagedError
from skewless.state.commits import COMMITS, Commit, CommitLog, Move
from skewless.state.files import Folder
from skewless.state.output import EXISTING, NOTE, Output, check_confined, files_of_batch, is_shown
from tests.s3 import S3Server

OURS = "batch-000000000003-part-0.parquet"


@pytest.fixture
def state(tmp_path: Path) -> Folder:
    folder = Folder(str(tmp_path / "checkpoint" / "skewless"))
    folder.make(COMMITS)
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def start(out: Path, state: Folder, existing: str | None = None) -> None:
    output = Output(str(out), existing)
    output.check(state)
    output.take(state)


def test_a_folder_that_cannot_be_opened_is_named(s3: S3Server) -> None:
    state = s3.folder()
    for given in ("s3a://nowhere/out", ""):
        output = Output("s3://nowhere/out", given=given)
        named = f"path='{given or output.path}': cannot look into the output folder {output.path}"
        with pytest.raises(StateAccessError, match=named):
            output.check(state)


def test_a_folder_that_cannot_be_written_to_is_named(out: Path, state: Folder) -> None:
    out.parent.mkdir(exist_ok=True)
    out.write_bytes(b"a file")
    with pytest.raises(StateAccessError, match=f"path='out': .*{out}"):
        Output(str(out), given="out").take(state)
    assert state.size(NOTE) is None


def files(out: Path, *names: str) -> Path:
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(b"rows")
    return out


def names_in(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


@pytest.mark.parametrize("existing", [None, "append", "overwrite"])
def test_a_checkpoint_goes_on_with_its_own_files(
    out: Path, state: Folder, existing: str | None
) -> None:
    start(out, state)
    files(out, OURS, "of-somebody.parquet")
    start(out, state, existing)
    assert names_in(out) == {OURS, "of-somebody.parquet"}


HIDDEN = ("_SUCCESS", ".part.crc", "_spark_metadata/0", "day=1/_temporary/x")


def test_what_readers_do_not_see_is_nobodys(out: Path, state: Folder) -> None:
    start(files(out, *HIDDEN), state)
    assert names_in(out) == set(HIDDEN)


def test_a_checkpoint_within_the_output_folder(tmp_path: Path) -> None:
    state = Folder(str(tmp_path / "out" / "checkpoint" / "skewless"))
    state.make()
    files(tmp_path / "out", "checkpoint/offsets/0", "checkpoint/skewless/x")
    start(tmp_path / "out", state, "overwrite")
    assert names_in(tmp_path / "out") >= {"checkpoint/offsets/0", "checkpoint/skewless/x"}


AMONG = (
    "",
    "skewless",
    "skewless/segments/x",
    "offsets",
    "commits/x",
    "sources",
    "state",
    "metadata",
)


@pytest.mark.parametrize("name", AMONG)
@pytest.mark.parametrize("root", ["/data/ckpt", "s3://box/ckpt", "hdfs://names/ckpt"])
def test_a_folder_among_the_files_of_the_checkpoint_is_refused(root: str, name: str) -> None:
    path = f"{root}/{name}".rstrip("/")
    with pytest.raises(ArgumentError, match=r"apart from the files of the checkpoint") as caught:
        Output(path).check_apart(Folder(f"{root}/skewless"))
    assert (caught.value.argument, caught.value.received) == ("path", path)
    assert f"such as {root}/out" in str(caught.value)


@pytest.mark.parametrize("root", ["/data/ckpt", "s3://box/ckpt"])
def test_a_folder_beside_the_files_of_the_checkpoint_is_taken(root: str) -> None:
    """Also one around it, and one of another bucket."""
    state = Folder(f"{root}/skewless")
    top = root.removesuffix("/ckpt")
    for path in (
        f"{root}/out",
        f"{root}/skewless-out",
        f"{root}2",
        top,
        f"{top}/skewless",
        "s3://b",
    ):
        Output(path).check_apart(state)


def test_other_names_of_the_same_folder(tmp_path: Path, state: Folder) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "checkpoint")
    for name in ("link", "link/skewless/x", "link/offsets"):
        with pytest.raises(ArgumentError, match=name):
            Output(str(tmp_path / name)).check_apart(state)
    Output(str(tmp_path / "link" / "out")).check_apart(state)
    with pytest.raises(ArgumentError, match="s3://box//a/"):
        Output("s3://box//a/../ckpt/").check_apart(Folder("s3://box/ckpt/skewless"))


@pytest.mark.parametrize("name", [OURS, "of-somebody.parquet", f"day=1/{OURS}", f"_d=1/{OURS}"])
def test_files_of_another_are_refused(out: Path, state: Folder, name: str) -> None:
    files(out, name)
    with pytest.raises(ArgumentError) as refusal:
        start(out, state)
    for part in ("`path`", str(out), name, EXISTING, "append", "overwrite", "checkpointLocation"):
        assert part in str(refusal.value)
    assert state.size(NOTE) is None
    assert names_in(out) == {name}


def test_adding_to_them(out: Path, state: Folder) -> None:
    start(files(out, OURS, "of-somebody.parquet"), state, "append")
    assert names_in(out) == {OURS, "of-somebody.parquet"}
    start(out, state)


def test_removing_them_once(out: Path, state: Folder) -> None:
    start(files(out, OURS, f"day=1/{OURS}", "_SUCCESS"), state, "overwrite")
    assert names_in(out) == {"_SUCCESS"}
    start(files(out, OURS), state, "overwrite")
    assert names_in(out) == {"_SUCCESS", OURS}


def test_only_what_skewless_wrote_is_removed(out: Path, state: Folder) -> None:
    files(out, OURS, "precious.parquet")
    with pytest.raises(ArgumentError, match=r"were not written by skewless, such as precious"):
        start(out, state, "overwrite")
    assert names_in(out) == {OURS, "precious.parquet"}


def commit(state: Folder, final: str | None, query: dict[str, str]) -> None:
    moves = () if final is None else (Move("staged/a", final),)
    CommitLog(state).write(Commit(3, {}, moves, query))


def test_a_checkpoint_from_before_there_were_notes(out: Path, state: Folder) -> None:
    commit(state, str(files(out, OURS) / OURS), {})
    start(out, state)
    assert state.size(NOTE) is not None


def test_one_from_before_that_wrote_elsewhere(out: Path, state: Folder) -> None:
    commit(state, f"{out}-of-then/batch-000000000003-part-1.parquet", {})
    with pytest.raises(ArgumentError, match=EXISTING):
        start(files(out, OURS), state)


def test_one_from_before_that_has_written_nothing_lately(out: Path, state: Folder) -> None:
    commit(state, None, {})
    start(files(out, OURS), state)


def test_one_that_had_another_sink(out: Path, state: Folder) -> None:
    commit(state, None, {"kind": "two-way join"})
    with pytest.raises(ArgumentError, match=EXISTING):
        start(files(out, OURS), state)


def test_a_folder_that_was_moved_with_its_checkpoint(out: Path, state: Folder) -> None:
    commit(state, f"/elsewhere/day=1/{OURS}", {"kind": "two-way join"})
    start(files(out, f"day=1/{OURS}", f"day=2/{OURS}1"), state, "overwrite")
    assert names_in(out) == {f"day=1/{OURS}", f"day=2/{OURS}1"}


def test_several_folders_of_one_checkpoint(tmp_path: Path, state: Folder) -> None:
    for name in ("a", "b", "a"):
        start(files(tmp_path / name), state)
        files(tmp_path / name, OURS)
    start(tmp_path / "b", state)


# Which files a commit may show


@pytest.mark.parametrize("name", [*HIDDEN, "_temporary/0/task_1/part-0", "a/.staging/part-0"])
def test_what_a_task_left_behind_is_not_shown(name: str) -> None:
    assert not is_shown(name)


@pytest.mark.parametrize("name", ["part-0", "day=1/part-0", "_hidden=1/part-0"])
def test_what_sparks_own_commit_shows_is(name: str) -> None:
    assert is_shown(name)


def test_a_commit_stays_within_the_folders_of_its_checkpoint(out: Path, state: Folder) -> None:
    def check(final: str) -> None:
        check_confined(state, Commit(3, {}, (Move("staged/a", final, 4),)))

    check("/anywhere/part-0")  # before there are notes nobody knows
    start(out, state)
    check(f"{out}/{OURS}")
    check(f"{out}/day=1/{OURS}")
    for final in (
        "/etc/passwd",
        f"{out}/../part-0",
        f"{out}-too/part-0",
        str(out),
        "s3://b/part-0",
    ):
        with pytest.raises(StateDamagedError, match="outside of its folders"):
            check(final)


def test_the_files_of_a_batch_by_their_names(out: Path, state: Folder) -> None:
    start(out, state)
    files(out, OURS, f"day=1/{OURS}", "batch-000000000004-part-0.parquet", "part-3")
    assert files_of_batch(state, 3) == [f"{out}/{OURS}", f"{out}/day=1/{OURS}"]
