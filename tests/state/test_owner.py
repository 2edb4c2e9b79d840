"""Is the last owner of a checkpoint alive? On stores and mounts where no lock tells, by whether its
sign of life changes. And which commits count, by epochs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from skewless.errors import CheckpointInUseError, StateAccessError
from skewless.state import epochs, owner
from skewless.state.epochs import (
    KEPT,
    OWNER,
    Claim,
    Ownership,
    beat_file,
    claim_file,
    claimed,
    counted,
    counting,
    limit_of,
    note,
    noted,
)
from skewless.state.files import Folder
from skewless.state.owner import CheckpointLock, Heart, has_ended
from skewless.state.stores import objects
from tests.s3 import S3Server

LOOK_S = 0.5
ELSEWHERE = Claim("far-away", 4242, "2024-03-01T00:00:00+00:00", "another machine", "7")


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "BEAT_S", 0.05)
    monkeypatch.setattr(owner, "LOOK_S", LOOK_S)


@pytest.fixture(params=["local", "remote"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """A folder of this machine, or one of a store, which has no locks."""
    remote = request.param == "remote"
    made = request.getfixturevalue("s3").folder() if remote else Folder(str(tmp_path))
    made.make(OWNER)
    return made


def claim_by(folder: Folder, claim: Claim, epoch: int = 3) -> None:
    note(folder, claim_file(epoch), asdict(claim))


def acquired_after(folder: Folder) -> float:
    """How long it takes to get hold of a checkpoint."""
    lock, begun = CheckpointLock(folder), time.monotonic()
    lock.acquire()
    lock.release()
    return time.monotonic() - begun


@pytest.fixture
def beating(folder: Folder) -> Iterator[None]:
    """Somebody far away is alive."""
    claim_by(folder, ELSEWHERE)
    heart = Heart(folder, 3)
    yield
    heart.stop()


@pytest.mark.usefixtures("beating")
def test_one_that_is_alive_is_named(folder: Folder) -> None:
    with pytest.raises(CheckpointInUseError) as caught:
        acquired_after(folder)
    assert str(ELSEWHERE) == "process 4242 on far-away, since 2024-03-01T00:00:00+00:00"
    assert str(ELSEWHERE) in str(caught.value) and folder.root in str(caught.value)


def test_one_that_begins_to_live_is_alive(folder: Folder) -> None:
    """It has claimed the checkpoint, but gives its first sign only now."""
    claim_by(folder, ELSEWHERE)
    threading.Timer(LOOK_S / 4, note, (folder, beat_file(3), {"beats": 1})).start()
    with pytest.raises(CheckpointInUseError, match="far-away"):
        acquired_after(folder)


def test_another_that_comes_while_one_looks_has_it(folder: Folder) -> None:
    claim_by(folder, ELSEWHERE)
    other = replace(ELSEWHERE, host="further-away")
    threading.Timer(LOOK_S / 4, claim_by, (folder, other, 4)).start()
    with pytest.raises(CheckpointInUseError, match="further-away"):
        acquired_after(folder)


def test_one_without_signs_is_gone(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    claim_by(folder, ELSEWHERE)
    note(folder, beat_file(3), {"beats": 17})
    assert acquired_after(folder) >= LOOK_S
    assert "looking for 0.5 s whether it is alive" in caplog.text and "far-away" in caplog.text


def test_one_that_has_said_so_is_gone_at_once(folder: Folder) -> None:
    claim_by(folder, ELSEWHERE)
    heart = Heart(folder, 3)
    time.sleep(0.2)
    assert int(str(noted(folder, beat_file(3))["beats"])) > 1
    assert not has_ended(noted(folder, beat_file(3)))
    heart.stop()
    assert has_ended(noted(folder, beat_file(3)))
    assert acquired_after(folder) < LOOK_S


@pytest.mark.parametrize("born", ["", "never"])
def test_a_process_of_this_machine_that_is_not_there_is_gone(folder: Folder, born: str) -> None:
    """Its number may have been given to another: that was born at another time."""
    gone = replace(Claim.mine(), process=os.getppid(), born=born or "1")
    claim_by(folder, gone)
    assert acquired_after(folder) < LOOK_S


def test_a_query_of_this_process_is_told_by_itself(folder: Folder) -> None:
    claim_by(folder, Claim.mine())
    lock = CheckpointLock(folder)
    lock.acquire()
    with pytest.raises(CheckpointInUseError, match=f"process {os.getpid()} on "):
        CheckpointLock(folder).acquire()
    lock.release()
    assert acquired_after(folder) < LOOK_S


def test_what_cannot_be_read_is_no_sign_of_life(folder: Folder) -> None:
    folder.write(claim_file(3), b"")
    folder.write(beat_file(3), b'{"bea')
    assert acquired_after(folder) >= LOOK_S


# Epochs


def take(folder: Folder, last: int) -> Ownership:
    ownership = Ownership(folder)
    ownership.take(0, lambda: last)
    return ownership


def test_the_latest_owns(folder: Folder) -> None:
    first = take(folder, -1)
    first.check()
    second = take(folder, 4)
    assert (first.epoch, second.epoch) == (1, 2)
    second.check()
    with pytest.raises(CheckpointInUseError, match=f"process {os.getpid()} on .* taken over"):
        first.check()
    assert (limit_of(folder, 1), limit_of(folder, 2)) == (-1, 4)


def test_commits_count_up_to_what_later_epochs_found() -> None:
    commits = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (4, 3), (5, 3)]
    assert counting(commits, {}) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 3, 5: 3}
    assert counting(commits, {1: 1, 2: 3, 3: 3}) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 3, 5: 3}
    assert counting(commits, {4: 2}) == {0: 0, 1: 0, 2: 1}
    assert counting(commits[:5], {2: 3, 3: None}) == {0: 0, 1: 0, 2: 1, 3: 1}
    assert counting(commits, {1: -1, 2: -1, 3: -1}) == {4: 3, 5: 3}


def test_who_decided_nothing_cannot_do_so_later(folder: Folder) -> None:
    """It claimed an epoch and stood still; the next one decides for it."""
    take(folder, 7)
    note(folder, claim_file(2), asdict(ELSEWHERE))
    third = take(folder, 8)
    assert (third.epoch, limit_of(folder, 2)) == (3, 8)
    late = Ownership(replace(folder, epoch=2))
    assert not late._decide(2, 5)
    assert limit_of(folder, 2) == 8
    assert counted(folder, [(8, 1), (9, 1)]) == {8: 1}


def test_what_was_cut_off_decides_nothing(folder: Folder) -> None:
    take(folder, 7)
    folder.write(f"{OWNER}/{1:012d}.after.json", b'{"af')
    assert limit_of(folder, 1) is None
    take(folder, 9)
    assert (limit_of(folder, 1), limit_of(folder, 2)) == (9, 9)


def test_claims_are_forgotten_some_time(folder: Folder) -> None:
    first = take(folder, 0)
    for _ in range(KEPT):
        last = take(folder, 0)
        last.prune()
    assert claimed(folder) == list(range(2, KEPT + 2))
    with pytest.raises(CheckpointInUseError):
        first.check()
    last.check()


def test_epochs_go_on_where_only_commits_tell(folder: Folder) -> None:
    ownership = Ownership(folder)
    ownership.take(12, lambda: 5)
    assert ownership.epoch == 13


def test_names_tell_the_epoch(folder: Folder) -> None:
    name = epochs.own_name(replace(folder, epoch=17), "segments", "left")
    assert name.startswith("segments/e17.left-")
    assert epochs.epoch_of(name.removeprefix("segments/")) == 17


def test_a_store_that_replaces_what_is_to_be_created_is_refused(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers know no conditions, and take every request."""
    folder = s3.folder()
    ownership = Ownership(folder)
    ownership.take(0, lambda: -1)

    def put(client: Any, key: str, data: Any, **others: Any) -> Any:
        return store_put(client, key, data, **{k: v for k, v in others.items() if k != "mode"})

    store_put = objects.obstore.put
    monkeypatch.setattr(objects.obstore, "put", put)
    with pytest.raises(StateAccessError, match=r"replaces a file .* two queries on one checkpoint"):
        Ownership(folder).take(0, lambda: -1)
