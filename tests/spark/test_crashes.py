"""A process that is killed with SIGKILL, at any point, gives the same output as one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skewless.errors import CheckpointInUseError
from skewless.failpoints import POINTS
from skewless.operators.two_way.operator import JoinRuntime
from tests.spark.crash_child import JOIN
from tests.spark.killed import KILLS, chance_told, killed_sometime, nothing_is_left_over
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
    "instance.worked",
    "sink.staged",
    "commit.begun",
    "commit.written",
    "publish.one",
)


pytestmark = pytest.mark.usefixtures("early_compaction")


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
    nothing_is_left_over(folder / "checkpoint" / "skewless", JoinRuntime)


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
    """Ten kills on one checkpoint."""
    chance, pair, kills = chance_told(), streams(tmp_path, early=0, later=0), 0
    while kills < KILLS:
        for stream, side in zip(pair, ("left", "right"), strict=True):
            first = len(stream.tables)
            stream.add(*tables(side, first, first + 8))
        kills += killed_sometime({"folder": str(tmp_path), "twice": False}, chance)
    finish_here(spark, tmp_path, pair)
