"""Commits: one small file per batch that says what the state is after it.

A commit is written last, in one atomic step. What it lists exists, completely; what no commit lists
does not count, whoever wrote it. Replaying a batch starts from the commit before it.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from skewless import faults
from skewless.errors import CheckpointMismatchError, StateDamagedError, StateFormatError
from skewless.model import SegmentInfo
from skewless.state.files import Folder

FORMAT = 1
COMMITS = "commits"
QUERY_FILE = "query.json"


@dataclass(frozen=True)
class GrouperFile:
    """What a grouper knows, as a file: the grouper of input task `task`, or of the driver (-1)."""

    task: int
    name: str
    bytes: int
    crc32: int


@dataclass(frozen=True)
class Grouping:
    """How an aggregation divides its rows, and what its groupers have learned."""

    strategy: str
    instances: int
    groupers: tuple[GrouperFile, ...] = ()

    @staticmethod
    def from_json(data: dict[str, Any]) -> Grouping:
        groupers = tuple(GrouperFile(**g) for g in data["groupers"])
        return Grouping(data["strategy"], data["instances"], groupers)


@dataclass(frozen=True)
class Commit:
    """The state after a batch.

    `watermark_us` is what the next batch is judged by, and what rows expired by: it never falls,
    even if the query is started again with more lateness. `time_max_us` is the latest event time
    seen per side. `publish` lists (staged, final) names of output files that belong to this commit;
    moving them is repeated until all are in place.
    """

    batch_id: int
    watermark_us: int
    time_max_us: dict[str, int | None]
    slots: int
    instances: int
    strategy: str
    segments: tuple[SegmentInfo, ...]
    publish: tuple[tuple[str, str], ...] = ()
    placement: dict[str, Any] | None = None  # of a balanced join, for the next batch
    grouping: Grouping | None = None  # of an aggregation, for the next batch

    @property
    def files(self) -> set[str]:
        """The files that must live as long as this commit."""
        groupers = () if self.grouping is None else self.grouping.groupers
        return {s.name for s in self.segments} | {g.name for g in groupers if g.name}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Commit:
        data = dict(data)
        data["segments"] = tuple(SegmentInfo.from_json(s) for s in data["segments"])
        data["publish"] = tuple((staged, final) for staged, final in data["publish"])
        if data.get("grouping") is not None:
            data["grouping"] = Grouping.from_json(data["grouping"])
        return Commit(**data)


def _name(batch_id: int) -> str:
    return f"{COMMITS}/{batch_id:012d}.json"


def write_checked(folder: Folder, name: str, content: dict[str, Any]) -> None:
    """Write a JSON file with its format and checksum, atomically."""
    body = json.dumps(content, sort_keys=True, separators=(",", ":"))
    head = f'{{"format":{FORMAT},"crc32":{zlib.crc32(body.encode())},"content":'
    folder.write_atomically(name, (head + body + "}\n").encode())


def read_checked(folder: Folder, name: str) -> dict[str, Any]:
    """Read what `write_checked` wrote; refuse what is damaged or of an unknown format."""
    try:
        outer = json.loads(folder.read(name))
        found, crc32, content = outer["format"], outer["crc32"], outer["content"]
    except (ValueError, KeyError, TypeError) as error:
        raise StateDamagedError(
            f"{folder.path(name)} cannot be read as a state file ({error}). Restore the checkpoint "
            "folder from a backup, or start with a new checkpointLocation."
        ) from error
    if found != FORMAT:
        raise StateFormatError(
            f"{folder.path(name)} is of format {found}; this version of skewless knows format "
            f"{FORMAT}. Use the version that wrote it or a newer one."
        )
    body = json.dumps(content, sort_keys=True, separators=(",", ":"))
    if zlib.crc32(body.encode()) != crc32:
        raise StateDamagedError(
            f"{folder.path(name)} was altered: its checksum does not fit. Restore the checkpoint "
            "folder from a backup, or start with a new checkpointLocation."
        )
    return dict(content)


class CommitLog:
    """The commits of a state folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def batch_ids(self) -> list[int]:
        names = self._folder.list(COMMITS)
        return sorted(int(n[:-5]) for n in names if n.endswith(".json") and n[:-5].isdigit())

    def read(self, batch_id: int) -> Commit:
        return Commit.from_json(read_checked(self._folder, _name(batch_id)))

    def latest(self) -> Commit | None:
        ids = self.batch_ids()
        return self.read(ids[-1]) if ids else None

    def write(self, commit: Commit) -> None:
        faults.reach("commit.begun", commit.batch_id)
        write_checked(self._folder, _name(commit.batch_id), asdict(commit))
        faults.reach("commit.written", commit.batch_id)

    def delete(self, batch_id: int) -> None:
        self._folder.delete(_name(batch_id))


def claim(folder: Folder, fingerprint: dict[str, str]) -> None:
    """Tie a state folder to a query on first use; afterwards refuse any other query."""
    if folder.size(QUERY_FILE) is None:
        write_checked(folder, QUERY_FILE, dict(fingerprint))
        return
    stored = read_checked(folder, QUERY_FILE)
    different = [k for k in {**stored, **fingerprint} if stored.get(k) != fingerprint.get(k)]
    if different:
        lines = "".join(
            f"\n  {k}: the checkpoint has {stored.get(k)!r}, this query has {fingerprint.get(k)!r}"
            for k in different
        )
        raise CheckpointMismatchError(
            f"the checkpoint {folder.root} belongs to another query:{lines}\n"
            "Use another checkpointLocation, or describe the query as it was."
        )
