"""What went between this process and a remote store."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace

_LOCK = threading.Lock()


@dataclass
class Traffic:
    """Bytes `fetched` and `written`, `requests` made, and how often a file, or a part of one, was
    on this host already (`hits`) or not (`misses`). Local folders count nothing."""

    fetched: int = 0
    written: int = 0
    requests: int = 0
    hits: int = 0
    misses: int = 0

    def add(self, **counts: int) -> None:
        with _LOCK:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def copy(self) -> Traffic:
        return replace(self)

    def since(self, before: Traffic) -> dict[str, int]:
        """What was added since, without what is none."""
        then = asdict(before)
        return {name: n - then[name] for name, n in asdict(self).items() if n != then[name]}


TRAFFIC = Traffic()  # of this process
