"""Conditions on pairs, filters that become part of a join, and columns that nobody needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import skewless as sk
from skewless.errors import ArgumentError
from skewless.operators.join_type import JOIN_TYPES
from skewless.spark.pushdown import needs, pushed_down
from skewless.spark.result import Result
from tests.spark.query_kits import LATE, WITHIN, WITHIN_S, add_batches, close, schema_of
from tests.spark.support import FileStream, assert_same, multiset, read_parquet, run

BOUND = f"b_t BETWEEN a_t - INTERVAL {WITHIN_S} SECONDS AND a_t + INTERVAL {WITHIN_S} SECONDS"
CONDITION = "abs(a_x - b_x) < 2 AND a_id % 3 <> 1"


@pytest.fixture
def streams(tmp_path: Path) -> list[FileStream]:
    found = [FileStream(tmp_path / name, schema_of(name)) for name in "ab"]
    add_batches(found, 3)
    close(found)
    return found


def frames_of(spark: SparkSession, streams: list[FileStream]) -> list[DataFrame]:
    return [stream.read_static(spark) for stream in streams]


def joined(frames: list[DataFrame], **more: Any) -> sk.Joined:
    times = {"time": ("a_t", "b_t"), "within": WITHIN, "late": LATE, "instances": 2}
    return sk.join(*frames, [("a_k", "b_k")], **(times | more))


def rows(frame: DataFrame) -> Any:
    return multiset(map(tuple, frame.collect()))


@pytest.mark.quick(3)
@pytest.mark.parametrize("how", ["left", "left_semi", "full", "inner", "right_anti", *JOIN_TYPES])
def test_conditions_decide_what_a_match_is(
    spark: SparkSession, streams: list[FileStream], how: str
) -> None:
    left, right = frames_of(spark, streams)
    on = F.expr(f"a_k = b_k AND {BOUND} AND {CONDITION}")
    swapped = how.startswith("right_")
    expected = (
        right.join(left, on, how.replace("right_", "left_"))
        if swapped
        else left.join(right, on, how)
    )
    found = joined([left, right], how=how, condition=CONDITION).dataframe()
    assert_same(rows(found), rows(expected))


def test_conditions_on_streams(
    spark: SparkSession, streams: list[FileStream], tmp_path: Path
) -> None:
    condition = (F.abs(F.col("a_x") - F.col("b_x")) < 2) & F.expr("a_id % 3 <> 1")
    frames = [stream.read(spark) for stream in streams]
    out = run(joined(frames, how="left", condition=condition), tmp_path)
    left, right = frames_of(spark, streams)
    expected = left.join(right, F.expr(f"a_k = b_k AND {BOUND} AND {CONDITION}"), "left")
    kept = expected.where("a_id >= 0")
    assert_same(read_parquet(out), rows(kept))


SHAPES: dict[str, Callable[[Any], Any]] = {
    "a filter": lambda r: r.where(CONDITION),
    "two filters": lambda r: r.where("a_x > 1").select("a_x", "b_id", "a_k").filter("b_id < 1010"),
    "a select": lambda r: r.select("b_id", F.col("a_x").alias("x")),
    "a column that is computed and dropped": lambda r: r.withColumn("z", F.col("a_y") + 1).drop(
        "z", "a_y"
    ),
    "all": lambda r: r.select("*", (F.col("a_x") + F.col("b_x")).alias("sum")),
    "rows made more": lambda r: r.select("a_id", F.explode(F.array("b_x", "b_y")).alias("e")).where(
        "e > 0 AND a_id % 2 = 0"
    ),
    "what only Spark can do": lambda r: r.where("sha1(cast(a_id as string)) > '7'").select("a_id"),
    "one that fails on what is ruled out": lambda r: r.where(
        "a_x <> 0 AND sha1('x') <> '' AND 1 / a_x < 0.5"
    ).select("a_id"),
    "nothing but a number": lambda r: r.select(F.lit(1).alias("one")),
}


@pytest.mark.quick(4)
@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_shapes_give_what_they_do_in_spark(
    spark: SparkSession, streams: list[FileStream], shape: Callable[[Any], Any], how: str
) -> None:
    left, right = frames_of(spark, streams)
    expected = shape(left.join(right, F.expr(f"a_k = b_k AND {BOUND}"), how))
    found = shape(joined([left, right], how=how)).dataframe()
    assert found.columns == expected.columns
    assert_same(rows(found), rows(expected))


def taken_columns(result: Result) -> list[list[str]]:
    """The names of what an operator takes from its inputs."""
    lean = pushed_down(result)
    return [
        [source.columns[i] for i in numbers]
        for source, numbers in zip(lean.sources, lean.taken, strict=True)
    ]


def test_columns_that_nobody_needs_are_not_taken(
    spark: SparkSession, streams: list[FileStream]
) -> None:
    frames = frames_of(spark, streams)
    narrow = joined(frames).select("b_id").where("b_id > 3")
    assert taken_columns(narrow) == [["a_k", "a_t"], ["b_k", "b_t", "b_id"]]
    assert taken_columns(joined(frames, condition="a_x < b_y").select("b_id")) == [
        ["a_k", "a_t", "a_x"],
        ["b_k", "b_t", "b_y", "b_id"],
    ]
    assert taken_columns(joined(frames)) == [frame.columns for frame in frames]
    lean = pushed_down(narrow)
    assert lean.emitted.names == ["b_id"]
    assert isinstance(lean, sk.Joined)
    assert lean.spec.filter is not None
    assert "b_id" in lean.spec.filter.condition.sql


def test_nor_are_they_stored(
    spark: SparkSession, streams: list[FileStream], tmp_path: Path
) -> None:
    """Down through all operators of a query."""
    a, b = (stream.read(spark) for stream in streams)
    first = joined([a, b]).where("a_x < 30").select("a_k", "a_t", "b_y")
    counted = sk.aggregate(first, "a_k", {"n": "count", "y": ("sum", "b_y")}, time="a_t",
                           window="20 seconds")  # fmt: skip
    shaped = counted.select("window.start", "a_k", "n", "y")
    out = run(shaped, tmp_path)  # type: ignore[arg-type]
    stored = {
        tuple(pa.ipc.open_file(file).schema.names)
        for file in (tmp_path / "checkpoint" / "skewless" / "segments").iterdir()
        if ".left-" in file.name or ".right-" in file.name
    }
    assert stored == {("__hash", "a_k", "a_t", "a_x"), ("__hash", "b_k", "b_t", "b_y")}
    left, right = frames_of(spark, streams)
    expected = (
        left.join(right, F.expr(f"a_k = b_k AND {BOUND}"))
        .where("a_x < 30 AND a_id >= 0")
        .groupBy(F.window("a_t", "20 seconds"), "a_k")
        .agg(F.count("*").alias("n"), F.sum("b_y").alias("y"))
        .select("window.start", "a_k", "n", "y")
    )
    assert_same(read_parquet(out), rows(expected))


def test_filters_are_part_of_the_join(
    spark: SparkSession, streams: list[FileStream], tmp_path: Path
) -> None:
    frames = [stream.read(spark) for stream in streams]
    out = run(joined(frames).where(CONDITION), tmp_path)
    found = sum(report.matches for report in sk.history(str(tmp_path / "checkpoint")))
    assert 0 < found == read_parquet(out).total()


def test_other_operators_take_only_what_is_needed(
    spark: SparkSession, streams: list[FileStream]
) -> None:
    a, b = frames_of(spark, streams)
    near = sk.similarity_join(
        a, b, on=(["a_x", "a_y"], ["b_x", "b_y"]), metric="euclidean", threshold=1.5,
        time=("a_t", "b_t"), within=WITHIN, instances=2,
    )  # fmt: skip
    assert taken_columns(near.select("a_id")) == [
        ["a_t", "a_x", "a_y", "a_id"],
        ["b_t", "b_x", "b_y"],
    ]
    assert_same(
        rows(near.select("a_id", "b_id").dataframe()),
        rows(near.dataframe().select("a_id", "b_id")),
    )
    first = sk.deduplicate(a, "a_k", time="a_t", within=WITHIN)
    assert taken_columns(first.select("a_x")) == [["a_k", "a_t", "a_x"]]
    assert_same(rows(first.select("a_x").dataframe()), rows(first.dataframe().select("a_x")))
    c = b.toDF("c_k", "c_t", "c_x", "c_y", "c_id")
    three = sk.join3(
        a, b, c, on=[sk.equal("r.a_k", "s.b_k"), sk.equal("s.b_x", "t.c_x")],
        time=("a_t", "b_t", "c_t"), within="2 seconds", instances=2,
    )  # fmt: skip
    assert pushed_down(three.select("c_id", "a_y")).emitted.names == ["a_y", "c_id"]
    assert_same(
        rows(three.select("c_id", "a_y").dataframe()),
        rows(three.dataframe().select("c_id", "a_y")),
    )


def test_an_event_time_below_that_nobody_needs(
    spark: SparkSession, streams: list[FileStream]
) -> None:
    """Its mark is still in the columns after a step."""
    left, right = frames_of(spark, streams)
    below = joined([left, right]).withColumnRenamed("a_x", "x")
    third = right.toDF(*(name.replace("b_", "c_") for name in right.columns))
    above = sk.join(below, third, [("a_k", "c_k")], time=("a_t", "c_t"), within=WITHIN)
    pipeline, _ = above.select("x", "c_id").pipeline(1, None)
    emitted = pipeline.nodes[0].operator.output_schema().names
    assert "a_t" in emitted
    assert "b_t" not in emitted


def test_conditions_that_are_refused(spark: SparkSession, streams: list[FileStream]) -> None:
    frames = frames_of(spark, streams)
    for condition, why in (
        ("a_x < rand()", "not deterministic"),
        (True, "Column or str"),
        ("a_nothing < 3", "a_nothing"),
        ("a_x + b_x", "BOOLEAN"),
        ("a_t < current_timestamp()", "when it is evaluated"),
    ):
        with pytest.raises(ArgumentError, match=f"(?s)condition.*{why}"):
            joined(frames, condition=condition)


@pytest.mark.parametrize(
    "steps",
    [
        (("where", ("d >= current_date()",)),),
        (("where", ("a_t < now() and a_id > 1",)),),
    ],
)
def test_conditions_on_the_present_stay_in_spark(spark: SparkSession, steps: Any) -> None:
    """The optimizer makes a constant of it, which would grow old while the query runs."""
    schema = StructType().add("a_id", "long").add("a_t", "timestamp").add("d", "date")
    assert needs(spark, schema, steps).condition is None
    assert needs(spark, schema, (("where", ("a_id > 1",)),)).condition is not None


@pytest.mark.parametrize(
    "steps",
    [
        # Today only d is needed, and one day x.
        (("selectExpr", ("if(now() < timestamp'2000-01-01', x, d) c",)),),
        (("where", ("current_date() < date'2000-01-01'",)), ("select", ("d",))),
    ],
)
def test_columns_that_are_needed_one_day(spark: SparkSession, steps: Any) -> None:
    schema = StructType().add("a_id", "long").add("x", "long").add("d", "long")
    assert needs(spark, schema, steps).columns == (0, 1, 2)
