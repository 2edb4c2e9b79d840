"""Named points of the commit protocol, where tests stop a process to kill it.

In production `hit` does nothing. With ``SKEWLESS_PAUSE_AT=point@batch=marker-file`` in the
environment, whoever reaches that point in that batch creates the marker file and waits there; who
set the variable then kills the process. A marker that exists already is not waited at again, so
that the restarted process passes. Its name is relative to the state: a process may run several
queries, and each waits at its own.
"""

from __future__ import annotations

import os
import time

POINTS = (
    "batch.begun",
    "segment.begun",
    "segment.written",
    "arrivals.collected",
    "instance.begun",
    "instance.worked",
    "compaction.written",
    "instance.reported",
    "sink.begun",
    "sink.staged",
    "history.written",
    "commit.begun",
    "commit.written",
    "publish.begun",
    "publish.one",
    "publish.done",
    "cleanup.done",
)

TABLE = ("table.staged", "table.written")  # of databases, between "sink.begun" and "sink.staged"
DELIVERY = ("delivery.begun", "delivery.produced", "delivery.one", "delivery.done")
OPENING = ("owner.claimed", "owner.settled")  # before the first batch

_TARGET = os.environ.get("SKEWLESS_PAUSE_AT", "")


def hit(point: str, root: str, batch_id: int = -1) -> None:
    """Tell that the query whose state lies in `root` has reached a point of the protocol."""
    if not _TARGET:
        return
    where, _, marker = _TARGET.partition("=")
    wanted, _, batch = where.partition("@")
    if point != wanted or (batch and batch_id >= 0 and int(batch) != batch_id):
        return
    try:
        os.close(os.open(os.path.join(root, marker), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    time.sleep(3600)
