"""Making the output files of a commit visible: a redo log of moves.

Files are staged under the checkpoint, the commit lists the moves, and only then are they moved.
After a crash the moves of the last commit are done again; a staged file that is gone was moved
before, and must be where it belongs with the size that was committed. So readers of the output
folder see every file of a committed batch once, and none of any other. Once all are there, that is
noted: from then on readers may remove what they have seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from skewless import failpoints
from skewless.errors import StateAccessError, StateDamagedError
from skewless.state.commits import Commit, Move
from skewless.state.epochs import claimed, note, noted, own_folder, shown_file
from skewless.state.files import Folder, qualify

STAGED = "staged"
Moves = list[tuple[str, str]]  # staged and final names of files
# What is written as files that a commit publishes. Other sinks are written before the commit.
FILE_FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "xml", "avro"})


def staging_folder(folder: Folder, batch_id: int) -> str:
    """Where the output files of a batch wait for its commit."""
    return f"{own_folder(folder, STAGED)}/{batch_id:012d}"


def final_name(name: str, batch_id: int) -> str:
    """Names of files are unique; the batch id in front makes them sort and tell their batch.

    >>> final_name("day=1/part-0.parquet", 7)
    'day=1/batch-000000000007-part-0.parquet'
    """
    partition, _, base = name.rpartition("/")
    renamed = f"batch-{batch_id:012d}-{base}"
    return f"{partition}/{renamed}" if partition else renamed


def made_durable(folder: Folder, moves: Iterable[tuple[str, str]]) -> tuple[Move, ...]:
    """Let staged files survive a loss of power, whoever wrote them, and note their sizes."""
    sized = tuple(Move(staged, final, folder.size(staged)) for staged, final in moves)
    folders: set[str] = set()
    for move in sized:
        folder.sync(move.staged)
        at = os.path.dirname(move.staged)
        while at and at not in folders:
            folders.add(at)
            at = os.path.dirname(at)
    for at in sorted(folders):
        folder.sync(at)
    return sized


def publish(folder: Folder, commit: Commit) -> None:
    """Move all staged files of a commit to where readers look for them."""
    if not commit.publish:
        return
    failpoints.hit("publish.begun", folder.root, commit.batch_id)
    for move in commit.publish:
        if _is_staged(folder, move) and _move(folder, move):
            failpoints.hit("publish.one", folder.root, commit.batch_id)
        else:
            _check_moved(folder, move)
    failpoints.hit("publish.done", folder.root, commit.batch_id)


def note_shown(folder: Folder, commit: Commit) -> None:
    """Note that all results of a commit are where they belong."""
    if commit.publish or commit.deliver is not None:
        shown = {"batch": commit.batch_id, "epoch": commit.epoch}
        note(folder, shown_file(folder.epoch), shown)


def is_shown(folder: Folder, commit: Commit) -> bool:
    """Whether that was noted, by whichever driver."""
    shown = {"batch": commit.batch_id, "epoch": commit.epoch}
    return any(noted(folder, shown_file(epoch)) == shown for epoch in claimed(folder))


def _is_staged(folder: Folder, move: Move) -> bool:
    size = folder.size(move.staged)
    if size is not None and move.bytes is not None and size != move.bytes:
        raise StateDamagedError(
            f"the output file {folder.path(move.staged)} has {size} bytes, {move.bytes} were "
            "committed. Restore the checkpoint folder from a backup, or go back to an earlier "
            "batch with `skewless rollback`."
        )
    return size is not None


def _check_moved(folder: Folder, move: Move) -> None:
    """A staged file that is gone was moved before. Else rows would be lost unseen."""
    if move.bytes is None:
        return
    size = file_size(folder, move.final)
    if size != move.bytes:
        what = "is missing" if size is None else f"has {size} bytes, {move.bytes} were committed"
        raise StateDamagedError(
            f"the output file {move.final} {what}, and {folder.path(move.staged)} is gone. Restore "
            "it, or let `skewless rollback` go back to the batch before, which is then repeated."
        )


def file_size(folder: Folder, final: str) -> int | None:
    """The size of an output file, None if there is none. Its store is reached as that of the state
    is."""
    parent, _, name = qualify(final).rpartition("/")
    return folder.other(parent).size(name)


def _move(folder: Folder, move: Move) -> bool:
    """Whether a file could be moved; not if another driver did so at the same time."""
    target, _, name = qualify(move.final).rpartition("/")
    try:
        folder.move(move.staged, folder.other(target), name)
    except OSError as error:
        if folder.size(move.staged) is None:
            return False
        raise StateAccessError(
            f"cannot move the output file {folder.path(move.staged)} to {target}/{name}: {error}. "
            "Start the query again when the output folder can be written: the move is then "
            "repeated."
        ) from error
    return True
