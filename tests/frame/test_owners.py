"""Several drivers on one checkpoint, in any interleaving of what they do to the store: nothing is
lost, nothing comes twice, and who was taken over from ends and says so.

Drivers are threads of which one runs at a time. Each stands still before it looks at the
store or changes it, and goes on when it is told to.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import failpoints
from skewless.engine import lifecycle
from skewless.errors import CheckpointInUseError
from skewless.state import compaction
from skewless.state.files import Folder
from tests.crashes import assert_nothing_is_left_over
from tests.frame.kit import Kit
from tests.frame.kits import KITS
from tests.frame.streams import Rows, busy, rows_of
from tests.frame.test_frame import Cut, even_cut
from tests.queries import PipelineRun
from tests.strategies import examples

BATCHES = 9
BEGUN = 6  # batches that are done when it begins
LOOKS = ("read", "size", "list")
SEVERAL = ["join", "deduplicate", "join → aggregate", "similarity_join → join"]
CHANGES = ("create", "write", "write_atomically", "delete", "delete_folder")


class SparksRefusalError(Exception):
    """Spark's log has this batch already: another driver was quicker."""


class Driver(threading.Thread):
    """A query from its start to the last batch, as Spark would run it: a batch is repeated as long
    as Spark's log does not say that it is done."""

    def __init__(self, kit: Kit, folder: Path) -> None:
        super().__init__(daemon=True)
        self._kit, self._folder = kit, folder
        self._streams = busy(*kit.streams)
        self._cut: Cut = even_cut(kit, self._streams)
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._left = 0
        self._until = ""
        self.steps: list[str] = []
        self.error: BaseException | None = None
        self.has_ended = False

    def run(self) -> None:
        self._go.acquire()
        try:
            self._work()
        except BaseException as error:
            self.error = error
        self.has_ended = True
        self._stands.release()

    def _work(self) -> None:
        pipeline = self._kit.pipeline(self._kit.setups[0])
        query = PipelineRun(self._folder / "skewless", pipeline, self._folder / "out")
        for number in range(self._done_by_spark() + 1, BATCHES):
            query.run_streams(number, self._cut.streams(self._streams, number))
            try:
                with (self._folder / "commits" / str(number)).open("x") as entry:
                    entry.write("v1\n{}")
            except FileExistsError as error:
                raise SparksRefusalError(number) from error

    def _done_by_spark(self) -> int:
        return max((int(p.name) for p in (self._folder / "commits").iterdir()), default=-1)

    def step(self, what: str) -> None:
        """Called in its own thread before it does something."""
        self.steps.append(what)
        self._left -= 1
        if self._left == 0 or (self._until and what.startswith(self._until)):
            self._stands.release()
            self._go.acquire()

    def go(self, steps: int = 0, until: str = "") -> None:
        """Let it do so many steps, or those up to one, or all that are left; and wait until it
        stands or has ended."""
        if not self.has_ended:
            if not self.is_alive():
                self.start()
            self._left, self._until = steps, until
            self._go.release()
            self._stands.acquire()

    def check_its_end(self) -> None:
        """It has come to the last batch, or knows why not."""
        assert self.has_ended
        if not isinstance(self.error, CheckpointInUseError | SparksRefusalError | None):
            raise self.error
        if isinstance(self.error, CheckpointInUseError):
            assert f"process {os.getpid()} on " in str(self.error)


