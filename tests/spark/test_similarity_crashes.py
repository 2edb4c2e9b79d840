"""A process that joins rows that are alike and is killed with SIGKILL, at any point, gives the same
output as one that is not."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import skewless as sk
from skewless.faults import POINTS
from tests.similarity.oracle import Question, answers
from tests.spark import processes
from tests.spark.crash_child import FAN_IN
from tests.spark.processes import child, kill_tree, wait_for
from tests.spark.similarity_crash_child import (
    STRATEGIES,
    THRESHOLD,
    WITHIN_S,
    join_all,
    sources,
    tables,
)
from tests.spark.support import (
    SECOND_US,
    FileStream,
    Rows,
    assert_same,
    at,
    multiset,
    read_parquet,
)
from tests.spark.test_crashes import last_commit, nothing_is_left_over

TELLING = ("commit.begun", "commit.written", "instance.reported")


@pytest.fixture(autouse=True)
def of_similarity_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(__file__).with_name("similarity_crash_child.py")
    monkeypatch.setattr(processes, "SCRIPT", script)
    monkeypatch.setattr("skewless.state.compaction.FAN_IN", FAN_IN)


def expected_of(streams: Sequence[FileStream]) -> Rows:
    """The pairs of all rows, none of which is late."""
    bound = WITHIN_S * SECOND_US
    never = 10**15
    question = Question("euclidean", THRESHOLD, (-bound, bound), None, (never, never), False)
    batches = [
        [
            [(n, round((t - at(0)).total_seconds() * SECOND_US), v) for n, t, v in zip(
                *(column.to_pylist() for column in part.columns), strict=True)]
            for part in parts
        ]
        for parts in zip(*(stream.tables for stream in streams), strict=True)
    ]  # fmt: skip
    found = answers(question, batches)
    assert all(answer.certain == answer.possible for answer in found)
    return multiset(pair for answer in found for pair in answer.certain)


def add(streams: Sequence[FileStream], batches: int) -> None:
    for stream in streams:
        first = len(stream.tables)
        stream.add(*tables(stream.folder.name, first, first + batches))


def no_worksets_are_left_over(state: Path) -> None:
    commits = [json.loads(file.read_text()) for file in (state / "commits").glob("*.json")]
    listed = {g["name"] for c in commits for g in c["content"]["grouping"]["groupers"]}
    assert listed
    assert {f"worksets/{file.name}" for file in (state / "worksets").iterdir()} == listed


def finish_here(
    spark: SparkSession, folder: Path, streams: Sequence[FileStream], strategy: str
) -> None:
    """Run what is left in this process, and compare all with the oracle."""
    out = join_all(spark, folder, strategy)
    expected = expected_of(streams)
    assert expected.total() > 300
    assert_same(read_parquet(out), expected)
    assert all(file.name.startswith("batch-") for file in out.rglob("*"))
    state = folder / "checkpoint" / "skewless"
    nothing_is_left_over(state)
    no_worksets_are_left_over(state)


def kill_at(spark: SparkSession, folder: Path, points: Sequence[str], strategy: str) -> None:
    """One checkpoint, one kill per point: a child takes two more batches and is stopped there."""
    streams = sources(folder)
    add(streams, 3)
    join_all(spark, folder, strategy)
    for number, point in enumerate(points):
        add(streams, 2)
        marker = folder / f"marker-{number}"
        config = {"folder": str(folder), "strategy": strategy}
        with child(config, SKEWLESS_PAUSE_AT=f"{point}={marker}") as process:
            wait_for(marker, process)
            assert not (folder / "done").exists()
            kill_tree(process)
    finish_here(spark, folder, streams, strategy)


@pytest.mark.slow
def test_kills_at_commits_and_reports(spark: SparkSession, tmp_path: Path) -> None:
    kill_at(spark, tmp_path, TELLING, "S3J of places")
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert len(reports) == 3 + 2 * len(TELLING)
    assert any(report.decisions for report in reports)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", ["S3J of places", "ClusterJoin"])
@pytest.mark.parametrize("point", [point for point in POINTS if point not in TELLING])
def test_kill_at_every_other(
    spark: SparkSession, tmp_path: Path, point: str, strategy: str
) -> None:
    kill_at(spark, tmp_path, [point], strategy)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kills_at_random_moments(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    """Ten kills on one checkpoint: some while the query starts, most after a few more batches. The
    seed replays the moments, as far as a machine can."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed of the moments is {seed}")
    chance = random.Random(seed)
    streams = sources(tmp_path)
    kills = 0
    while kills < 10:
        add(streams, 8)
        begun = last_commit(tmp_path)
        with child({"folder": str(tmp_path), "strategy": strategy}) as process:
            wait_for(tmp_path / "started", process)
            more = chance.choice([0, 1, 2, 3, 4, 5])
            while last_commit(tmp_path) < begun + more and process.poll() is None:
                time.sleep(0.005)
            time.sleep(chance.random() * (0.6 if more else 6))
            finished = (tmp_path / "done").exists()
            kill_tree(process)
        kills += not finished
        print(f"killed after batches {begun + 1} to {last_commit(tmp_path)}")
    finish_here(spark, tmp_path, streams, strategy)
