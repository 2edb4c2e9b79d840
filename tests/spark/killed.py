"""Queries that are killed with SIGKILL and go on.

Several of them share each process that is killed: to start one takes longer than all their work.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

import skewless as sk
from skewless.engine.lifecycle import DURABLE, TRANSIENT
from skewless.errors import CheckpointInUseError
from tests.kills import SEED, replay
from tests.spark.processes import child, kill_tree, wait_for, wait_until
from tests.spark.query_kits import QueryKit, add_batches, close
from tests.spark.support import FileStream, assert_same, read_parquet

MOMENT_S = 25.0  # the latest moment of a kill, after the queries have begun
AFTER_S = 5.0  # and after one of them has committed


def a_query(kit: QueryKit, folder: Path, way: str, columns: bool = False) -> dict[str, Any]:
    """What a child is told of a query. Its files are read by Spark, or as columns."""
    return {"folder": str(folder), "query": kit.name, "way": way, "columns": columns}


def small(number: int) -> dict[str, str]:
    """Where small batches are worked on: in the driver, or as large ones are."""
    return {"SKEWLESS_SMALL": ("", "apart")[number % 2]}


def last_commit(folder: Path) -> int:
    commits = (folder / "checkpoint" / "skewless" / "commits").glob("[0-9]*.json")
    return max((int(file.stem.partition("-")[0]) for file in commits), default=-1)


def wait_for_a_moment(
    process: psutil.Popen, log: Path, folders: Sequence[Path], chance: random.Random
) -> None:
    """Some moment of queries at work. Mostly it comes after the next commit of one of them: in the
    midst of batches, however slow the machine is."""
    if chance.random() < 2 / 3:
        folder = chance.choice(folders)
        before = last_commit(folder)
        wait_until(lambda: last_commit(folder) > before or (folder / "done").exists(), process, log)
    time.sleep(chance.random() * AFTER_S)


def commits_in(state: Path) -> dict[int, dict[str, dict[str, Any]]]:
    """What each commit says of each operator. Commits are read as they are: what reads them in a
    query is under test."""
    return {
        int(file.stem.partition("-")[0]): json.loads(file.read_text())["content"]["operators"]
        for file in (state / "commits").glob("*.json")
    }


def listed_in(state: Path, listing: dict[str, Any]) -> set[str]:
    """The files that a commit lists of an operator: itself, in manifests, and of what is being
    rewritten."""
    names = {file["name"] for kind in ("segments", "blobs") for file in listing.get(kind, ())}
    for manifest in listing.get("manifests", ()):
        gone = bytes.fromhex(manifest["gone"])
        inside = json.loads((state / manifest["name"]).read_text())
        alive = (i for i in range(len(inside)) if not (gone and gone[i // 8] >> (7 - i % 8) & 1))
        names |= {manifest["name"], *(inside[i]["name"] for i in alive)}
    for rewriting in listing.get("under_way", ()):
        names |= listed_in(state, rewriting["written"])
    return names


def nothing_is_left_over(state: Path) -> None:
    """All files are listed in a commit, and nothing of a batch remains."""
    listed: set[str] = set()
    for operators in commits_in(state).values():
        listed = listed.union(*(listed_in(state, operator) for operator in operators.values()))
    assert listed
    found = {f"{part}/{file.name}" for part in DURABLE for file in (state / part).iterdir()}
    assert found == listed
    for name in TRANSIENT:
        assert [p for p in (state / name).rglob("*") if p.is_file()] == []
    assert [p.name for p in state.rglob(".*")] == []


def files_read(checkpoint: Path, batch: int) -> int:
    """The last file that a batch and those before it have read of each stream. It need not be the
    batch's number: Spark takes the next file as well when it was killed after it had noted one in
    its source log, and before it had noted the offset."""
    _, _, *ends = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    assert ends
    return min(-1 if end == "-" else int(json.loads(end)["logOffset"]) for end in ends)


def every_file_is_read(checkpoint: Path, files: int) -> None:
    """Batches follow each other, up to the last file of each stream."""
    ids = [report.batch_id for report in sk.history(str(checkpoint))]
    assert ids == list(range(len(ids)))
    assert files_read(checkpoint, ids[-1]) == files - 1


@dataclass
class Story:
    """A query on one checkpoint, in a folder of its own."""

    kit: QueryKit
    spark: SparkSession
    folder: Path
    kills: int = 0
    streams: list[FileStream] = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.streams = self.kit.sources(self.folder)

    def way(self, number: int) -> str:
        ways = list(self.kit.ways)
        return ways[number % len(ways)]

    def work(self) -> Path:
        """Work on all there is, in this process."""
        return self.kit.run_all(self.spark, self.folder, self.way(0))

    def finish(self) -> None:
        """Work on what is left, and compare all with the oracle."""
        close(self.streams)
        out, expected = self.work(), self.kit.expected(self.streams)
        assert expected.total() > self.kit.more_than
        assert_same(read_parquet(out), expected)
        assert all(file.name.startswith("batch-") for file in out.rglob("*"))
        reports = sk.history(str(self.folder / "checkpoint"))
        every_file_is_read(self.folder / "checkpoint", len(self.streams[0].tables))
        assert any(report.decisions for report in reports) or not self.kit.decides
        nothing_is_left_over(self.folder / "checkpoint" / "skewless")


@dataclass(frozen=True)
class Stories:
    """Queries that share the processes that are killed; each has its checkpoint."""

    folder: Path
    each: Sequence[Story]

    @classmethod
    def of(cls, kits: Sequence[QueryKit], spark: SparkSession, folder: Path) -> Stories:
        each = [Story(kit, spark, folder / str(n)) for n, kit in enumerate(kits)]
        return cls(folder, each)

    def kill_at(self, points: Sequence[str]) -> None:
        """One kill per point, when all queries have come to it: each takes two more batches. Every
        child works in another way than the one before."""
        for story in self.each:
            add_batches(story.streams, 5)
            story.work()
        for number, point in enumerate(points):
            self._kill_at(point, number)
        self._finish()

    def _kill_at(self, point: str, number: int) -> None:
        for story in self.each:
            add_batches(story.streams, 2)
        queries = [a_query(s.kit, s.folder, s.way(number), number % 4 > 1) for s in self.each]
        marker = f"marker-{point}"
        config = {"queries": queries, "marker": f"checkpoint/skewless/{marker}"}
        pause = {"SKEWLESS_PAUSE_AT": f"{point}={marker}"}
        with self._child(config, **pause, **small(number)) as process:
            wait_for(self.folder / "paused", process)
            assert not any((story.folder / "done").exists() for story in self.each)
            if point == "commit.begun":
                with pytest.raises(CheckpointInUseError, match=f"process {process.pid}"):
                    self.each[0].work()
            kill_tree(process)

    def kill_at_random_moments(self, kills: int) -> None:
        """Kills until all queries have seen so many while they worked. The seed replays them, as
        far as a machine can."""
        print(replay())
        chance = random.Random(f"{SEED} {self.each[0].kit.name}")
        while waiting := [story for story in self.each if story.kills < kills]:
            for story in waiting:
                # So that eight batches are to come.
                more = last_commit(story.folder) + 9 - len(story.streams[0].tables)
                add_batches(story.streams, more)
            self._kill_sometime(waiting, chance)
        self._finish()

    def _kill_sometime(self, stories: Sequence[Story], chance: random.Random) -> None:
        """Start a child and kill it, mostly in the midst of batches."""
        columns = chance.random() < 0.5
        queries = [
            a_query(s.kit, s.folder, chance.choice(list(s.kit.ways)), columns) for s in stories
        ]
        with self._child({"queries": queries}, **small(chance.randrange(2))) as process:
            wait_for(self.folder / "started", process)
            time.sleep(chance.random() * MOMENT_S * len(stories) / len(self.each))
            done = [story for story in stories if (story.folder / "done").exists()]
            everything = len(done) == len(stories)
            assert everything or process.poll() is None, "the child has failed"
            kill_tree(process)
        for story in stories:
            story.kills += story not in done
        print("killed after batches", [last_commit(story.folder) for story in stories])

    def _child(
        self, config: dict[str, Any], **environment: str
    ) -> AbstractContextManager[psutil.Popen]:
        return child({"folder": str(self.folder)} | config, **environment)

    def _finish(self) -> None:
        for story in self.each:
            story.finish()
