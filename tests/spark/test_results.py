"""Results are used as DataFrames are, and say what to do where they cannot be."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from skewless.spark.result import OFFERED
from tests.spark.support import (
    FileStream,
    assert_same,
    keyed_join,
    keyed_pair,
    multiset,
    read_parquet,
    run,
)

METHODS = (
    "columns", "dataframe", "drop", "dtypes", "explain", "filter", "groupBy", "groupby",
    "isStreaming", "printSchema", "schema", "select", "selectExpr", "show", "sparkSession", "toDF",
    "transform", "where", "withColumn", "withColumnRenamed", "withColumns", "withColumnsRenamed",
    "writeStream",
)  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[FileStream, FileStream]:
    return keyed_pair(tmp_path_factory.mktemp("results"), batches=2, rows=30)


@pytest.fixture(scope="module")
def static(spark: SparkSession, pair: tuple[FileStream, FileStream]) -> sk.Joined:
    return keyed_join(*(side.read_static(spark) for side in pair))


@pytest.fixture(scope="module")
def streaming(spark: SparkSession, pair: tuple[FileStream, FileStream]) -> sk.Joined:
    return keyed_join(*(side.read(spark) for side in pair))


@pytest.fixture(scope="module")
def rows(static: sk.Joined) -> DataFrame:
    return static.dataframe()


# What is done to it ------------------------------------------------------------------------------


def with_sum(rows: Any, *columns: str, name: str) -> Any:
    return rows.withColumn(name, sum(rows[column] for column in columns))


SHAPES: dict[str, Callable[[Any], Any]] = {
    "where": lambda r: r.where("k > 2"),
    "withColumns": lambda r: r.withColumns({"a": r.b, "B": r.a, "sum": r.a + r.b}),
    "withColumnsRenamed": lambda r: r.withColumnsRenamed({"a": "number", "number": "n", "no": "x"}),
    "filter": lambda r: r.filter(F.col("k") > 2),
    "filter by its column": lambda r: r.filter(r["k"] > 2).where(r.a % 2 == 0),
    "select": lambda r: r.select("k", F.col("a") + 1, (r.b * 2).alias("twice")),
    "select a list": lambda r: r.select(["k", "b"]),
    "select all": lambda r: r.select("*"),
    "selectExpr": lambda r: r.selectExpr("cast(k as string) key", "to_json(struct(*)) value"),
    "withColumn": lambda r: r.withColumn("sum", r.a + r.b).withColumn("a", F.lit(1)),
    "withColumnRenamed": lambda r: r.withColumnRenamed("a", "number"),
    "transform": lambda r: r.transform(with_sum, "a", "b", name="sum").transform(lambda s: s),
    "drop": lambda r: r.drop("a", "seen").drop(F.col("b")),
    "chain": lambda r: (
        r.where("k < 5").withColumn("apart", F.col("seen").cast("long") - F.col("at").cast("long"))
        .filter("apart > 0").select("k", "apart").withColumnRenamed("apart", "seconds")
    ),
}  # fmt: skip


@pytest.mark.quick(4)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_a_step_does_what_it_does_to_a_dataframe(
    static: sk.Joined, rows: DataFrame, shape: Callable[[Any], Any]
) -> None:
    mine, expected = shape(static), shape(rows)
    assert isinstance(mine, sk.Joined)
    assert mine.columns == expected.columns
    assert mine.dtypes == expected.dtypes
    assert [f.name for f in mine.schema] == mine.columns
    found = mine.dataframe()
    assert found.schema.simpleString() == mine.schema.simpleString()
    assert_same(multiset(found.collect()), multiset(expected.collect()))
    assert static.columns == rows.columns, "a step leaves what it is done to as it was"


def test_steps_are_done_to_a_stream(streaming: sk.Joined, rows: DataFrame, tmp_path: Path) -> None:
    shape = SHAPES["chain"]
    written = read_parquet(run(shape(streaming), tmp_path))
    assert written
    assert_same(written, multiset(shape(rows).collect()))


@pytest.mark.quick(1)
@pytest.mark.parametrize("never", ["k = null", "1 = 0", "a > 1 AND false"])
def test_a_filter_that_no_row_fulfils(streaming: sk.Joined, tmp_path: Path, never: str) -> None:
    """Spark's optimizer leaves nothing of it but a relation without rows."""
    nothing = streaming.where(never)
    results = {
        "last": nothing,
        "between": nothing.groupBy("k", time="at", window="1 second").agg(n="count"),
        # What is left of it has other columns, of which one is the time.
        "moved": sk.deduplicate(nothing.select("b", "k", "seen"), "k", time="seen", within="1 day"),
    }
    for name, result in results.items():
        assert read_parquet(run(result, tmp_path / name)).total() == 0  # type: ignore[arg-type]


