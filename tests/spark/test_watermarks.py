"""`withWatermark` on an input, bounds that are open on one end, and lateness to the row: beside
Spark's own join on the same micro-batches. `docs/spark.md` has the differences in a table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from tests.spark.support import (
    FileStream,
    Rows,
    assert_same,
    at,
    file_stream,
    finish,
    keyed_join,
    keyed_tables,
    multiset,
    read_parquet,
    run,
    settings_of,
)

DELAY = "10 seconds"
DELAY_US = 10_000_000
Batches = Sequence[tuple[Sequence[tuple[int, float]], Sequence[tuple[int, float]]]]


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A stream without a watermark."""
    folder = tmp_path_factory.mktemp("stream")
    return file_stream(folder / "left", keyed_tables("left", [[(1, 1.0)]])).read(spark)


@pytest.fixture(scope="module")
def marked(plain: DataFrame) -> DataFrame:
    return plain.withWatermark("at", DELAY)


def times_and_lates(result: sk.Joined) -> list[tuple[str | None, int]]:
    """What each input goes by."""
    return [(i.time_name, i.late_us) for i in result.operator(1, None).inputs]


# What is taken ----------------------------------------------------------------------------------

WITHIN: dict[str, Any] = {"within": "1 minute"}
COUNT: dict[str, Any] = {"aggs": {"n": "count"}, "window": "1 minute"}
EDGES = [sk.equal("r.k", "s.k"), sk.equal("s.k", "t.k")]
NEAR: dict[str, Any] = {"on": ["a"], "metric": "manhattan", "threshold": 1, **WITHIN}
OPERATORS: dict[str, Callable[..., Any]] = {
    "join": lambda df, **more: sk.join(df, df, "k", **(WITHIN | more)),
    "asof": lambda df, **more: sk.asof_join(df, df, "k", tolerance="1 second", **more),
    "join3": lambda df, **more: sk.join3(df, df, df, EDGES, **(WITHIN | more)),
    "similarity": lambda df, **more: sk.similarity_join(df, df, **(NEAR | more)),
    "similarity alone": lambda df, **more: sk.similarity_join(df, **(NEAR | more)),
    "aggregate": lambda df, **more: sk.aggregate(df, "k", **(COUNT | more)),
    "deduplicate": lambda df, **more: sk.deduplicate(df, "k", **(WITHIN | more)),
}
EVERY = pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))


@EVERY
def test_time_and_lateness_are_those_of_the_watermark(
    marked: DataFrame, plain: DataFrame, operator: Callable[..., Any]
) -> None:
    taken = times_and_lates(operator(marked))
    assert set(taken) == {("at", DELAY_US)}
    assert times_and_lates(operator(marked, time="AT", late="10000 ms")) == taken
    with pytest.raises(ArgumentError, match="`time` must be the event-time column of"):
        operator(plain)


@EVERY
def test_what_contradicts_is_refused(marked: DataFrame, operator: Callable[..., Any]) -> None:
    said = r'withWatermark\("at", "10 seconds"\)'
    for late in ("9 seconds", "11 seconds"):
        with pytest.raises(ArgumentError, match=rf"`late` must be '10 seconds'.*{said}.*'{late}'"):
            operator(marked, late=late)
    other = marked.withColumn("u", F.col("at") + F.expr("INTERVAL 1 SECOND"))
    with pytest.raises(ColumnError, match=rf"`time` must be 'at', as {said}.*'u \(timestamp\)'"):
        operator(other, time="u", late=DELAY)
    unmarked = other.withMetadata("at", {})
    assert set(times_and_lates(operator(unmarked, time="u", late="1 ms"))) == {("u", 1000)}


def test_a_watermark_is_followed_as_spark_does(marked: DataFrame) -> None:
    for moved, name in (
        (marked.withColumnRenamed("at", "u"), "u"),
        (marked.select("k", F.col("at").alias("v")), "v"),
        (marked.where("k > 0").repartition(2), "at"),
        (marked.select(F.struct("at", "k").alias("s")).select("s.k", "s.at"), "at"),
    ):
        assert times_and_lates(sk.deduplicate(moved, "k", **WITHIN)) == [(name, DELAY_US)]
    computed = marked.select("k", F.expr("at + INTERVAL 1 SECOND AS u"))
    assert times_and_lates(sk.deduplicate(computed, "k", time="u", **WITHIN)) == [("u", 0)]


