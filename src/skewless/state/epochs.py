"""Who owns a checkpoint, on any store: whoever claimed the highest epoch.

A driver that opens a state folder creates `owner/<epoch>.json` with the next number: of several who
try, one succeeds. Then it looks at the commits and creates `owner/<epoch>.after.json` with the last
one that counts. From then on, commits of older epochs count up to there and no further, whenever
they were written. So a driver that only seemed dead can do no harm, however late it comes back: its
commit does not count, it finds the later epoch before it shows or removes anything, and what it has
written has its own epoch in the name.
"""

from __future__ import annotations

import json
import os
import re
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from skewless import failpoints
from skewless.errors import CheckpointInUseError, StateAccessError
from skewless.state.files import Folder

OWNER = "owner"
KEPT = 8  # epochs whose records stay: more can only be of use to drivers that are long gone

_CLAIM = re.compile(r"(\d+)\.json")
_OF_EPOCH = re.compile(r"e(\d+)(?:\.|$)")


# What is written for an epoch has it in its name.


def own_name(folder: Folder, place: str, what: str) -> str:
    """A name for a new file that nobody else takes, and that says who wrote it."""
    return f"{place}/e{folder.epoch}.{what}-{uuid.uuid4().hex}"


def own_folder(folder: Folder, place: str) -> str:
    """The part of a folder that is of one epoch alone."""
    return f"{place}/e{folder.epoch}"


def epoch_of(name: str) -> int:
    """The epoch of a file or folder by its name within its place; 0 in versions without epochs.

    >>> epoch_of("e12.left-ab.arrow"), epoch_of("e3/000000000007"), epoch_of("left-ab.arrow")
    (12, 3, 0)
    """
    found = _OF_EPOCH.match(name.partition("/")[0])
    return int(found[1]) if found else 0


# Who somebody is.


@dataclass(frozen=True)
class Claim:
    """Who claimed an epoch. `machine` and `born` tell whether the process is still there; by the
    `token` a store that lost its answer knows whose claim it has."""

    host: str = "unknown"
    process: int = 0
    since: str = "unknown"
    machine: str = ""
    born: str = ""
    token: str = ""

    def __str__(self) -> str:
        return f"process {self.process or 'unknown'} on {self.host}, since {self.since}"

    @staticmethod
    def mine() -> Claim:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        pid = os.getpid()
        token = uuid.uuid4().hex
        return Claim(socket.gethostname(), pid, since, this_machine(), born(pid), token)

    @property
    def is_of_this_machine(self) -> bool:
        """Whether its process numbers and file locks are those that are seen here."""
        return bool(self.machine) and self.machine == this_machine()

    @property
    def is_of_this_process(self) -> bool:
        pid = os.getpid()
        return self.is_of_this_machine and (self.process, self.born) == (pid, born(pid))

    @property
    def is_surely_gone(self) -> bool:
        """Whether the process is known to have ended. On another machine nobody knows."""
        return self.is_of_this_machine and born(self.process) != self.born


@cache
def this_machine() -> str:
    """A running kernel and the process numbers that are seen here; empty where nobody tells."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def born(process: int) -> str:
    """When a process was started; empty if there is none. Numbers are given again, this is not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


# What is noted in `owner/`.


def claim_file(epoch: int) -> str:
    return f"{OWNER}/{epoch:012d}.json"


def _limit_file(epoch: int) -> str:
    return f"{OWNER}/{epoch:012d}.after.json"


def beat_file(epoch: int) -> str:
    return f"{OWNER}/{epoch:012d}.alive.json"


def shown_file(epoch: int) -> str:
    return f"{OWNER}/{epoch:012d}.shown.json"


def claimed(folder: Folder) -> list[int]:
    """The epochs that somebody has claimed, oldest first."""
    names = (_CLAIM.fullmatch(name) for name in folder.list(OWNER))
    return sorted(int(found[1]) for found in names if found)


def newest_epoch(folder: Folder) -> int:
    return max(claimed(folder), default=0)


def with_newest_epoch(folder: Folder) -> Folder:
    return replace(folder, epoch=newest_epoch(folder))


def who_claimed(folder: Folder, epoch: int) -> Claim:
    try:
        return Claim(**json.loads(folder.read(claim_file(epoch))))
    except (FileNotFoundError, ValueError, TypeError):
        return Claim()  # an epoch counts, whether or not one can read who has it


