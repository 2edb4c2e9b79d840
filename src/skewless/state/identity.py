"""Who a query is to the world outside: an id of its checkpoint, unlike that of any other.

Sinks that are written before the commit note it beside what they write, with the batch id, so that
a repeated batch is told from a new one. Restarts keep it. A rollback gives another one: what comes
after it are other batches, though they have the same numbers.
"""

from __future__ import annotations

import uuid

from skewless.errors import StateDamagedError
from skewless.state.files import Folder

IDENTITY = "identity"


def query_id(folder: Folder) -> str:
    """The id of a checkpoint, 32 hexadecimal digits: made once, by whoever asks first."""
    if folder.size(IDENTITY) is None:
        folder.create(IDENTITY, uuid.uuid4().hex.encode())
    found = folder.read(IDENTITY).decode("ascii", errors="replace")
    if len(found) != 32 or not set(found) <= set("0123456789abcdef"):
        raise StateDamagedError(
            f"{folder.path(IDENTITY)} does not hold the id of this query. Restore it from a backup:"
            " with another id, rows that are in the sink already would be written once more."
        )
    return found


def known_id(folder: Folder) -> str | None:
    """The id of a checkpoint if a sink has asked for it; None if none has."""
    return None if folder.size(IDENTITY) is None else query_id(folder)


def forget_id(folder: Folder) -> None:
    """Let the next who asks make another id."""
    folder.delete(IDENTITY)
