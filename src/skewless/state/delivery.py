"""Delivering results to a system that files cannot be moved to: a redo log, as for files.

Results are staged under the checkpoint, the commit lists them in parts, and only then are they
delivered. After a crash the parts of the last commit are delivered again; who delivers has to tell
which of them the system has already. Once it has all, that is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skewless import failpoints
from skewless.errors import StateError
from skewless.state.commits import Commit, Delivery, Move, Staged
from skewless.state.files import Folder

PART_BYTES = 32 << 20  # less is sooner delivered by one who is ready than by several who are not


class Deliverer(Protocol):
    """Takes staged results to where they belong. `to` is what the commit calls that place, `tasks`
    how many parts can be delivered at once."""

    @property
    def to(self) -> str: ...

    @property
    def tasks(self) -> int: ...

    def deliver(self, folder: Folder, commit: Commit) -> None:
        """Deliver all parts of a commit that are not there yet, each of them once."""


def shared_out(moves: Sequence[Move], deliverer: Deliverer) -> Delivery | None:
    """Staged files in parts of about the same size; None if there are none. Of a move only the
    staged name counts."""
    files = sorted((Staged(m.staged, m.bytes or 0) for m in moves), key=lambda f: (-f.bytes, f))
    if not files:
        return None
    worth = sum(file.bytes for file in files) // PART_BYTES
    parts: list[list[Staged]] = [[] for _ in range(max(1, min(deliverer.tasks, len(files), worth)))]
    for file in files:
        min(parts, key=lambda part: sum(f.bytes for f in part)).append(file)
    return Delivery(deliverer.to, tuple(map(tuple, parts)))


def deliver(folder: Folder, commit: Commit, deliverer: Deliverer | None) -> None:
    """Have the results of a commit delivered, as often as it takes."""
    if commit.deliver is None:
        return
    if deliverer is None:
        raise StateError(
            f"the results of batch {commit.batch_id} in {folder.root} are still to be delivered to "
            f"{commit.deliver.to}. Start the query once with the sink that it had, then with "
            "another; or go back to the batch before with `skewless rollback`."
        )
    failpoints.hit("delivery.begun", folder.root, commit.batch_id)
    deliverer.deliver(folder, commit)
    failpoints.hit("delivery.done", folder.root, commit.batch_id)
