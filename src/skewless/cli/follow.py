"""Following a running query: its reports as they are committed, its end, and the wish to stop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
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


def follow(
    query: StreamingQuery, follower: Follower, display: Display, request: StopRequest
) -> None:
    """Show the query's batches until it ends, fails or is to stop. Its failure is raised."""
    try:
        while query.isActive:
            _show(follower, display)
            if request.signal is not None:
                query.stop()
                return
            time.sleep(POLL_SECONDS)
        query.awaitTermination()
    finally:
        _show(follower, display)


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


def run_query(
    start: Callable[[], StreamingQuery], checkpoint: str | Folder, display: Display
) -> Outcome:
    """Start a query and follow it to its end, or until Ctrl-C. The checkpoint is a path, or its
    state folder where a store takes settings to be reached."""
    with StopRequest(lambda: display.status(STOPPING)) as request:
        begun = time.monotonic()
        query = start()
        follower = Follower(checkpoint)
        for report in follower.reports:
            display.batch(report, earlier=True)
        display.status("Joining")
        follow(query, follower, display, request)
        seconds = time.monotonic() - begun
    return Outcome(follower.reports, follower.earlier, seconds, request.exit_code)
