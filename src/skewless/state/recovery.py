"""After a loss of power: from which commit a query goes on.

Commits are made durable before anything else happens. On a disk that does not keep its word the
newest one may be cut off all the same. As long as Spark has not committed that batch, it is
repeated; else only people can decide what is to be given up.
"""

from __future__ import annotations

import logging

from skewless.errors import StateDamagedError
from skewless.state.commits import CommitLog, TornError
from skewless.state.files import Folder
from skewless.state.output import files_of_batch

log = logging.getLogger("skewless")


def sparks_folder(state: Folder) -> Folder:
    """The checkpoint folder around a state folder: Spark's own logs are in there."""
    return state.other(state.root.rstrip("/").rpartition("/")[0])


def last_whole_batch(state: Folder, commits: CommitLog) -> int:
    """The batch to go on from, -1 if there is none."""
    batch_ids = commits.batch_ids()
    if not batch_ids:
        return -1
    last = batch_ids[-1]
    try:
        commits.read(last)
    except TornError as error:
        why_not = _why_not_repeat(state, last, batch_ids)
        if why_not:
            raise StateDamagedError(
                f"{error} {why_not}: `skewless rollback {sparks_folder(state).root} --to BATCH` "
                f"goes back to an earlier one (kept are {batch_ids[:-1]})."
            ) from error
        log.warning("batch %d is repeated, as its commit is not whole: %s", last, error)
        return last - 1
    return last


def _why_not_repeat(state: Folder, last: int, batch_ids: list[int]) -> str:
    if last and last - 1 not in batch_ids:
        return f"The commit of batch {last - 1} is not kept"
    if sparks_folder(state).size(f"commits/{last}") is not None:
        return f"Spark has committed batch {last}, and will not repeat it"
    shown = files_of_batch(state, last)
    return f"Files of batch {last} are shown already, such as {shown[0]}" if shown else ""