MANY_ROWS: dict[str, Callable[[Any], Any]] = {
    "count": lambda r: r.select(F.count("*")),
    "sum": lambda r: r.where("k > 1").selectExpr("sum(a) AS s"),
    "over": lambda r: r.withColumn("n", F.rank().over(Window.partitionBy("k").orderBy("at"))),
    "sum over": lambda r: r.selectExpr("k", "sum(a) OVER (PARTITION BY k) AS s"),
}


@pytest.mark.parametrize("step", MANY_ROWS.values(), ids=MANY_ROWS.keys())
def test_a_step_over_many_rows(
    static: sk.Joined, streaming: sk.Joined, rows: DataFrame, step: Callable[[Any], Any]
) -> None:
    """Of a stream it would see one batch alone; static rows are all there."""
    with pytest.raises(ArgumentError, match=r"one row at a time on a stream.*groupBy\(\"k\""):
        step(streaming)
    mine = step(static).dataframe()
    assert_same(multiset(mine.collect()), multiset(step(rows).collect()))


def test_a_step_over_many_rows_of_an_input(
    spark: SparkSession, pair: tuple[FileStream, FileStream]
) -> None:
    left, right = (side.read(spark) for side in pair)
    with pytest.raises(ArgumentError, match="one row at a time"):
        keyed_join(left, right).select(F.max(left["a"]))


def test_steps_of_one_row_that_look_like_more(streaming: sk.Joined, rows: DataFrame) -> None:
    """Many rows of one, sums within a row, and a filter by other, static rows."""
    streaming.select(F.explode(F.array("a", "b")))
    streaming.selectExpr("aggregate(array(a, b), 0L, (x, y) -> x + y) AS s")
    streaming.select(F.window("at", "1 minute"))
    rows.createOrReplaceTempView("some_rows")
    streaming.where("a > (SELECT max(a) - 3 FROM some_rows)")


@pytest.mark.slow
def test_groups(static: sk.Joined, rows: DataFrame) -> None:
    aggs = {"n": "count", "most": ("max", "b")}
    expected = rows.groupBy("k").agg(F.count("*").alias("n"), F.max("b").alias("most"))
    for grouped in (
        static.groupBy("k").agg(n="count", most=("max", "b")),
        static.groupBy(["k"]).agg(aggs),
        static.groupBy("k", strategy=sk.PKG(), instances=3).agg({"n": "count"}, most=("max", "b")),
        sk.aggregate(static, "k", aggs),
    ):
        assert isinstance(grouped, sk.Aggregated)
        assert grouped.columns == ["k", "n", "most"]
        assert_same(multiset(grouped.dataframe().collect()), multiset(expected.collect()))


