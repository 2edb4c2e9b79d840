"""Commits: one small file per batch that says what the state is after it.

A commit is written last, in one atomic step. What it lists exists, completely; what no commit lists
does not count, whoever wrote it. Replaying a batch starts from the commit before it. Names have the
batch and the epoch of who wrote it; of a batch, one commit counts (`state/epochs.py`).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skewless import failpoints
from skewless.errors import StateDamagedError, StateFormatError
from skewless.state.blobs import BlobInfo
from skewless.state.epochs import counted
from skewless.state.files import Folder
from skewless.state.names import is_confined
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import SegmentInfo

FORMAT = 2
DELIVERING = 3  # of commits with something to deliver: versions that cannot must not go on
CUT = 4  # with a rewriting under way, of which versions before 0.11 would cut the rest otherwise
COMMITS = "commits"
QUERY_FILE = "query.json"
CLOCK_FILE = "clock.json"  # the moment of the last batch

_NAMED = re.compile(r"(\d+)(?:-e(\d+))?\.json")


LAST_RESORT = "restore the checkpoint folder from a backup, or start with a new checkpointLocation."
RESTORE = LAST_RESORT.replace("r", "R", 1)


class TornError(StateDamagedError):
    """A file that was not written to its end, or altered since: `what` was found, and what to do if
    nobody knows better."""

    def __init__(self, what: str, advice: str) -> None:
        self.what, self.advice = what, advice
        super().__init__(f"{what} {advice}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.what, self.advice)


class Move(NamedTuple):
    """An output file: where it waits for the commit, where it belongs, and its size, which commits
    of older versions do not say."""

    staged: str
    final: str
    bytes: int | None = None


class Staged(NamedTuple):
    """A file with results that waits to be delivered."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Delivery:
    """Results that a system other than a folder is to get. `to` is what its sink calls the place.
    Each of the `parts` is delivered in one step; a repeated delivery has the same."""

    to: str
    parts: tuple[tuple[Staged, ...], ...]

    @property
    def files(self) -> list[Staged]:
        return [file for part in self.parts for file in part]

    @staticmethod
    def from_json(data: dict[str, Any]) -> Delivery:
        parts = (tuple(Staged(*file) for file in part) for part in data["parts"])
        return Delivery(data["to"], tuple(parts))


