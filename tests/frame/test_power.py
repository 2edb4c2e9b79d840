"""Loss of power at every point of the protocol: what was not synced is gone, or half there.

The disk is a real one; only `fsync` is watched. What it was asked to keep is known, file by file
and folder by folder, and a loss of power leaves just that; or that, and of the rest some names and
parts of contents, as a disk may. Then the query goes on, exactly once.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest import mock

import pytest

from skewless.state import compaction
from skewless.state.stores import local
from tests.crashes import OFTEN, POINTS, CrashError, crash_at
from tests.frame.kits import KITS
from tests.frame.test_frame import BATCHES, Frame, busy_frame
from tests.frame.test_owners import expected_of, rows_of

Inode = tuple[int, int]


class Disk:
    """What survives a loss of power below some folder: contents and names that were synced. Files
    that were are kept open, so that their numbers are not given to others."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._contents: dict[Inode, bytes] = {}
        self._names: dict[Inode, dict[str, Inode]] = {}
        self._are_folders: set[Inode] = set()
        self._open: list[int] = []

    def fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self._open.append(os.dup(descriptor))
        status = os.fstat(descriptor)
        inode = (status.st_dev, status.st_ino)
        if stat.S_ISDIR(status.st_mode):
            self._names[inode] = self._listed(Path(path))
        else:
            self._contents[inode] = Path(path).read_bytes()

    def _listed(self, folder: Path) -> dict[str, Inode]:
        found = {}
        for entry in os.scandir(folder):
            status = entry.stat(follow_symlinks=False)
            found[entry.name] = (status.st_dev, status.st_ino)
            if entry.is_dir():
                self._are_folders.add(found[entry.name])
                # A folder that is known by name is kept with what was synced in it.
                self._open.append(os.open(entry.path, os.O_RDONLY))
        return found

    def lose_power(self, kept: float) -> None:
        """Leave what was synced; of names that were not, this share, with half their content."""
        aside = self._top.with_name(f"{self._top.name}-before")
        self._top.rename(aside)
        status = aside.stat()
        self._restore((status.st_dev, status.st_ino), aside, self._top, kept)
        shutil.rmtree(aside)
        self.close()
        self.__init__(self._top)  # type: ignore[misc]
        for path in (self._top, *self._top.rglob("*")):
            descriptor = os.open(path, os.O_RDONLY)
            self.fsync(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Nothing more is to be known."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()

    def _restore(self, inode: Inode, now: Path | None, target: Path, kept: float) -> None:
        target.mkdir()
        names = dict(self._names.get(inode, {}))
        present = {} if now is None else self._listed(now)
        lost = sorted(set(present.items()) - set(names.items()))
        for number, (name, of) in enumerate(lost):
            if (number * 7 + len(name)) % 10 < kept * 10:
                names[name] = of
        where = {of: now / name for name, of in present.items()} if now else {}
        for name, of in names.items():
            if of in self._are_folders:
                self._restore(of, where.get(of), target / name, kept)
            elif of in self._contents:
                (target / name).write_bytes(self._contents[of])
            else:
                content = where[of].read_bytes() if of in where else b""
                (target / name).write_bytes(content[: len(content) // 2])


@contextmanager
def watched(top: Path) -> Iterator[Disk]:
    disk = Disk(top)
    with (
        closing(disk),
        mock.patch.object(local, "SYNC", True),
        mock.patch.object(os, "fsync", disk.fsync),
        mock.patch.object(compaction, "FAN_IN", 2),
    ):
        yield disk


def lose_power_at(name: str, point: str, visit: int, folder: Path, kept: float) -> bool:
    """Run a query, lose power, and let it go on; whether the point was reached at all."""
    top = folder / "disk"
    top.mkdir()
    with watched(top) as disk:
        frame = busy_frame(KITS[name], top)
        reached = -1
        for number in range(5):
            frame.batch(number)
        for number in range(5, BATCHES):
            try:
                with crash_at(point, visit):
                    frame.batch(number)
            except CrashError:
                reached = number
                break
        if reached < 0:
            return False
        disk.lose_power(kept)
        frame.restart(0)
        go_on(frame, reached)
        disk.lose_power(0.0)  # all that was committed is there for good
        frame.restart(0)
        found, expected = rows_of(frame.run.published_table()), expected_of(name)
        assert found == expected, f"missing {expected - found}, too many {found - expected}"
        return True


def go_on(frame: Frame, reached: int) -> None:
    """Spark repeats the batch at which it was interrupted."""
    for number in range(reached, BATCHES):
        frame.batch(number)


@pytest.mark.parametrize("kept", [0.0, 1.0])
@pytest.mark.parametrize("point", ["sink.staged", "commit.begun", "commit.written", "publish.done"])
def test_power_is_lost_at(point: str, kept: float, tmp_path: Path) -> None:
    assert lose_power_at("join", point, 1, tmp_path, kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["join", "deduplicate", "join → aggregate", "aggregate"])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("point", POINTS)
def test_power_is_lost_anywhere(point: str, kept: float, name: str, tmp_path: Path) -> None:
    visits = (1, 2, 3) if point in OFTEN else (1,)
    reached = [
        lose_power_at(name, point, visit, tmp_path / str(visit), kept)
        for visit in visits
        if not (tmp_path / str(visit)).mkdir()
    ]
    assert any(reached) or point == "compaction.written"
