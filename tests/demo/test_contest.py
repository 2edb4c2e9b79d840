"""Taking turns, without Spark: queries are threads, and batches are nothing but numbers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from skewless.cli.demo.contest import Contest, in_turn
from skewless.cli.demo.folder import DemoFolder, Plan
from skewless.cli.demo.gate import Arrival, Gate
from skewless.cli.demo.turns import Turn, Turns
from skewless.cli.interrupt import StopRequest

PLAN = Plan(batches=4, rows=10, drift=0.0, seed=7)


class BrokenError(Exception):
    """What a made-up query fails with."""


class FakeQuery:
    """Does batches in a thread, from one on, and waits at the gate after each, as queries do."""

    def __init__(self, work: Callable[[int], None], first: int, batches: int) -> None:
        self._stopped, self._error = False, None
        self._work, self._batches = work, range(first, batches)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for batch in self._batches:
            if self._stopped:
                return
            try:
                self._work(batch)
            except BrokenError as error:
                self._error = error
                return

    @property
    def isActive(self) -> bool:
        return self._thread.is_alive()

    def awaitTermination(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._stopped = True
        self._thread.join(10)
        assert not self._thread.is_alive(), "a query hangs at the gate"


@dataclass
class FakeJoin:
    name: str
    gate: Gate
    log: list[tuple[str, int]]
    committed: int = 0  # batches that the query knows to be done
    fails_at: int = -1
    tasks: int = 2
    at_work: list[str] = field(default_factory=list)
    query: FakeQuery | None = None

    def start(self, spark: Any, plan: Plan, folder: DemoFolder) -> Any:
        self.query = FakeQuery(self._work, self.committed, plan.batches)
        return self.query

    def _work(self, batch: int) -> None:
        if batch == self.fails_at:
            raise BrokenError
        self.at_work.append(self.name)
        assert len(self.at_work) == 1, "one at a time"
        time.sleep(0.002)
        self.log.append((self.name, batch))
        self.at_work.remove(self.name)
        self.gate.arrive(self.name, batch)

    def turn(self, arrival: Arrival, seconds: float, *, cold: bool) -> Turn:
        return Turn(self.name, arrival.batch, seconds, 1, (1.0,), cold=cold)


class Silent:
    """A screen that says nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def status(self, what: str, detail: str = "") -> None:
        pass

    def working(self, who: str, batch: int) -> None:
        pass

    def turn(self, turn: Turn) -> None:
        pass


def contest(
    folder: Path, names: str = "abc", **changes: dict[str, Any]
) -> tuple[Contest, list[FakeJoin], list[tuple[str, int]]]:
    gate, log, at_work = Gate(), list[tuple[str, int]](), list[str]()
    joins = [FakeJoin(n, gate, log, at_work=at_work, **changes.get(n, {})) for n in names]
    turns, request = Turns(folder / "turns.jsonl"), StopRequest()
    made: Any = None
    return (
        Contest(made, PLAN, DemoFolder(folder), joins, gate, turns, Silent(), request),
        joins,
        log,
    )


def test_each_does_every_batch_before_the_next_begins(tmp_path: Path) -> None:
    made, joins, log = contest(tmp_path)
    made.run()
    assert log == [
        ("a", 0), ("b", 0), ("c", 0),
        ("b", 1), ("c", 1), ("a", 1),
        ("c", 2), ("a", 2), ("b", 2),
        ("a", 3), ("b", 3), ("c", 3),
    ]  # fmt: skip
    again = Turns(tmp_path / "turns.jsonl")
    assert [[t.batch for t in again.of(n)] for n in "abc"] == [[0, 1, 2, 3]] * 3
    assert [[t.cold for t in again.of(n)] for n in "abc"] == [[True, False, False, False]] * 3
    assert all(0.001 < t.seconds < 5 for n in "abc" for t in again.of(n))
    assert not any(join.query.isActive for join in joins if join.query)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    turns = Turns(tmp_path / "turns.jsonl")
    for name, batches in (("a", 4), ("b", 2), ("c", 1)):
        for batch in range(batches):
            turns.add(Turn(name, batch, 1.0, 1, (1.0,)))
    # b repeats a batch, as Spark does with one that it has not noted as done.
    made, joins, log = contest(tmp_path, b={"committed": 1}, c={"committed": 1})
    made.run()
    assert joins[0].query is None, "there was nothing left to do for it"
    assert log == [("c", 1), ("c", 2), ("b", 1), ("b", 2), ("b", 3), ("c", 3)]
    assert [t.seconds for t in made.turns.of("b")][:2] == [1.0, 1.0], "told as it was before"


def test_a_query_that_knows_more_than_was_noted(tmp_path: Path) -> None:
    made, _, log = contest(tmp_path, "ab", b={"committed": 4})
    made.run()
    assert log == [("a", batch) for batch in range(4)]


def test_a_failure_ends_all(tmp_path: Path) -> None:
    made, joins, log = contest(tmp_path, b={"fails_at": 2})
    with pytest.raises(BrokenError):
        made.run()
    assert ("b", 1) in log and ("b", 2) not in log
    assert not any(join.query.isActive for join in joins if join.query)


def test_a_wish_to_stop_ends_all(tmp_path: Path) -> None:
    made, joins, log = contest(tmp_path)
    work = joins[1]._work

    def interrupted(batch: int) -> None:
        made.request._note(2, None)
        work(batch)

    joins[1]._work = interrupted  # type: ignore[method-assign]
    made.run()
    assert log[:2] == [("a", 0), ("b", 0)] and ("c", 0) not in log
    assert not any(join.query.isActive for join in joins if join.query)


def test_nobody_waits_for_a_query_that_has_ended() -> None:
    assert Gate().wait("a", 0, lambda: False) is None


def test_another_one_begins_each_time() -> None:
    assert ["".join(in_turn("abc", batch)) for batch in range(4)] == ["abc", "bca", "cab", "abc"]  # type: ignore[arg-type]
