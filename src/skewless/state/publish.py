"""Making the output files of a commit visible: a redo log of moves.

Files are staged under the checkpoint, the commit lists the moves, and only then are they moved.
After a crash the moves of the last commit are done again; a staged file that is gone was moved
before. So readers of the output folder see every file of a committed batch once, and none of any
other.
"""

from __future__ import annotations

import os
import shutil
import uuid

import pyarrow.fs as pafs

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
    target, source = qualify(final), folder.path(staged)
    try:
        if folder.is_local and os.path.isabs(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _move_local(source, target)
        else:
            _move_remote(source, target)
    except OSError as error:
        raise StateAccessError(
            f"cannot move the output file {source} to {target}: {error}. Start the query again "
            "when the output folder can be written: the move is then repeated."
        ) from error


def _move_local(source: str, target: str) -> None:
    try:
        os.replace(source, target)
    except OSError:
        # Another file system: copy under a name that readers skip, then show it at once.
        hidden = os.path.join(os.path.dirname(target), f".{uuid.uuid4().hex}.tmp")
        shutil.copyfile(source, hidden)
        os.replace(hidden, target)
        os.unlink(source)


def _move_remote(source: str, target: str) -> None:
    from_fs, from_path = _filesystem(source)
    to_fs, to_path = _filesystem(target)
    to_fs.create_dir(to_path.rpartition("/")[0], recursive=True)
    if from_fs.equals(to_fs):
        from_fs.move(from_path, to_path)
    else:
        pafs.copy_files(from_path, to_path, source_filesystem=from_fs, destination_filesystem=to_fs)
        from_fs.delete_file(from_path)


def _filesystem(location: str) -> tuple[pafs.FileSystem, str]:
    if os.path.isabs(location):
        return pafs.LocalFileSystem(), location
    filesystem, path = pafs.FileSystem.from_uri(location)
    return filesystem, path
