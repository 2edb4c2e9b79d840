"""The segments of a state: a set that shares what stays the same, against one that lists all.

Random histories of additions, compactions over one or several batches, expiry and restarts: both
must hold the same segments after every commit, in memory, on disk and in tasks, and there must be
just the files that kept commits refer to, whatever a crash left.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import HASH_MAX
from skewless.errors import StateDamagedError
from skewless.state import commits, compaction, segment_set
from skewless.state.blobs import BLOBS
from skewless.state.commits import COMMITS, Commit, CommitLog, OperatorState, write_checked
from skewless.state.compaction import Portion, choose_compactions
from skewless.state.files import Folder
from skewless.state.opening import read_manifests, refuse_missing, without_unfinished
from skewless.state.parts import Part
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SEGMENTS, SegmentInfo
from tests.strategies import examples

KEPT = 3  # commits
SIDES = ("left", "right")


def a_segment(name: str, side: str = "left", **facts: Any) -> SegmentInfo:
    plain = SegmentInfo(f"{SEGMENTS}/{name}", side, 10, 100, 7, 0, HASH_MAX, 0, 9, batch_id=0)
    return replace(plain, **facts)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return made(tmp_path)


def made(root: Path | str) -> Folder:
    folder = Folder(str(root))
    for name in (COMMITS, SEGMENTS, BLOBS):
        folder.make(name)
    return folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_set, "MANIFEST_SEGMENTS", 4)


# What a batch does, by both.


@dataclass(frozen=True)
class Change:
    """A batch: how many segments of each side arrive, how far time goes on, whether all instances
    do their share of compactions, and what happens then."""

    new: tuple[int, int]
    time_us: int
    complete: bool
    then: str  # "", "restart", "crash before", "crash after"


CHANGES = st.builds(
    Change,
    st.tuples(st.integers(0, 4), st.integers(0, 2)),
    st.integers(0, 4),
    st.sampled_from([True, True, True, False]),
    st.sampled_from(["", "", "", "restart", "crash before", "crash after"]),
)


@dataclass
class Naive:
    """A state that lists all segments, and all files of every commit, again and again."""

    segments: dict[str, SegmentInfo] = field(default_factory=dict)
    waiting: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def after(self, new: list[SegmentInfo], done: list[Done], keep_after_us: int) -> Naive:
        segments, waiting = dict(self.segments), {k: list(v) for k, v in self.waiting.items()}
        for portion in done:
            mine = waiting.setdefault(portion.key, [])
            mine += [s.name for s in portion.written]
            if portion.is_last:
                for name in portion.replaced:
                    del segments[name]
                segments |= {n: replace(portion.every[n], batch_id=portion.at) for n in mine}
                del waiting[portion.key]
        in_use = {name for portion in done if not portion.is_last for name in portion.replaced}
        segments |= {s.name: s for s in new}
        kept = {n: s for n, s in segments.items() if s.time_max_us >= keep_after_us or n in in_use}
        return Naive(kept, waiting)

    @property
    def files(self) -> set[str]:
        return set(self.segments).union(*self.waiting.values())


@dataclass
class Done:
    """What a batch has done of a compaction, told without what the product makes of it."""

    key: tuple[str, int]
    replaced: list[str]
    written: list[SegmentInfo]
    every: dict[str, SegmentInfo]
    is_last: bool
    at: int


class History:
    """A log of commits on disk, with segments that are empty files, beside the naive one."""

    def __init__(self, root: str) -> None:
        self.folder, self.log = made(root), CommitLog(made(root))
        self.kept: dict[int, Commit] = {}
        self.naive: dict[int, Naive] = {-1: Naive()}
        self.segments, self.written = SegmentSet(), {}
        self.number, self.now_us, self.names = 0, 0, 0

    def write(self, side: str, level: int, time_us: int, rows: int) -> SegmentInfo:
        self.names += 1
        segment = a_segment(
            f"{side}-{self.names}", side, rows=rows, level=level, batch_id=self.number,
            hash_min=self.names, hash_max=self.names + 5, time_max_us=time_us,
        )  # fmt: skip
        self.folder.write(segment.name, b"")
        self.written[segment.name] = segment
        return segment

    def _compacted(self, portions: tuple[Portion, ...]) -> Iterator[tuple[Portion, Done]]:
        for portion in portions:
            rewriting, sources = portion.rewriting, portion.segments
            assert {s.name for s in sources} <= set(self.naive[self.number - 1].segments)
            latest = max(s.time_max_us for s in sources)
            rows = sum(s.rows for s in sources) // rewriting.pieces
            made = [
                self.write(rewriting.side, rewriting.level + 1, latest, rows)
                for _ in portion.pieces
            ]
            last = portion.pieces.stop == rewriting.pieces
            names = [s.name for s in sources]
            yield portion, Done(rewriting.key, names, made, self.written, last, self.number)

    def batch(self, change: Change) -> None:
        before = self.naive[self.number - 1]
        self.now_us += change.time_us
        new = [
            self.write(side, 0, self.now_us + 6, 10)
            for side, count in zip(SIDES, change.new, strict=True)
            for _ in range(count)
        ]
        found = list(self._compacted(choose_compactions(self.segments, 2)))
        segments, done = self.segments, []
        for portion, told in found if change.complete else ():
            written = [s for _, other in found for s in other.written]
            segments = segments.advanced(portion.after(written), self.number)
            done.append(told)
        done += self._gone_on_with(segments, {told.key for told in done})
        segments = segments.added(new).kept(dict.fromkeys(SIDES, self.now_us))
        sealed = segments.sealed(self.folder)
        if change.then == "crash before":
            self.open()
            return
        commit = Commit(self.number, {"join": OperatorState(0, {}, sealed)})
        self.log.write(commit)
        self.naive[self.number] = before.after(new, done, self.now_us)
        if change.then == "crash after":
            self.number += 1
            self.open()
            return
        last = self.kept.get(self.number - 1)
        unused = set(self.written) - commit.files if last is None else set()
        unused |= {n for n in self._of_batch() if n not in commit.files_beyond(last)}
        self.kept[self.number] = commit
        for old in sorted(self.kept)[:-KEPT]:
            self.log.delete(old)
            unused |= self.kept.pop(old).files_beyond(self.kept[old + 1])
        for name in unused:
            self.folder.delete(name)
        self.segments = sealed
        self.number += 1
        if change.then == "restart":
            self.open()
        else:
            self.check()

    def _gone_on_with(self, segments: SegmentSet, told: set[tuple[str, int]]) -> list[Done]:
        """What is under way, and this batch has done nothing of."""
        return [
            Done(r.key, [s.name for s in self.segments.of_generations(*r.key, r.batch_ids)], [], {},
                 is_last=False, at=0)
            for r in segments.under_way if r.key not in told
        ]  # fmt: skip

    def _of_batch(self) -> list[str]:
        return [n for n, s in self.written.items() if s.batch_id == self.number]

    def open(self) -> None:
        """Start again from what is on disk, and remove what nobody refers to."""
        ids = self.log.batch_ids()
        self.kept = {i: self.log.read(i) for i in ids}
        read_manifests(self.folder, self.kept.values())
        last = self.kept.get(self.number - 1)
        self.segments = SegmentSet()
        if last is not None:
            refuse_missing(self.folder, last, self.files())
            self.segments = without_unfinished(last).operators["join"].segments
            self.naive[self.number - 1].waiting.clear()
        for old in ids[:-KEPT]:
            self.log.delete(old)
            del self.kept[old]
        referred = set().union(*(commit.files for commit in self.kept.values()))
        for name in self.files() - referred:
            self.folder.delete(name)
        self.check(reopened=True)

    def files(self) -> set[str]:
        return {f"{p}/{n}" for p in (SEGMENTS, BLOBS) for n in self.folder.list(p)}

    def check(self, *, reopened: bool = False) -> None:
        expected = self.naive[self.number - 1]
        sent = pickle.loads(pickle.dumps(self.segments))
        for found in (self.segments, sent):
            assert {s.name: s for s in found} == expected.segments
            assert len(found) == len(expected.segments)
            assert found.rows == sum(s.rows for s in expected.segments.values())
            for side in SIDES:
                alive = {n for n, s in expected.segments.items() if s.side == side}
                assert {s.name for s in found.of_side(side)} == alive
                touched = {s.name for s in found.touching(side, [(20, 30), (3, 8), (25, 40)])}
                ranges = [(3, 8), (20, 40)]
                assert touched == {
                    n for n in alive if any(expected.segments[n].touches(*r) for r in ranges)
                }
        on_disk = self.log.latest()
        if on_disk is not None:
            found = without_unfinished(on_disk) if reopened else on_disk
            assert found.operators["join"].segments == self.segments
        wanted = set().union(*(self.naive[i].files for i in self.kept))
        there = self.files()
        assert {n for n in there if n.startswith(SEGMENTS)} >= wanted, "what is needed is there"
        listed = set().union(*(self.log.read(i).files for i in self.kept))
        assert there == listed, "and nothing else"


def check_history(changes: list[Change], manifest: int, portion: int) -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch.object(segment_set, "MANIFEST_SEGMENTS", manifest),
        mock.patch.object(compaction, "FAN_IN", 2),
        mock.patch.object(compaction, "PORTION_ROWS", portion),
        mock.patch.object(compaction, "PIECE_ROWS_MIN", 5),
    ):
        history = History(root)
        for change in changes:
            history.batch(change)


HISTORIES = st.lists(CHANGES, min_size=1, max_size=25)


@examples(60)
@given(HISTORIES, st.integers(1, 4), st.sampled_from([5, 20, 1000]))
def test_it_holds_what_a_plain_list_would(
    changes: list[Change], manifest: int, portion: int
) -> None:
    check_history(changes, manifest, portion)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(3000)
@given(st.lists(CHANGES, min_size=20, max_size=80), st.integers(1, 6), st.sampled_from([5, 20, 99]))
def test_it_holds_what_a_plain_list_would_at_length(
    changes: list[Change], manifest: int, portion: int
) -> None:
    check_history(changes, manifest, portion)


# On disk.


def committed(folder: Folder, segments: SegmentSet, batch_id: int = 0) -> Commit:
    commit = Commit(batch_id, {"join": OperatorState(0, {}, segments.sealed(folder))})
    CommitLog(folder).write(commit)
    return commit


@pytest.mark.usefixtures("small")
def test_a_commit_refers_to_what_it_does_not_list(folder: Folder) -> None:
    some = [a_segment(f"{n}") for n in range(20)]
    commit = committed(folder, SegmentSet(some))
    listed = json.loads(folder.read(f"{COMMITS}/000000000000.json"))["content"]["operators"]["join"]
    assert len(listed["segments"]) <= 8
    assert sum(m["count"] for m in listed["manifests"]) == 20 - len(listed["segments"])
    assert CommitLog(folder).latest() == commit
    assert commit.files == {s.name for s in some} | {f"{BLOBS}/{n}" for n in folder.list(BLOBS)}


@pytest.mark.usefixtures("small")
def test_few_segments_are_listed_as_ever(folder: Folder) -> None:
    committed(folder, SegmentSet([a_segment(f"{n}") for n in range(8)]))
    listed = json.loads(folder.read(f"{COMMITS}/000000000000.json"))["content"]["operators"]["join"]
    assert set(listed) == {"watermark_us", "time_max_us", "segments", "blobs", "facts", "heard_us"}
    assert folder.list(BLOBS) == []


@pytest.mark.usefixtures("small")
def test_a_checkpoint_that_lists_all_goes_on(folder: Folder) -> None:
    """As versions before there were manifests have written it."""
    some = [a_segment(f"{n}", time_max_us=n) for n in range(50)]
    content = {
        "batch_id": 4,
        "operators": {
            "join": {
                "watermark_us": 5,
                "time_max_us": {"left": 9},
                "segments": [vars(s) for s in some],
                "blobs": [],
                "facts": {"slots": 64},
            }
        },
        "publish": [],
    }
    write_checked(folder, f"{COMMITS}/000000000004.json", content)
    last = CommitLog(folder).latest()
    assert last is not None
    state = last.operators["join"]
    assert list(state.segments) == some and state.facts == {"slots": 64}
    later = state.segments.kept({"left": 10}).added([a_segment("new")])
    commit = committed(folder, later, 5)
    assert CommitLog(folder).latest() == commit
    assert {s.name for s in commit.segments} == {s.name for s in some[10:]} | {f"{SEGMENTS}/new"}
    gone = {s.name for s in some[:10]}
    assert last.files_beyond(commit) == gone
    assert commit.files_beyond(last) & last.files == set()


DAMAGES = {
    "missing": (Path.unlink, "is missing"),
    "empty": (lambda file: file.write_bytes(b""), "was truncated or altered"),
    "truncated": (lambda f: f.write_bytes(f.read_bytes()[:-1]), "was truncated or altered"),
    "altered": (
        lambda f: f.write_bytes(f.read_bytes().replace(b'"rows":10', b'"rows":11', 1)),
        "was truncated or altered",
    ),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("damage", "told"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_manifest_is_refused(folder: Folder, damage: Any, told: str) -> None:
    committed(folder, SegmentSet([a_segment(f"{n}") for n in range(20)]))
    name = folder.list(BLOBS)[0]
    damage(Path(folder.path(f"{BLOBS}/{name}")))
    last = CommitLog(folder).latest()
    assert last is not None
    with pytest.raises(StateDamagedError, match=rf"{name} {told}.*restore the checkpoint"):
        read_manifests(folder, [last])


@pytest.mark.usefixtures("small")
def test_a_manifest_that_names_files_outside_is_refused(folder: Folder) -> None:
    outside = [replace(a_segment(f"{n}"), name=f"../{n}") for n in range(20)]
    committed(folder, SegmentSet(outside).sealed(folder))
    commit = Commit(0, {"join": OperatorState(0, {}, SegmentSet(outside).sealed(folder))})
    with pytest.raises(StateDamagedError, match="outside of the state folder"):
        read_manifests(folder, [commit])
    assert commits.is_confined("segments/a")


@pytest.mark.usefixtures("small")
def test_a_segment_in_a_manifest_that_is_missing_is_found_on_opening(folder: Folder) -> None:
    some = [a_segment(f"{n}") for n in range(20)]
    commit = committed(folder, SegmentSet(some))
    refuse_missing(folder, commit, {s.name for s in some})
    with pytest.raises(StateDamagedError, match=r"segments/0 is missing, and 1 more\. .*restore"):
        refuse_missing(folder, commit, {s.name for s in some[1:-1]})


# How much there is to do.


def test_a_batch_writes_what_it_changes(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_set, "MANIFEST_SEGMENTS", 256)
    many = [a_segment(f"{n}", time_max_us=n, hash_min=n, hash_max=n) for n in range(20_000)]
    segments = SegmentSet(many).sealed(folder)
    before, sizes = len(folder.list(BLOBS)), []
    for number in range(40):
        new = [a_segment(f"new-{number}-{n}", time_max_us=10**6) for n in range(8)]
        changed = segments.kept({"left": 8 * number}).added(new).sealed(folder)
        commit = committed(folder, changed, number)
        sizes.append(folder.size(f"{COMMITS}/{number:012d}.json"))
        former = Commit(number - 1, {"join": OperatorState(0, {}, segments)})
        assert len(commit.files_beyond(former)) <= 8 + 256
        assert len(former.files_beyond(commit)) <= 8 + 256
        segments = changed
    assert len(segments) == 20_000 - 8 * 39 + 8 * 40
    assert max(sizes) < 200_000
    assert (segments.rows, len(segments.of_side("left"))) == (10 * len(segments), len(segments))
    assert len(segments.generations("left", 0, 99)) == 1
    assert len(pickle.dumps(segments)) < 200_000, "what was asked before is not sent along"
    assert len(folder.list(BLOBS)) - before <= 3


def test_a_commit_stays_small_where_segments_have_many_parts(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on remote stores: of each part the commit knows where it lies, and its checksum."""
    monkeypatch.setattr(segment_set, "MANIFEST_SEGMENTS", 256)
    each = 1 << 9
    parts = tuple(
        Part(n * each, (n + 1) * each - 1, 1000 + n, n << 16, 1 << 16, 0xFFFFFFFF)
        for n in range(128)
    )
    segments = SegmentSet()
    for number in range(30):
        new = [a_segment(f"{number}-{n}", parts=parts, batch_id=number) for n in range(16)]
        segments = segments.added(new).sealed(folder)
        committed(folder, segments, number)
        size = folder.size(f"{COMMITS}/{number:012d}.json")
        assert size is not None and size < 1_000_000
    assert sorted(s.name for s in segments) == sorted(
        f"{SEGMENTS}/{number}-{n}" for number in range(30) for n in range(16)
    )
    assert len(pickle.dumps(segments)) < 1_000_000
    assert len(folder.list(BLOBS)) < 20, "few at a time"
