"""Queries that are killed with SIGKILL and go on: what their tests have in common.

A `way` is how a query works, the name of a strategy or grouping; a process that takes over may work
in another way than the one before it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from skewless.engine.lifecycle import StateRuntime
from tests.spark.processes import child, kill_tree, wait_for
from tests.spark.support import FileStream, Rows, assert_same, read_parquet

TELLING = ("commit.begun", "commit.written", "instance.reported")
KILLS = 10


def last_commit(folder: Path) -> int:
    commits = (folder / "checkpoint" / "skewless" / "commits").glob("[0-9]*.json")
    return max((int(file.stem) for file in commits), default=-1)


def nothing_is_left_over(state: Path, kind: type[StateRuntime]) -> None:
    """All files are listed in a commit, and nothing of a batch remains. Commits are read as they
    are: what reads them in a query is under test."""
    commits = [
        json.loads(file.read_text())["content"] for file in (state / "commits").glob("*.json")
    ]
    listed = {s["name"] for c in commits for s in c["segments"]}
    listed |= {g["name"] for c in commits if c.get("grouping") for g in c["grouping"]["groupers"]}
    assert listed
    found = {f"{part}/{file.name}" for part in kind.durable for file in (state / part).iterdir()}
    assert found == listed
    for name in kind.transient:
        assert [p for p in (state / name).rglob("*") if p.is_file()] == []
    assert [p.name for p in state.rglob(".*")] == []


def chance_told() -> random.Random:
    """The moments of kills. The seed replays them, as far as a machine can."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed of the moments is {seed}")
    return random.Random(seed)


def killed_sometime(config: dict[str, Any], chance: random.Random) -> bool:
    """Start a child and kill it: sometimes while the query starts, mostly after a few more batches.
    Whether it still had work to do."""
    folder = Path(config["folder"])
    begun = last_commit(folder)
    with child(config) as process:
        wait_for(folder / "started", process)
        more = chance.choice([0, 1, 2, 3, 4, 5])
        while last_commit(folder) < begun + more and process.poll() is None:
            time.sleep(0.005)
        time.sleep(chance.random() * (0.6 if more else 6))
        finished = (folder / "done").exists()
        kill_tree(process)
    print(f"killed after batches {begun + 1} to {last_commit(folder)}")
    return not finished


@dataclass(frozen=True)
class Story:
    """A query on files: what it reads, how it runs to their end, and what must come of it."""

    script: str
    kind: type[StateRuntime]
    sources: Callable[[Path], list[FileStream]]
    tables: Callable[[str, int, int], list[pa.Table]]
    run_all: Callable[[SparkSession, Path, str], Path]
    expected_of: Callable[[Sequence[FileStream]], Rows]
    more_than: int

    def kill_at(self, spark: SparkSession, folder: Path, points: Sequence[str], *ways: str) -> None:
        """One checkpoint, one kill per point: a child takes two more batches and is stopped
        there."""
        streams = self.sources(folder)
        self._add(streams, 3)
        self.run_all(spark, folder, ways[0])
        for number, point in enumerate(points):
            self._add(streams, 2)
            marker = folder / f"marker-{number}"
            config = self._config(folder, ways[number % len(ways)])
            with child(config, SKEWLESS_PAUSE_AT=f"{point}={marker}") as process:
                wait_for(marker, process)
                assert not (folder / "done").exists()
                kill_tree(process)
        self._finish_here(spark, folder, streams, ways[0])

    def kill_at_random_moments(self, spark: SparkSession, folder: Path, *ways: str) -> None:
        """Some kills on one checkpoint."""
        chance, streams, kills = chance_told(), self.sources(folder), 0
        while kills < KILLS:
            # So that eight batches are to come.
            self._add(streams, last_commit(folder) + 9 - len(streams[0].tables))
            kills += killed_sometime(self._config(folder, chance.choice(ways)), chance)
        self._finish_here(spark, folder, streams, ways[0])

    def _config(self, folder: Path, way: str) -> dict[str, Any]:
        return {"folder": str(folder), "script": self.script, "way": way}

    def _add(self, streams: Sequence[FileStream], batches: int) -> None:
        for stream in streams:
            first = len(stream.tables)
            stream.add(*self.tables(stream.folder.name, first, first + batches))

    def _finish_here(
        self, spark: SparkSession, folder: Path, streams: Sequence[FileStream], way: str
    ) -> None:
        """Run what is left in this process, and compare all with the oracle."""
        out = self.run_all(spark, folder, way)
        expected = self.expected_of(streams)
        assert expected.total() > self.more_than
        assert_same(read_parquet(out), expected)
        assert all(file.name.startswith("batch-") for file in out.rglob("*"))
        nothing_is_left_over(folder / "checkpoint" / "skewless", self.kind)