def test_groups_as_in_pyspark(static: sk.Joined, rows: DataFrame) -> None:
    """Names, types and values are PySpark's."""
    grouped, native = static.groupBy("k"), rows.groupBy("k")
    for ours, theirs in (
        (grouped.count(), native.count()),
        (grouped.sum("a", "b"), native.sum("a", "b")),
        (grouped.avg("a"), native.avg("a")),
        (grouped.mean("b"), native.mean("b")),
        (grouped.min("b"), native.min("b")),
        (grouped.agg(F.min("at")), native.agg(F.min("at"))),
        (grouped.max("a"), native.max("a")),
        (
            grouped.agg(F.sum("a").alias("x"), F.count("*")),
            native.agg(F.sum("a").alias("x"), F.count("*")),
        ),
    ):
        assert ours.dtypes == theirs.dtypes
        assert_same(multiset(ours.dataframe().collect()), multiset(theirs.collect()))
    total = grouped.agg(x=F.sum("a"), n="count")
    assert total.columns == ["k", "x", "n"]


def test_groups_of_a_stream_in_windows(streaming: sk.Joined) -> None:
    grouped = streaming.groupBy("k", time="at", window="5 seconds").agg(n="count")
    same = sk.aggregate(streaming, ["k"], {"n": "count"}, time="at", window="5 seconds")
    assert grouped.columns == ["window", "k", "n"]
    assert grouped.make(2, None) == same.make(2, None)
    other = streaming.groupBy("k", time="at", window="6 seconds").agg(n="count")
    assert other.make(2, None) != same.make(2, None)


def test_bad_groups(static: sk.Joined) -> None:
    with pytest.raises(ArgumentError, match="`agg` must be"):
        static.groupBy("k").agg("count")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`aggs` must be"):
        static.groupBy("k").agg()
    with pytest.raises(ColumnError, match="`by` must be a column of `df`: k, at, a, seen, b"):
        static.groupBy("nope").agg(n="count")
    with pytest.raises(TypeError, match="windo"):
        static.groupBy("k", windo="1 minute")  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"GroupedResult has no 'pivot'. It has: agg, avg, c"):
        static.groupBy("k").pivot("a")  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="`agg` must be"):
        static.groupBy("k").agg(F.sum("a"), n="count")
    with pytest.raises(ArgumentError, match="`columns` must be the columns"):
        static.groupBy("k").sum()
    assert repr(static.groupBy("k", F.col("a"))).startswith("GroupedResult[by: k, ")
    assert "\n" not in repr(static.groupBy("k"))


# What it looks like ------------------------------------------------------------------------------


def test_looks(static: sk.Joined, streaming: sk.Joined, capsys: pytest.CaptureFixture[str]) -> None:
    columns = "k: bigint, at: timestamp, a: bigint, seen: timestamp, … 1 more"
    assert repr(static) == f"Joined[{columns}] (static)"
    assert repr(streaming.select("k", "a")) == "Joined[k: bigint, a: bigint] (streaming)"
    wide = static.selectExpr(*(f"k AS {'long' * 20}_{i}" for i in range(9)))
    assert repr(wide) == f"Joined[{'long' * 20}_0: bigint, … 8 more] (static)"
    assert (static.isStreaming, streaming.isStreaming) == (False, True)
    static.select("k", "at").printSchema()
    tree = "root\n |-- k: long (nullable = true)\n |-- at: timestamp (nullable = true)\n"
    assert tree in capsys.readouterr().out


def test_explain(streaming: sk.Joined, capsys: pytest.CaptureFixture[str]) -> None:
    counted = streaming.where("k > 1").groupBy("k", time="at", window="1 minute").agg(n="count")
    counted.select("n").explain()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("join")
    assert any(line.startswith("aggregate") for line in lines)
    assert any("→ where" in line for line in lines), "what is done between two operators"
    assert "  within: -4 seconds to 4 seconds" in lines
    assert lines[-1] == "then select"


def test_show(static: sk.Joined, capsys: pytest.CaptureFixture[str]) -> None:
    static.select("k").show(2)
    shown = capsys.readouterr().out
    assert "|  k|" in shown
    assert "only showing top 2 rows" in shown


