"""The folder that output files go to: whose it is.

A checkpoint notes the folders that it writes to. A folder that it has not noted, and that holds
files, is another query's: a query with a new checkpoint begins anew and would write every row a
second time. So it must be told to add to these files, or to remove them.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from dataclasses import dataclass

from skewless.errors import ArgumentError, StateAccessError, StateDamagedError
from skewless.state.commits import Commit, CommitLog, TornError, read_checked, write_checked
from skewless.state.files import Folder, naming
from skewless.state.stores.locations import split

NOTE = "output.json"
EXISTING = "skewless.existing"
SPARKS = ("offsets", "commits", "sources", "state", "metadata")  # its folders in a checkpoint
APPEND, OVERWRITE = CHOICES = ("append", "overwrite")
OURS = re.compile(r"batch-\d{12}-.*")  # how a sink names the files of a batch


@dataclass(frozen=True)
class Output:
    """A folder for output files, by absolute path or URI, and what to do with files of others.
    `given` is what the user has called it, if that is known."""

    path: str
    existing: str | None = None
    given: str = ""

    def check_apart(self, state: Folder) -> None:
        """Refuse a folder among the files of the checkpoint. It may have one of its own beside
        these, and they may lie in it. Nothing is asked of a remote store."""
        checkpoint, own = state.other(os.path.dirname(state.root)), _real(self.path)
        theirs = (state.root, *map(checkpoint.path, SPARKS))
        if own == _real(checkpoint.root) or any(_is_within(own, _real(one)) for one in theirs):
            accepted = (
                f"a folder apart from the files of the checkpoint {checkpoint.root}: take one "
                f"beside it, or a new one within it, such as {checkpoint.path('out')}"
            )
            raise ArgumentError("path", self.path, accepted)

    def check(self, state: Folder) -> None:
        """Refuse a folder that cannot be looked into, or that is another's, unless it was said what
        to do. Nothing is changed."""
        try:
            files = self._of_others(state)
        except OSError as error:
            raise StateAccessError(
                f"path={self.given or self.path!r}: cannot look into the output folder "
                f"{self.path}: {error}. Check the location and the settings of its store: "
                "docs/stores.md of skewless has their names."
            ) from error
        if not files or self.existing == APPEND:
            return
        if self.existing is None:
            accepted = (
                f"a folder without files: this one has {len(files)} that are not of this "
                f"checkpoint, such as {files[0]}. To go on with the query that wrote them, use its "
                f'checkpointLocation. Else say what to do with them, option "{EXISTING}": '
                f'"{APPEND}" adds to them, "{OVERWRITE}" removes them first'
            )
            raise ArgumentError("path", self.path, accepted)
        foreign = [name for name in files if not _is_ours(name)]
        if foreign:
            accepted = (
                f'"{APPEND}": {len(foreign)} files in {self.path} were not written by skewless, '
                f"such as {foreign[0]}, and are not removed. Remove them, or take another folder"
            )
            raise ArgumentError(EXISTING, self.existing, accepted)

    def take(self, state: Folder) -> None:
        """Note the folder as this checkpoint's, if files can be stored there; before that, remove
        what is to be overwritten."""
        with naming("path", self.given or self.path):
            state.other(self.path).check()
        noted = noted_folders(state)
        if self.path in noted:
            return
        if self.existing == OVERWRITE:
            folder = state.other(self.path)
            for name in filter(_is_ours, self._of_others(state)):
                folder.delete(name)
        write_checked(state, NOTE, {"folders": [*noted, self.path]})

    def _of_others(self, state: Folder) -> list[str]:
        """The files in the folder if it is not this checkpoint's. It is if that has noted it; if it
        has files that its last commits name, as when both were moved; or, in a checkpoint of before
        there were notes, if these do not name any elsewhere."""
        if self.path in noted_folders(state):
            return []
        files = self._files(state)
        if not files:
            return []
        commits = _readable_commits(state)
        written = [move.final for commit in commits for move in commit.publish]
        if {os.path.basename(final) for final in written} & set(map(os.path.basename, files)):
            return []
        is_older = bool(commits) and not commits[-1].query
        here = not written or any(final.startswith(f"{self.path}/") for final in written)
        return [] if is_older and here else files

    def _files(self, state: Folder) -> list[str]:
        """The files in the folder that a reader sees. The checkpoint may lie in there, too."""
        checkpoint = f"{os.path.dirname(state.root)}/"
        folder = state.other(self.path)
        return [
            name
            for name in folder.list()
            if is_shown(name) and not folder.path(name).startswith(checkpoint)
        ]


def noted_folders(state: Folder) -> list[str]:
    """The folders that a checkpoint has written files to; none if there are no notes yet."""
    return [] if state.size(NOTE) is None else list(read_checked(state, NOTE)["folders"])


def _readable_commits(state: Folder) -> list[Commit]:
    log, found = CommitLog(state), []
    for batch_id in log.batch_ids():
        with contextlib.suppress(TornError):  # what to do then is not decided here
            found.append(log.read(batch_id))
    return found


def check_confined(state: Folder, commit: Commit) -> None:
    """Refuse a commit that would put files elsewhere than in the folders of its checkpoint."""
    folders = noted_folders(state)
    outside = [
        move.final
        for move in commit.publish
        if ".." in move.final.split("/")
        or (folders and not any(move.final.startswith(f"{folder}/") for folder in folders))
    ]
    if outside:
        raise StateDamagedError(
            f"the commit of batch {commit.batch_id} in {state.root} names output files outside of "
            f"its folders ({', '.join(folders)}): {sorted(outside)}. Restore the checkpoint folder "
            "from a backup, or start with a new checkpointLocation."
        )


def files_of_batch(state: Folder, batch_id: int) -> list[str]:
    """The files that a batch has shown in the folders of a checkpoint, by their names alone. In a
    folder that several checkpoints write to, some may be of another."""
    prefix = f"batch-{batch_id:012d}-"
    return [
        state.other(path).path(name)
        for path in noted_folders(state)
        for name in state.other(path).list()
        if os.path.basename(name).startswith(prefix)
    ]


def _real(location: str) -> str:
    """A folder by the one name that it has, as far as that can be told from here."""
    if os.path.isabs(location):
        return os.path.realpath(location)
    scheme, authority, path = split(location)
    return f"{scheme}://{authority}{posixpath.normpath(f'/{path}')}"


def _is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _is_ours(name: str) -> bool:
    return OURS.fullmatch(os.path.basename(name)) is not None


def is_shown(name: str) -> bool:
    """Whether Spark's readers see a file in a folder, by its path within."""
    return not any(map(_is_hidden, name.split("/")))


def _is_hidden(name: str) -> bool:
    """As Spark reads folders."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
