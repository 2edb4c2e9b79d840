"""Columns of the inputs behind an operator, as PySpark users write them: ``left["a"]``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from tests.spark.support import (
    FileStream,
    assert_same,
    keyed_pair,
    multiset,
    read_parquet,
    run,
)

GIVEN: dict[str, Any] = {"time": ("at", "seen"), "within": "4 seconds"}
BOUND = "seen BETWEEN at - INTERVAL 4 SECONDS AND at + INTERVAL 4 SECONDS"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[FileStream, FileStream]:
    return keyed_pair(tmp_path_factory.mktemp("origins"), batches=2, rows=30)


@pytest.fixture(scope="module")
def frames(spark: SparkSession, pair: tuple[FileStream, FileStream]) -> tuple[DataFrame, DataFrame]:
    """With a column `x` in both."""
    left, right = (side.read_static(spark) for side in pair)
    return left.withColumn("x", F.col("a") % 7), right.withColumn("x", F.col("b") % 5)


Shape = Callable[[Any, DataFrame, DataFrame], Any]
SHAPES: dict[str, tuple[str, Shape]] = {
    "select": ("inner", lambda j, p, q: j.select(p["a"], q["b"], q["x"])),
    "where": ("left", lambda j, p, q: j.where(q.b.isNull() | (p["x"] > q["x"])).select(p.a, q.b)),
    "drop": ("inner", lambda j, p, q: j.drop(q["x"]).drop(q["k"])),
    "withColumn": ("inner", lambda j, p, q: j.withColumn("s", p.x + q.x).select(p["a"], "b", "s")),
    "a step after another": (
        "full", lambda j, p, q: j.select(p["a"], q["b"].alias("c")).where(p["a"] > 3).where("c > 4")
    ),
}  # fmt: skip


@pytest.mark.quick(2)
@pytest.mark.parametrize(("how", "shape"), SHAPES.values(), ids=SHAPES.keys())
def test_steps_mean_what_they_mean_behind_a_join_of_sparks(
    frames: tuple[DataFrame, DataFrame], how: Any, shape: Shape
) -> None:
    left, right = frames
    mine = shape(sk.join(left, right, "k", how=how, **GIVEN), left, right)
    expected = shape(left.join(right, (left["k"] == right["k"]) & F.expr(BOUND), how), left, right)
    assert mine.columns == expected.columns
    assert_same(multiset(mine.dataframe().collect()), multiset(expected.collect()))


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["inner", "left", "left_anti"])
def test_a_condition(frames: tuple[DataFrame, DataFrame], how: Any) -> None:
    left, right = frames
    condition = (left["x"] < right["x"]) & (F.abs(left.a - right.b) < 20)
    mine = sk.join(left, right, "k", how=how, condition=condition, **GIVEN)
    expected = left.join(right, (left["k"] == right["k"]) & F.expr(BOUND) & condition, how)
    shown = ["a", "b"] if how != "left_anti" else ["a"]
    rows = mine.select(*shown).dataframe().collect()
    assert_same(multiset(rows), multiset(expected.select(*shown).collect()))


WRITTEN: dict[str, Callable[[DataFrame, DataFrame], Any]] = {
    "SQL over aliases": lambda p, q: "l.x < r.x AND abs(a - r.b) < 20 AND r.k > 0",
    "Columns of aliases": lambda p, q: (F.col("l.x") < F.col("r.x")) & (F.col("r.k") > 0),
    "a key of the right side": lambda p, q: (q["k"] > 1) & (p["x"] < q["x"]),
}


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN.keys())
def test_a_condition_as_sparks_join_takes_it(
    frames: tuple[DataFrame, DataFrame], how: Any, write: Any
) -> None:
    left, right = frames[0].alias("l"), frames[1].alias("r")
    condition = write(left, right)
    mine = sk.join(left, right, "k", how=how, condition=condition, **GIVEN).select("a", "b")
    both = F.expr(condition) if isinstance(condition, str) else condition
    expected = left.join(right, (left["k"] == right["k"]) & F.expr(BOUND) & both, how)
    found = multiset(mine.dataframe().collect())
    assert any(None not in row for row in found)
    assert_same(found, multiset(expected.select("a", "b").collect()))


def test_a_condition_on_one_frame_twice(frames: tuple[DataFrame, DataFrame]) -> None:
    """Aliases tell which is meant."""
    first, second = frames[0].alias("first"), frames[0].alias("second")
    given: dict[str, Any] = {"time": "at", "within": "4 seconds", "how": "left"}
    mine = sk.join(first, second, "k", condition="first.a < second.a", **given)
    expected = sk.join(first, second, "k", condition="a < a_right", **given)
    assert_same(multiset(mine.dataframe().collect()), multiset(expected.dataframe().collect()))


def test_conditions_are_told_apart(frames: tuple[DataFrame, DataFrame]) -> None:
    """Checkpoints know them by their text, and Spark writes "x < x" for both."""
    left, right = frames
    one, other = (
        sk.join(left, right, "k", how="left", condition=condition, **GIVEN)
        for condition in (left["x"] < right["x"], right["x"] < left["x"])
    )
    facts = [joined.operator(1, None).fingerprint() for joined in (one, other)]
    assert facts[0] != facts[1]
    assert "x, x_right" in str(facts[0]) and "x_right, x" in str(facts[1])


def test_what_other_operators_take(frames: tuple[DataFrame, DataFrame]) -> None:
    left, right = frames
    joined = sk.join(left, right, "k", **GIVEN)
    grouped = joined.select(left["a"], "k", "at").groupBy(left["k"], left["a"]).agg(n="count")
    assert grouped.columns == ["k", "a", "n"]
    third = left.sparkSession.createDataFrame([], "c int, then timestamp")
    above = sk.join(joined, third, right["b"] == third["c"], within=sk.UNBOUNDED)
    assert above.operator(1, None) == sk.join(
        joined, third, ("b", "c"), within=sk.UNBOUNDED
    ).operator(1, None)
    once = sk.deduplicate(left, left["k"], time="at", within="1 minute").where(left["a"] > 3)
    assert once.columns == left.columns


def test_on_streams(
    spark: SparkSession,
    pair: tuple[FileStream, FileStream],
    frames: tuple[DataFrame, DataFrame],
    tmp_path: Path,
) -> None:
    left, right = (side.read(spark) for side in pair)
    joined = sk.join(
        left, right, "k", late="10 seconds", condition=left["a"] <= right["b"], **GIVEN
    )
    out = run(joined.where(left["a"] % 2 == 0).select(left["a"], right["b"]), tmp_path)
    native = frames[0].join(frames[1], "k").where(f"{BOUND} and a <= b and a % 2 = 0")
    assert_same(read_parquet(out), multiset(native.select("a", "b").collect()))


def test_columns_that_nobody_can_tell(frames: tuple[DataFrame, DataFrame]) -> None:
    left, right = frames
    other = left.sparkSession.range(3)["id"] > 1
    by_name = r"name the columns of the result, as F.col\(\"…\"\) or result\[\"…\"\]"
    with pytest.raises(ArgumentError, match=by_name):
        sk.join(left, right, "k", **GIVEN).where(other)
    with pytest.raises(ArgumentError, match=by_name):
        sk.join(left, right, "k", condition=other, **GIVEN)
    with pytest.raises(ArgumentError, match=by_name):  # left or right?
        sk.join(left, left, "k", time="at", within="1 second").where(left["a"] > 1)


def test_steps_of_ours_are_not_told(
    frames: tuple[DataFrame, DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    left, right = frames
    filtered = sk.join(left, right, "k", **GIVEN).where(left["a"] > 1).select("k")
    filtered.explain()
    assert "then where → select\n" in capsys.readouterr().out
    assert sk.explain(filtered).steps == ("where", "select")


def test_a_window_is_no_column(frames: tuple[DataFrame, DataFrame]) -> None:
    """Spark puts it before the other columns: it was taken for the first of them."""
    left, right = frames
    window = F.window("at", "1 minute")
    joined = sk.join(left, right, "k", **GIVEN)
    for call in (
        lambda: joined.groupBy(window).agg(n="count"),
        lambda: sk.aggregate(left, ["k", window], {"n": "count"}),
        lambda: sk.deduplicate(left, window, time="at", within="1 minute"),
    ):
        with pytest.raises(ColumnError, match="windows are for `time` and `window`") as error:
            call()
        assert error.value.argument == "by"
    with pytest.raises(ArgumentError, match="withColumn") as other:
        sk.join(left, right, F.window(left.at, "1 day") == F.window(right.seen, "1 day"), **GIVEN)
    assert other.value.argument == "on"
