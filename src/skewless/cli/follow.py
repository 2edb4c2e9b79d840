"""Following a running query: its reports as they are committed, its end, and the wish to stop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skewless.cli.display import Display
from skewless.cli.interrupt import StopRequest
from skewless.cli.totals import total
from skewless.engine.report import BatchReport
from skewless.history import History, history, state_folder
from skewless.state.commits import CommitLog
from skewless.state.files import Folder
from skewless.state.history import HISTORY

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.2
STOPPING = "Stopping; what is committed stays"


class Follower:
    """Reads each committed report once, however long the history is."""

    def __init__(self, checkpoint: str | Folder) -> None:
        self._folder = state_folder(checkpoint)
        self._commits = CommitLog(self._folder)
        self.reports: History = history(checkpoint)
        self.earlier = len(self.reports)

    def fresh(self) -> list[BatchReport]:
        """The reports of the batches committed since the last call."""
        seen = self.reports[-1].batch_id if self.reports else -1
        last = max(self._commits.batch_ids(), default=-1)
        found = []
        for batch_id in range(seen + 1, last + 1):
            content = self._folder.read(f"{HISTORY}/{batch_id:012d}.json")
            found.append(BatchReport.from_json(json.loads(content)))
        self.reports += found
        return found


@dataclass(frozen=True)
class Query:
    """A query that is to be run: how it is started, where its state lies (a path, or its state
    folder where a store takes settings to be reached), and where it is shown."""

    start: Callable[[], StreamingQuery]
    checkpoint: str | Folder
    display: Display


@dataclass(frozen=True)
class Running:
    """A query that was started."""

    query: StreamingQuery
    follower: Follower
    display: Display
    begun: float


def follow(running: Sequence[Running], request: StopRequest) -> None:
    """Show the batches of queries until all end, one fails, or they are to stop. A failure is
    raised."""
    try:
        while any(one.query.isActive for one in running):
            for one in running:
                _show(one.follower, one.display)
                if not one.query.isActive:
                    one.query.awaitTermination()  # raises its failure, if it has failed
            if request.signal is not None:
                return
            time.sleep(POLL_SECONDS)
        for one in running:
            one.query.awaitTermination()
    finally:
        for one in running:
            if one.query.isActive:
                one.query.stop()
        for one in running:
            _show(one.follower, one.display)


def _show(follower: Follower, display: Display) -> None:
    for report in follower.fresh():
        display.batch(report)


@dataclass(frozen=True)
class Outcome:
    """How a query went: all its reports, how many are from earlier runs, and why it ended."""

    reports: History
    earlier: int
    seconds: float
    exit_code: int

    def to_json(self) -> dict[str, Any]:
        return total(self.reports).to_json() | {
            "batches_before": self.earlier,
            "seconds": round(self.seconds, 3),
            "stopped": self.exit_code != 0,
        }


def run_queries(queries: Sequence[Query]) -> list[Outcome]:
    """Start queries and follow them to their ends, or until Ctrl-C. If one fails, all stop."""

    def stopping() -> None:
        for one in queries:
            one.display.status(STOPPING)

    with StopRequest(stopping) as request:
        running: list[Running] = []
        try:
            for one in queries:
                running.append(_started(one))
        except BaseException:
            for other in running:
                other.query.stop()
            raise
        follow(running, request)
        ended = time.monotonic()
    return [
        Outcome(r.follower.reports, r.follower.earlier, ended - r.begun, request.exit_code)
        for r in running
    ]


def _started(one: Query) -> Running:
    begun = time.monotonic()
    query = one.start()
    follower = Follower(one.checkpoint)
    for report in follower.reports:
        one.display.batch(report, earlier=True)
    one.display.status("Running")
    return Running(query, follower, one.display, begun)
