"""`sk.aggregate` on real streams, compared with Spark's own aggregation of the same files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import ArgumentError, CheckpointMismatchError
from tests.spark.support import (
    TIMESTAMP,
    FileStream,
    Rows,
    assert_same,
    at,
    file_stream,
    finish,
    keyed_join,
    keyed_pair,
    keyed_tables,
    mixed,
    multiset,
    run,
)

SCHEMA = pa.schema(
    [("k", pa.int64()), ("s", pa.string()), ("at", TIMESTAMP), ("n", pa.int32()),
     ("x", pa.float64())]
)  # fmt: skip
AGGS: dict[str, object] = {
    "rows": "count",
    "total": ("sum", "n"),
    "most": ("max", "s"),
    "mean": ("mean", "x"),
}
IN_SPARK = ("count(*) AS rows", "sum(n) AS total", "max(s) AS most", "avg(x) AS mean")


def table(rows: Iterable[tuple[int | None, float]]) -> pa.Table:
    """Rows of (key, seconds); the values are quarters, whose sums are exact in any order."""
    return pa.Table.from_pylist(
        [
            {"k": k, "s": f"s{i % 7}" if i % 5 else None, "at": at(t), "n": i * 13 % 100 - 50,
             "x": i % 11 / 4 if i % 6 else None}
            for i, (k, t) in enumerate(rows)
        ],
        SCHEMA,
    )  # fmt: skip


def some_batches(count: int = 3) -> list[pa.Table]:
    """Batches of ten seconds, with a null key, and from the second on rows from long ago."""
    batches = []
    for number in range(count):
        rows: list[tuple[int | None, float]] = [*mixed(number, 60, 6, 1)]
        rows += [(None, number * 10.0 + i) for i in range(5)]
        rows += [(1, number * 10 - 13.0 + i) for i in range(9)]
        batches.append(table(rows))
    return batches


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> FileStream:
    return file_stream(tmp_path_factory.mktemp("aggregate") / "in", some_batches())


@pytest.fixture(scope="module")
def static(spark: SparkSession, stream: FileStream) -> DataFrame:
    return stream.read_static(spark)


def rows_of(frame: DataFrame) -> Rows:
    return multiset(frame.collect())


def aggregated(frame: DataFrame, **more: Any) -> sk.Aggregated:
    settings: dict[str, Any] = {"by": "k", "aggs": AGGS, "instances": 3}
    if more.get("window", "10 seconds") is not None:
        settings |= {"time": "at", "window": "10 seconds", "late": "2 seconds"}
    return sk.aggregate(frame, **(settings | more))


# Streams ---------------------------------------------------------------------------------------

WINDOWS: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "tumbling": ("timestamp", "10 seconds", ("10 seconds",)),
    "sliding, without zone": ("timestamp_ntz", ("10 seconds", "4 seconds"),
                              ("10 seconds", "4 seconds")),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "window", "in_spark"), WINDOWS.values(), ids=WINDOWS.keys())
def test_append_equals_sparks_own(
    spark: SparkSession,
    tmp_path: Path,
    stream: FileStream,
    kind: str,
    window: Any,
    in_spark: tuple[str, ...],
) -> None:
    typed = stream.read(spark).withColumn("at", F.col("at").cast(kind))
    out = run(aggregated(typed, window=window), tmp_path)
    # By default Spark judges late rows by the watermark of one batch before, and drops fewer.
    strict = spark.newSession()
    strict.conf.set("spark.sql.streaming.statefulOperator.allowMultiple", "false")
    frame = stream.read(strict)
    native = frame.withWatermark("at", "2 seconds").groupBy(F.window("at", *in_spark), "k")
    writer = native.agg(*map(F.expr, IN_SPARK)).writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "native-checkpoint"))
    finish(writer.trigger(availableNow=True).start(str(tmp_path / "native")))
    # Spark itself has no watermarks of times without zone.
    span = F.col("window").cast(f"struct<start: {kind}, end: {kind}>")
    expected = spark.read.parquet(str(tmp_path / "native")).withColumn("window", span)
    found = spark.read.parquet(str(out))
    assert expected.count() > 12
    assert_same(rows_of(found), rows_of(expected))
    assert [f.dataType for f in found.schema] == [f.dataType for f in expected.schema]
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert sum(r.late for r in reports) > 0
    assert sum(r.matches for r in reports) == expected.count()


@pytest.mark.quick(1)
@pytest.mark.parametrize("window", [None, "10 seconds"])
def test_the_last_updates_equal_sparks_final_result(
    spark: SparkSession, tmp_path: Path, stream: FileStream, static: DataFrame, window: Any
) -> None:
    """Through `foreachBatch`, which gets each group that a batch has changed, and no other."""
    batches: dict[int, list[Row]] = {}

    def take(rows: DataFrame, batch_id: int) -> None:
        batches[batch_id] = rows.collect()

    late = {} if window is None else {"late": "1 hour"}
    writer = aggregated(stream.read(spark), window=window, **late).writeStream
    writer = writer.outputMode("update").foreachBatch(take)
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    finish(writer.start())
    keys = ["k"] if window is None else [F.window("at", window), "k"]
    assert sorted(batches) == [0, 1, 2]
    width = len(keys)
    last: dict[Any, Row] = {}
    for number, table_of_batch in enumerate(stream.tables):
        groups = [tuple(row[:width]) for row in batches[number]]
        touched = spark.createDataFrame(table_of_batch).select(*keys).distinct().collect()
        assert Counter(groups) == Counter(tuple(row) for row in touched)
        last |= dict(zip(groups, batches[number], strict=True))
    assert_same(multiset(last.values()), rows_of(static.groupBy(*keys).agg(*map(F.expr, IN_SPARK))))


@pytest.mark.slow
def test_steps_after_it_and_a_view_in_memory(
    spark: SparkSession, stream: FileStream, static: DataFrame
) -> None:
    result = aggregated(stream.read(spark), late="1 hour", window=("10 seconds", "5 seconds"))
    assert result.columns == ["window", "k", "rows", "total", "most", "mean"]
    shaped = result.where("rows > 2").select("window.start", "k", F.col("rows").alias("n"))
    assert shaped.columns == ["start", "k", "n"]
    writer = shaped.writeStream.format("memory").queryName("busy_groups").outputMode("update")
    finish(writer.trigger(availableNow=True).start())
    every = F.window("at", "10 seconds", "5 seconds")
    native = static.groupBy(every, "k").agg(F.count("*").alias("n")).where("n > 2")
    found = spark.table("busy_groups").groupBy("start", "k").agg(F.max("n").alias("n"))
    assert_same(rows_of(found), rows_of(native.select("window.start", "k", "n")))


@pytest.mark.slow
@pytest.mark.usefixtures("early_compaction")
def test_restarts_with_other_groupings_and_instances(spark: SparkSession, tmp_path: Path) -> None:
    """State made under one grouping and size goes on under any other."""
    steps = [(sk.BatchAware(least=4), 3), (sk.PdStream(), 2), (sk.PdStream(), 2), (sk.PKG(), 5)]
    tables = some_batches(len(steps))
    source = file_stream(tmp_path / "in", tables[:1])
    for step, (grouping, instances) in enumerate(steps):
        if step:
            source.add(tables[step])
        settings = {"grouping": grouping, "instances": instances, "late": "1 hour"}
        settings["window"] = ("20 seconds", "10 seconds")
        run(aggregated(source.read(spark), **settings), tmp_path)
        report = sk.history(str(tmp_path / "checkpoint"))[-1]
        assert len(report.instances) == instances
        assert report.batch_id == step
    # A row from far ahead closes all windows.
    source.add(table([(0, 10_000.0)]))
    out = run(aggregated(source.read(spark), **settings), tmp_path)
    rows = spark.read.parquet(str(out)).where(F.col("window.end") < at(5_000))
    every = F.window("at", "20 seconds", "10 seconds")
    native = source.read_static(spark).where(F.col("at") < at(5_000)).groupBy(every, "k")
    assert_same(rows_of(rows), rows_of(native.agg(*map(F.expr, IN_SPARK))))


@pytest.mark.slow
def test_rows_without_event_time(spark: SparkSession, tmp_path: Path) -> None:
    rows = table([(1, 0.0), (1, 1.0), (2, 30.0)])
    times = pa.array([at(0), None, at(30)], TIMESTAMP)
    source = file_stream(tmp_path / "in", [rows.set_column(2, "at", times)])
    with pytest.raises(StreamingQueryException, match=r"1 row of the input without event time"):
        run(aggregated(source.read(spark)), tmp_path)
    out = run(aggregated(source.read(spark), on_null_time="drop"), tmp_path)
    (found,) = spark.read.parquet(str(out)).select("k", "rows").collect()
    assert tuple(found) == (1, 1)
    (report,) = sk.history(str(tmp_path / "checkpoint"))
    assert (report.rows_left, report.null_times, report.late) == (3, 1, 0)


# What a query tells ----------------------------------------------------------------------------

HOT = 7


def hot_batch(number: int) -> list[tuple[int, float]]:
    rows = [(HOT if i % 5 else i, number * 10 + i % 100 / 10) for i in range(1000)]
    return [*rows, (3, -100.0)] if number == 1 else rows


@pytest.mark.slow
@pytest.mark.parametrize("grouping", [sk.BatchAware(), sk.KeyGrouping()], ids=repr)
def test_history(spark: SparkSession, tmp_path: Path, grouping: sk.BatchAware) -> None:
    source = file_stream(tmp_path / "in", [table(hot_batch(n)) for n in range(3)])
    result = aggregated(source.read(spark), grouping=grouping, late="0 seconds")
    out = run(result, tmp_path)
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert [r.rows_left for r in reports] == [1000, 1001, 1000]
    assert [r.rows_right for r in reports] == [0, 0, 0]
    assert [r.late for r in reports] == [0, 1, 0]
    windows = spark.read.parquet(str(out)).groupBy("window").count().orderBy("window").collect()
    assert [r.matches for r in reports] == [0, *(row["count"] for row in windows)]
    assert [r.state_rows > 0 for r in reports] == [True] * 3
    assert reports[2].watermark_us == round(at(19.9).timestamp() * 1_000_000)
    for report in reports:
        assert report.heavy_keys[0].value == str(HOT)
        assert report.heavy_keys[0].share == pytest.approx(0.8, abs=0.001)
        loads = [load.rows for load in report.instances]
        assert sum(loads) == report.rows_left
        times = [load.time_ms for load in report.instances]
        assert report.busiest_over_mean == pytest.approx(max(times) * 3 / sum(times))
        last = "finish and write" if report.matches else "write"  # no window closes: no last step
        assert list(report.phases_ms) == ["ingest", "plan", "accumulate", last]
        over = max(loads) * 3 / report.rows_left
        if isinstance(grouping, sk.BatchAware):
            assert over < 1.05
            assert report.verdict.startswith("even")
            split = report.decisions[0]
            assert (split.kind, split.subject, split.accepted) == ("split", f"key {HOT}", True)
            assert split.rows == 800
            assert len(split.target.split(", ")) >= 2
        else:
            assert over > 2.3
            assert "busiest" in report.verdict
            assert report.decisions == ()
    assert reports.toDF(spark).count() == 3


# Static input ----------------------------------------------------------------------------------

EVERYTHING = (
    "id % 5 AS k",
    "CAST(id % 9 AS byte) AS tiny",
    "CAST(id AS int) AS whole",
    "id * 1000000007 AS big",
    "CAST(id % 13 / 4 AS float) AS f",
    "id / 8 AS x",
    "CAST(id * 3 % 1000 / 100 AS decimal(10, 2)) AS d",
    "CONCAT('é', id % 17) AS s",
    "CAST(CONCAT('b', id % 3) AS binary) AS raw",
    "id % 2 = 0 AS flag",
    "DATE_ADD(DATE'2020-01-01', CAST(id % 40 AS int)) AS day",
    "TIMESTAMP_MICROS(id * 999983) AS at",
    "CAST(TIMESTAMP_MICROS(id) AS timestamp_ntz) AS ntz",
    "MAKE_DT_INTERVAL(0, 0, 0, id % 7 - 3) AS gap",
)
NUMBERS = ("tiny", "whole", "big", "f", "x", "d")
ORDERED = (*NUMBERS, "s", "raw", "flag", "day", "at", "ntz", "gap")


def holes(column: str) -> str:
    return column if column == "k" else f"IF(k = 4 OR id % 6 = 0, NULL, {column}) AS {column}"


@pytest.fixture(scope="module")
def everything(spark: SparkSession) -> DataFrame:
    """A column of every type; a sixth of the values, and all of one group, are null."""
    rows = spark.range(2000).selectExpr("id", *EVERYTHING)
    return rows.selectExpr(*(holes(c) for c in ("k", *ORDERED))).cache()


def compared(result: sk.Aggregated, expected: DataFrame, keys: int) -> None:
    """Equal in names, types, groups and values; doubles to the last few digits."""
    found = result.toDF()
    assert found.columns == expected.columns
    types = [[f.dataType for f in frame.schema] for frame in (found, expected)]
    assert types[0] == types[1]
    mine, theirs = (
        {tuple(row[:keys]): row[keys:] for row in frame.collect()} for frame in (found, expected)
    )
    assert mine.keys() == theirs.keys()
    assert theirs
    for group, values in theirs.items():
        for a, b in zip(mine[group], values, strict=True):
            same = math.isclose(a, b, rel_tol=1e-9) if isinstance(b, float) and a else a == b
            assert same, (group, mine[group], values)


def test_every_aggregate_equals_sparks(everything: DataFrame) -> None:
    """Values and types of all that Spark has, too."""
    wanted: dict[str, tuple[object, Column]] = {"rows": ("count", F.count("*"))}
    for c in ORDERED:
        wanted[f"count_{c}"] = (("count", c), F.count(c))
        wanted[f"min_{c}"] = (("min", c), F.min(c))
        wanted[f"max_{c}"] = (("max", c), F.max(c))
        wanted[f"distinct_{c}"] = (("approx_distinct", c), F.count_distinct(c))
    for c in NUMBERS:
        double = F.col(c).cast("double")  # Spark's mean of decimals is a decimal
        wanted[f"sum_{c}"] = (("sum", c), F.sum(c))
        wanted[f"mean_{c}"] = (("mean", c), F.avg(double))
        wanted[f"avg_{c}"] = (("avg", c), F.avg(double))
        wanted[f"variance_{c}"] = (("variance", c), F.variance(c))
        wanted[f"stddev_{c}"] = (("stddev", c), F.stddev(c))
    result = sk.aggregate(
        everything, "k", {name: ask for name, (ask, _) in wanted.items()}, instances=2
    )
    native = everything.groupBy("k").agg(*(c.alias(name) for name, (_, c) in wanted.items()))
    compared(result, native, 1)


@pytest.mark.slow
def test_quantiles_are_near_sparks(everything: DataFrame) -> None:
    """Groups of more than 256 values are sketched: the rank may differ by some per cent."""
    result = sk.aggregate(
        everything,
        "k",
        {"low": ("quantile", "big", 0.0), "mid": ("quantile", "big", 0.5),
         "fine": (sk.Quantile(0.9, k=2000), "big"), "exact": ("quantile", "tiny", 0.5)},
    )  # fmt: skip
    assert [f.dataType.typeName() for f in result.schema][1:] == ["double"] * 4
    ranks = everything.where("big IS NOT NULL").selectExpr(
        "k", "big", "percent_rank() OVER (PARTITION BY k ORDER BY big) r"
    )
    for row in result.toDF().where("k < 4").collect():
        of_group = {r.big: r.r for r in ranks.where(f"k = {row.k}").collect()}
        assert len(of_group) > 300
        assert of_group[int(row.low)] == pytest.approx(0, abs=0.03)
        assert of_group[int(row.mid)] == pytest.approx(0.5, abs=0.03)
        assert of_group[int(row.fine)] == pytest.approx(0.9, abs=0.005)
    (nothing,) = result.toDF().where("k = 4").collect()
    assert nothing[1:] == (None,) * 4


def test_sketches_of_large_groups_are_within_their_error(spark: SparkSession) -> None:
    frame = spark.range(0, 60_000).selectExpr("id", "id % 2 AS k")
    aggs = {"ids": ("approx_distinct", "id"), "fine": (sk.ApproxDistinct(lg_k=16), "id"),
            "mid": ("quantile", "id", 0.5)}  # fmt: skip
    for row in sk.aggregate(frame, "k", aggs, grouping=sk.ShuffleGrouping()).toDF().collect():
        assert row.ids == pytest.approx(30_000, rel=0.05)
        assert row.fine == 30_000
        assert row.mid == pytest.approx(30_000, abs=60_000 * 0.03)


BY: dict[str, list[str]] = {
    "nothing": [],
    "text": ["s"],
    "several": ["k", "s", "flag"],
    "every type": ["tiny", "f", "d", "raw", "day", "ntz", "gap"],
}


@pytest.mark.parametrize("by", BY.values(), ids=BY.keys())
def test_any_key(everything: DataFrame, by: list[str]) -> None:
    result = sk.aggregate(everything, by, {"rows": "count", "total": ("sum", "whole")})
    native = everything.groupBy(*by).agg(F.count("*").alias("rows"), F.sum("whole").alias("total"))
    compared(result, native, len(by))


@pytest.mark.parametrize("time", ["at", "ntz"])
def test_windows_of_static_input(everything: DataFrame, time: str) -> None:
    """All windows are closed at the end; null times are dropped as Spark drops them."""
    size = "7 minutes" if time == "at" else "300 microseconds"
    result = sk.aggregate(
        everything, ["k", "flag"], {"rows": "count"}, time=time, window=size, on_null_time="drop"
    )
    native = everything.groupBy(F.window(time, size), "k", "flag").agg(F.count("*").alias("rows"))
    assert_same(rows_of(result.toDF()), rows_of(native))
    assert [f.dataType for f in result.schema] == [f.dataType for f in native.schema]


def test_a_count_that_needs_no_column(static: DataFrame) -> None:
    counted = sk.aggregate(static, [], {"n": "count"}).dataframe().collect()
    assert [row.n for row in counted] == [static.count()]


@pytest.mark.slow
def test_no_rows(spark: SparkSession) -> None:
    nothing = spark.createDataFrame([], "k long, at timestamp, x double")
    result = sk.aggregate(nothing, "k", {"n": "count"}, time="at", window="1 minute")
    assert result.toDF().collect() == []
    assert result.toDF().columns == ["window", "k", "n"]


def test_names_with_dots_and_capitals(static: DataFrame) -> None:
    odd = static.select(
        F.col("k").alias("The.Key"), F.col("n").alias("N"), F.col("at").alias("event.At")
    )
    result = sk.aggregate(
        odd,
        ["the.key"],
        {"Total.n": ("sum", "n"), "n": ("max", "N")},
        time="EVENT.at",
        window="1 minute",
    )
    assert result.columns == ["window", "The.Key", "Total.n", "n"]
    native = static.groupBy(F.window("at", "1 minute"), "k").agg(F.sum("n"), F.max("n"))
    assert_same(rows_of(result.toDF()), rows_of(native))


GROUPINGS = [
    sk.BatchAware(),
    sk.BatchAware(least=1, tracked=2),
    sk.PdStream(),
    sk.PKG(),
    sk.DChoices(),
    sk.WChoices(),
    sk.DAGreedy(),
    sk.Dalton(),
    sk.KeyGrouping(),
    sk.ShuffleGrouping(),
]


@pytest.mark.slow
def test_every_grouping_gives_the_same(static: DataFrame) -> None:
    native = rows_of(static.groupBy(F.window("at", "10 seconds"), "k").agg(*map(F.expr, IN_SPARK)))
    for grouping in GROUPINGS:
        assert_same(rows_of(aggregated(static, grouping=grouping).toDF()), native)


def test_an_accumulator_of_ones_own(static: DataFrame) -> None:
    class Spread(sk.Accumulator):
        """How far the values of two columns lie apart at most, summed."""

        state: ClassVar[dict[str, pa.DataType]] = {"most": pa.float64()}
        result = pa.decimal128(10, 2)

        def __init__(self, factor: int) -> None:
            self.factor = factor

        def bind(self, types: Any) -> sk.Accumulator:
            if len(types) != 2:
                raise ValueError("two numeric columns")
            return self

        def __repr__(self) -> str:
            return f"Spread({self.factor})"

        def init(self, groups: int) -> list[pa.Array]:
            return [pa.array(np.zeros(groups))]

        def update(self, state: list[pa.Array], groups: Any, *columns: pa.Array) -> list[pa.Array]:
            a, b = (c.cast(pa.float64()).fill_null(0.0).to_numpy() for c in columns)
            return self.merge(state, groups, [pa.array(abs(a - b) * self.factor)])

        def merge(
            self, state: list[pa.Array], groups: Any, other: list[pa.Array]
        ) -> list[pa.Array]:
            most = state[0].to_numpy().copy()
            np.maximum.at(most, groups, other[0].to_numpy())
            return [pa.array(most)]

        def finish(self, state: list[pa.Array]) -> pa.Array:
            return pa.array([Decimal(str(v)) for v in state[0].to_pylist()], self.result)

    result = sk.aggregate(
        static, "k", {"spread": (Spread(2), "n", "x")}, grouping=sk.ShuffleGrouping(), instances=3
    )
    apart = F.abs(F.coalesce("n", F.lit(0)) - F.coalesce("x", F.lit(0.0))) * 2
    native = static.groupBy("k").agg(F.max(apart).cast("decimal(10, 2)").alias("spread"))
    compared(result, native, 1)
    with pytest.raises(sk.errors.ColumnError, match=r'`aggs\["spread"\]` must be two numeric'):
        sk.aggregate(static, "k", {"spread": (Spread(2), "n")})


def test_a_sum_that_does_not_fit_stops_the_query(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("9223372036854775807 AS big")
    with pytest.raises(Exception, match="does not fit 64 bits"):
        sk.aggregate(frame, [], {"total": ("sum", "big")}).toDF().collect()


# Checkpoints -----------------------------------------------------------------------------------


def test_a_checkpoint_belongs_to_its_aggregation(
    spark: SparkSession, tmp_path: Path, stream: FileStream
) -> None:
    frame = stream.read(spark, files_per_trigger=3)
    run(aggregated(frame), tmp_path)
    changed: dict[str, tuple[dict[str, Any], str]] = {
        "aggregates": ({"aggs": AGGS | {"total": ("min", "n")}}, "total = "),
        "by": ({"by": ["k", "s"]}, "k as int64, s as string"),
        "window": ({"window": "20 seconds"}, "20 seconds every 20 seconds"),
    }
    for name, (more, told) in changed.items():
        with pytest.raises(CheckpointMismatchError) as error:
            run(aggregated(frame, **more), tmp_path)
        assert f"\n  {name}: the checkpoint has " in str(error.value)
        assert told in str(error.value)
    # How late rows may be, the grouping and what is done with the result may change.
    out = run(aggregated(frame, late="1 minute", grouping=sk.PKG()).where("rows > 0"), tmp_path)
    assert len(list(out.iterdir())) > 0


def test_a_join_and_an_aggregation_do_not_share_a_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = keyed_pair(tmp_path, batches=1)
    joined = keyed_join(left.read(spark), right.read(spark))
    counted = sk.aggregate(left.read(spark), "k", {"n": "count"}, time="at", window="1 second")
    run(joined, tmp_path / "of the join")
    run(counted, tmp_path / "of the aggregation")
    with pytest.raises(CheckpointMismatchError, match="belongs to another query"):
        run(counted, tmp_path / "of the join")
    with pytest.raises(CheckpointMismatchError, match="belongs to another query"):
        run(joined, tmp_path / "of the aggregation")


def test_the_mode_without_windows_is_update(spark: SparkSession, tmp_path: Path) -> None:
    tables = keyed_tables("left", [[(1, 0.0), (2, 0.0)], [(1, 1.0)]])
    source = file_stream(tmp_path / "in", tables)
    out = run(sk.aggregate(source.read(spark), "k", {"n": "count"}), tmp_path)
    assert_same(rows_of(spark.read.parquet(str(out))), multiset([(1, 1), (2, 1), (1, 2)]))


def test_aggregates_of_pyspark(everything: DataFrame) -> None:
    """As Spark has them, with its names and types."""
    wanted = [
        F.count("*"),
        F.count(F.lit(1)).alias("one"),
        F.count("s"),
        F.sum("whole"),
        F.sum("d").alias("Total"),
        F.avg("whole"),
        F.mean("x").alias("x"),
        F.min("s"),
        F.max("at"),
        F.variance("whole"),
        F.stddev("d"),
        F.approx_count_distinct("tiny"),
        F.stddev("f"),
        F.expr("sum(x) as sum_of_x"),
    ]
    native = everything.groupBy("k").agg(*wanted)
    result = sk.aggregate(everything, "k", wanted)
    assert result.columns == native.columns
    compared(result, native, 1)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("avg(d)", "cast the column to double first"),
        ("count(DISTINCT s)", "approx_count_distinct"),
        ("sum(whole) FILTER (WHERE whole > 1)", "without DISTINCT and FILTER"),
        ("sum(whole + 1)", "added with withColumn first"),
        ("sum(cast(whole as double))", "added with withColumn first"),
        ("count(s, whole)", "of one column"),
        ("count(null)", "of one column"),
        ("sum(whole) + 1", "more than one aggregate"),
        ("first(whole)", "there are: count, sum, min"),
        ("approx_count_distinct(s, 0.01)", "sk.ApproxDistinct"),
        ("whole", "Spark says: "),
        ("sum(nope)", "Spark says: "),
    ],
)
def test_aggregates_of_pyspark_that_are_not_there(
    everything: DataFrame, wanted: str, why: str
) -> None:
    with pytest.raises(ArgumentError, match="`aggs` must be") as refused:
        sk.aggregate(everything, "k", F.expr(wanted))
    assert why in str(refused.value)
