"""Queries that are killed with SIGKILL and go on: the story of any of them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import skewless as sk
from skewless.engine.lifecycle import DURABLE, TRANSIENT
from skewless.errors import CheckpointInUseError
from tests.spark.processes import child, kill_tree, wait_for
from tests.spark.query_kits import QueryKit, add_batches, close
from tests.spark.support import FileStream, assert_same, read_parquet

KILLS = 10


def last_commit(folder: Path) -> int:
    commits = (folder / "checkpoint" / "skewless" / "commits").glob("[0-9]*.json")
    return max((int(file.stem) for file in commits), default=-1)


def commits_in(state: Path) -> dict[int, dict[str, dict[str, list[dict[str, str]]]]]:
    """What each commit says of each operator. Commits are read as they are: what reads them in a
    query is under test."""
    return {
        int(file.stem): json.loads(file.read_text())["content"]["operators"]
        for file in (state / "commits").glob("*.json")
    }


def nothing_is_left_over(state: Path) -> None:
    """All files are listed in a commit, and nothing of a batch remains."""
    listed = {
        file["name"]
        for operators in commits_in(state).values()
        for operator in operators.values()
        for kind in ("segments", "blobs")
        for file in operator[kind]
    }
    assert listed
    found = {f"{part}/{file.name}" for part in DURABLE for file in (state / part).iterdir()}
    assert found == listed
    for name in TRANSIENT:
        assert [p for p in (state / name).rglob("*") if p.is_file()] == []
    assert [p.name for p in state.rglob(".*")] == []


@dataclass(frozen=True)
class Story:
    """A query on one checkpoint, in a folder of its own."""

    kit: QueryKit
    spark: SparkSession
    folder: Path

    def kill_at(self, points: Sequence[str], ways: Sequence[str]) -> None:
        """One kill per point: a child takes two more batches and is stopped there."""
        streams = self.kit.sources(self.folder)
        add_batches(streams, 5)
        self.kit.run_all(self.spark, self.folder, ways[0])
        for number, point in enumerate(points):
            add_batches(streams, 2)
            self._kill_at(point, ways[number % len(ways)])
        self._finish_here(streams, ways[0])

    def _kill_at(self, point: str, way: str) -> None:
        marker = self.folder / f"marker-{point}"
        with child(self._config(way), SKEWLESS_PAUSE_AT=f"{point}={marker}") as process:
            wait_for(marker, process)
            assert not (self.folder / "done").exists()
            if point == "commit.begun":
                with pytest.raises(CheckpointInUseError, match=f"process {process.pid}"):
                    self.kit.run_all(self.spark, self.folder, way)
            kill_tree(process)

    def kill_at_random_moments(self) -> None:
        """Some kills on one checkpoint. The seed replays them, as far as a machine can."""
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"the seed of the moments is {seed}")
        chance, ways = random.Random(seed), list(self.kit.ways)
        streams, kills = self.kit.sources(self.folder), 0
        while kills < KILLS:
            # So that eight batches are to come.
            add_batches(streams, last_commit(self.folder) + 9 - len(streams[0].tables))
            kills += self._killed_sometime(chance.choice(ways), chance)
        self._finish_here(streams, ways[0])

    def _killed_sometime(self, way: str, chance: random.Random) -> bool:
        """Start a child and kill it: sometimes while the query starts, mostly after a few more
        batches. Whether it still had work to do."""
        begun = last_commit(self.folder)
        with child(self._config(way)) as process:
            wait_for(self.folder / "started", process)
            more = chance.choice([0, 1, 2, 3, 4, 5])
            while last_commit(self.folder) < begun + more and process.poll() is None:
                time.sleep(0.005)
            time.sleep(chance.random() * (0.6 if more else 6))
            finished = (self.folder / "done").exists()
            assert finished or process.poll() is None, "the child has failed"
            kill_tree(process)
        print(f"killed after batches {begun + 1} to {last_commit(self.folder)}")
        return not finished

    def _config(self, way: str) -> dict[str, str]:
        return {"folder": str(self.folder), "query": self.kit.name, "way": way}

    def _finish_here(self, streams: Sequence[FileStream], way: str) -> None:
        """Run what is left in this process, and compare all with the oracle."""
        close(streams)
        out = self.kit.run_all(self.spark, self.folder, way)
        expected = self.kit.expected(streams)
        assert expected.total() > self.kit.more_than
        assert_same(read_parquet(out), expected)
        assert all(file.name.startswith("batch-") for file in out.rglob("*"))
        reports = sk.history(str(self.folder / "checkpoint"))
        assert [report.batch_id for report in reports] == list(range(len(streams[0].tables)))
        assert any(report.decisions for report in reports) or not self.kit.decides
        nothing_is_left_over(self.folder / "checkpoint" / "skewless")
