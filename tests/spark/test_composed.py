"""Operators on results of others: one query, one commit, the same rows as DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from skewless.spark.result import Result
from tests.spark.killed import commits_in, nothing_is_left_over
from tests.spark.query_kits import (
    A_WITH_B,
    AGGREGATE_JOIN,
    COMPOSED,
    DEDUPLICATE_JOIN,
    FOUR_STREAMS,
    JOIN_AGGREGATE,
    JOIN_DEDUPLICATE,
    LATE,
    PLACED,
    SIMILARITY_JOIN,
    WITHIN,
    Frames,
    QueryKit,
    add_batches,
    close,
    closing_table,
    join,
    joined,
    near,
    rows_at,
    schema_of,
    table_of,
)
from tests.spark.support import FileStream, assert_same, multiset, read_parquet, run

NAMES = {
    JOIN_AGGREGATE.name: ["join-1", "aggregate-2"],
    FOUR_STREAMS.name: ["join-1", "join-2", "join-3"],
    SIMILARITY_JOIN.name: ["similarity_join-1", "join-2"],
    AGGREGATE_JOIN.name: ["aggregate-1", "join-2"],
    DEDUPLICATE_JOIN.name: ["deduplicate-1", "join-2"],
    JOIN_DEDUPLICATE.name: ["join-1", "deduplicate-2"],
}
EVERY_KIT = pytest.mark.parametrize("kit", COMPOSED, ids=[kit.name for kit in COMPOSED])
SOME_KITS = pytest.mark.parametrize(
    "kit",
    [pytest.param(kit, id=kit.name) for kit in (FOUR_STREAMS, AGGREGATE_JOIN)],
)


# What comes of them -------------------------------------------------------------------------------


def check_restarts(
    spark: SparkSession, folder: Path, kit: QueryKit, ways: list[str], batches: int
) -> None:
    streams = kit.sources(folder)
    for way in ways:
        add_batches(streams, batches)
        kit.run_all(spark, folder, way)
    close(streams)
    out = kit.run_all(spark, folder, ways[0])
    expected = kit.expected(streams)
    assert expected.total() > kit.more_than / 2
    assert_same(read_parquet(out), expected)

    reports = sk.history(str(folder / "checkpoint"))
    assert len(reports) == len(ways) * batches + 1
    assert [report.name for report in reports[0].operators] == NAMES[kit.name]
    assert all(o.dropped == {} for r in reports[:-1] for o in r.operators)
    assert sum(reports[0].rows.values()) == sum(len(s.tables[0]) for s in streams)
    state = folder / "checkpoint" / "skewless"
    commits = commits_in(state)
    assert len(commits) == min(len(reports), 10)
    assert all(sorted(operators) == sorted(NAMES[kit.name]) for operators in commits.values())
    nothing_is_left_over(state)


@pytest.mark.quick(1)
@pytest.mark.usefixtures("early_compaction")
@EVERY_KIT
def test_restart_in_the_middle(spark: SparkSession, tmp_path: Path, kit: QueryKit) -> None:
    """With other strategies, and other numbers of instances."""
    check_restarts(spark, tmp_path, kit, ["Hash", "ContRand"], batches=2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("early_compaction")
@EVERY_KIT
def test_many_restarts(spark: SparkSession, tmp_path: Path, kit: QueryKit) -> None:
    check_restarts(spark, tmp_path, kit, [*PLACED, *PLACED], batches=3)


@pytest.mark.parametrize(
    "kit",
    [
        pytest.param(kit, id=kit.name, marks=() if n < 2 else pytest.mark.slow)
        for n, kit in enumerate((JOIN_AGGREGATE, DEDUPLICATE_JOIN, *COMPOSED[1:4], COMPOSED[5]))
    ],
)
def test_static_inputs(spark: SparkSession, tmp_path: Path, kit: QueryKit) -> None:
    streams = kit.sources(tmp_path)
    add_batches(streams, 3)
    result = kit.result(spark, tmp_path, "Chaos", FileStream.read_static)
    assert not result.isStreaming
    expected = kit.expected(streams)
    assert expected.total() > kit.more_than / 4
    assert_same(multiset(result.dataframe().collect()), expected)


# Late rows ----------------------------------------------------------------------------------------


@pytest.mark.slow
@SOME_KITS
def test_late_rows_are_counted_where_they_come_in(
    spark: SparkSession, tmp_path: Path, kit: QueryKit
) -> None:
    """Streams that come in disorder and lose rows: above, nothing is late."""
    streams = kit.sources(tmp_path)
    add_batches(streams, 3)
    for stream in streams:
        stream.add(rows_at(stream.folder.name, -100, count=4))
    close(streams)
    out = kit.run_all(spark, tmp_path, "ContRand")
    assert_same(read_parquet(out), kit.expected(streams))
    late = {name: 0 for name in NAMES[kit.name]}
    for report in sk.history(str(tmp_path / "checkpoint")):
        assert report.late == sum(operator.late for operator in report.operators)
        for operator in report.operators:
            late[operator.name] += operator.late
    # The first operator reads two streams, or one; every other one more.
    whose = {name: 4 for name in late}
    whose["join-1"] = 8
    assert late == {name: whose[name] for name in late}


@pytest.mark.slow
def test_nothing_is_late_above(spark: SparkSession, tmp_path: Path) -> None:
    """An operator that only takes results drops nothing, however late rows are below."""
    kit = JOIN_AGGREGATE
    streams = kit.sources(tmp_path)
    for stream, order in zip(streams, ((2, 0, 3, 1, 4), (0, 3, 1, 2, 4)), strict=True):
        stream.add(*(table_of(stream.folder.name, batch) for batch in order))
    close(streams)
    kit.run_all(spark, tmp_path, "Hash")
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert sum(report.operators[0].late for report in reports) > 20
    assert sum(report.operators[0].matches for report in reports) > 100
    assert [report.operators[1].late for report in reports] == [0] * 6
    assert sum(report.operators[1].rows_left for report in reports) > 50


# What lies in between -----------------------------------------------------------------------------


def check(
    spark: SparkSession,
    folder: Path,
    build: Callable[[Frames, Any], Result],
    asks: str,
    more_than: int = 20,
) -> None:
    kit = replace(JOIN_AGGREGATE, build=build, asks=asks, ways=PLACED)
    streams = kit.sources(folder)
    add_batches(streams, 3)
    close(streams)
    expected = kit.expected(streams)
    assert expected.total() > more_than
    assert_same(read_parquet(kit.run_all(spark, folder, "Hash")), expected)


@pytest.mark.slow
def test_aggregate_takes_rows_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """No step in between: rows never see the JVM. The time is that of the other side."""

    def build(frames: Frames, way: Any) -> Result:
        return sk.aggregate(
            joined(frames, way), ["a_k", "b_id"], {"n": "count"}, time="a_t", window="5 seconds"
        )

    asks = f"""
        SELECT {{'start': w, 'end': w + INTERVAL 5 SECONDS}}, a_k, b_id, count(*) FROM (
            SELECT *, time_bucket(INTERVAL 5 SECONDS, a_t) AS w FROM ({A_WITH_B})) GROUP BY ALL
    """
    check(spark, tmp_path, build, asks)


@pytest.mark.slow
def test_event_times_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    """Renamed, moved, put into a struct and taken out again, a time keeps its watermark."""

    def build(frames: Frames, way: Any) -> Result:
        pairs = joined(frames, way).withColumnRenamed("a_t", "first")
        pairs = pairs.select("b_id", F.struct("first", F.col("a_k").alias("key")).alias("s"), "b_t")
        pairs = pairs.selectExpr("s.first AS moved", "s.key", "b_id").filter(F.col("b_id") > 5)
        return join(pairs, frames[1].toDF("c_k", "c_t", "x", "y", "c_id"), ("key", "c_k"), "moved",
                    way).drop("x", "y")  # fmt: skip

    asks = f"""
        SELECT a_t, a_k, p.b_id, c.b_k, c.b_t, c.b_id FROM ({A_WITH_B}) AS p JOIN b AS c
        ON a_k = c.b_k AND {near("a_t", "c.b_t")} WHERE p.b_id > 5
    """
    check(spark, tmp_path, build, asks)


def test_results_on_both_sides(spark: SparkSession, tmp_path: Path) -> None:
    """A tree rather than a chain: each input is an aggregation of its own."""

    def counts(frame: DataFrame, name: str) -> Result:
        counts: dict[str, object] = {f"{name}_n": "count"}
        counted = sk.aggregate(
            frame, f"{name}_k", counts, time=f"{name}_t", window="10 seconds", late=LATE
        )
        return counted.withColumn(f"{name}_end", F.col("window.end")).drop("window")

    def build(frames: Frames, way: Any) -> Result:
        a, b = (counts(frame, name) for frame, name in zip(frames, "ab", strict=True))
        return sk.join(a, b, [("a_k", "b_k")], time=("a_end", "b_end"), within="0 seconds")

    def counted(name: str) -> str:
        return f"""(SELECT {name}_k, count(*) AS {name}_n, time_bucket(INTERVAL 10 SECONDS,
                    {name}_t) + INTERVAL 10 SECONDS AS {name}_end FROM {name} GROUP BY ALL)"""

    asks = f"FROM {counted('a')} JOIN {counted('b')} ON a_k = b_k AND a_end = b_end"
    check(spark, tmp_path, build, asks, more_than=10)


@pytest.mark.slow
def test_a_condition_that_nothing_meets(spark: SparkSession, tmp_path: Path) -> None:
    """Spark then does not run what is below; but that has something to remember. The condition is
    no part of the state, and may be another one after a restart."""
    streams = [FileStream(tmp_path / name, schema_of(name)) for name in "ab"]

    def at_work(condition: str) -> None:
        a, b = (stream.read(spark) for stream in streams)
        first = sk.deduplicate(a, "a_k", time="a_t", within="100 days", late=LATE)
        run(join(first.where(condition), b, ("a_k", "b_k"), "a_t", PLACED["Hash"]), tmp_path)

    add_batches(streams, 2)  # all keys
    for stream in streams:
        stream.add(table_of(stream.folder.name, 20))
    at_work("1 = 0")
    add_batches(streams, 3)
    close(streams)
    at_work("1 = 1")
    assert read_parquet(tmp_path / "out").total() == 0


def test_explain_tells_all_operators(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = FOUR_STREAMS.sources(tmp_path)
    add_batches(streams, 1)
    FOUR_STREAMS.result(spark, tmp_path, "Hash").explain()
    told = capsys.readouterr().out
    # First, what nobody needs is left out.
    shaped = "left: join-2 → select → selectExpr → where (on Arrow)"
    for part in ("join-1", "join-2", "join-3", "left: join-1", shaped, "right: stream 3",
                 "then drop"):  # fmt: skip
        assert part in told


# What is refused, at the call ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def frames(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[DataFrame]:
    """Four streams."""
    folder = tmp_path_factory.mktemp("streams")
    streams = [FileStream(folder / name, schema_of(name)) for name in "abcd"]
    for stream in streams:
        stream.add(closing_table(stream.folder.name))
    return [stream.read(spark) for stream in streams]


@pytest.fixture(scope="module")
def static(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT 1L AS d_k, timestamp'2024-03-01' AS d_t, 1L AS d_id")


def pairs_of(frames: Frames) -> sk.Joined:
    return joined(frames, PLACED["Hash"])


def test_totals_below_another_operator(frames: list[DataFrame]) -> None:
    totals = sk.aggregate(frames[0], "a_k", {"n": "count"})
    with pytest.raises(ArgumentError) as caught:
        sk.join(totals, frames[1], [("a_k", "b_k")], within=sk.UNBOUNDED)
    for part in ("left", "whose rows never change", "without `window`", "give it a `window`"):
        assert part in str(caught.value)
    with pytest.raises(ArgumentError, match="df"):
        sk.aggregate(totals, "n", {"m": "count"})


COMPUTED = {
    "added to": lambda pairs: pairs.withColumn("a_t", F.expr("a_t + interval 1 second")),
    "as another": lambda pairs: pairs.withColumn("a_t", F.expr("greatest(a_t, b_t)")),
    "truncated": lambda pairs: pairs.selectExpr("a_k", "b_t", "date_trunc('hour', a_t) AS a_t"),
    "now": lambda pairs: pairs.withColumn("a_t", F.current_timestamp()),
}


@pytest.mark.parametrize("computed", COMPUTED.values(), ids=list(COMPUTED))
def test_time_that_was_computed_anew(
    frames: list[DataFrame], computed: Callable[[sk.Joined], sk.Joined]
) -> None:
    """Nobody knows how late such times can be."""
    with pytest.raises(ColumnError) as caught:
        join(computed(pairs_of(frames)), frames[2], ("a_k", "c_k"), "a_t", PLACED["Hash"])
    for part in ("time", "a_t (timestamp)", "a column of `left` that has a watermark",
                 "not computed anew", "Here: b_t"):  # fmt: skip
        assert part in str(caught.value)


def test_time_of_an_unbounded_join(frames: list[DataFrame]) -> None:
    """A row may meet one of any time, so that old ones come out for ever."""
    a, b = frames[:2]
    pairs = sk.join(a, b, [("a_k", "b_k")], time=("a_t", "b_t"), within=sk.UNBOUNDED)
    with pytest.raises(ColumnError) as caught:
        sk.aggregate(pairs, "a_k", {"n": "count"}, time="a_t", window="1 minute")
    for part in ("time", "a_t (timestamp)", "as long as they are bounded", "Here: none"):
        assert part in str(caught.value)


def test_time_that_is_no_event_time(frames: list[DataFrame]) -> None:
    """A timestamp that no operator went by."""
    pairs = joined([frames[0].withColumn("a_other", F.col("a_t")), frames[1]], PLACED["Hash"])
    with pytest.raises(ColumnError, match="Here: a_t, b_t"):
        join(pairs, frames[2], ("a_k", "c_k"), "a_other", PLACED["Hash"])


def test_window_as_time(frames: list[DataFrame]) -> None:
    totals = sk.aggregate(frames[0], "a_k", {"n": "count"}, time="a_t", window="1 minute")
    with pytest.raises(ColumnError, match=r'withColumn\("…", F.col\("window.…"\)\)'):
        join(totals, frames[1], ("a_k", "b_k"), "window", PLACED["Hash"])


def test_late_of_a_result(frames: list[DataFrame]) -> None:
    pairs = pairs_of(frames)
    with pytest.raises(ArgumentError) as caught:
        sk.aggregate(
            pairs, "a_k", {"n": "count"}, time="a_t", window="1 minute", late="1 second"
        )  # fmt: skip
    for part in ("late", "1 second", "left out: None for `df`", "nothing in it is late"):
        assert part in str(caught.value)
    with pytest.raises(ArgumentError, match="None for `left`, the result of another operator"):
        sk.join(pairs, frames[2], [("a_k", "c_k")], time=("a_t", "c_t"), within=WITHIN,
                late=("1 second", "2 seconds"))  # fmt: skip
    with pytest.raises(ArgumentError, match="left out: None for `df`"):
        sk.deduplicate(pairs, "a_k", time="a_t", within=WITHIN, late=LATE)
    sk.join(pairs, frames[2], [("a_k", "c_k")], time=("a_t", "c_t"), within=WITHIN,
            late=(None, "2 seconds"))  # fmt: skip


def test_static_with_streams(frames: list[DataFrame], static: DataFrame) -> None:
    pairs = pairs_of(frames)
    with pytest.raises(ArgumentError) as caught:
        join(pairs, static, ("a_k", "d_k"), "a_t", PLACED["Hash"])
    for part in ("right", "a static DataFrame", "streaming, as the other input is"):
        assert part in str(caught.value)
    both = sk.join(static, static.toDF("e_k", "e_t", "e_id"), [("d_k", "e_k")], time=("d_t", "e_t"),
                   within=WITHIN)  # fmt: skip
    with pytest.raises(ArgumentError, match=r"left.*streaming, as the other input is"):
        join(both, frames[0], ("d_k", "a_k"), "d_t", PLACED["Hash"])


def test_column_that_was_dropped_below(frames: list[DataFrame]) -> None:
    pairs = pairs_of(frames).drop("a_k")
    with pytest.raises(ColumnError, match="a column of `left`: a_t, a_x"):
        join(pairs, frames[2], ("a_k", "c_k"), "a_t", PLACED["Hash"])
    with pytest.raises(ArgumentError, match="where"):
        pairs.where("a_k > 1")