@dataclass(frozen=True)
class OperatorState:
    """What one operator has after a batch.

    `watermark_us` is what the next batch is judged by, and what rows expired by: it never falls,
    even if the query is started again with more lateness. `time_max_us` is the latest event time
    seen per input. `heard_us` is, by the clock, when each stream last had rows: of queries that go
    by the clock at all. `facts` are the operator's own: plain values that only it understands.
    """

    watermark_us: int
    time_max_us: Mapping[str, int | None]
    segments: SegmentSet = field(default_factory=SegmentSet)
    blobs: tuple[BlobInfo, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    heard_us: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", SegmentSet.of(self.segments))

    @property
    def files(self) -> set[str]:
        return self.segments.files | {b.name for b in self.blobs}

    def files_beyond(self, other: OperatorState | None) -> set[str]:
        """The files that must live for this state, but not for another."""
        if other is None:
            return self.files
        blobs = {b.name for b in self.blobs} - {b.name for b in other.blobs}
        return self.segments.files_beyond(other.segments) | blobs

    @property
    def names(self) -> set[str]:
        """The files that are named here, and not only in a manifest."""
        segments = {s.name for s in self.segments.loose}
        segments |= {m.blob.name for m in self.segments.manifests}
        return segments | {b.name for b in self.blobs}

    @staticmethod
    def from_json(folder: Folder, data: dict[str, Any]) -> OperatorState:
        return OperatorState(
            data["watermark_us"],
            data["time_max_us"],
            SegmentSet.from_json(folder, data),
            tuple(BlobInfo(**b) for b in data["blobs"]),
            data["facts"],
            data.get("heard_us", {}),
        )

    def to_json(self) -> dict[str, Any]:
        blobs = [vars(blob) for blob in self.blobs]
        return vars(self) | self.segments.to_json() | {"blobs": blobs}


@dataclass(frozen=True)
class Commit:
    """The state after a batch, of every operator of the query.

    `publish` lists the output files that belong to this commit; moving them is repeated until all
    are in place. `deliver` are results for a system other than a folder, which is repeated in the
    same way. `query` is what the query does that wrote it; commits of older versions have none,
    and then it is what the folder was claimed for. `epoch` is of the driver that wrote it. `plan`
    is the checksum of what Spark has noted that the batch consists of, where that is known.
    """

    batch_id: int
    operators: Mapping[str, OperatorState]
    publish: tuple[Move, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    deliver: Delivery | None = None
    plan: int | None = None

    @property
    def files(self) -> set[str]:
        """The files that must live as long as this commit."""
        return set().union(*(state.files for state in self.operators.values()))

    def files_beyond(self, other: Commit | None) -> set[str]:
        """The files that must live as long as this commit, but not for another."""
        others = {} if other is None else other.operators
        mine = (state.files_beyond(others.get(name)) for name, state in self.operators.items())
        return set().union(*mine)

    @property
    def segments(self) -> list[SegmentInfo]:
        return [s for state in self.operators.values() for s in state.segments]

    @property
    def form(self) -> int:
        """The format that tells other versions whether they can go on from here."""
        under_way = (r for state in self.operators.values() for r in state.segments.under_way)
        if any(r.cut_by for r in under_way):
            return CUT
        return FORMAT if self.deliver is None else DELIVERING

    def to_json(self) -> dict[str, Any]:
        operators = {name: state.to_json() for name, state in self.operators.items()}
        content = vars(self) | {"operators": operators}
        del content["deliver"]
        return content if self.deliver is None else content | {"deliver": vars(self.deliver)}

    @staticmethod
    def from_json(folder: Folder, data: dict[str, Any]) -> Commit:
        return Commit(
            data["batch_id"],
            {name: OperatorState.from_json(folder, s) for name, s in data["operators"].items()},
            tuple(Move(*move) for move in data["publish"]),
            data.get("query", {}),
            data.get("epoch", 0),
            Delivery.from_json(data["deliver"]) if "deliver" in data else None,
            data.get("plan"),
        )


def _name(batch_id: int, epoch: int) -> str:
    return f"{COMMITS}/{batch_id:012d}{f'-e{epoch}' if epoch else ''}.json"


def write_checked(
    folder: Folder, name: str, content: dict[str, Any], form: int | None = None
) -> None:
    """Write a JSON file with its format and checksum, atomically."""
    body = json.dumps(content, sort_keys=True, separators=(",", ":"))
    head = f'{{"format":{form or FORMAT},"crc32":{zlib.crc32(body.encode())},"content":'
    folder.write_atomically(name, (head + body + "}\n").encode())


def _listed(forms: Collection[int]) -> str:
    *first, last = map(str, sorted(forms))
    return f"formats {', '.join(first)} and {last}" if first else f"format {last}"


def read_checked(
    folder: Folder, name: str, forms: Collection[int] = (FORMAT,), advice: str = RESTORE
) -> dict[str, Any]:
    """Read what `write_checked` wrote; refuse what is damaged or of an unknown format. `advice` is
    what to do about a file that is torn."""
    try:
        outer = json.loads(folder.read(name))
        found, crc32, content = outer["format"], outer["crc32"], outer["content"]
    except (ValueError, KeyError, TypeError) as error:
        what = f"{folder.path(name)} cannot be read as a state file ({error})."
        raise TornError(what, advice) from error
    if found not in forms:
        what_to_do = (
            "Start with a new checkpointLocation, or use the version that wrote it."
            if isinstance(found, int) and found < max(forms)
            else "Use the version that wrote it or a newer one."
        )
        raise StateFormatError(
            f"{folder.path(name)} is of format {found}; this version of skewless knows "
            f"{_listed(forms)}. {what_to_do}"
        )
    body = json.dumps(content, sort_keys=True, separators=(",", ":"))
    if zlib.crc32(body.encode()) != crc32:
        what = f"{folder.path(name)} was altered: its checksum does not fit."
        raise TornError(what, advice)
    return dict(content)


def checkpoint_of(state: Folder) -> str:
    """The checkpoint folder around a state folder."""
    return state.root.rstrip("/").rpartition("/")[0]


def _advice(state: Folder) -> str:
    """What to do about a torn commit. A checkpoint is worth more than its last batch."""
    return (
        "If it is the newest commit, the next start goes on from the batch before, as long as "
        "Spark repeats this one; else "
        f"`skewless rollback {checkpoint_of(state)} --to BATCH` goes back to an earlier one. If "
        f"there is none, {LAST_RESORT}"
    )


class CommitLog:
    """The commits of a state folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._epochs: dict[int, int] = {}  # of the commits that were found to count

    def _found(self) -> list[tuple[int, int]]:
        """All commits there are, by batch and epoch, whether or not they count."""
        names = (_NAMED.fullmatch(name) for name in self._folder.list(COMMITS))
        return [(int(found[1]), int(found[2] or 0)) for found in names if found]

    def newest_epoch(self) -> int:
        """The latest epoch that has written a commit."""
        return max((epoch for _, epoch in self._found()), default=0)

    def batch_ids(self) -> list[int]:
        """The batches that are committed, as far as it counts."""
        self._epochs = counted(self._folder, self._found())
        return sorted(self._epochs)

    def _name_of(self, batch_id: int) -> str:
        if batch_id not in self._epochs:
            self.batch_ids()
        return _name(batch_id, self._epochs.get(batch_id, 0))

    def read(self, batch_id: int) -> Commit:
        name = self._name_of(batch_id)
        forms = (FORMAT, DELIVERING, CUT)
        content = read_checked(self._folder, name, forms, _advice(self._folder))
        commit = Commit.from_json(self._folder, content)
        names = set().union(*(state.names for state in commit.operators.values()))
        names = names.union(move.staged for move in commit.publish)
        if commit.deliver is not None:
            names = names.union(file.name for file in commit.deliver.files)
        outside = [name for name in names if not is_confined(name)]
        if outside:
            raise StateDamagedError(
                f"{self._folder.path(name)} names files outside of the state folder: "
                f"{sorted(outside)}. {RESTORE}"
            )
        return commit

    def latest(self) -> Commit | None:
        ids = self.batch_ids()
        return self.read(ids[-1]) if ids else None

    def write(self, commit: Commit) -> None:
        failpoints.hit("commit.begun", self._folder.root, commit.batch_id)
        name = _name(commit.batch_id, commit.epoch)
        write_checked(self._folder, name, commit.to_json(), commit.form)
        self._epochs[commit.batch_id] = commit.epoch
        failpoints.hit("commit.written", self._folder.root, commit.batch_id)

    def delete(self, batch_id: int) -> None:
        self._folder.delete(self._name_of(batch_id))
        self._epochs.pop(batch_id, None)

    def sweep(self, epoch: int) -> None:
        """Remove commits of older epochs that do not count, and never will."""
        found = self._found()
        counts = counted(self._folder, found).items()
        for batch_id, of in found:
            if of < epoch and (batch_id, of) not in counts:
                self._folder.delete(_name(batch_id, of))


def claim(folder: Folder, facts: Mapping[str, str]) -> None:
    """Note down what the query does that a state folder belongs to."""
    write_checked(folder, QUERY_FILE, dict(facts))
