"""A process that is killed with SIGKILL, at any point, gives the same output as one that is not:
whatever the query, and whatever way the next process works in."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skewless.failpoints import POINTS
from tests.spark.killed import Story
from tests.spark.query_kits import JOIN, JOIN_AGGREGATE, KITS, QueryKit

EVERY_KIT = pytest.mark.parametrize("kit", KITS.values(), ids=list(KITS))

pytestmark = pytest.mark.usefixtures("early_compaction")


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("kit", "points"),
    [(JOIN, ["commit.begun"]), (JOIN_AGGREGATE, ["commit.written"])],
    ids=[JOIN.name, JOIN_AGGREGATE.name],
)
def test_kills_at_telling_points(
    spark: SparkSession, tmp_path: Path, kit: QueryKit, points: list[str]
) -> None:
    Story(kit, spark, tmp_path).kill_at(points, list(kit.ways))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@EVERY_KIT
def test_kills_at_every_point(spark: SparkSession, tmp_path: Path, kit: QueryKit) -> None:
    """One checkpoint; every child works in another way than the one before."""
    Story(kit, spark, tmp_path).kill_at(POINTS, list(kit.ways))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@EVERY_KIT
def test_kills_at_random_moments(spark: SparkSession, tmp_path: Path, kit: QueryKit) -> None:
    Story(kit, spark, tmp_path).kill_at_random_moments()
