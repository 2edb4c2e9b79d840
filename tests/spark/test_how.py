"""Every type of join on Spark: as Spark's own join where it has one, as DuckDB's elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from skewless.operators.join_type import JOIN_TYPES
from tests.spark.query_kits import (
    LATE,
    LATE_S,
    WITHIN,
    WITHIN_S,
    add_batches,
    close,
    few,
    of_type,
)
from tests.spark.support import (
    TIMESTAMP,
    FileStream,
    assert_same,
    at,
    finish,
    multiset,
    read_parquet,
)

SQL = {"inner": "INNER", "left": "LEFT", "right": "RIGHT", "full": "FULL",
       "left_semi": "SEMI", "left_anti": "ANTI"}  # fmt: skip
SPARKS_OWN = ("left", "right", "full", "left_semi")  # what Spark can do with streams, besides inner


def native(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    # Spark drops rows without a key before it takes note of their times, those that close streams.
    left, right = few([left.fillna(-1, "a_k"), right.fillna(-2, "b_k")])
    a, b = left.withWatermark("a_t", f"{LATE_S} seconds"), right.withWatermark("b_t", LATE)
    bound = f"INTERVAL {WITHIN_S} SECONDS"
    return a.join(b, F.expr(f"a_k = b_k AND b_t BETWEEN a_t - {bound} AND a_t + {bound}"), how)


def without_closing(rows: Any, names: list[str]) -> Any:
    """Rows that close the streams are told of by some and not by others."""
    ids = [i for i, name in enumerate(names) if name.endswith("_id")]
    return multiset(row for row in rows.elements() if all(row[i] != -1 for i in ids))


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["full", "left_semi", "left", "right", "left_anti", "inner"])
def test_streams_give_what_duckdb_and_spark_do(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    kit = of_type(how, SQL[how], 0)
    streams = kit.sources(tmp_path)
    add_batches(streams, 5)
    close(streams)
    names = kit.result(spark, tmp_path, "Chaos").columns
    found = read_parquet(kit.run_all(spark, tmp_path, "Chaos"))
    assert found.total() > 20
    assert_same(found, kit.expected(streams))
    if how in SPARKS_OWN:
        query = native(*(stream.read(spark) for stream in streams), how)
        writer = query.writeStream.format("parquet").option("path", str(tmp_path / "native"))
        writer = writer.option("checkpointLocation", str(tmp_path / "native-checkpoint"))
        finish(writer.trigger(availableNow=True).start())
        assert_same(without_closing(read_parquet(tmp_path / "native"), names), found)


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", [*JOIN_TYPES])
def test_static_inputs_give_all_at_once(spark: SparkSession, tmp_path: Path, how: str) -> None:
    kit = of_type(how, "", 0)
    add_batches(kit.sources(tmp_path), 2)
    streams = kit.sources(tmp_path)
    result = kit.result(spark, tmp_path, "ContRand", FileStream.read_static)
    left, right = few([stream.read_static(spark) for stream in streams])
    bound = f"INTERVAL {WITHIN_S} SECONDS"
    on = F.expr(f"a_k = b_k AND b_t BETWEEN a_t - {bound} AND a_t + {bound}")
    swapped = how.startswith("right_")
    expected = (
        right.join(left, on, how.replace("right_", "left_"))
        if swapped
        else left.join(right, on, how)
    )
    found = multiset(tuple(row) for row in result.dataframe().collect())
    assert found.total() > 0
    assert_same(found, multiset(tuple(row) for row in expected.collect()))


def two(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Keys of two types under one name; some are null."""
    times = pa.array([at(1)] * 3, TIMESTAMP)
    left = pa.table({"k": pa.array([1, 2, None], pa.int32()), "t": times, "x": ["a", "b", "c"]})
    right = pa.table({"k": pa.array([2, 3, None], pa.int64()), "t": times, "y": ["d", "e", "f"]})
    return spark.createDataFrame(left), spark.createDataFrame(right)