def test_all_ways_to_the_rows(static: sk.Joined, rows: DataFrame, tmp_path: Path) -> None:
    for found in (static.toDF(), static.dataframe(str(tmp_path)), static.toDF(str(tmp_path))):
        assert isinstance(found, DataFrame)
        assert_same(multiset(found.collect()), multiset(rows.collect()))


def test_everything_there_is_is_listed(static: sk.Joined) -> None:
    assert tuple(dir(static)) == OFFERED == METHODS
    for name in METHODS:
        assert inspect.getattr_static(static, name) is not None
        member = inspect.getattr_static(type(static), name)
        told = member.__doc__ if callable(member) else True
        assert told, f"{name} says what it does"


@pytest.mark.parametrize("name", ["limit", "orderBy", "count", "collect", "join", "write", "rdd"])
def test_what_only_dataframes_have(static: sk.Joined, streaming: sk.Joined, name: str) -> None:
    assert not hasattr(static, name)
    with pytest.raises(AttributeError) as error:
        getattr(static, name)
    assert f"Joined has no {name!r}. It has: columns, dataframe, drop" in str(error.value)
    assert "dataframe() gives" in str(error.value)
    with pytest.raises(AttributeError, match=r"writeStream\.foreachBatch hands over"):
        getattr(streaming, name)


SAID = {
    "join": "sk.join(…) and the other operators take results",
    "dropDuplicates": "sk.deduplicate(result, …)",
    "agg": "groupBy(…).agg(…)",
    "withWatermark": "brings its watermark along",
}


@pytest.mark.parametrize(("name", "said"), SAID.items(), ids=list(SAID))
def test_what_there_is_instead(streaming: sk.Joined, name: str, said: str) -> None:
    """What is done to one batch by a DataFrame's method would be something else."""
    with pytest.raises(AttributeError, match=re.escape(said)):
        getattr(streaming, name)


def test_a_result_given_to_sparks_own_join(streaming: sk.Joined, rows: DataFrame) -> None:
    with pytest.raises(AttributeError, match=r"It is no DataFrame.*sk\.join"):
        rows.join(streaming, "k")  # type: ignore[arg-type]