def test_one_side_alone_may_have_one(marked: DataFrame, plain: DataFrame) -> None:
    def taken(**more: Any) -> list[tuple[str | None, int]]:
        return times_and_lates(sk.join(marked, plain, "k", **(WITHIN | more)))

    assert taken(time="at") == [("at", DELAY_US), ("at", 0)]
    assert taken(right_time="at") == taken(time=(None, "at")) == taken(time="at")
    assert taken(time="at", late=(None, "3 seconds")) == [("at", DELAY_US), ("at", 3_000_000)]
    assert taken(within=sk.UNBOUNDED)[0][0] is None, "where any times match, nothing is late"
    with pytest.raises(ArgumentError, match="of `right`, which has no withWatermark"):
        taken()
    with pytest.raises(ArgumentError, match="for `left`"):
        taken(time="at", late="3 seconds")


def test_of_several_watermarks_one_must_be_named(marked: DataFrame) -> None:
    other = marked.selectExpr("k AS k2", "at AS at2").withWatermark("at2", "20 seconds")
    both = marked.join(other, F.expr("k = k2 AND at2 BETWEEN at AND at + INTERVAL 1 SECOND"))
    with pytest.raises(ArgumentError, match="that have a watermark: at, at2"):
        sk.deduplicate(both, "k", **WITHIN)
    found = times_and_lates(sk.deduplicate(both, "k", time="at2", **WITHIN))
    assert found == [("at2", 2 * DELAY_US)]


def test_the_lateness_of_windows_must_be_given(marked: DataFrame) -> None:
    windows = marked.select("k", F.window("at", "5 seconds").alias("w"))
    ends = windows.withColumn("end", F.col("w.end"))
    with pytest.raises(ArgumentError, match="window 'w': its delay, 10 seconds, and the length"):
        sk.deduplicate(ends, "k", time="end", **WITHIN)
    given = sk.deduplicate(ends, "k", time="end", late="15 seconds", **WITHIN)
    assert times_and_lates(given) == [("end", 15_000_000)]


def test_a_result_follows_its_own_watermarks(marked: DataFrame) -> None:
    lower = sk.deduplicate(marked, "k", **WITHIN)
    upper = sk.join(lower, marked, "k", time="at", **WITHIN)
    assert times_and_lates(upper) == [("at", 0), ("at", DELAY_US)]
    nodes = upper.pipeline(1, None)[0].nodes
    assert [feed.tick_us for node in nodes for _, feed in node.fed()] == [1000, 1, 1000]


# Half-open bounds -------------------------------------------------------------------------------


def test_half_open_bounds_decide_about_one_side(plain: DataFrame) -> None:
    def joined(**more: Any) -> sk.Joined:
        return sk.join(plain, plain, "k", time="at", **more)

    from_on, up_to = ("5 seconds", sk.UNBOUNDED), (sk.UNBOUNDED, "-5 seconds")
    for within, allowed, refused in (
        (from_on, ("right", "right_anti"), ("left", "full", "left_anti")),
        (up_to, ("left", "left_anti"), ("right", "full", "right_anti")),
    ):
        for how in ("inner", "left_semi", "right_semi", *allowed):
            assert joined(within=within, how=how).isStreaming
        for how in refused:
            with pytest.raises(ArgumentError, match="no row of a stream is certain to have none"):
                joined(within=within, how=how)
    assert joined(within=from_on).event_times.columns == ("at_right",)
    assert joined(within=up_to).event_times.columns == ("at",)
    neither = joined(within=(sk.UNBOUNDED, sk.UNBOUNDED))
    assert (
        neither.operator(1, None).fingerprint()
        == joined(within=sk.UNBOUNDED).operator(1, None).fingerprint()
    )
    assert (
        joined(within=up_to).operator(1, None).fingerprint()["within"] == "unbounded to -5 seconds"
    )
    for operator in (OPERATORS["join3"], OPERATORS["similarity"]):
        with pytest.raises(ArgumentError, match="half-open bounds are for"):
            operator(plain, time="at", within=from_on)


# Beside Spark -----------------------------------------------------------------------------------


def pair(folder: Path, batches: Batches) -> tuple[FileStream, FileStream]:
    sides = [[batch[side] for batch in batches] for side in (0, 1)]
    return (
        file_stream(folder / "left", keyed_tables("left", sides[0])),
        file_stream(folder / "right", keyed_tables("right", sides[1])),
    )


