"""Commits: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from skewless.arrays.types import HASH_MAX
from skewless.errors import CheckpointMismatchError, StateDamagedError, StateFormatError
from skewless.state import commits
from skewless.state.commits import (
    COMMITS,
    QUERY_FILE,
    Commit,
    CommitLog,
    claim,
    read_checked,
    write_checked,
)
from skewless.state.files import Folder
from skewless.state.segments import SegmentInfo

SEGMENT = SegmentInfo("segments/left-ä.arrow", "left", 3, 400, 7, 0, HASH_MAX, -5, 9, 2, 1, 4)
COMMIT = Commit(
    batch_id=12,
    watermark_us=-(1 << 62),
    time_max_us={"left": None, "right": 99},
    slots=64,
    instances=4,
    strategy="Hash",
    segments=(SEGMENT, replace(SEGMENT, name="segments/right-b.arrow", side="right")),
    publish=(("staged/a", "/out/a"), ("staged/b", "s3://bucket/b")),
)
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
    log.write(replace(COMMIT, batch_id=9, segments=(), publish=()))
    assert log.batch_ids() == [9, 12]
    assert log.latest() == log.read(12) == COMMIT
    log.delete(12)
    assert log.latest() == replace(COMMIT, batch_id=9, segments=(), publish=())


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


NAME = f"{COMMITS}/000000000012.json"


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
        b'{"format":1}',
        b'{"format":1,"crc32":2}',
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
    CommitLog(folder).write(replace(COMMIT, segments=(), publish=()))
    content = folder.read(NAME)
    for position in range(0, len(content) - 1):
        flipped = bytearray(content)
        flipped[position] ^= 1
        folder.write(NAME, bytes(flipped))
        try:
            assert CommitLog(folder).read(12) == replace(COMMIT, segments=(), publish=())
        except (StateDamagedError, StateFormatError):
            continue


def test_a_newer_format_is_refused(folder: Folder) -> None:
    with mock.patch.object(commits, "FORMAT", 2):
        write_checked(folder, "x.json", {"new": "things"})
    with pytest.raises(StateFormatError, match=r"x\.json is of format 2; .*knows format 1") as told:
        read_checked(folder, "x.json")
    assert not isinstance(told.value, StateDamagedError)


def test_the_order_of_keys_and_blanks_does_not_matter(folder: Folder) -> None:
    write_checked(folder, "x.json", {"b": 1, "a": [1, "ä"]})
    outer = json.loads(folder.read("x.json"))
    folder.write("x.json", json.dumps(outer, indent=2).encode())
    assert read_checked(folder, "x.json") == {"a": [1, "ä"], "b": 1}


def test_a_folder_belongs_to_the_query_that_claimed_it(folder: Folder) -> None:
    claim(folder, FACTS)
    before = folder.read(QUERY_FILE)
    claim(folder, dict(reversed(FACTS.items())))
    assert folder.read(QUERY_FILE) == before


@pytest.mark.parametrize(
    ("fact", "value"), [("within", "unbounded"), ("left keys", None), ("another", "fact")]
)
def test_another_query_is_refused_and_told_what_differs(
    folder: Folder, fact: str, value: str | None
) -> None:
    claim(folder, FACTS)
    other = {k: v for k, v in {**FACTS, fact: value}.items() if v is not None}
    with pytest.raises(CheckpointMismatchError) as refusal:
        claim(folder, other)
    text = str(refusal.value)
    assert f"{fact}: the checkpoint has {FACTS.get(fact)!r}, this query has {value!r}" in text
    assert folder.root in text
    assert [k for k in {**FACTS, "another": ""} if f"{k}: the checkpoint" in text] == [fact]


def test_a_damaged_claim_is_refused(folder: Folder) -> None:
    claim(folder, FACTS)
    folder.write(QUERY_FILE, folder.read(QUERY_FILE).replace(b"int64", b"int32"))
    with pytest.raises(StateDamagedError, match=QUERY_FILE):
        claim(folder, FACTS)
