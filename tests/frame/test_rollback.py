"""Going back: the state and the output after an earlier batch, whatever interrupts it; and from
there on exactly once again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from skewless.cli.app import app
from skewless.engine.clock import BatchClock
from skewless.errors import StateDamagedError, StateError
from skewless.state import compaction
from skewless.state.epochs import Ownership
from skewless.state.files import Folder
from skewless.state.identity import query_id
from skewless.state.output import Output
from skewless.state.owner import CheckpointLock
from skewless.state.rollback import plan_rollback, roll_back, sparks_entries
from tests.crashes import CrashError, assert_nothing_is_left_over
from tests.frame.streams import rows_of
from tests.frame.test_frame import BATCHES, Frame, busy_frame
from tests.frame.test_owners import KITS, expected_of

DONE = 7  # batches


class Story:
    """A query of some batches, with what Spark would have noted beside it."""

    def __init__(self, folder: Path, name: str = "join") -> None:
        self.folder, self.name = folder, name
        for log in ("offsets", "commits"):
            (folder / log).mkdir(parents=True)
        self.state = Folder(str(folder / "state"))
        self.frame: Frame = busy_frame(KITS[name], folder)
        Output(str(folder / "out")).take(self.state)
        self.run(0, DONE)
        self._note("offsets", DONE)  # Spark has planned the next one

    def _note(self, log: str, batch: int) -> None:
        (self.folder / log / str(batch)).write_text("v1\n{}\n-")
        (self.folder / log / f".{batch}.crc").touch()

    def run(self, begin: int, end: int) -> None:
        for number in range(begin, end):
            self._note("offsets", number)
            self.frame.batch(number)
            self._note("commits", number)

    def noted(self, log: str) -> list[int]:
        names = [p.name for p in (self.folder / log).iterdir()]
        plain = sorted(int(name) for name in names if name.isdigit())
        assert sorted(names) == sorted([*map(str, plain), *(f".{n}.crc" for n in plain)])
        return plain

    def roll_back(self, to: int) -> None:
        roll_back(self.state, plan_rollback(self.state, to), Ownership(self.state))

    def finish(self, after: int) -> None:
        """Start again, and work on what is left: all of it, and nothing twice."""
        assert self.noted("commits") == list(range(after + 1))
        assert [n for n in self.noted("offsets") if n > after] == []
        self.frame.restart(0)
        assert self.frame.run.query.last is not None
        assert self.frame.run.query.last.batch_id == after
        assert_nothing_is_left_over(self.frame.run)
        self.run(after + 1, BATCHES)
        found, expected = rows_of(self.frame.run.published_table()), expected_of(self.name)
        assert found == expected, f"missing {expected - found}, too many {found - expected}"
        self.frame.check()


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with mock.patch.object(compaction, "FAN_IN", 2):
        yield Story(tmp_path / "ckpt")


@pytest.mark.quick(1)
@pytest.mark.parametrize("to", [DONE - 3, DONE - 2, DONE - 1])
def test_batches_are_repeated(story: Story, to: int) -> None:
    plan = plan_rollback(story.state, to)
    assert plan.batches == tuple(range(to + 1, DONE))
    names = [Path(file).name.removeprefix("batch-") for file in plan.removed]
    assert {int(name.partition("-")[0]) for name in names} <= set(plan.batches)
    assert bool(plan.removed) == (to < DONE - 1)
    story.roll_back(to)
    story.finish(to)


@pytest.mark.slow
def test_twice_and_further(story: Story) -> None:
    story.roll_back(DONE - 2)
    story.frame.restart(0)
    story.run(DONE - 1, DONE)
    story.roll_back(DONE - 3)
    story.finish(DONE - 3)


def test_what_is_not_kept_is_refused(story: Story) -> None:
    with pytest.raises(StateError, match=r"batch 1 is not among those .*: 4, 5, 6\."):
        plan_rollback(story.state, 1)
    with pytest.raises(StateError, match="batch 7 is not among"):
        plan_rollback(story.state, DONE)
    (story.folder / "offsets" / "5").unlink()
    with pytest.raises(StateError, match="Spark's log no longer has batch 5"):
        plan_rollback(story.state, 5)


@contextmanager
def interrupted_at(step: int) -> Iterator[list[str]]:
    """Let the nth change of the store fail."""
    steps: list[str] = []

    def failing(name: str) -> None:
        method = getattr(Folder, name)

        def change(folder: Folder, *args: object) -> object:
            steps.append(f"{name} {args[0]}")
            if len(steps) == step:
                raise CrashError(steps[-1])
            return method(folder, *args)

        patches.enter_context(mock.patch.object(Folder, name, change))

    with ExitStack() as patches:
        for name in ("write_atomically", "create", "write", "delete"):
            failing(name)
        yield steps


def is_interrupted(story: Story, step: int) -> bool:
    """Whether a rollback has so many steps. Until it is repeated no query starts."""
    to = DONE - 3
    try:
        with interrupted_at(step):
            story.roll_back(to)
    except CrashError:
        pass
    else:
        return False
    if story.state.size("rollback.json") is not None:
        with pytest.raises(StateDamagedError, match=f"Repeat it: .* --to {to}"):
            story.frame.restart(0)
        with pytest.raises(StateError, match="repeat it, or go back further"):
            plan_rollback(story.state, to + 1)
    story.roll_back(to)
    story.finish(to)
    return True


def test_an_interrupted_one_is_repeated(story: Story) -> None:
    assert is_interrupted(story, step=11)


@pytest.mark.slow
def test_one_that_is_interrupted_anywhere(story: Story, tmp_path: Path) -> None:
    saved, step = tmp_path / "saved", 1
    shutil.copytree(story.folder, saved)
    while is_interrupted(story, step):
        shutil.rmtree(story.folder)
        shutil.copytree(saved, story.folder)
        step += 1
    assert step > 15


def test_a_commit_that_is_not_whole(story: Story) -> None:
    """Spark has committed it: the query refuses, and one can go back."""
    [file] = (story.folder / "state" / "commits").glob(f"{DONE - 1:012d}-*.json")
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(StateDamagedError, match=r"Spark has committed batch 6.*kept are \[4, 5\]"):
        story.frame.restart(0)
    for output in (story.folder / "out").glob(f"{DONE - 1}-*"):
        output.rename(output.with_name(f"batch-{DONE - 1:012d}-{output.name}"))
    plan = plan_rollback(story.state, DONE - 2)
    assert plan.removed and all("batch-000000000006-" in file for file in plan.removed)
    story.roll_back(DONE - 2)
    story.finish(DONE - 2)


def test_a_batch_that_was_only_begun_is_another_one_afterwards(story: Story) -> None:
    """Spark had planned it, a table may have it, and it had a moment. When it comes again, it has
    what has come since: the table must not skip it, nor may rows be ahead of that moment."""
    state, long_ago = story.state, 1_000_000
    before = query_id(state)
    BatchClock(state, lambda: long_ago).moment_us(DONE)
    story.roll_back(DONE - 1)
    assert query_id(state) != before
    assert BatchClock(state, lambda: 2 * long_ago).moment_us(DONE) == 2 * long_ago


def test_where_nothing_is_taken_back_a_query_stays_who_it_is(story: Story) -> None:
    """Its last batch may have to be delivered once more, and must then be known."""
    story.roll_back(DONE - 1)
    before = query_id(story.state)
    story.roll_back(DONE - 1)
    assert query_id(story.state) == before


def test_files_of_others_are_kept(story: Story) -> None:
    other = story.folder / "out" / "batch-000000000006-of-another-checkpoint"
    other.touch()
    plan = plan_rollback(story.state, DONE - 3)
    assert plan.kept == (str(other),)
    story.roll_back(DONE - 3)
    assert other.exists()


def named_as_the_tool_does(story: Story) -> Path:
    """The tool looks for the state in a folder of this name."""
    (story.folder / "state").rename(story.folder / "skewless")
    return story.folder


def test_the_tool_shows_asks_and_does(story: Story) -> None:
    checkpoint, to = str(named_as_the_tool_does(story)), DONE - 3
    runner = CliRunner()
    told = runner.invoke(app, ["rollback", checkpoint, "--to", str(to)], input="n\n")
    assert told.exit_code == 0 and "Nothing was done." in told.stdout
    assert "batches: 5, 6" in told.stdout and "commits/6" in told.stdout.replace("\n", "")
    shown = json.loads(runner.invoke(app, ["rollback", checkpoint, "--to", "4", "--json"]).stdout)
    assert shown["batches"] == [5, 6] and not shown["done"] and "offsets/7" in shown["spark"]
    assert story.noted("commits") == list(range(DONE))
    told = runner.invoke(app, ["rollback", checkpoint, "--to", str(to), "--yes"])
    assert told.exit_code == 0 and "Done." in told.stdout
    assert story.noted("commits") == list(range(to + 1))
    assert sparks_entries(Folder(f"{checkpoint}/skewless"), to) == []


def test_rows_in_a_table_outside_are_told_of(story: Story) -> None:
    """They stay there, and what comes after must not be taken for them."""
    checkpoint = str(named_as_the_tool_does(story))
    state = Folder(f"{checkpoint}/skewless")
    runner, asked = CliRunner(), ["rollback", checkpoint, "--to", "4"]
    assert "second time" not in runner.invoke(app, asked, input="n\n").stdout
    before = query_id(state)
    told = runner.invoke(app, asked, input="n\n").stdout.replace("\n", " ")
    assert "come a second time" in told and before in told
    assert query_id(state) == before
    done = runner.invoke(app, [*asked, "--yes", "--json"])
    assert json.loads(done.stdout)["outside"] == before
    assert query_id(state) != before


def test_the_tool_refuses_while_a_query_runs(story: Story) -> None:
    checkpoint = str(named_as_the_tool_does(story))
    lock = CheckpointLock(Folder(f"{checkpoint}/skewless"))
    lock.acquire()
    told = CliRunner().invoke(app, ["rollback", checkpoint, "--to", "4", "--yes"])
    lock.release()
    assert told.exit_code == 2
    assert "is running on" in told.stderr
    assert story.noted("commits") == list(range(DONE))
