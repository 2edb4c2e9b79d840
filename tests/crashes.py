"""Crashes without Spark: work ends at a point of the commit protocol, and a query starts again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import pytest

from skewless import failpoints
from skewless.engine.lifecycle import DURABLE, TRANSIENT
from skewless.errors import StateDamagedError
from skewless.state.commits import CommitLog
from skewless.state.files import Folder
from tests.queries import OperatorRun, PipelineRun

POINTS = failpoints.POINTS
COMMITTED_FROM = POINTS.index("commit.written")
OFTEN = {"segment.begun", "segment.written", "instance.begun", "instance.worked",
         "compaction.written", "instance.reported", "publish.one"}  # fmt: skip

Crash = tuple[int, str, int]  # the batch, the point, and at which visit of it


class CrashError(Exception):
    """The process ends here, as far as the core can tell."""


class Story(Protocol):
    """Batches for an operator, with what must come of them."""

    @property
    def batches(self) -> Sequence[Any]: ...

    def assert_published(self, run: Any, batches: int) -> None:
        """Readers of the output see just the results of so many batches, each once."""


@contextmanager
def crash_at(point: str, visits: int = 1) -> Iterator[None]:
    """End the work when a point of the commit protocol is reached for the nth time."""
    left = visits

    def hit(name: str, root: str, batch_id: int = -1) -> None:
        nonlocal left
        left -= name == point
        if name == point and left == 0:
            raise CrashError(f"{point} in batch {batch_id}")

    with mock.patch.object(failpoints, "hit", hit):
        yield


def run_through(
    query: OperatorRun, batches: Sequence[Any], crashes: Sequence[Crash], starts: Iterator[Any]
) -> None:
    """All batches in spite of all crashes, with a new setup after each. A crash that is never
    reached does not happen."""
    for number, batch in enumerate(batches):
        for _, point, visit in [crash for crash in crashes if crash[0] == number]:
            try:
                with crash_at(point, visit):
                    query.run(number, batch)
            except CrashError:
                query.reopen(next(starts))
        query.run(number, batch)


def crash_in(
    run: OperatorRun, story: Story, batch: int, crash: tuple[str, int], again: Any = None
) -> None:
    """A batch crashes at a visit of a point, and the query goes on with another setup: readers see
    the batch if it was committed, and in the end all of them. Those before it are done."""
    point, visit = crash
    with crash_at(point, visit), pytest.raises(CrashError):
        run.run(batch, story.batches[batch])
    run.reopen(again)
    committed = POINTS.index(point) >= COMMITTED_FROM
    assert run.query.is_done(batch) == committed
    story.assert_published(run, batch + committed)
    # Spark repeats the batch that its log does not know to be done, and goes on from there.
    for number, rows in enumerate(story.batches[batch:], batch):
        run.run(number, rows)
    story.assert_published(run, len(story.batches))
    assert files_in(run.query.folder, TRANSIENT) == set()


def crash_often(
    run: OperatorRun, story: Story, crashes: Sequence[Crash], starts: Iterator[Any]
) -> None:
    """All batches come once, whatever crashes there are on the way."""
    run_through(run, story.batches, crashes, starts)
    story.assert_published(run, len(story.batches))
    assert_starts_clean(run, story)


def assert_starts_clean(run: OperatorRun, story: Story, again: Any = None) -> None:
    """A query that has done everything starts again: it leaves only what commits list, and shows
    nothing anew."""
    run.reopen(again)
    assert_nothing_is_left_over(run)
    story.assert_published(run, len(story.batches))


def leave_rubbish_and_repeat_tasks(run: OperatorRun, story: Story, batches: int) -> None:
    """What crashes and first tries of tasks leave behind goes when the query opens."""
    run.run(0, story.batches[0])
    before = files_in(run.query.folder, DURABLE)
    leave_rubbish(run)
    run.reopen()
    assert files_in(run.query.folder, DURABLE) == before
    assert_nothing_is_left_over(run)
    for number, batch in enumerate(story.batches[1:batches], 1):
        run.run(number, batch, twice=True)
    run.reopen()
    assert_nothing_is_left_over(run)


def assert_damage_is_refused(
    run: OperatorRun, story: Story, name: str, damage: Callable[[Path], None], told: str
) -> None:
    """The next batches are not run with a damaged file: the error names it, and says what to do."""
    last = run.query.last
    assert last is not None
    file = Path(run.query.folder.path(name))
    damage(file)
    with pytest.raises(StateDamagedError) as error:
        run.reopen()
        for number, batch in enumerate(story.batches[last.batch_id + 1 :], last.batch_id + 1):
            run.run(number, batch)
    assert str(error.value).startswith(f"{file} {told}")
    assert "restore the checkpoint folder" in str(error.value)


def go_back(run: OperatorRun, story: Story, batches: int, again: Any = None) -> None:
    """Restore a checkpoint to an earlier batch by deleting what came after it."""
    for number in range(len(story.batches) - batches, len(story.batches)):
        CommitLog(run.query.folder).delete(number)
    run.reopen(again)


# What is in the folder of the state.


def files_in(folder: Folder, parts: Sequence[str]) -> set[str]:
    return {f"{part}/{name}" for part in parts for name in folder.list(part)}


def listed_files(folder: Folder) -> set[str]:
    """Those that a commit refers to."""
    log = CommitLog(folder)
    return {name for batch_id in log.batch_ids() for name in log.read(batch_id).files}


def assert_nothing_is_left_over(query: PipelineRun) -> None:
    """All files are listed in a commit, and nothing of a batch remains."""
    folder = query.query.folder
    assert files_in(folder, DURABLE) == listed_files(folder)
    assert files_in(folder, TRANSIENT) == set()


def leave_rubbish(query: PipelineRun) -> None:
    """What a crash may leave in any folder."""
    state = Path(query.query.folder.root)
    for part in (*DURABLE, *TRANSIENT):
        (state / part / "of-a-crash").write_bytes(b"half a file")
    (state / "reports" / "000000000001-x").mkdir()
    (state / "reports" / "000000000001-x" / "0.json").write_bytes(b"{}")


def assert_three_commits_are_kept(query: OperatorRun, batches: Sequence[Any]) -> list[set[str]]:
    """Run all batches: there are the last three commits, and just the files of these. The files of
    every commit are returned."""
    log, listed = CommitLog(query.query.folder), []
    for number, batch in enumerate(batches):
        query.run(number, batch)
        listed.append(log.read(number).files)
        assert log.batch_ids() == list(range(number + 1))[-3:]
        assert listed_files(query.query.folder) == set().union(*listed[-3:])
        assert_nothing_is_left_over(query)
    return listed


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def alter(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


DAMAGES = {
    "missing": (Path.unlink, "is missing"),
    "truncated": (truncate, "was truncated or altered"),
    "altered": (alter, "was truncated or altered"),
}
