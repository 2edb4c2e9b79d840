"""A process that is killed with SIGKILL, at any point, gives the same output as one that is not."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skewless.errors import CheckpointInUseError
from skewless.faults import POINTS
from tests.spark.crash_child import FAN_IN, JOIN
from tests.spark.processes import Pair, child, kill_tree, streams, tables, wait_for
from tests.spark.support import (
    assert_same,
    keyed_join,
    keyed_oracle,
    read_parquet,
    run,
)

TELLING = (
    "segment.written",
    "instance.joined",
    "sink.staged",
    "commit.begun",
    "commit.written",
    "publish.one",
)


@pytest.fixture(autouse=True)
def early_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skewless.state.compaction.FAN_IN", FAN_IN)


def finish_here(spark: SparkSession, folder: Path, pair: Pair) -> None:
    """Run what is left in this process, and compare all with the oracle."""
    left, right = pair
    for stream in pair:
        for file in sorted(Path(f"{stream.folder}.later").glob("*.parquet")):
            file.rename(stream.folder / file.name)
    out = run(keyed_join(left.read(spark), right.read(spark), **JOIN), folder)
    expected = keyed_oracle(left, right, 12)
    assert expected.total() > 100
    assert_same(read_parquet(out), expected)
    assert all(file.name.startswith("batch-") for file in out.rglob("*"))
    nothing_is_left_over(folder / "checkpoint" / "skewless")


def nothing_is_left_over(state: Path) -> None:
    """All segments are listed in a commit, and nothing of a batch remains."""
    commits = [json.loads(file.read_text()) for file in (state / "commits").glob("*.json")]
    listed = {Path(s["name"]).name for c in commits for s in c["content"]["segments"]}
    assert {file.name for file in (state / "segments").iterdir()} == listed
    for name in ("probes", "reports", "staged"):
        assert [p for p in (state / name).rglob("*") if p.is_file()] == []
    assert [p.name for p in state.rglob(".*")] == []


def kill_at(spark: SparkSession, folder: Path, point: str) -> None:
    pair = streams(folder, early=2, later=2)
    marker = folder / "marker"
    marker.touch()
    config = {"folder": str(folder), "marker": str(marker)}
    with child(config, SKEWLESS_PAUSE_AT=f"{point}={marker}") as process:
        wait_for(folder / "armed", process)
        wait_for(marker, process)
        if point == "commit.begun":
            with pytest.raises(CheckpointInUseError, match=f"process {process.pid}"):
                finish_here(spark, folder, pair)
        assert not (folder / "done").exists()
        kill_tree(process)
    finish_here(spark, folder, pair)


@pytest.mark.parametrize("point", TELLING)
def test_kill_at(spark: SparkSession, tmp_path: Path, point: str) -> None:
    kill_at(spark, tmp_path, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", [point for point in POINTS if point not in TELLING])
def test_kill_at_every_other(spark: SparkSession, tmp_path: Path, point: str) -> None:
    kill_at(spark, tmp_path, point)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(5))
def test_kills_at_random_moments(spark: SparkSession, tmp_path: Path, number: int) -> None:
    """Ten kills on one checkpoint: some while the query starts, most after a few more batches. The
    seed replays the moments, as far as a machine can."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed of the moments is {seed}")
    chance = random.Random(seed)
    pair = streams(tmp_path, early=0, later=0)
    kills = 0
    while kills < 10:
        for stream, side in zip(pair, ("left", "right"), strict=True):
            first = len(stream.tables)
            stream.add(*tables(side, first, first + 8))
        begun = last_commit(tmp_path)
        with child({"folder": str(tmp_path), "twice": False}) as process:
            wait_for(tmp_path / "started", process)
            more = chance.choice([0, 1, 2, 3, 4, 5])
            while last_commit(tmp_path) < begun + more and process.poll() is None:
                time.sleep(0.005)
            time.sleep(chance.random() * (0.6 if more else 6))
            finished = (tmp_path / "done").exists()
            kill_tree(process)
        kills += not finished
        print(f"killed after batches {begun + 1} to {last_commit(tmp_path)}")
    finish_here(spark, tmp_path, pair)


def last_commit(folder: Path) -> int:
    commits = (folder / "checkpoint" / "skewless" / "commits").glob("[0-9]*.json")
    return max((int(file.stem) for file in commits), default=-1)
