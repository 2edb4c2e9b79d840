"""The life of a query's state, whatever the operator: open, replay, commit, publish, clean up."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from skewless import faults
from skewless.errors import DataError, StateAccessError, StateDamagedError
from skewless.model import FAR_US, BatchReport
from skewless.state.commits import COMMITS, Commit, CommitLog, claim
from skewless.state.files import Folder
from skewless.state.history import HISTORY, write_report
from skewless.state.publish import publish
from skewless.state.segments import SEGMENTS, verify_segment

log = logging.getLogger("skewless")

REPORTS = "reports"
STAGED = "staged"
NEVER_US = -FAR_US
SWEEP_EVERY = 32  # batches


def staging_folder(batch_id: int) -> str:
    """Where the output files of a batch wait for its commit."""
    return f"{STAGED}/{batch_id:012d}"


class StateRuntime:
    """The state folder of one query, from the driver's view. `lates_us` are the inputs with the
    delay of their watermark; `keep_commits` is how many batches one can go back to."""

    transient: tuple[str, ...] = (REPORTS, STAGED)  # folders whose content is of one batch only
    durable: tuple[str, ...] = (SEGMENTS,)  # folders whose content commits refer to

    def __init__(
        self,
        root: str,
        fingerprint: dict[str, str],
        lates_us: Mapping[str, int],
        keep_commits: int = 10,
        keep_history: int = 1000,
    ) -> None:
        self.folder = Folder(root)
        self._fingerprint, self._lates_us = fingerprint, lates_us
        self._keep_commits, self._keep_history = max(keep_commits, 2), keep_history
        self._commits = CommitLog(self.folder)
        self._kept: dict[int, set[str]] = {}
        self.last: Commit | None = None
        self.is_open = False

    def open(self) -> None:
        """Make or check the state folder; finish what a crash left unfinished."""
        self.folder.make()
        self._check_writable()
        for name in (COMMITS, HISTORY, *self.durable, *self.transient):
            self.folder.make(name)
        claim(self.folder, self._fingerprint)
        ids = self._commits.batch_ids()
        self._kept = {i: self._commits.read(i).files for i in ids}
        self.last = self._commits.read(ids[-1]) if ids else None
        if self.last is not None:
            self._adopt(self.last)
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda s: verify_segment(self.folder, s), self.last.segments))
            publish(self.folder, self.last)
        self._clean_orphans()
        self.is_open = True

    def _adopt(self, last: Commit) -> None:
        """Go on from a commit."""

    def _check_writable(self) -> None:
        probe = f".probe-{uuid.uuid4().hex}"
        try:
            self.folder.write(probe, b"skewless")
            size = self.folder.size(probe)
        finally:
            self.folder.delete(probe)
        if size != 8:
            raise StateAccessError(f"cannot store a file in {self.folder.root}: is the disk full?")

    def _sweep(self) -> None:
        """Remove what no commit refers to: left over from crashes and repeated tasks. Between two
        batches nobody else writes."""
        referred = set().union(*self._kept.values()) if self._kept else set()
        for durable in self.durable:
            for name in self.folder.list(durable):
                if f"{durable}/{name}" not in referred:
                    self.folder.delete(f"{durable}/{name}")

    def _clean_orphans(self) -> None:
        """Remove what a process that is gone has left."""
        self._sweep()
        for transient in self.transient:
            self.folder.delete_folder(transient)
            self.folder.make(transient)

    def is_done(self, batch_id: int) -> bool:
        """Whether a batch is committed already: then it is replayed and must change nothing."""
        if self.last is None:
            if batch_id > 0:
                raise StateDamagedError(
                    f"Spark's log is at batch {batch_id}, but {self.folder.root} holds no commit. "
                    "Restore the state folder, or start with a new checkpointLocation."
                )
            return False
        if batch_id not in (self.last.batch_id, self.last.batch_id + 1):
            # Spark repeats at most its last batch. Skipping older ones would lose new rows unseen.
            raise StateDamagedError(
                f"Spark's log is at batch {batch_id}, but the last commit in {self.folder.root} is "
                f"of batch {self.last.batch_id}. Restore the whole checkpoint folder from one "
                "point in time, or start with a new checkpointLocation."
            )
        return batch_id <= self.last.batch_id

    def watermark_us(self) -> int:
        """The watermark for the next batch: the least of what the inputs have reached."""
        if self.last is None:
            return NEVER_US
        return self._watermark(self.last.watermark_us, self.last.time_max_us)

    def _watermark(self, before: int, time_max_us: Mapping[str, int | None]) -> int:
        reached = [
            NEVER_US if (seen := time_max_us[side]) is None else seen - late_us
            for side, late_us in self._lates_us.items()
        ]
        return max(before, min(reached))

    def _time_max_us(self, seen: Iterable[tuple[str, int | None]]) -> dict[str, int | None]:
        """The latest event time of each input, now that a batch's tasks have told theirs."""
        latest = dict.fromkeys(self._lates_us) if self.last is None else {**self.last.time_max_us}
        for side, time_us in seen:
            before = latest[side]
            if time_us is not None and (before is None or time_us > before):
                latest[side] = time_us
        return latest

    def _new_report_folder(self, batch_id: int) -> str:
        """One that no earlier try of the batch has written to."""
        name = f"{REPORTS}/{batch_id:012d}-{uuid.uuid4().hex}"
        self.folder.make(name)
        return name

    def _reports(self, report_folder: str, instances: int) -> list[dict[str, Any] | None]:
        """What each instance has told of a batch. A sink may have read only some of the result, or
        none: then some have told nothing."""
        told: list[dict[str, Any] | None] = []
        for instance in range(instances):
            try:
                told.append(json.loads(self.folder.read(f"{report_folder}/{instance}.json")))
            except FileNotFoundError:
                told.append(None)
        return told

    def _common_figures(
        self, commit: Commit, watermark_us: int, phases_ms: Mapping[str, float]
    ) -> dict[str, Any]:
        """What every batch report has, whatever the operator."""
        return {
            "batch_id": commit.batch_id,
            "duration_ms": round(sum(phases_ms.values()), 3),
            "phases_ms": {k: round(v, 3) for k, v in phases_ms.items()},
            "state_rows": sum(s.rows for s in commit.segments),
            "state_bytes": sum(s.bytes for s in commit.segments),
            "segments": len(commit.segments),
            "watermark_us": None if watermark_us <= NEVER_US // 2 else watermark_us,
        }

    def _save(self, commit: Commit, report: BatchReport) -> None:
        """Make the batch count: the report, then the commit, then its output files."""
        write_report(self.folder, report)
        faults.reach("history.written", commit.batch_id)
        self._commits.write(commit)
        self.last = commit
        self._kept[commit.batch_id] = commit.files
        publish(self.folder, commit)

    def _clean_up(self, batch_id: int, written: Iterable[str], folders: Iterable[str]) -> None:
        """Delete what no kept commit refers to any more, of what the batch has `written` too.
        Failing to is no reason to stop."""
        try:
            for old in sorted(self._kept)[: -self._keep_commits]:
                self._commits.delete(old)
                gone = self._kept.pop(old)
                for name in gone - set().union(*self._kept.values()):
                    self.folder.delete(name)
            for name in set(written) - self._kept[batch_id]:
                self.folder.delete(name)
            for name in (*folders, staging_folder(batch_id)):
                self.folder.delete_folder(name)
            if batch_id % SWEEP_EVERY == SWEEP_EVERY - 1:
                self._sweep()
            if batch_id >= self._keep_history:
                self.folder.delete(f"{HISTORY}/{batch_id - self._keep_history:012d}.json")
        except OSError as error:
            log.warning("could not clean up behind batch %d: %s", batch_id, error)


def refuse_null_times(count: int, whose: str, column: str) -> None:
    """Stop the query at rows that have no event time."""
    if count:
        who = "1 row" if count == 1 else f"{count} rows"
        raise DataError(
            f"{who} of the {whose} without event time (column {column!r} is null). "
            'Filter such rows out, or pass on_null_time="drop" to drop and count them.'
        )
