"""Asof joins on Spark: as DuckDB's, with a tolerance, and with ties that are decided by values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import ArgumentError, CheckpointMismatchError, ColumnError
from skewless.spark.pushdown import pushed_down
from tests.spark.query_kits import (
    ASOF_JOIN,
    FEW_B,
    PLACED,
    WITHIN_S,
    QueryKit,
    add_batches,
    asof,
    close,
)
from tests.spark.support import TIMESTAMP, FileStream, assert_same, at, multiset, read_parquet

# Of rows of b with one key and time, DuckDB would take any.
ONE_B = (
    f"(SELECT * FROM b WHERE {FEW_B} QUALIFY row_number() OVER (PARTITION BY b_k, b_t "
    "ORDER BY b_x DESC, b_y DESC, b_id DESC) = 1) b"
)
WAYS = {"backward": ">=", "forward": "<="}


def kit_of(direction: str, **more: Any) -> QueryKit:
    """DuckDB knows no tolerance: what is too far away is nothing."""
    found = f"a ASOF JOIN {ONE_B} ON a_k = b_k AND a_t {WAYS[direction]} b_t"
    near = f"abs(epoch_us(a_t) - epoch_us(b_t)) <= {WITHIN_S * 1_000_000}"
    asks = (
        "SELECT a.*, b.* EXCLUDE (i) FROM a LEFT JOIN "
        f"(SELECT a_id AS i, b.* FROM {found} WHERE {near if more else True}) b ON a_id = i"
    )

    def build(frames: Any, way: Any) -> sk.AsofJoined:
        given = {"tolerance": None} | more
        return asof(frames, way, direction=direction, how="left_outer", **given)

    return QueryKit(direction, "ab", PLACED, build, asks)


@pytest.mark.quick(1)
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_streams_give_what_duckdb_does(spark: SparkSession, tmp_path: Path, direction: str) -> None:
    tolerance = f"{WITHIN_S} seconds"
    kit = ASOF_JOIN if direction == "nearest" else kit_of(direction, tolerance=tolerance)
    streams = kit.sources(tmp_path)
    add_batches(streams, 3)
    kit.run_all(spark, tmp_path, "Chaos")
    add_batches(streams, 1)
    close(streams)
    found = read_parquet(kit.run_all(spark, tmp_path, "ContRand"))
    assert found.total() == 4 * 18
    assert sum(count for row, count in found.items() if None in row) > 10
    assert_same(found, kit.expected(streams))
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert sum(report.matches for report in reports) == found.total()
    assert all(report.dropped == {} for report in reports[:-1])
    frames = [stream.read(spark) for stream in streams]
    other = asof(frames, PLACED["Hash"], direction=direction, allow_exact_matches=False)
    writer = other.writeStream.format("noop").trigger(availableNow=True)
    with pytest.raises(CheckpointMismatchError, match="exact matches"):
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()


@pytest.mark.parametrize("direction", WAYS)
def test_static_inputs_need_no_tolerance(
    spark: SparkSession, tmp_path: Path, direction: str
) -> None:
    kit = kit_of(direction)
    streams = kit.sources(tmp_path)
    add_batches(streams, 2)
    result = kit.result(spark, tmp_path, "ContRand", FileStream.read_static)
    found = multiset(tuple(row) for row in result.dataframe().collect())
    assert_same(found, kit.expected(streams))


def test_static_inputs_compose(spark: SparkSession, tmp_path: Path) -> None:
    streams = ASOF_JOIN.sources(tmp_path)
    add_batches(streams, 2)
    frames = [stream.read_static(spark) for stream in streams]
    pairs = asof(frames, {}, how="inner").where("a_x >= 0")
    counts = pairs.groupBy("a_k", time="b_t", window="5 seconds").agg(n="count").dataframe()
    rows = pairs.dataframe()
    expected = rows.groupBy("a_k", F.window("b_t", "5 seconds")).count()
    assert_same(
        multiset((r["a_k"], r["window"]["start"], r["n"]) for r in counts.collect()),
        multiset((r["a_k"], r["window"]["start"], r["count"]) for r in expected.collect()),
    )


@pytest.fixture(scope="module")
def two(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Keys of two types under one name; some are null. Quotes of one time."""
    trades = pa.table(
        {
            "k": pa.array([1, 2, None], pa.int32()),
            "t": pa.array([at(5), at(5), at(5)], TIMESTAMP),
            "x": ["a", "b", "c"],
        }
    )
    quotes = pa.table({"k": pa.array([2, 2, 2, None], pa.int64()),
                       "t": pa.array([at(4), at(4), at(5), at(5)], TIMESTAMP),
                       "bid": [1.0, float("nan"), None, 7.0]})  # fmt: skip
    return spark.createDataFrame(trades), spark.createDataFrame(quotes)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [(2, "b", 5, None)]),
        ({"allow_exact_matches": False}, [(2, "b", 4, float("nan"))]),
        ({"direction": "forward", "how": "left"},
         [(1, "a", None, None), (2, "b", 5, None), (None, "c", None, None)]),
        ({"direction": "nearest", "allow_exact_matches": False, "where": "x <> 'b'"}, []),
    ],
)  # fmt: skip
def test_what_users_see(
    two: tuple[DataFrame, DataFrame], given: Any, expected: list[tuple[Any, ...]]
) -> None:
    result = sk.asof_join(*two, on="k", time="t", **given)
    assert result.dtypes == [("k", "int"), ("t", "timestamp"), ("x", "string"),
                             ("t_right", "timestamp"), ("bid", "double")]  # fmt: skip
    found = [
        (row["k"], row["x"], row["t_right"] and row["t_right"].second, row["bid"])
        for row in result.dataframe().collect()
    ]
    assert multiset(found) == multiset(expected)