@pytest.mark.parametrize(
    ("how", "kind", "expected"),
    [
        ("left", "int", [(1, "a", None), (2, "b", "d"), (None, "c", None)]),
        ("RIGHT_OUTER", "bigint", [(2, "b", "d"), (3, None, "e"), (None, None, "f")]),
        ("outer", "bigint", [(1, "a", None), (2, "b", "d"), (3, None, "e"), (None, "c", None),
                             (None, None, "f")]),
    ],
)  # fmt: skip
def test_a_key_of_both_sides_is_that_of_the_row_that_is_there(
    spark: SparkSession, how: Any, kind: str, expected: list[Any]
) -> None:
    """As Spark has it where it joins by the name of a column: type and value."""
    left, right = two(spark)
    result = sk.join(left, right, "k", time="t", within="1 minute", how=how).select("k", "x", "y")
    assert dict(result.dtypes)["k"] == kind
    found = multiset(tuple(row) for row in result.dataframe().collect())
    assert_same(found, multiset(expected))
    own = left.drop("t").join(right.drop("t"), "k", how.lower()).select("k", "x", "y")
    assert dict(own.dtypes)["k"] == kind
    assert_same(found, multiset(tuple(row) for row in own.collect()))


@pytest.mark.parametrize("key", ["named_struct('i', {})", "array({})"])
def test_a_key_of_both_sides_may_be_null_inside_on_one(spark: SparkSession, key: str) -> None:
    """Spark's types say what can be null, and readers rely on it."""
    numbers, sometimes = spark.range(6), "if(id % 2 = 0, null, id)"
    left = numbers.selectExpr(f"{key.format('id')} as k", "timestamp'2024-03-01' as t", "id as x")
    right = numbers.selectExpr(
        f"{key.format(sometimes)} as k", "timestamp'2024-03-01' as t", "id as y"
    )
    for a, b in ((left, right), (right, left)):
        result = sk.join(a, b, "k", time="t", within="1 minute", how="full").select("k", "x", "y")
        own = a.drop("t").join(b.drop("t"), "k", "full").select("k", "x", "y")
        found = multiset(tuple(row) for row in result.dataframe().collect())
        assert_same(found, multiset(tuple(row) for row in own.collect()))


def test_semi_and_anti_joins_have_the_columns_of_one_side(spark: SparkSession) -> None:
    left, right = two(spark)
    for how, columns in (("semi", ["k", "t", "x"]), ("right_anti", ["k", "t", "y"])):
        result = sk.join(left, right, "k", time="t", within="1 minute", how=how)  # type: ignore[arg-type]
        assert result.columns == columns


def test_a_stream_without_a_bound_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    kit = of_type("left", "LEFT", 0)
    streams = kit.sources(tmp_path)
    add_batches(streams, 1)
    frames = [stream.read(spark) for stream in streams]
    arguments: dict[str, Any] = {"on": [("a_k", "b_k")], "within": sk.UNBOUNDED}
    for how in ("left", "full", "right_anti"):
        with pytest.raises(ArgumentError, match="no row of a stream is certain to have none"):
            sk.join(*frames, how=how, **arguments)
    assert sk.join(*frames, how="left_semi", **arguments).isStreaming
    static = [stream.read_static(spark) for stream in streams]
    static[1] = static[1].where("b_k <> 1")
    rows = sk.join(*static, how="left_anti", **arguments).dataframe()
    own = static[0].join(static[1], F.expr("a_k = b_k"), "left_anti")
    assert rows.count() == own.count() > 0


def test_only_times_that_every_row_has_are_event_times(spark: SparkSession, tmp_path: Path) -> None:
    kit = of_type("left", "LEFT", 0)
    streams = kit.sources(tmp_path)
    add_batches(streams, 1)
    result = kit.result(spark, tmp_path, "Hash")
    third = streams[1].read(spark).selectExpr("b_k AS c_k", "b_t AS c_t")
    arguments: dict[str, Any] = {"on": [("a_k", "c_k")], "within": WITHIN}
    assert sk.join(result, third, time=("a_t", "c_t"), **arguments).isStreaming
    with pytest.raises(ColumnError, match="has a watermark"):
        sk.join(result, third, time=("b_t", "c_t"), **arguments)
