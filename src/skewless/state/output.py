"""The folder that output files go to: whose it is.

A checkpoint notes the folders that it writes to. A folder that it has not noted, and that holds
files, is another query's: a query with a new checkpoint begins anew and would write every row a
second time. So it must be told to add to these files, or to remove them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from skewless.errors import ArgumentError
from skewless.state.commits import CommitLog, read_checked, write_checked
from skewless.state.files import Folder

NOTE = "output.json"
EXISTING = "skewless.existing"
APPEND, OVERWRITE = CHOICES = ("append", "overwrite")
OURS = re.compile(r"batch-\d{12}-.*")  # how a sink names the files of a batch


@dataclass(frozen=True)
class Output:
    """A folder for output files, by absolute path or URI, and what to do with files of others."""

    path: str
    existing: str | None = None

    def check(self, state: Folder) -> None:
        """Refuse a folder that is another's, unless it was said what to do. Nothing is changed."""
        files = self._of_others(state)
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
        """Note the folder as this checkpoint's; before that, remove what is to be overwritten."""
        noted = self._noted(state)
        if self.path in noted:
            return
        if self.existing == OVERWRITE:
            folder = state.other(self.path)
            for name in filter(_is_ours, self._of_others(state)):
                folder.delete(name)
        write_checked(state, NOTE, {"folders": [*noted, self.path]})

    def _noted(self, state: Folder) -> list[str]:
        if state.size(NOTE) is None:
            return []
        return list(read_checked(state, NOTE)["folders"])

    def _of_others(self, state: Folder) -> list[str]:
        """The files in the folder if it is not this checkpoint's. It is if that has noted it; if it
        has files that its last commits name, as when both were moved; or, in a checkpoint of before
        there were notes, if these do not name any elsewhere."""
        if self.path in self._noted(state):
            return []
        files = self._files(state)
        if not files:
            return []
        log = CommitLog(state)
        commits = [log.read(batch_id) for batch_id in log.batch_ids()]
        written = [final for commit in commits for _, final in commit.publish]
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
            if not any(map(_is_hidden, name.split("/")))
            and not folder.path(name).startswith(checkpoint)
        ]


def _is_ours(name: str) -> bool:
    return OURS.fullmatch(os.path.basename(name)) is not None


def _is_hidden(name: str) -> bool:
    """As Spark reads folders."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