def limit_of(folder: Folder, epoch: int) -> int | None:
    """The last batch that counts of older epochs; None if that was not decided."""
    try:
        return int(json.loads(folder.read(_limit_file(epoch)))["after"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def note(folder: Folder, name: str, content: Mapping[str, object]) -> None:
    """Write down something of an epoch that only its owner writes."""
    folder.write(name, json.dumps(content).encode())


def noted(folder: Folder, name: str) -> dict[str, object]:
    """What `note` wrote; nothing if there is nothing, or it cannot be read."""
    try:
        found = json.loads(folder.read(name))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


# Which commits count.


def counting(
    commits: Iterable[tuple[int, int]], limits: Mapping[int, int | None]
) -> dict[int, int]:
    """Of commits by (batch, epoch) those that count: the epoch of each batch. A batch counts only
    up to the limits of all later epochs; and once, as the latest epoch has it.

    >>> counting([(3, 1), (4, 1), (4, 2)], {1: None, 2: 3})
    {3: 1, 4: 2}
    """
    return {
        batch: epoch
        for batch, epoch in sorted(commits)
        if all(limit is None or batch <= limit for later, limit in limits.items() if later > epoch)
    }


def counted(folder: Folder, commits: list[tuple[int, int]]) -> dict[int, int]:
    """The same, by what is noted in a folder."""
    if not commits:
        return {}
    oldest = min(epoch for _, epoch in commits)
    return counting(commits, {k: limit_of(folder, k) for k in claimed(folder) if k > oldest})


def _refuse_if_replaced(folder: Folder, name: str) -> None:
    """Two drivers would have one epoch on a store that takes every condition for granted. There are
    servers that speak S3 and do so; disks do not."""
    content = json.dumps(asdict(Claim.mine())).encode()  # unlike that of the first
    if not folder.is_local and folder.create(name, content):
        raise StateAccessError(
            f"{folder.root} lies on a store that replaces a file which was to be created only if "
            "there is none (`If-None-Match: *` of S3 and Azure): there, two queries on one "
            "checkpoint could not be told apart. Use a store, or a version of its server, that "
            "knows such requests."
        )


class Ownership:
    """One driver's part in it. `folder` is the state folder, with its epoch once it has one."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    @property
    def epoch(self) -> int:
        return self.folder.epoch

    def take(self, at_least: int, newest: Callable[[], int]) -> int:
        """Claim the next epoch, above `at_least`, and decide up to where older ones count: up to
        the `newest` batch, which is returned. Nothing may be swept before."""
        folder = replace(self.folder, epoch=0)
        content = json.dumps(asdict(Claim.mine())).encode()
        epoch = at_least
        while True:
            epoch = max(newest_epoch(folder), epoch) + 1
            if folder.create(claim_file(epoch), content):
                break
        _refuse_if_replaced(folder, claim_file(epoch))
        self.folder = replace(folder, epoch=epoch)
        failpoints.hit("owner.claimed", folder.root)
        for earlier in claimed(folder):
            # Who claimed an epoch and decided nothing must not do so after us.
            if earlier < epoch and limit_of(folder, earlier) is None:
                self._decide(earlier, newest())
        last = newest()
        if not self._decide(epoch, last):
            raise self.lost()
        failpoints.hit("owner.settled", folder.root)
        return last

    def _decide(self, epoch: int, last: int) -> bool:
        """Note the limit of an epoch, unless that was done. One that cannot be read is none."""
        name, content = _limit_file(epoch), json.dumps({"after": last}).encode()
        if self.folder.create(name, content):
            return True
        if limit_of(self.folder, epoch) is None:
            self.folder.delete(name)
            return self.folder.create(name, content)
        return False

    def check(self) -> None:
        """Go on only if no other driver has taken the checkpoint over."""
        if self.is_lost():
            raise self.lost()

    def is_lost(self) -> bool:
        epochs = claimed(self.folder)
        return not epochs or epochs[-1] != self.epoch

    def lost(self) -> CheckpointInUseError:
        newest = newest_epoch(self.folder)
        return CheckpointInUseError(
            f"another query ({who_claimed(self.folder, newest)}) has taken over "
            f"{self.folder.root}, as this one (process {os.getpid()}) seemed to be gone. This one "
            "ends and changes nothing more; the other goes on with its batches."
        )

    def prune(self) -> None:
        """Forget what was noted of epochs that are long gone."""
        oldest = self.epoch - KEPT
        for name in self.folder.list(OWNER):
            number = name.partition(".")[0]
            if number.isdigit() and int(number) <= oldest:
                self.folder.delete(f"{OWNER}/{name}")
