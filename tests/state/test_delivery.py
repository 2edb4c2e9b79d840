"""What is to be delivered: how commits tell it, in which parts, and by which name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from skewless.errors import StateDamagedError, StateError, StateFormatError
from skewless.state import commits
from skewless.state.commits import Commit, CommitLog, Delivery, Move, Staged, read_checked
from skewless.state.delivery import PART_BYTES, deliver, shared_out
from skewless.state.files import Folder
from skewless.state.publish import is_shown, note_shown

DELIVERY = Delivery("orders", ((Staged("staged/e1/a", 5), Staged("staged/e1/b", 4)), ()))


@dataclass
class Noting:
    tasks: int = 4
    to: str = "orders"

    def __post_init__(self) -> None:
        self.got: list[int] = []

    def deliver(self, folder: Folder, commit: Commit) -> None:
        self.got.append(commit.batch_id)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


def test_a_commit_tells_what_is_to_be_delivered(folder: Folder) -> None:
    log = CommitLog(folder)
    folder.make(commits.COMMITS)
    log.write(Commit(3, {}, deliver=DELIVERY))
    assert CommitLog(folder).read(3) == Commit(3, {}, deliver=DELIVERY)


def test_versions_that_cannot_deliver_refuse_such_a_commit_alone(folder: Folder) -> None:
    log = CommitLog(folder)
    folder.make(commits.COMMITS)
    log.write(Commit(3, {}, deliver=DELIVERY))
    log.write(Commit(4, {}))
    [third, fourth] = sorted((Path(folder.root) / commits.COMMITS).iterdir())
    with pytest.raises(StateFormatError, match="is of format 3"):
        read_checked(folder, f"{commits.COMMITS}/{third.name}")  # as they do
    assert "deliver" not in read_checked(folder, f"{commits.COMMITS}/{fourth.name}")


def test_a_commit_of_before_has_nothing_to_deliver(folder: Folder) -> None:
    old = {"batch_id": 3, "operators": {}, "publish": [["staged/x", "/out/x", 1]]}
    assert Commit.from_json(folder, json.loads(json.dumps(old))).deliver is None


def test_names_outside_of_the_folder_are_refused(folder: Folder) -> None:
    folder.make(commits.COMMITS)
    outside = Delivery("orders", ((Staged("../../secret", 5),),))
    CommitLog(folder).write(Commit(3, {}, deliver=outside))
    with pytest.raises(StateDamagedError, match=r"outside of the state folder: \['../../secret'"):
        CommitLog(folder).read(3)


def test_that_it_was_delivered_is_noted(folder: Folder) -> None:
    folder.make("owner")
    folder.write("owner/000000000000.json", b"{}")
    commit = Commit(3, {}, deliver=DELIVERY)
    assert not is_shown(folder, commit)
    note_shown(folder, commit)
    assert is_shown(folder, commit)


@pytest.mark.parametrize(
    ("sizes", "tasks", "parts"),
    [
        ([], 4, None),
        ([10], 4, 1),
        ([10, 10, 10], 4, 1),  # too little for more
        ([PART_BYTES] * 6, 4, 4),
        ([PART_BYTES] * 6, 1, 1),
        ([PART_BYTES] * 2, 4, 2),
        ([PART_BYTES * 9], 4, 1),  # a file is not cut
    ],
)
def test_files_are_shared_out(sizes: list[int], tasks: int, parts: int | None) -> None:
    moves = [Move(f"staged/{n}", "", size) for n, size in enumerate(sizes)]
    shared = shared_out(moves, Noting(tasks))
    if parts is None:
        assert shared is None
        return
    assert shared is not None
    assert shared.to == "orders"
    assert len(shared.parts) == parts
    assert sorted(shared.files) == [(move.staged, move.bytes) for move in moves]
    loads = [sum(file.bytes for file in part) for part in shared.parts]
    assert max(loads) - min(loads) <= max(sizes)
    assert shared_out(moves[::-1], Noting(tasks)) == shared, "the order that files come in"


def test_only_what_is_listed_is_delivered(folder: Folder) -> None:
    noting = Noting()
    deliver(folder, Commit(2, {}), noting)
    deliver(folder, Commit(2, {}), None)
    assert noting.got == []
    deliver(folder, Commit(3, {}, deliver=DELIVERY), noting)
    assert noting.got == [3]


def test_results_that_wait_need_the_sink_that_they_are_for(folder: Folder) -> None:
    with pytest.raises(StateError, match=r"batch 3 .* still to be delivered to orders"):
        deliver(folder, Commit(3, {}, deliver=DELIVERY), None)
