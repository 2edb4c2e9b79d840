"""Queries that take turns: each does a batch while the others wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from skewless.engine.report import BatchReport

LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Arrival:
    """A query has done a batch: when, and what it tells of it."""

    batch: int
    at: float
    report: BatchReport | None = None


class Gate:
    """Queries wait here after each batch, in their own threads, until the next one is wanted."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._arrived: dict[str, Arrival] = {}
        self._wanted: dict[str, float] = {}

    def arrive(self, who: str, batch: int, report: BatchReport | None = None) -> None:
        """Called by a query that has done a batch; returns when it may do the next."""
        with self._changed:
            self._arrived[who] = Arrival(batch, time.monotonic(), report)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._wanted.get(who, -1.0) > batch)

    def want(self, who: str, batch: float) -> None:
        """Let a query go on until it has done a batch."""
        with self._changed:
            self._wanted[who] = batch
            self._changed.notify_all()

    def let_go(self, who: str) -> None:
        """Hold a query up no more."""
        self.want(who, float("inf"))

    def wait(self, who: str, batch: int, go_on: Callable[[], bool]) -> Arrival | None:
        """Wait until a query has done a batch; None if there is no sense in waiting any longer."""
        with self._changed:
            while who not in self._arrived or self._arrived[who].batch < batch:
                if not self._changed.wait(LOOK_SECONDS) and not go_on():
                    return None
            return self._arrived[who]
