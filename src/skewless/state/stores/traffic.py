"""What went between this process and its remote stores."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass
class Traffic:
    """Counters of a process: bytes fetched and written, requests made, and how often a file was
    found in the cache (`hits`) or not (`misses`). Local folders count nothing."""

    fetched_bytes: int = 0
    written_bytes: int = 0
    requests: int = 0
    hits: int = 0
    misses: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def so_far(self) -> dict[str, int]:
        """The counts by name; what a piece of work took is the difference of two."""
        with self._lock:
            return {name: vars(self)[name] for name in COUNTERS}


COUNTERS = ("fetched_bytes", "written_bytes", "requests", "hits", "misses")
TRAFFIC = Traffic()  # of this process
