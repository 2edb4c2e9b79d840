"""Making the output files of a commit visible: a redo log of moves.

Files are staged under the checkpoint, the commit lists the moves, and only then are they moved.
After a crash the moves of the last commit are done again; a staged file that is gone was moved
before. So readers of the output folder see every file of a committed batch once, and none of any
other.
"""

from __future__ import annotations

from skewless import failpoints
from skewless.errors import StateAccessError
from skewless.state.commits import Commit
from skewless.state.files import Folder, qualify

STAGED = "staged"
# What is written as files that a commit publishes. Other sinks are written before the commit.
FILE_FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "xml", "avro"})


def staging_folder(batch_id: int) -> str:
    """Where the output files of a batch wait for its commit."""
    return f"{STAGED}/{batch_id:012d}"


def publish(folder: Folder, commit: Commit) -> None:
    """Move all staged files of a commit to where readers look for them."""
    if not commit.publish:
        return
    failpoints.hit("publish.begun", folder.root, commit.batch_id)
    for staged, final in commit.publish:
        if folder.size(staged) is not None:
            _move(folder, staged, final)
            failpoints.hit("publish.one", folder.root, commit.batch_id)
    failpoints.hit("publish.done", folder.root, commit.batch_id)


def _move(folder: Folder, staged: str, final: str) -> None:
    target, _, name = qualify(final).rpartition("/")
    try:
        folder.move(staged, folder.other(target), name)
    except OSError as error:
        raise StateAccessError(
            f"cannot move the output file {folder.path(staged)} to {target}/{name}: {error}. Start "
            "the query again when the output folder can be written: the move is then repeated."
        ) from error
