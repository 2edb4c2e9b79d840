"""Commits: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from skewless.arrays.types import HASH_MAX
from skewless.errors import StateDamagedError, StateFormatError
from skewless.state import commits
from skewless.state.blobs import BlobInfo
from skewless.state.commits import (
    COMMITS,
    QUERY_FILE,
    Commit,
    CommitLog,
    Move,
    OperatorState,
    claim,
    is_confined,
    read_checked,
    write_checked,
)
from skewless.state.files import Folder
from skewless.state.segments import SegmentInfo

SEGMENT = SegmentInfo("segments/left-ä.arrow", "left", 3, 400, 7, 0, HASH_MAX, -5, 9, 2, 1, 4)
BLOB = BlobInfo("grouper", "blobs/grouper-c", 5, 6)
STATE = OperatorState(
    watermark_us=-(1 << 62),
    time_max_us={"left": None, "right": 99},
    segments=(SEGMENT, replace(SEGMENT, name="segments/right-b.arrow", side="right")),
    blobs=(BLOB,),
    facts={"slots": 64, "placement": {"instance_of": [0, 1]}, "ratio": 0.5},
)
PACKED = OperatorState(7, {"r": 1}, (replace(SEGMENT, name="segments/p.arrow", kind="packs"),))
COMMIT = Commit(
    batch_id=12,
    operators={"join-1": STATE, "join3-2": PACKED},
    publish=(Move("staged/a", "/out/a", 9), Move("staged/b", "s3://bucket/b")),
    epoch=2,
)
SMALL = Commit(12, {"join": replace(STATE, segments=(), blobs=())}, epoch=2)
FACTS = {"kind": "two-way join", "left keys": "k as int64", "within": "-5 to 5 microseconds"}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(str(tmp_path))
    made.make(COMMITS)
    return made


def test_a_commit_is_read_as_it_was_written(folder: Folder) -> None:
    log = CommitLog(folder)
    assert log.latest() is None
    log.write(COMMIT)
    log.write(replace(SMALL, batch_id=9))
    assert log.batch_ids() == [9, 12]
    assert log.latest() == log.read(12) == COMMIT
    log.delete(12)
    assert log.latest() == replace(SMALL, batch_id=9)


def test_a_commit_knows_the_files_of_all_operators() -> None:
    segments = {"segments/left-ä.arrow", "segments/right-b.arrow", "segments/p.arrow"}
    assert {s.name for s in COMMIT.segments} == segments
    assert COMMIT.files == segments | {"blobs/grouper-c"}
    assert Commit(0, {}).files == set()


def test_batches_are_ordered_by_number(folder: Folder) -> None:
    log = CommitLog(folder)
    numbers = [0, 9, 10, 99, 100, 10**11, 10**12 + 1]
    for number in reversed(numbers):
        log.write(replace(COMMIT, batch_id=number))
    assert log.batch_ids() == numbers
    assert log.latest().batch_id == numbers[-1]


def test_other_files_are_no_commits(folder: Folder) -> None:
    for name in (".000000000007.json.abc.tmp", "notes.json", "000000000007.json.bak", "7"):
        folder.write(f"{COMMITS}/{name}", b"{}")
    assert CommitLog(folder).batch_ids() == []


NAME = f"{COMMITS}/000000000012-e2.json"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b"\xff\xfe",
        b"{}",
        b'{"format":2}',
        b'{"format":2,"crc32":2}',
    ],
)
def test_what_is_no_commit_is_refused(folder: Folder, content: bytes) -> None:
    folder.write(NAME, content)
    with pytest.raises(StateDamagedError, match=NAME) as refusal:
        CommitLog(folder).read(12)
    assert "new checkpointLocation" in str(refusal.value)


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_truncated_commit_is_refused(folder: Folder, cut: int) -> None:
    CommitLog(folder).write(COMMIT)
    folder.write(NAME, folder.read(NAME)[:-1][:-cut])
    with pytest.raises(StateDamagedError, match=NAME):
        CommitLog(folder).latest()


@pytest.mark.parametrize(
    ("before", "after"),
    [('"rows":3', '"rows":4'), ('"crc32":7', '"crc32":8'), ("staged/a", "staged/b"), ("99", "98")],
)
def test_an_altered_commit_is_refused(folder: Folder, before: str, after: str) -> None:
    CommitLog(folder).write(COMMIT)
    text = folder.read(NAME).decode()
    assert before in text
    folder.write(NAME, text.replace(before, after, 1).encode())
    with pytest.raises(StateDamagedError, match="was altered: its checksum does not fit"):
        CommitLog(folder).latest()


def test_every_flipped_bit_is_found(folder: Folder) -> None:
    CommitLog(folder).write(SMALL)
    content = folder.read(NAME)
    for position in range(0, len(content) - 1):
        flipped = bytearray(content)
        flipped[position] ^= 1
        folder.write(NAME, bytes(flipped))
        try:
            assert CommitLog(folder).read(12) == SMALL
        except (StateDamagedError, StateFormatError):
            continue


@pytest.mark.parametrize(
    ("found", "what_to_do"),
    [
        (1, "Start with a new checkpointLocation, or use the version that wrote it."),
        (3, "Use the version that wrote it or a newer one."),
        ("2", "Use the version that wrote it or a newer one."),
    ],
)
def test_another_format_is_refused_with_what_to_do(
    folder: Folder, found: object, what_to_do: str
) -> None:
    written = json.dumps(found)
    with mock.patch.object(commits, "FORMAT", written):
        write_checked(folder, "x.json", {"other": "things"})
    with pytest.raises(
        StateFormatError, match=rf"x\.json is of format {found}; .*knows format 2\. "
    ) as told:
        read_checked(folder, "x.json")
    assert str(told.value).endswith(what_to_do)
    assert not isinstance(told.value, StateDamagedError)


FORMAT_1 = """{"batch_id":12,"instances":4,"publish":[],"segments":[],"slots":64,\
"strategy":"Hash","time_max_us":{"left":null,"right":99},"watermark_us":-5}"""


def test_a_commit_of_format_1_is_refused_before_it_is_looked_at(folder: Folder) -> None:
    crc32 = zlib.crc32(FORMAT_1.encode())
    folder.write(NAME, f'{{"format":1,"crc32":{crc32},"content":{FORMAT_1}}}\n'.encode())
    with pytest.raises(StateFormatError, match=r"is of format 1; .*new checkpointLocation"):
        CommitLog(folder).latest()
    folder.write(QUERY_FILE, b'{"format":1,"crc32":0,"content":{"kind":"two-way join"}}')
    with pytest.raises(StateFormatError, match=r"is of format 1; .*new checkpointLocation"):
        read_checked(folder, QUERY_FILE)


OUTSIDE = [
    "/etc/passwd",
    "../segments/a.arrow",
    "segments/../../a.arrow",
    "segments/..",
    "..",
    "s3://bucket/a.arrow",
    "file:/etc/passwd",
    "C:/a.arrow",
    "",
]
INSIDE = ["segments/a.arrow", "a", "segments/..a", "segments/a..", "segments/a:b", "a/b/c"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_outside_of_the_state_folder_are_told_apart(name: str) -> None:
    assert not is_confined(name)


@pytest.mark.parametrize("name", INSIDE)
def test_names_inside_are_fine(name: str) -> None:
    assert is_confined(name)


def naming(what: str, name: str) -> Commit:
    """A commit that names a file as its segment, its blob or what it publishes."""
    if what == "publish":
        return replace(COMMIT, publish=(Move(name, "/out/a"),))
    info = {"segments": (replace(SEGMENT, name=name),), "blobs": (replace(BLOB, name=name),)}
    return replace(COMMIT, operators={"join": replace(STATE, **{what: info[what]})})


@pytest.mark.parametrize("what", ["segments", "blobs", "publish"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_a_commit_that_names_files_outside_is_refused(folder: Folder, what: str, name: str) -> None:
    log = CommitLog(folder)
    log.write(naming(what, name))
    with pytest.raises(StateDamagedError, match="names files outside of the state folder") as told:
        log.latest()
    assert repr(name) in str(told.value) and folder.path(NAME) in str(told.value)
    assert "new checkpointLocation" in str(told.value)
    log.write(naming(what, INSIDE[0]))
    assert log.latest() == naming(what, INSIDE[0])


def test_results_may_be_published_anywhere(folder: Folder) -> None:
    for final in ("/out/a", "s3://bucket/a"):
        CommitLog(folder).write(replace(COMMIT, publish=(Move("staged/a", final),)))
        assert CommitLog(folder).read(12).publish == (Move("staged/a", final),)


def test_the_order_of_keys_and_blanks_does_not_matter(folder: Folder) -> None:
    write_checked(folder, "x.json", {"b": 1, "a": [1, "ä"]})
    outer = json.loads(folder.read("x.json"))
    folder.write("x.json", json.dumps(outer, indent=2).encode())
    assert read_checked(folder, "x.json") == {"a": [1, "ä"], "b": 1}


def test_a_damaged_claim_is_refused(folder: Folder) -> None:
    claim(folder, FACTS)
    folder.write(QUERY_FILE, folder.read(QUERY_FILE).replace(b"int64", b"int32"))
    with pytest.raises(StateDamagedError, match=QUERY_FILE):
        read_checked(folder, QUERY_FILE)