def _stepping(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    def stepped(folder: Folder, *args: Any, **kwargs: Any) -> Any:
        thread = threading.current_thread()
        if isinstance(thread, Driver):
            thread.step(f"{name} {args[0] if args else ''}")
        return method(folder, *args, **kwargs)

    return stepped


@contextmanager
def stepwise(methods: tuple[str, ...]) -> Iterator[None]:
    """Let drivers stand still before they use the store by one of these methods, and at points of
    the protocol."""

    def hit(point: str, root: str, batch_id: int = -1) -> None:
        thread = threading.current_thread()
        if isinstance(thread, Driver):
            thread.step(point)

    with ExitStack() as patches:
        for name in methods:
            stepping = _stepping(getattr(Folder, name), name)
            patches.enter_context(mock.patch.object(Folder, name, stepping))
        patches.enter_context(mock.patch.object(failpoints, "hit", hit))
        patches.enter_context(mock.patch.object(compaction, "FAN_IN", 2))
        yield


@cache
def expected_of(name: str) -> Rows:
    return KITS[name].expected(busy(*KITS[name].streams))


class Checkpoint:
    """A folder with drivers on it."""

    def __init__(self, kit: Kit, folder: Path) -> None:
        self.kit, self.folder = kit, folder
        (folder / "commits").mkdir(parents=True, exist_ok=True)
        self.drivers: list[Driver] = []

    def driver(self) -> Driver:
        self.drivers.append(Driver(self.kit, self.folder))
        return self.drivers[-1]

    def check(self) -> None:
        """All drivers have ended. What is left to do is done, and all is compared."""
        for driver in self.drivers:
            driver.go()
            driver.check_its_end()
        self.driver().go()
        self.drivers[-1].check_its_end()
        assert self.drivers[-1].error is None
        assert len(list((self.folder / "commits").iterdir())) == BATCHES
        pipeline = self.kit.pipeline(self.kit.setups[0])
        query = PipelineRun(self.folder / "skewless", pipeline, self.folder / "out")
        found = rows_of(query.published_table())
        expected = expected_of(self.kit.name)
        assert found == expected, f"missing {expected - found}, too many {found - expected}"
        assert_nothing_is_left_over(query)


def begun(name: str, folder: Path) -> Checkpoint:
    """A checkpoint of which most batches are done."""
    checkpoint = Checkpoint(KITS[name], folder)
    shutil.copytree(done_before(name), folder, dirs_exist_ok=True)
    return checkpoint


@cache
def done_before(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="skewless-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with mock.patch(f"{__name__}.BATCHES", BEGUN), mock.patch.object(compaction, "FAN_IN", 2):
        driver = Checkpoint(KITS[name], folder).driver()
        driver.go()
    assert driver.error is None
    return folder


@cache
def steps_of(name: str, methods: tuple[str, ...]) -> list[str]:
    """What an undisturbed driver does from there on."""
    with tempfile.TemporaryDirectory() as folder, stepwise(methods):
        driver = begun(name, Path(folder)).driver()
        driver.go()
        assert driver.error is None
        return driver.steps


def a_driver_stands_still(name: str, folder: Path, step: int) -> None:
    """The first driver does so many steps, then another one runs to the end; then it goes on."""
    checkpoint = begun(name, folder)
    first, second = checkpoint.driver(), checkpoint.driver()
    first.go(step)
    second.go()
    assert second.error is None
    first.go()
    done = first.steps[:step]
    if "batch.begun" in done and done.count("commit.written") < BATCHES - BEGUN:
        assert first.error is not None
    checkpoint.check()


POINTS = ("owner.claimed", "owner.settled", "segment.written", "arrivals.collected",
          "instance.reported", "sink.staged", "commit.begun", "commit.written", "publish.begun",
          "publish.done", "cleanup.done")  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_stands_still_at(point: str, tmp_path: Path) -> None:
    step = steps_of("join", ()).index(point) + 1
    with stepwise(()):
        a_driver_stands_still("join", tmp_path, step)


# What each part of the protocol is there for: without it, this goes wrong.


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    with stepwise(("create",)):
        yield begun("join", tmp_path)


def test_who_was_taken_over_from_shows_nothing(checkpoint: Checkpoint) -> None:
    """It commits after the next owner has looked, and finds out before it shows its files: the next
    one will make its own."""
    first, second = checkpoint.driver(), checkpoint.driver()
    first.go(until="commit.begun")
    second.go(until="owner.settled")
    first.go()
    assert isinstance(first.error, CheckpointInUseError)
    second.go()
    assert second.error is None
    checkpoint.check()


def test_a_commit_that_came_too_late_never_counts(checkpoint: Checkpoint) -> None:
    """What it lists was swept by the second. The second gets no further, and a third must not take
    the late commit for the last one."""
    first, second, third = (checkpoint.driver() for _ in range(3))
    first.go(until="commit.begun")
    second.go(until="batch.begun")
    first.go()
    third.go()
    assert third.error is None
    checkpoint.check()


def test_a_commit_that_was_seen_is_shown_by_the_next(checkpoint: Checkpoint) -> None:
    first, second = checkpoint.driver(), checkpoint.driver()
    first.go(until="commit.written")
    second.go(until="owner.settled")
    first.go()
    assert isinstance(first.error, CheckpointInUseError)
    assert "publish.begun" not in first.steps
    second.go()
    assert second.steps.index("publish.begun") < second.steps.index("batch.begun")
    checkpoint.check()


def test_output_files_of_two_drivers_are_kept_apart(checkpoint: Checkpoint) -> None:
    """Both have them staged at the same time, for the same batch."""
    first, second = checkpoint.driver(), checkpoint.driver()
    first.go(until="sink.begun")
    second.go(until="sink.begun")
    first.go(until="sink.staged")
    second.go()
    assert second.error is None
    checkpoint.check()


def test_a_sweep_leaves_what_later_epochs_write(checkpoint: Checkpoint) -> None:
    """The first has committed and found nobody; then the second begins the next batch."""
    first, second = checkpoint.driver(), checkpoint.driver()
    first.go(until="publish.done")
    with mock.patch.object(lifecycle, "SWEEP_EVERY", 1):
        second.go(until="sink.staged")
        first.go(until="cleanup.done")
    second.go()
    assert second.error is None
    checkpoint.check()


def test_who_claims_and_hesitates_decides_nothing(checkpoint: Checkpoint) -> None:
    """The second has looked when the last commit was not there, and stands still before it says so.
    The third has seen and shown that commit: it counts."""
    first, second, third, fourth = (checkpoint.driver() for _ in range(4))
    first.go(until="commit.begun")
    second.go(until="create owner/000000000003.after")
    first.go()
    third.go(until="batch.begun")
    second.go()
    assert isinstance(second.error, CheckpointInUseError)
    fourth.go()
    assert fourth.error is None
    checkpoint.check()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SEVERAL)
def test_a_driver_stands_still_anywhere(name: str, tmp_path: Path) -> None:
    methods = (*LOOKS, *CHANGES)
    for step in range(1, len(steps_of(name, methods)) + 1):
        with stepwise(methods):
            a_driver_stands_still(name, tmp_path / str(step), step)


TURNS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 120)), min_size=2, max_size=8)


def drivers_take_turns(name: str, turns: list[tuple[int, int]], methods: tuple[str, ...]) -> None:
    """Three drivers, each of which goes on for so many steps when it is its turn."""
    with tempfile.TemporaryDirectory() as folder, stepwise(methods):
        checkpoint = begun(name, Path(folder))
        drivers = [checkpoint.driver() for _ in range(3)]
        for number, steps in turns:
            drivers[number].go(steps)
        checkpoint.check()


@examples(6)
@given(turns=TURNS)
def test_drivers_take_turns(turns: list[tuple[int, int]]) -> None:
    drivers_take_turns("join", turns, ("create", "write_atomically", "delete"))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SEVERAL)
@examples(400)
@given(turns=TURNS)
def test_drivers_take_turns_with_all(name: str, turns: list[tuple[int, int]]) -> None:
    drivers_take_turns(name, turns, (*LOOKS, *CHANGES))
