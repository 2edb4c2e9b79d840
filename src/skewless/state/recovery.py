"""After a loss of power: from which commit a query goes on.

Commits are made durable before anything else happens. On a disk that does not keep its word the
newest one may be cut off all the same. As long as Spark has not committed that batch, it is
repeated; else only people can decide what is to be given up.
"""

from __future__ import annotations

import logging

from skewless.errors import StateDamagedError
from skewless.state.commits import (
    COMMITS,
    LAST_RESORT,
    Commit,
    CommitLog,
    TornError,
    checkpoint_of,
)
from skewless.state.files import Folder
from skewless.state.output import files_of_batch

log = logging.getLogger("skewless")


def sparks_folder(state: Folder) -> Folder:
    """The checkpoint folder around a state folder: Spark's own logs are in there."""
    return state.other(checkpoint_of(state))


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
                f"{error.what} {why_not}: {_way_back(state, batch_ids[:-1])}{LAST_RESORT}"
            ) from error
        log.warning("batch %d is repeated, as its commit is not whole: %s", last, error.what)
        return last - 1
    return last


def _way_back(state: Folder, kept: list[int]) -> str:
    """What to try before a checkpoint is given up."""
    if not kept:
        return "there is no earlier one to go back to, so "
    return (
        f"`skewless rollback {checkpoint_of(state)} --to BATCH` goes back to an earlier one (kept "
        f"are {kept}); if that cannot be, "
    )


def newest_whole(state: Folder) -> Commit | None:
    """The newest commit that can be read, for those who only look on; None before the first. Newer
    ones that are torn are told of, and left to the next start."""
    commits = CommitLog(state)
    torn: list[TornError] = []
    for batch_id in reversed(commits.batch_ids()):
        try:
            found = commits.read(batch_id)
        except TornError as error:
            torn.append(error)
            continue
        if torn:
            log.warning(
                "%s What is told ends with batch %d. The next start goes on from there if Spark "
                "repeats what came after it; else `skewless rollback %s --to %d` goes back to it.",
                " ".join(error.what for error in torn),
                batch_id,
                checkpoint_of(state),
                batch_id,
            )
        return found
    if torn:
        raise StateDamagedError(
            f"no commit in {state.path(COMMITS)} is whole: {torn[0].what} A start repeats the "
            f"first batch if Spark does, and nothing of it is shown; else {LAST_RESORT}"
        ) from torn[0]
    return None


def _why_not_repeat(state: Folder, last: int, batch_ids: list[int]) -> str:
    if last and last - 1 not in batch_ids:
        return f"The commit of batch {last - 1} is not kept"
    if sparks_folder(state).size(f"commits/{last}") is not None:
        return f"Spark has committed batch {last}, and will not repeat it"
    shown = files_of_batch(state, last)
    return f"Files of batch {last} are shown already, such as {shown[0]}" if shown else ""
