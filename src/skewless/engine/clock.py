"""Processing time: one moment for each batch, written down before anybody goes by it.

It is the driver's clock when the batch begins. A batch that is repeated after a crash goes by the
moment of its first try, on the driver and in its tasks, so that it comes to the same result: a sink
that took the first try need not take the second.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from skewless.errors import StateDamagedError
from skewless.state.commits import CLOCK_FILE, read_checked, write_checked
from skewless.state.files import Folder

Clock = Callable[[], int]


def wall_clock_us() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True)
class ClockRules:
    """What is asked of a stream by the clock: after how long without rows it no longer holds the
    watermark back, and how far ahead of the clock its rows may be. None: it is not asked."""

    idle_after_us: int | None = None
    max_ahead_us: int | None = None

    def __bool__(self) -> bool:
        return self != NO_RULES


NO_RULES = ClockRules()


@dataclass(frozen=True)
class Moment:
    """When a batch began."""

    batch_id: int
    us: int


class BatchClock:
    """Tells the moment of each batch, on the driver."""

    def __init__(self, folder: Folder, now_us: Clock = wall_clock_us) -> None:
        self._folder, self.now_us = folder, now_us
        self._last: Moment | None = None

    def moment_us(self, batch_id: int) -> int:
        """The moment of a batch, from now on, in whatever process."""
        last = self._last or self._of_the_process_before()
        if last is None or last.batch_id != batch_id:
            last = Moment(batch_id, self.now_us())
            write_checked(self._folder, CLOCK_FILE, asdict(last))
        self._last = last
        return last.us

    def _of_the_process_before(self) -> Moment | None:
        """What is left of a moment that is damaged is of no use: results come once all the same if
        it is decided on anew."""
        with contextlib.suppress(StateDamagedError):
            return noted_moment(self._folder)
        return None


def noted_moment(folder: Folder) -> Moment | None:
    """The moment that was written down last: that of the batch which is at work."""
    try:
        return Moment(**read_checked(folder, CLOCK_FILE))
    except FileNotFoundError:
        return None
