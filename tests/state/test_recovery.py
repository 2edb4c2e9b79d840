"""The newest commit is torn: who looks on goes on with the one before, and all say what to do that
keeps the checkpoint."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import skewless as sk
from skewless.engine.report import BatchReport
from skewless.errors import StateDamagedError
from skewless.state.commits import (
    COMMITS,
    LAST_RESORT,
    QUERY_FILE,
    RESTORE,
    Commit,
    CommitLog,
    OperatorState,
    TornError,
    claim,
    read_checked,
)
from skewless.state.files import Folder
from skewless.state.history import HISTORY, write_report
from skewless.state.recovery import last_whole_batch, newest_whole

ROLLBACK = "`skewless rollback {} --to {}` goes back to"


@pytest.fixture
def state(tmp_path: Path) -> Folder:
    """The state folder of a query after three batches."""
    made = Folder(str(tmp_path / "skewless"))
    for name in (COMMITS, HISTORY):
        made.make(name)
    claim(made, {"kind": "deduplication"})
    for number in range(3):
        CommitLog(made).write(Commit(number, {"deduplicate": OperatorState(number, {})}))
        report = BatchReport(name="deduplicate", batch_id=number, duration_ms=1.0)
        write_report(made, number, report.to_json())
    return made


def tear(state: Folder, *batches: int) -> str:
    """Cut commits off; the path of the last."""
    for batch_id in batches:
        name = f"{COMMITS}/{batch_id:012d}.json"
        state.write(name, state.read(name)[:30])
    return state.path(name)


def test_what_is_whole_is_read_without_a_word(
    state: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    found = newest_whole(state)
    assert found == CommitLog(state).latest()
    assert not caplog.records
    for number in range(3):
        CommitLog(state).delete(number)
    assert newest_whole(state) is None


@pytest.mark.parametrize(("torn", "last"), [((2,), 1), ((1, 2), 0), ((1,), 2)])
def test_who_looks_on_goes_on_with_the_newest_that_is_whole(
    state: Folder, tmp_path: Path, torn: tuple[int, ...], last: int,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    path = tear(state, *torn)
    told = sk.history(str(tmp_path))
    assert [report.batch_id for report in told] == list(range(last + 1))
    if last == 2:
        assert not caplog.records
        return
    (record,) = caplog.records
    said = record.getMessage()
    assert path in said
    assert "The next start goes on from there if Spark repeats what came after it" in said
    assert ROLLBACK.format(tmp_path, last) in said
    assert "backup" not in said


def test_if_none_is_whole_it_is_said(state: Folder, tmp_path: Path) -> None:
    tear(state, 0, 1)
    path = tear(state, 2)
    with pytest.raises(StateDamagedError, match=r"no commit in .* is whole: ") as caught:
        sk.history(str(tmp_path))
    assert path in str(caught.value)
    assert str(caught.value).endswith(LAST_RESORT)


def test_a_torn_commit_is_no_reason_to_give_a_checkpoint_up(state: Folder, tmp_path: Path) -> None:
    path = tear(state, 2)
    with pytest.raises(TornError) as caught:
        CommitLog(state).latest()
    told = str(caught.value)
    places = [
        told.index(part)
        for part in (path, "the next start goes on", ROLLBACK.format(tmp_path, "BATCH"), "a backup")
    ]
    assert places == sorted(places)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.what) == (told, caught.value.what)


def test_other_files_have_their_own_advice(state: Folder) -> None:
    state.write(QUERY_FILE, b"{")
    with pytest.raises(TornError) as caught:
        read_checked(state, QUERY_FILE)
    assert str(caught.value).endswith(f"). {RESTORE}")
    assert "rollback" not in str(caught.value)


def test_a_recovery_that_succeeds_gives_no_advice(
    state: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    path = tear(state, 2)
    assert last_whole_batch(state, CommitLog(state)) == 1
    (record,) = caplog.records
    assert "batch 2 is repeated" in record.getMessage() and path in record.getMessage()
    assert "backup" not in record.getMessage()


def test_a_recovery_that_cannot_be_names_the_rollback_first(state: Folder, tmp_path: Path) -> None:
    sparks = Folder(str(tmp_path))
    sparks.make("commits")
    sparks.write("commits/2", b"v1")
    tear(state, 2)
    with pytest.raises(StateDamagedError, match="Spark has committed batch 2") as caught:
        last_whole_batch(state, CommitLog(state))
    told = str(caught.value)
    way = ROLLBACK.format(tmp_path, "BATCH")
    assert told.count("backup") == told.count(way) == 1
    assert told.index(way) < told.index("kept are [0, 1]") < told.index("backup")


def test_a_first_batch_has_none_before_it(state: Folder, tmp_path: Path) -> None:
    for number in (1, 2):
        CommitLog(state).delete(number)
    Folder(str(tmp_path)).make("commits")
    Folder(str(tmp_path)).write("commits/0", b"v1")
    tear(state, 0)
    with pytest.raises(StateDamagedError, match="no earlier one to go back to") as caught:
        last_whole_batch(state, CommitLog(state))
    assert str(caught.value).endswith(LAST_RESORT)
    assert "rollback" not in str(caught.value)
