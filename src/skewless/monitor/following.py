"""Keeping models up to date, in a thread of its own, as long as somebody looks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence

from skewless.monitor.model import QueryModel
from skewless.monitor.reading import CheckpointReader

log = logging.getLogger("skewless")

EVERY_S = 1.0
LOOKED_AT_S = 30.0  # nobody who looks is silent for so long


class Follower:
    """Refreshes models every now and then; while nobody asks, it reads nothing."""

    def __init__(self, models: Sequence[QueryModel], every_s: float = EVERY_S) -> None:
        self.models, self._every_s = tuple(models), every_s
        self._wake = threading.Event()
        self._is_stopped = False
        self._asked = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="skewless-dashboard", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def asked(self) -> None:
        """Somebody looks."""
        was_away = self._is_nobody_there()
        self._asked = time.monotonic()
        if was_away:
            self._wake.set()

    def stop(self) -> None:
        self._is_stopped = True
        self._wake.set()
        self._thread.join()

    def _is_nobody_there(self) -> bool:
        return time.monotonic() - self._asked > LOOKED_AT_S

    def _run(self) -> None:
        while not self._is_stopped:
            self._wake.clear()
            for model in self.models:
                try:
                    model.refresh()
                except Exception:
                    log.exception("could not read %s", model.location)
            if any(model.waiting for model in self.models):
                continue
            self._wake.wait(None if self._is_nobody_there() else self._every_s)


def models_of(
    checkpoints: Sequence[str], settings: Mapping[str, str] | None = None
) -> list[QueryModel]:
    """Of each checkpoint what is known of its query: nothing yet."""
    return [QueryModel(CheckpointReader(checkpoint, settings)) for checkpoint in checkpoints]
