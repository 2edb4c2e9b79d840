"""A process that aggregates and is killed with SIGKILL, at any point, gives the same output as one
that is not."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skewless.faults import POINTS
from skewless.state.files import Folder
from tests.aggregating.test_crashes import assert_nothing_is_left_over
from tests.spark import processes
from tests.spark.aggregate_crash_child import (
    LATE_S,
    SIZE_S,
    SLIDE_S,
    aggregate_all,
    source,
    tables,
)
from tests.spark.crash_child import FAN_IN
from tests.spark.processes import child, kill_tree, wait_for
from tests.spark.support import FileStream, Rows, assert_same, at, multiset, read_parquet
from tests.spark.test_crashes import last_commit

TELLING = ("commit.begun", "commit.written", "instance.reported")
GROUPINGS = ("PdStream", "BatchAware", "ShuffleGrouping")


@pytest.fixture(autouse=True)
def of_aggregations(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(__file__).with_name("aggregate_crash_child.py")
    monkeypatch.setattr(processes, "SCRIPT", script)
    monkeypatch.setattr("skewless.state.compaction.FAN_IN", FAN_IN)


def expected_of(stream: FileStream) -> Rows:
    """The closed windows, by a plain loop over all rows; none of them is late."""
    values: defaultdict[tuple[datetime, int], list[int]] = defaultdict(list)
    rows = [row for table in stream.tables for row in table.to_pylist()]
    for row in rows:
        begin = at((row["at"] - at(0)) // timedelta(seconds=SLIDE_S) * SLIDE_S)
        for back in range(0, SIZE_S, SLIDE_S):
            values[begin - timedelta(seconds=back), row["k"]].append(row["a"])
    watermark = max(row["at"] for row in rows) - timedelta(seconds=LATE_S)
    return multiset(
        (start, k, len(group), sum(group), sorted(group)[(len(group) + 1) // 2 - 1],
         len(set(group)))
        for (start, k), group in values.items()
        if start + timedelta(seconds=SIZE_S) <= watermark
    )  # fmt: skip


def finish_here(spark: SparkSession, folder: Path, stream: FileStream, grouping: str) -> None:
    """Run what is left in this process, and compare all with the oracle."""
    out = aggregate_all(spark, folder, grouping)
    expected = expected_of(stream)
    assert expected.total() >= 10
    assert_same(read_parquet(out), expected)
    assert all(file.name.startswith("batch-") for file in out.rglob("*"))
    state = folder / "checkpoint" / "skewless"
    assert_nothing_is_left_over(Folder(str(state)))
    assert [p.name for p in state.rglob(".*")] == []


def add(stream: FileStream, batches: int) -> None:
    first = len(stream.tables)
    stream.add(*tables(first, first + batches))


def kill_at(
    spark: SparkSession, folder: Path, points: Sequence[str], *, groupings: Sequence[str]
) -> None:
    """One checkpoint, one kill per point: a child takes two more batches and is stopped there."""
    stream = source(folder)
    add(stream, 3)
    aggregate_all(spark, folder, groupings[0])
    for number, point in enumerate(points):
        add(stream, 2)
        marker, grouping = folder / f"marker-{number}", groupings[number % len(groupings)]
        config = {"folder": str(folder), "grouping": grouping}
        with child(config, SKEWLESS_PAUSE_AT=f"{point}={marker}") as process:
            wait_for(marker, process)
            assert not (folder / "done").exists()
            kill_tree(process)
    finish_here(spark, folder, stream, groupings[0])


@pytest.mark.slow
def test_kills_at_commits_and_reports(spark: SparkSession, tmp_path: Path) -> None:
    kill_at(spark, tmp_path, TELLING, groupings=GROUPINGS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("grouping", ["PdStream", "BatchAware"])
@pytest.mark.parametrize("point", [point for point in POINTS if point not in TELLING])
def test_kill_at_every_other(
    spark: SparkSession, tmp_path: Path, point: str, grouping: str
) -> None:
    kill_at(spark, tmp_path, [point], groupings=[grouping])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kills_at_random_moments(spark: SparkSession, tmp_path: Path) -> None:
    """Ten kills on one checkpoint: some while the query starts, most after a few more batches. The
    seed replays the moments, as far as a machine can."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed of the moments is {seed}")
    chance = random.Random(seed)
    stream = source(tmp_path)
    kills = 0
    while kills < 10:
        begun = last_commit(tmp_path)
        add(stream, begun + 9 - len(stream.tables))  # so that eight batches are to come
        config = {"folder": str(tmp_path), "grouping": chance.choice(GROUPINGS)}
        with child(config) as process:
            wait_for(tmp_path / "started", process)
            more = chance.choice([0, 1, 2, 3, 4, 5])
            while last_commit(tmp_path) < begun + more and process.poll() is None:
                time.sleep(0.005)
            time.sleep(chance.random() * (0.6 if more else 6))
            finished = (tmp_path / "done").exists()
            kill_tree(process)
        kills += not finished
        print(f"killed after batches {begun + 1} to {last_commit(tmp_path)}")
    finish_here(spark, tmp_path, stream, "PdStream")
