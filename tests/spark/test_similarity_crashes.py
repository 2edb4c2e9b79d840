"""A process that joins rows that are alike and is killed with SIGKILL, at any point, gives the same
output as one that is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import skewless as sk
from skewless.failpoints import POINTS
from skewless.operators.similarity.operator import SimilarityRuntime
from tests.operators.similarity.oracle import Question, answers
from tests.spark.killed import TELLING, Story
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
    at,
    multiset,
)


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


STORY = Story(
    "similarity_crash_child.py",
    SimilarityRuntime,
    sources,
    tables,
    join_all,
    expected_of,
    more_than=300,
)
pytestmark = pytest.mark.usefixtures("early_compaction")


@pytest.mark.slow
def test_kills_at_commits_and_reports(spark: SparkSession, tmp_path: Path) -> None:
    STORY.kill_at(spark, tmp_path, TELLING, "S3J of places")
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
    STORY.kill_at(spark, tmp_path, [point], strategy)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kills_at_random_moments(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    STORY.kill_at_random_moments(spark, tmp_path, strategy)
