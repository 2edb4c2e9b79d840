"""Rows that can match nothing: never joined, always counted, or refused when the user wants it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import skewless as sk
from skewless.errors import DataError
from tests.spark.support import (
    TIMESTAMP,
    FileStream,
    Oracle,
    assert_same,
    at,
    bound,
    file_stream,
    keyed_join,
    keyed_tables,
    read_parquet,
    run,
)

Pair = tuple[FileStream, FileStream]


def pair(folder: Path, left: list[Any], right: list[Any]) -> Pair:
    return (
        file_stream(folder / "left", keyed_tables("left", left)),
        file_stream(folder / "right", keyed_tables("right", right)),
    )


def test_null_keys(spark: SparkSession, tmp_path: Path) -> None:
    left, right = pair(
        tmp_path,
        [[(1, 0), (None, 0), (None, 1)], [(None, 10), (2, 11)]],
        [[(1, 1), (None, 0)], [(None, 10), (2, 10)]],
    )
    joined = keyed_join(left.read(spark), right.read(spark))
    oracle = Oracle(left.tables, right.tables)
    expected = oracle.join(f"l.k = r.k AND {bound(-4, 4)}", "l.*, r.* EXCLUDE (k)")
    assert expected.total() == 2
    assert_same(read_parquet(run(joined, tmp_path)), expected)
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert [(r.rows_left, r.rows_right, r.null_keys) for r in reports] == [(3, 2, 3), (2, 2, 2)]
    assert [r.matches for r in reports] == [1, 1]
    assert reports[0].state_rows == 2


def test_null_in_one_column_of_a_key(spark: SparkSession) -> None:
    left = spark.createDataFrame([(1, "a"), (1, None), (None, "a")], "k int, s string")
    right = spark.createDataFrame([(1, "a"), (1, None), (None, None)], "k int, s string")
    joined = sk.join(left, right, ["k", "s"], within=sk.UNBOUNDED)
    assert [tuple(row) for row in joined.toDF().collect()] == [(1, "a")]


@pytest.mark.parametrize("side", ["left", "right"])
def test_null_times_are_refused(spark: SparkSession, tmp_path: Path, side: str) -> None:
    bad, good = [[(1, 0)], [(1, 1), (2, None), (3, None)]], [[(1, 0)], [(1, 1)]]
    left, right = pair(tmp_path, *((bad, good) if side == "left" else (good, bad)))
    joined = keyed_join(left.read(spark), right.read(spark))
    with pytest.raises(StreamingQueryException) as caught:
        run(joined, tmp_path)
    told = str(caught.value)
    column = {"left": "at", "right": "seen"}[side]
    assert f"2 rows of the {side} input without event time (column '{column}' is null)" in told
    assert 'on_null_time="drop"' in told
    assert len(sk.history(str(tmp_path / "checkpoint"))) == 1

    # The same checkpoint goes on once the user has decided to drop them.
    dropping = keyed_join(left.read(spark), right.read(spark), on_null_time="drop")
    oracle = Oracle(left.tables, right.tables)
    expected = oracle.join(f"l.k = r.k AND {bound(-4, 4)}", "l.*, r.* EXCLUDE (k)")
    assert_same(read_parquet(run(dropping, tmp_path)), expected)
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert [r.null_times for r in reports] == [0, 2]
    assert sum(r.matches for r in reports) == expected.total() == 4


def test_null_times_of_static_inputs(spark: SparkSession) -> None:
    left = spark.createDataFrame([(1, at(0)), (1, None)], "k long, at timestamp")
    right = spark.createDataFrame([(1, at(1))], "k long, seen timestamp")
    with pytest.raises(DataError, match="1 row of the left input without event time"):
        keyed_join(left, right).toDF()
    assert keyed_join(left, right, on_null_time="drop").toDF().count() == 1


def test_nan_in_a_band(spark: SparkSession, tmp_path: Path) -> None:
    nan, far = float("nan"), float("inf")

    def tables(time: str, name: str, batches: list[list[Any]]) -> list[pa.Table]:
        schema = pa.schema([(time, TIMESTAMP), (name, pa.float64())])
        return [
            pa.Table.from_pylist([{time: at(0), name: value} for value in batch], schema)
            for batch in batches
        ]

    left = file_stream(tmp_path / "left", tables("at", "x", [[1.0, nan, far], [nan, -0.0]]))
    right = file_stream(tmp_path / "right", tables("seen", "y", [[1.5, nan, nan], [0.0, None]]))
    joined = sk.join(
        left.read(spark),
        right.read(spark),
        sk.band("x", "y", 0.5),
        left_time="at",
        right_time="seen",
        within="1 second",
    )
    expected = Oracle(left.tables, right.tables).join("abs(l.x - r.y) <= 0.5")
    assert expected.total() == 2
    assert_same(read_parquet(run(joined, tmp_path)), expected)
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert [(r.nan_bands, r.null_keys) for r in reports] == [(3, 0), (1, 1)]


def test_rows_that_lack_everything_are_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    left, right = pair(tmp_path, [[(None, None), (1, None), (None, 0), (1, 0)]], [[(1, 0)]])
    joined = keyed_join(left.read(spark), right.read(spark), on_null_time="drop")
    run(joined, tmp_path)
    (report,) = sk.history(str(tmp_path / "checkpoint"))
    assert (report.rows_left, report.null_times, report.null_keys) == (4, 2, 1)
    assert report.matches == 1
