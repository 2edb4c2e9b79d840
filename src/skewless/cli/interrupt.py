"""Ctrl-C as a request: the batch that runs is given up, everything committed stays."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """While active, the first Ctrl-C (or SIGTERM) sets `signal` and calls `noticed`; the second one
    ends at once."""

    def __init__(self, noticed: Callable[[], None] = lambda: None) -> None:
        self.signal: int | None = None
        self._noticed = noticed
        self._before: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """What shells report of a program that a signal ended."""
        return 0 if self.signal is None else 128 + self.signal

    def __enter__(self) -> StopRequest:
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        self._noticed()