BAD: dict[str, tuple[dict[str, Any], type[ArgumentError], str, str]] = {
    "direction": ({"direction": "up"}, ArgumentError, "direction", "'forward', 'nearest'"),
    "how": ({"how": "full"}, ArgumentError, "how", "'inner' or 'left'"),
    "how: number": ({"how": 3}, ArgumentError, "how", "'inner' or 'left'"),
    "band": ({"on": sk.band("x", "x", 1)}, ArgumentError, "on", "equal columns"),
    "on": ({"on": []}, ArgumentError, "on", '"k"'),
    "column": ({"on": "z"}, ColumnError, "on", "`left`: k, t, x"),
    "tolerance": ({"tolerance": 5}, ArgumentError, "tolerance", "10 minutes"),
    "negative": ({"tolerance": "-1 second"}, ArgumentError, "tolerance", "negative"),
    "nothing": ({"tolerance": "0 seconds", "allow_exact_matches": False}, ArgumentError,
                "tolerance", "more than 0"),
    "exact": ({"allow_exact_matches": 1}, ArgumentError, "allow_exact_matches", "True or False"),
    "no time": ({"time": None}, ArgumentError, "time", "the event-time column of `left`"),
    "time": ({"time": "x"}, ColumnError, "time", "timestamp"),
    "late": ({"late": 5}, ArgumentError, "late", "(left, right)"),
    "strategy": ({"strategy": sk.PKG()}, ArgumentError, "strategy", "sk.Hash"),
    "pin": ({"strategy": sk.Auto(pin={"x": 0})}, ArgumentError, "pin", "key columns (k)"),
    "suffixes": ({"suffixes": ("", "")}, ColumnError, "suffixes", "twice"),
    "null times": ({"on_null_time": "x"}, ArgumentError, "on_null_time", "'drop'"),
    "instances": ({"instances": 0}, ArgumentError, "instances", "1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(two: tuple[DataFrame, DataFrame], name: str) -> None:
    given, kind, argument, accepted = BAD[name]
    with pytest.raises(kind) as caught:
        sk.asof_join(*two, **({"on": "k", "time": "t", "tolerance": "1 minute"} | given))
    assert caught.value.argument == argument
    assert accepted in str(caught.value)


def test_columns_that_decide_ties_are_there_though_nobody_shows_them(
    two: tuple[DataFrame, DataFrame],
) -> None:
    trades, quotes = two
    better = quotes.withColumn("name", F.expr("if(isnan(bid), 'not a number', 'one')"))
    result = sk.asof_join(trades, better, "k", time="t", allow_exact_matches=False)
    assert [tuple(row) for row in result.select("name").dataframe().collect()] == [
        ("not a number",)
    ]
    [left, right] = pushed_down(result.select("name")).taken
    assert (left, right) == ((0, 1), (0, 1, 2, 3))


def test_streams_need_a_tolerance(spark: SparkSession, tmp_path: Path) -> None:
    streams = ASOF_JOIN.sources(tmp_path)
    add_batches(streams, 1)
    frames = [stream.read(spark) for stream in streams]
    with pytest.raises(ArgumentError, match="no right row could be forgotten"):
        asof(frames, {}, tolerance=None)


def test_only_times_that_every_row_has_are_event_times(spark: SparkSession, tmp_path: Path) -> None:
    streams = ASOF_JOIN.sources(tmp_path)
    add_batches(streams, 1)
    frames = [stream.read(spark) for stream in streams]
    below = asof(frames, {}, direction="forward", how="inner")
    lags = dict(zip(below.event_times.columns, below.event_times.lag_us, strict=True))
    assert lags == {"a_t": WITHIN_S * 1_000_000, "b_t": WITHIN_S * 1_000_000}
    assert below.groupBy("a_k", time="b_t", window="5 seconds").agg(n="count").isStreaming
    with pytest.raises(ColumnError, match="has a watermark"):
        asof(frames, {}).groupBy("a_k", time="b_t", window="5 seconds").agg(n="count")
