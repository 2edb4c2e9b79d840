"""A process that is killed with SIGKILL, at any point, gives the same output as one that is not:
whatever the query, and whatever way the next process works in."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skewless.failpoints import POINTS
from tests.kills import kills_each
from tests.spark.killed import Stories
from tests.spark.query_kits import BEHIND_SPARKS, JOIN, JOIN_AGGREGATE, KITS, QueryKit

SHARING = 6  # as many queries share a process as its memory can hold
EVERY_KIT = list(KITS.values())
GROUPS = [EVERY_KIT[at : at + SHARING] for at in range(0, len(EVERY_KIT), SHARING)]
EVERY_GROUP = pytest.mark.parametrize(
    "kits", GROUPS, ids=[", ".join(kit.name for kit in kits) for kits in GROUPS]
)

KILLS = kills_each(len(GROUPS), otherwise=40)  # while each query works

pytestmark = pytest.mark.usefixtures("early_compaction")


def test_kills_at_telling_points(spark: SparkSession, tmp_path: Path) -> None:
    Stories.of([JOIN, JOIN_AGGREGATE], spark, tmp_path).kill_at(["commit.begun"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kills_between_our_commit_and_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's stateful operators before ours have to commit a batch that we have committed."""
    points = ["cleanup.done", "commit.written", "publish.done"]
    Stories.of(BEHIND_SPARKS, spark, tmp_path).kill_at(points)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@EVERY_GROUP
def test_kills_at_every_point(spark: SparkSession, tmp_path: Path, kits: list[QueryKit]) -> None:
    Stories.of(kits, spark, tmp_path).kill_at(POINTS)


@pytest.mark.slow
@pytest.mark.timeout(3600 + 120 * KILLS)
@EVERY_GROUP
def test_kills_at_random_moments(spark: SparkSession, tmp_path: Path, kits: list[QueryKit]) -> None:
    Stories.of(kits, spark, tmp_path).kill_at_random_moments(KILLS)
