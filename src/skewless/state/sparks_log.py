"""Spark's own log of a query, around the state folder: what each batch consists of.

Spark writes it before a batch runs, and goes by it when the batch is repeated. On a local disk it
does not wait until that survives a loss of power, as our commits do: then the batch would be
planned anew, with the rows that have come since, and be taken for the one that is committed. So we
sync its files before we commit, and a commit tells by a checksum which plan it is of.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import zlib

from skewless.errors import StateDamagedError
from skewless.state.files import Folder
from skewless.state.recovery import sparks_folder

log = logging.getLogger("skewless")

OFFSETS, COMMITS, SOURCES, METADATA = "offsets", "commits", "sources", "metadata"

_PLANNED = re.compile(r"\d+")
_TEMPORARY = re.compile(r"\.+\d+\.[0-9a-f-]{36}\.tmp(\.crc)?")


class SparksLog:
    """The log of the query whose state folder this is."""

    def __init__(self, state: Folder) -> None:
        self._state, self._folder = state, sparks_folder(state)
        self._is_kept = False  # whether all that there was when this process began is

    def mend(self, committed: int) -> None:
        """Remove what Spark would stop at, every time: what a process left that was killed while
        Spark noted its first batch, and entries that a loss of power cut off. `committed` is our
        last batch: what Spark has planned after it does not count yet."""
        noted = {place: self._folder.list(place) for place in (OFFSETS, COMMITS)}
        batches = {
            place: [int(name) for name in names if _PLANNED.fullmatch(name)]
            for place, names in noted.items()
        }
        if not batches[OFFSETS]:
            for place, names in noted.items():
                for name in filter(_TEMPORARY.fullmatch, names):
                    self._folder.delete(f"{place}/{name}")
        for place, numbers in batches.items():
            last = max(numbers, default=-1)
            if last >= 0 and (place == COMMITS or last > committed):
                self._drop_if_torn(place, last)

    def _drop_if_torn(self, place: str, number: int) -> None:
        """Spark then plans the batch, or repeats it: it does not count, or is known to."""
        if not self._state.is_local or _is_whole(self._folder.read(f"{place}/{number}")):
            return
        for name in _with_checksum(place, str(number)):
            self._folder.delete(name)
        where = self._folder.path(f"{place}/{number}")
        log.warning("%s was cut off, as by a loss of power: batch %d is repeated", where, number)

    def keep(self, batch_id: int) -> int | None:
        """Let what a batch consists of survive a loss of power; its checksum, of Spark's log on a
        local disk. Elsewhere it is safe as soon as it is written."""
        if not self._state.is_local:
            return None
        try:
            plan = self._folder.read(f"{OFFSETS}/{batch_id}")
        except OSError:  # not every log is a file that is ours to read
            return None
        for name in self._files_of(batch_id, plan):
            with contextlib.suppress(FileNotFoundError):
                self._folder.sync(name)
        self._is_kept = True
        return zlib.crc32(plan)

    def _files_of(self, batch_id: int, plan: bytes) -> list[str]:
        """The files that tell what a batch consists of, and then the folders that they are in. File
        sources have logs of their own, by their own numbers."""
        ends = plan.decode().splitlines()[2:]
        entries = {f"{SOURCES}/{i}": _number(end) for i, end in enumerate(ends)}
        files = [*_with_checksum(OFFSETS, str(batch_id))]
        for source, number in entries.items():
            if number is not None:
                files += _with_checksum(source, str(number))
                files += _with_checksum(source, f"{number}.compact")
        if self._is_kept:
            return [*files, OFFSETS, *(s for s, number in entries.items() if number is not None)]
        files += [*_with_checksum("", METADATA)]
        files += [f"{SOURCES}/{name}" for name in self._folder.list(SOURCES)]
        return [*files, OFFSETS, *entries, SOURCES, ""]

    def refuse_another(self, batch_id: int, planned: int | None) -> None:
        """Refuse a batch that has another plan than the committed one of that number."""
        if planned is None:
            return
        with contextlib.suppress(OSError):
            if zlib.crc32(self._folder.read(f"{OFFSETS}/{batch_id}")) == planned:
                return
        back = (
            f"Go back to the batch before, which plans it once more: `skewless rollback "
            f"{self._folder.root} --to {batch_id - 1}`."
            if batch_id
            else "Start with a new checkpointLocation."
        )
        raise StateDamagedError(
            f"Spark has planned batch {batch_id} anew, and perhaps with other rows, since it was "
            f"committed in {self._state.root}: its log of it, "
            f"{self._folder.path(f'{OFFSETS}/{batch_id}')}, was lost, replaced or lay elsewhere. "
            f"To go on would lose rows. {back}"
        )


def _is_whole(entry: bytes) -> bool:
    """Whether an entry of Spark's log was written to its end, as far as one can tell: a version,
    and lines of JSON for the most part."""
    version, *lines = entry.decode(errors="replace").splitlines() or [""]
    return version.startswith("v") and bool(lines) and not any(map(_is_cut_off, lines))


def _is_cut_off(line: str) -> bool:
    if not line.startswith("{"):
        return not line
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _with_checksum(folder: str, name: str) -> tuple[str, str]:
    """A file of Spark's, and what Hadoop writes beside it."""
    prefix = f"{folder}/" if folder else ""
    return f"{prefix}{name}", f"{prefix}.{name}.crc"


def _number(end: str) -> int | None:
    """Up to which entry of its own log a file source has been read."""
    try:
        told = json.loads(end)
    except ValueError:
        return None
    number = told.get("logOffset") if isinstance(told, dict) else None
    return number if isinstance(number, int) else None
