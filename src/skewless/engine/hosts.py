"""What went between each host and the store, in one batch."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from skewless.state.stores.traffic import TRAFFIC

Counts = Mapping[str, int]


def host() -> str:
    """This host, as Spark was told to call it, or as it calls itself."""
    told = (os.environ.get(name) for name in ("SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP"))
    return next((name for name in told if name), None) or socket.gethostname()


@dataclass(frozen=True)
class Traffic:
    """What a task has fetched and written; nothing where the store is local."""

    host: str = ""
    counts: Counts = field(default_factory=dict)


NO_TRAFFIC = Traffic()
_claimed: dict[str, int] = {}


def claim() -> Traffic:
    """What this process has fetched and written since it was last asked, so that nothing is claimed
    twice where a task hands its rows on within a process."""
    now, before = TRAFFIC.so_far(), dict(_claimed)
    _claimed.update(now)
    counts = {name: n - before.get(name, 0) for name, n in now.items()}
    counts = {name: n for name, n in counts.items() if n}
    return Traffic(host(), counts) if counts else NO_TRAFFIC


def by_host(traffic: Iterable[Traffic]) -> dict[str, dict[str, int]]:
    """The sums of every host that had to do with the store.

    >>> by_host([Traffic("a", {"requests": 2}), Traffic("a", {"requests": 1}), Traffic()])
    {'a': {'requests': 3}}
    """
    return added((one.host, one.counts) for one in traffic if one.counts)


def added(counts: Iterable[tuple[str, Counts]]) -> dict[str, dict[str, int]]:
    """Counts by host, put together."""
    found: dict[str, dict[str, int]] = {}
    for name, some in counts:
        mine = found.setdefault(name, {})
        for what, count in some.items():
            mine[what] = mine.get(what, 0) + count
    return found
