"""A process that joins three streams and is killed with SIGKILL, at any point, gives the same
output as one that is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from skewless.failpoints import POINTS
from skewless.operators.three_way.operator import ThreeRuntime
from tests.spark.join3_crash_child import STRATEGIES, WITHIN_S, join_all, sources, tables
from tests.spark.killed import TELLING, Story
from tests.spark.support import (
    FileStream,
    Rows,
    bound,
    duck,
    multiset,
)


def expected_of(streams: Sequence[FileStream]) -> Rows:
    """The triples of all rows, none of which is late."""
    connection = duck()
    for name, stream in zip("rst", streams, strict=True):
        connection.register(name, pa.concat_tables(stream.tables))
    where = " AND ".join(
        ["r.k = s.k", "s.k = t.k", bound(-WITHIN_S, WITHIN_S, "r.at", "s.seen"),
         bound(-WITHIN_S, WITHIN_S, "s.seen", "t.done")]
    )  # fmt: skip
    query = f"SELECT r.*, s.* EXCLUDE (k), t.* EXCLUDE (k) FROM r, s, t WHERE {where}"
    return multiset(connection.execute(query).fetchall())


STORY = Story(
    "join3_crash_child.py", ThreeRuntime, sources, tables, join_all, expected_of, more_than=500
)
pytestmark = pytest.mark.usefixtures("early_compaction")


@pytest.mark.slow
def test_kills_at_commits_and_reports(spark: SparkSession, tmp_path: Path) -> None:
    STORY.kill_at(spark, tmp_path, TELLING, "TriJoin")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", ["TriJoin", "Tree"])
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