BOTH = ("at", "seen")


def watermarked(
    spark: SparkSession, streams: Sequence[FileStream], sides: Sequence[str] = BOTH
) -> list[DataFrame]:
    """Both streams, with a watermark on the times of some."""
    return [
        frame.withWatermark(time, DELAY) if time in sides else frame
        for frame, time in zip([stream.read(spark) for stream in streams], BOTH, strict=True)
    ]


def sparks_own(
    spark: SparkSession,
    streams: Sequence[FileStream],
    folder: Path,
    near: str,
    how: str = "inner",
    sides: Sequence[str] = BOTH,
) -> Rows:
    marked = watermarked(spark, streams, sides)
    left, right = (frame.alias(name) for frame, name in zip(marked, "lr", strict=True))
    rows = left.join(right, F.expr(f"l.k = r.k AND {near}"), how)
    writer = rows.select("l.k", "at", "a", "seen", "b").writeStream.format("parquet")
    writer = writer.option("path", str(folder / "own"))
    writer = writer.option("checkpointLocation", str(folder / "own-checkpoint"))
    finish(writer.trigger(availableNow=True).start())
    return read_parquet(folder / "own")


@pytest.mark.slow
def test_a_watermark_loses_nothing_that_it_promises_to_keep(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Rows come up to eight seconds late: Spark joins them, and so do we, told nothing else."""
    batches = [[(i % 3, b * 3 + (i * 7 + b) % 12) for i in range(12)] for b in range(3)]
    streams = pair(tmp_path, [(rows, rows[::2]) for rows in batches])
    near = "seen BETWEEN at - INTERVAL 4 SECONDS AND at + INTERVAL 4 SECONDS"
    expected = sparks_own(spark, streams, tmp_path, near)
    ours = sk.join(*watermarked(spark, streams), "k", within="4 seconds")
    assert_same(read_parquet(run(ours, tmp_path / "ours")), expected)
    assert expected.total() > 50
    # Told that nothing is late, rows get lost: the streams are in disorder.
    strict = keyed_join(*(s.read(spark) for s in streams), late="0 seconds")
    assert read_parquet(run(strict, tmp_path / "strict")).total() < expected.total()


NEAR_5_S = "seen BETWEEN at - INTERVAL 5 SECONDS AND at + INTERVAL 5 SECONDS"


def one_by_one(
    spark: SparkSession,
    folder: Path,
    batches: Batches,
    near: str = NEAR_5_S,
    sides: Sequence[str] = BOTH,
    how: Any = "inner",
    **more: Any,
) -> tuple[set[int], set[int]]:
    """Keys that Spark and we tell of, with a pause after every batch in which Spark catches up with
    its watermark."""
    settings: dict[str, Any] = {"within": "5 seconds", "how": how} | more
    streams = pair(folder, batches[:1])
    for number in range(len(batches)):
        if number:
            for side, stream in enumerate(streams):
                rows = [batch[side] for batch in batches[: number + 1]]
                stream.add(keyed_tables(("left", "right")[side], rows)[-1])
        own = sparks_own(spark, streams, folder, near, how, sides)
        ours = run(sk.join(*watermarked(spark, streams, sides), "k", **settings), folder)
    return {row[0] for row in own}, {row[0] for row in read_parquet(ours)}


MOMENT = 0.000001


@pytest.mark.slow
def test_lateness_to_the_row(spark: SparkSession, tmp_path: Path) -> None:
    """The watermark is at 90 s: 100.0005 s in whole milliseconds, less the delay. A row of that
    very time is late for Spark, and not for us; all others are as for Spark."""
    late = [(1, 90 - MOMENT), (2, 90), (3, 90 + MOMENT), (4, 90.0003), (5, 90.0005), (6, 91)]
    first = [(0, 100.0005)]
    own, ours = one_by_one(spark, tmp_path, [(first, first), (late, [(k, 92) for k, _ in late])])
    assert own == {0, 3, 4, 5, 6}
    assert ours == own | {2}


@pytest.mark.slow
def test_without_a_pause_spark_is_a_batch_more_lenient(spark: SparkSession, tmp_path: Path) -> None:
    """It judges a batch by the watermark of the one before, as long as batches come without a
    pause. So it keeps a row that is 50 s late here, and drops it where there was a pause."""
    rows = [[(0, 100)], [(0, 200)], [(1, 150), (2, 195)]]
    streams = pair(tmp_path, [(batch, batch) for batch in rows])
    own = {row[0] for row in sparks_own(spark, streams, tmp_path, NEAR_5_S)}
    ours = sk.join(*watermarked(spark, streams), "k", within="5 seconds")
    assert own == {0, 1, 2}
    assert {row[0] for row in read_parquet(run(ours, tmp_path / "ours"))} == {0, 2}
    paused = one_by_one(spark, tmp_path / "paused", [(batch, batch) for batch in rows])
    assert paused == ({0, 2}, {0, 2})
    spark.conf.set("spark.sql.streaming.statefulOperator.allowMultiple", "false")
    try:
        strict = sparks_own(spark, streams, tmp_path / "strict", NEAR_5_S)
        assert {row[0] for row in strict} == {0, 2}
    finally:
        spark.conf.unset("spark.sql.streaming.statefulOperator.allowMultiple")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("within", "near", "how"),
    [
        (("2 seconds", sk.UNBOUNDED), "seen >= at + INTERVAL 2 SECONDS", "inner"),
        (("2 seconds", sk.UNBOUNDED), "seen >= at + INTERVAL 2 SECONDS", "right"),
        ((sk.UNBOUNDED, "2 seconds"), "seen <= at + INTERVAL 2 SECONDS", "inner"),
        ((sk.UNBOUNDED, "2 seconds"), "seen <= at + INTERVAL 2 SECONDS", "left"),
    ],
)
def test_half_open_bounds_give_what_sparks_do(
    spark: SparkSession, tmp_path: Path, within: Any, near: str, how: Any
) -> None:
    batches = [[(i % 5, b * 20 + i - (i * 7 + b) % 10) for i in range(9)] for b in range(3)]
    sides = [([*rows, (7 + b, b * 20)], rows[::2]) for b, rows in enumerate(batches)]
    closing = [(99, 1000.0)]
    streams = pair(tmp_path, [*sides, (closing, closing)])
    expected = sparks_own(spark, streams, tmp_path, near, how)
    ours = sk.join(*watermarked(spark, streams), "k", within=within, how=how)
    found = read_parquet(run(ours.select("k", "at", "a", "seen", "b"), tmp_path / "ours"))
    if how == "right":  # Spark's `l.k` is null where ours is the key of whichever row is there
        found = multiset((k if a is not None else None, t, a, *rest) for k, t, a, *rest in
                         found.elements())  # fmt: skip
    assert_same(without(found, 99), without(expected, 99))
    assert expected.total() > 20
    if how != "inner":
        assert any(None in row for row in expected)


def without(rows: Rows, key: int) -> Rows:
    """Rows but for those that close the streams."""
    far = at(1000).astimezone(UTC).replace(tzinfo=None)
    return multiset(r for r in rows.elements() if r[0] != key and far not in r)


@pytest.mark.slow
def test_a_side_without_a_watermark_is_never_late_for_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A row of 20 s on the right waits for one of 92 s. For us the right side has a lateness of 0
    seconds, and the watermark is at 90 s, unless it is given another."""
    batches: Batches = [([(0, 100)], [(0, 100)]), ([], [(1, 20)]), ([(1, 92)], [])]
    near = NEAR_5_S.replace("5 SECONDS", "100 SECONDS")
    more: dict[str, Any] = {"sides": ["at"], "within": "100 seconds", "right_time": "seen"}
    assert one_by_one(spark, tmp_path / "a", batches, near, **more) == ({0, 1}, {0})
    more["late"] = (None, "80 seconds")
    assert one_by_one(spark, tmp_path / "b", batches, near, **more) == ({0, 1}, {0, 1})


@pytest.mark.slow
def test_a_day_has_24_hours(spark: SparkSession, tmp_path: Path) -> None:
    """For Spark it ends at the same time by the clock, and clocks are put forward on March 31."""
    hour, noon = 3600, 29.5 * 24 * 3600
    batch = [(1, noon), (2, noon)], [(1, noon + 22.5 * hour), (2, noon + 23.5 * hour)]
    near = "seen BETWEEN at AND at + INTERVAL 1 DAY"
    for zone, own in (("Europe/Berlin", {1}), ("UTC", {1, 2})):
        with settings_of(spark, {"spark.sql.session.timeZone": zone}):
            found = one_by_one(spark, tmp_path / zone, [batch], near, within=("0 seconds", "1 day"))
        assert found == (own, {1, 2})


@pytest.mark.slow
def test_without_a_bound_late_rows_are_dropped_by_spark_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    # No empty batch catches up with the watermark, as there is no state that it could end.
    batches: Batches = [([(0, 100)], [(0, 100)])] * 2 + [([(1, 80)], [(1, 95)])]
    found = one_by_one(spark, tmp_path, batches, "true", within=sk.UNBOUNDED)
    assert found == ({0}, {0, 1})


@pytest.mark.slow
def test_of_two_watermarks_the_least_counts(spark: SparkSession, tmp_path: Path) -> None:
    batches: Batches = [([(0, 100)], [(0, 300)]), ([(1, 200)], [(1, 200)])]
    assert one_by_one(spark, tmp_path / "min", batches) == ({1}, {1})
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    try:
        assert one_by_one(spark, tmp_path / "max", batches) == (set(), {1})
    finally:
        spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")


@pytest.mark.slow
def test_unmatched_rows_are_told_once_the_watermark_is_past_their_bound(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The row of 95 s may meet one of 100 s. It is still open where the watermark is at 100 s, and
    over a millisecond later."""
    tick: Batches = [([(0, t)], [(0, t)]) for t in (95, 110, 110.001)]
    batches = [([(0, 95), (1, 95)], [(0, 95)]), *tick[1:]]
    assert one_by_one(spark, tmp_path / "at", batches[:2], how="left") == ({0}, {0})
    assert one_by_one(spark, tmp_path / "past", batches, how="left") == ({0, 1}, {0, 1})


@pytest.mark.slow
def test_windows_are_judged_by_their_end_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A row of 12 s is in the window up to 20 s: Spark joins it though the watermark is at 15 s.
    With the window's end as the time, and its length more of lateness, so do we."""
    batches: Batches = [([(0, 25)], [(0, 25)]), ([(1, 12), (2, 9.5)], [(1, 12), (2, 9.5)])]
    streams = pair(tmp_path, batches)

    def windows(frame: DataFrame, time: str) -> DataFrame:
        return frame.select("k", F.window(time, DELAY).alias("w")).withColumn("e", F.col("w.end"))

    left, right = watermarked(spark, streams)
    a, b = windows(left, "at"), windows(right, "seen")
    own: set[int] = set()

    def see(frame: DataFrame, batch: int) -> None:
        own.update(row[0] for row in frame.collect())

    both = a.alias("a").join(b.alias("b"), F.expr("a.k = b.k AND a.w = b.w")).select("a.k")
    checkpoint = str(tmp_path / "own")
    writer = both.writeStream.foreachBatch(see).option("checkpointLocation", checkpoint)
    finish(writer.trigger(availableNow=True).start())
    assert own == {0, 1, 2}, "without a pause, a batch more lenient"
    ours = sk.join(a.drop("w"), b.drop("w"), "k", time="e", within="0 seconds", late="20 seconds")
    assert {row[0] for row in read_parquet(run(ours, tmp_path / "ours"))} == {0, 1, 2}


# Losing rows is loud ----------------------------------------------------------------------------


def test_lost_rows_are_told_in_log_and_history(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    late = [(1, 140 + i) for i in range(3)]
    streams = pair(tmp_path, [([(0, 200)], [(0, 200)]), (late, late)])
    with caplog.at_level(logging.WARNING, "skewless"):
        run(keyed_join(*(s.read(spark) for s in streams)), tmp_path)
    [told] = [r.getMessage() for r in caplog.records if r.name == "skewless"]
    assert told.startswith("batch 1 loses rows: join: 6 of 6 rows (100.0%) were dropped: 6 late")
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert reports[0].late_needed_us is None
    needed = reports[1].late_needed_us
    assert needed is not None and 60_000_000 <= needed <= 67_500_000
    assert sum(reports[1].lateness.values()) == 6
    rows = reports.toDF(spark).select("late_needed_us", "lateness").collect()
    assert rows[1]["late_needed_us"] == needed and sum(rows[1]["lateness"].values()) == 6