def test_arguments_of_pyspark(
    static: sk.Joined, rows: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    nested = static.selectExpr("struct(k, a) s")
    nested.printSchema(1)
    assert "|-- s" in (shown := capsys.readouterr().out) and "|-- k" not in shown
    static.explain()
    plain = capsys.readouterr().out
    asked: list[dict[str, Any]] = [{"extended": True}, {"mode": "formatted"}]
    for more in asked:
        static.explain(**more)
        assert capsys.readouterr().out == f"{sk.explain(static)}\n" != plain
    static.show(2, False, True)
    mine = capsys.readouterr().out
    rows.show(2, False, True)
    first = "-RECORD 0"
    assert mine.startswith(first) and capsys.readouterr().out.startswith(first)


def test_what_nothing_has(static: sk.Joined) -> None:
    for name in ("selct", "nope", "_repr_html_", "__wrapped__"):
        with pytest.raises(AttributeError) as error:
            getattr(static, name)
        assert f"Joined has no {name!r}" in str(error.value)
        assert "hands over" not in str(error.value)
        assert "gives" not in str(error.value)


def test_columns_of_a_result(static: sk.Joined) -> None:
    assert str(static["k"]) == str(static.k) == "Column<'k'>"  # type: ignore[attr-defined]
    windows = static.groupBy("k", time="at", window="1 minute").agg(n="count")
    assert windows.select(windows["window.end"]).columns == ["end"]
    for name in ("nope", 5):
        with pytest.raises(ColumnError, match="a column of the result: k, at, a, seen, b"):
            static[name]  # type: ignore[index]


def test_columns_with_dots_in_their_names(static: sk.Joined) -> None:
    dotted = static.withColumnRenamed("a", "a.x").withColumnRenamed("b", "b`c")
    for name in ("a.x", "`a.x`", "`A.X`", "b`c", "`b``c`"):
        assert (
            dotted.select(dotted[name]).columns[0].lower()
            == name.strip("`").replace("``", "`").lower()
        )
    with pytest.raises(ColumnError, match="a column of the result"):
        dotted["`a`.x"]


def test_an_event_time_beside_what_its_name_begins_with(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "event string, `event.time` timestamp, k int")
    once = sk.deduplicate(rows, "k", time="event.time", within="1 minute")
    assert once.columns == ["event", "event.time", "k"]
    again = sk.deduplicate(once.drop("event"), "k", time="event.time", within="2 minutes")
    assert again.columns == ["event.time", "k"]


# Before anything runs ----------------------------------------------------------------------------


def test_nothing_runs_before_it_is_started(spark: SparkSession, streaming: sk.Joined) -> None:
    explosive = spark.range(9).selectExpr(
        "cast(raise_error('a job has run') AS string) AS k", "now() AS at"
    )
    context = spark.sparkContext
    context.setJobGroup("described results", "none should be here")
    bad: list[Callable[[sk.Joined], object]] = [
        lambda r: r.where("k >"),
        lambda r: r.select("nope"),
        lambda r: r.withColumn("x", F.col("nope")),
        lambda r: r.groupBy("k", window="1 minute").agg(n="count"),
        lambda r: r.writeStream,
        lambda r: sk.join(r, r, "k", time="at", within="1 second", suffixes=("", "")),
    ]
    try:
        other = explosive.withColumnRenamed("at", "seen")
        joined = sk.join(explosive, other, "k", time=("at", "seen"), within="1 minute")
        for call in bad:
            with pytest.raises(ArgumentError):
                call(joined)
        shaped = joined.where("length(k) > 1").withColumn("x", F.lit(1)).select("k", "at")
        shaped.groupBy("k", time="at", window="1 minute").agg(n="count").explain()
        for refused in (
            lambda: streaming.writeStream.format("parquet").start(),
            lambda: streaming.writeStream.format("nope").option("checkpointLocation", "x").start(),
            lambda: streaming.writeStream.outputMode("complete"),
            streaming.dataframe,
            streaming.show,
        ):
            with pytest.raises(ArgumentError):
                refused()
        tracker = context.statusTracker()
        assert len(tracker.getJobIdsForGroup("described results")) == 0
        spark.range(3).collect()
        assert len(tracker.getJobIdsForGroup("described results")) == 1, "it would be seen"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


# The package -------------------------------------------------------------------------------------


def test_everything_public_is_listed() -> None:
    assert dir(sk) == sorted(sk.__all__)
    bases = (
        "Accumulator", "Balancing", "Grouping", "PlacementStrategy", "Result", "Routing",
        "SimilarityStrategy", "ThreeStrategy",
    )  # fmt: skip
    assert set(bases) <= set(dir(sk))
    for name in bases:
        assert inspect.isclass(getattr(sk, name))
    for name in ("Aggregated", "Deduplicated", "Joined", "Joined3", "Similar"):
        assert issubclass(getattr(sk, name), sk.Result)
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        sk.nope  # type: ignore[attr-defined]  # noqa: B018


def test_every_public_name_says_what_it_is() -> None:
    silent = [
        name
        for name in dir(sk)
        if (inspect.isclass(getattr(sk, name)) or inspect.isfunction(getattr(sk, name)))
        and not inspect.getdoc(getattr(sk, name))
    ]
    assert silent == []


def test_a_batch_is_told_in_one_line() -> None:
    report = sk.BatchReport(
        batch_id=3,
        name="join",
        rows={"left": 12_000, "right": 40},
        dropped={"late": 2, "null keys": 3},
        counters={"matches": 1_234},
        duration_ms=45.6,
    )
    expected = (
        "BatchReport(batch 3 of join: 12,000 left, 40 right rows, 1,234 matches, 5 dropped, 46 ms, "
        "busiest/mean 1.00)"
    )
    assert repr(report) == expected
