"""A process that aggregates and is killed with SIGKILL, at any point, gives the same output as one
that is not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skewless.failpoints import POINTS
from skewless.operators.aggregate.operator import AggregateRuntime
from tests.spark.aggregate_crash_child import (
    LATE_S,
    SIZE_S,
    SLIDE_S,
    aggregate_all,
    sources,
    tables,
)
from tests.spark.killed import TELLING, Story
from tests.spark.support import FileStream, Rows, at, multiset

GROUPINGS = ("PdStream", "BatchAware", "ShuffleGrouping")


def expected_of(streams: Sequence[FileStream]) -> Rows:
    """The closed windows, by a plain loop over all rows; none of them is late."""
    values: defaultdict[tuple[datetime, int], list[int]] = defaultdict(list)
    rows = [row for stream in streams for table in stream.tables for row in table.to_pylist()]
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


STORY = Story(
    "aggregate_crash_child.py",
    AggregateRuntime,
    sources,
    tables,
    aggregate_all,
    expected_of,
    more_than=9,
)
pytestmark = pytest.mark.usefixtures("early_compaction")


@pytest.mark.slow
def test_kills_at_commits_and_reports(spark: SparkSession, tmp_path: Path) -> None:
    STORY.kill_at(spark, tmp_path, TELLING, *GROUPINGS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("grouping", ["PdStream", "BatchAware"])
@pytest.mark.parametrize("point", [point for point in POINTS if point not in TELLING])
def test_kill_at_every_other(
    spark: SparkSession, tmp_path: Path, point: str, grouping: str
) -> None:
    STORY.kill_at(spark, tmp_path, [point], grouping)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kills_at_random_moments(spark: SparkSession, tmp_path: Path) -> None:
    STORY.kill_at_random_moments(spark, tmp_path, *GROUPINGS)
