"""The snapshots of an Iceberg table, as far as they tell whether a batch is in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Snapshot:
    """A commit to a table. `batch` is the query and batch that it is of, if it is of any."""

    id: int
    parent: int | None
    batch: tuple[str, int] | None = None


def has_batch(
    snapshots: Iterable[Snapshot], head: int | None, since: int | None, batch: tuple[str, int]
) -> bool | None:
    """Whether a batch is in what `head` shows, if it was written after the snapshot `since`, or
    after the very first if that is None. None if nobody can tell: snapshots were expired.

    >>> chain = [Snapshot(1, None), Snapshot(2, 1, ("q", 7)), Snapshot(3, 2)]
    >>> has_batch(chain, 3, 1, ("q", 7)), has_batch(chain, 3, 2, ("q", 7))
    (True, False)
    >>> has_batch(chain[2:], 3, 1, ("q", 7)) is None
    True
    """
    known = {snapshot.id: snapshot for snapshot in snapshots}
    at = head
    while at is not None and at != since:
        if at not in known:
            return None
        if known[at].batch == batch:
            return True
        at = known[at].parent
    return False
