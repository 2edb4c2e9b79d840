"""`sk.join3` on real streams, compared with Spark's own joins and with DuckDB on the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from tests.spark.support import (
    TIMESTAMP,
    FileStream,
    Rows,
    assert_same,
    at,
    bound,
    duck,
    file_stream,
    finish,
    mixed,
    multiset,
    read_parquet,
    run,
)

SCHEMAS = {
    "r": pa.schema([("k", pa.int64()), ("x", pa.float64()), ("at", TIMESTAMP), ("a", pa.int64())]),
    "s": pa.schema(
        [("k", pa.int32()), ("m", pa.int64()), ("x", pa.float64()), ("seen", TIMESTAMP),
         ("b", pa.int64())]
    ),
    "t": pa.schema(
        [("m", pa.int64()), ("x", pa.float64()), ("done", TIMESTAMP), ("c", pa.int64()),
         ("tags", pa.list_(pa.string()))]
    ),
}  # fmt: skip
TIMES = ("at", "seen", "done")
CHAIN = (sk.equal("r.k", "s.k"), sk.equal("t.m", "s.m"))
CHAIN_COLUMNS = ["k", "x_r", "at", "a", "m", "x_s", "seen", "b", "x_t", "done", "c", "tags"]
CHAIN_SQL = "r.k, r.x, r.at, r.a, s.m, s.x, s.seen, s.b, t.x, t.done, t.c, t.tags"
TABLES = tuple[list[pa.Table], list[pa.Table], list[pa.Table]]
Streams = tuple[FileStream, FileStream, FileStream]
Values = tuple[Any, Any, float | None, float | None]  # two keys, a number, seconds


def table(stream: str, rows: Iterable[Values]) -> pa.Table:
    """Rows of (k, m, x, seconds), numbered, with the columns that the stream has."""
    schema = SCHEMAS[stream]
    number = {"r": "a", "s": "b", "t": "c"}[stream]
    time = TIMES["rst".index(stream)]
    return pa.Table.from_pylist(
        [
            {"k": k, "m": m, "x": x, number: i, time: None if t is None else at(t),
             "tags": ["even", None][: i % 3]}
            for i, (k, m, x, t) in enumerate(rows)
        ],
        schema,
    )  # fmt: skip


def some_batches(count: int = 3, rows: int = 24) -> TABLES:
    """Batches of ten seconds; keys k and m of four and three values, x in quarters up to five."""
    made: list[list[pa.Table]] = [[], [], []]
    for salt, stream in enumerate("rst"):
        for number in range(count):
            keyed = mixed(number, rows, 4, salt + 1)
            values = [(k, (i * 5 + k) % 3, i * 7 % 20 / 4, t) for i, (k, t) in enumerate(keyed)]
            made[salt].append(table(stream, values))
    return made[0], made[1], made[2]


def streams_of(folder: Path, tables: TABLES, batches: int | None = None) -> Streams:
    r, s, t = (file_stream(folder / n, ts[:batches])
               for n, ts in zip("rst", tables, strict=True))  # fmt: skip
    return r, s, t


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Streams:
    return streams_of(tmp_path_factory.mktemp("join3"), some_batches())


def join3(spark: SparkSession, streams: Streams, **more: Any) -> sk.Joined3:
    settings: dict[str, Any] = {"on": CHAIN, "times": TIMES, "within": "4 seconds"}
    settings |= {"late": "10 seconds", "instances": 3} | more
    return sk.join3(*(stream.read(spark) for stream in streams), **settings)


def oracle(tables: Sequence[Sequence[pa.Table]], where: str, select: str = CHAIN_SQL) -> Rows:
    """DuckDB's answer; `batch` is the number of the batch in which a row arrived."""
    connection = duck()
    for name, parts in zip("rst", tables, strict=True):
        numbered = [
            part.append_column("batch", pa.array([i] * len(part), pa.int64()))
            for i, part in enumerate(parts)
        ]
        connection.register(name, pa.concat_tables(numbered))
    return multiset(connection.execute(f"SELECT {select} FROM r, s, t WHERE {where}").fetchall())


CHAIN_WHERE = " AND ".join(
    ["r.k = s.k", "s.m = t.m", bound(-4, 4, "r.at", "s.seen"), bound(-4, 4, "s.seen", "t.done")]
)


def chain_oracle(tables: Sequence[Sequence[pa.Table]], more: str = "true") -> Rows:
    found = oracle(tables, f"{CHAIN_WHERE} AND {more}")
    assert found.total() > 50
    return found


def history(folder: Path) -> sk.History:
    return sk.history(str(folder / "checkpoint"))


# Streams ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_spark(
    spark: SparkSession, streams: Streams, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    """Spark's own two stream-stream joins, one after the other. Without watermarks: no row is late,
    and two event times behind one another are more than it accepts."""
    frames = [
        stream.read(spark).withColumnRenamed("x", f"x_{name}")
        for stream, name in zip(streams, "rst", strict=True)
    ]
    s, t = frames[1].withColumnRenamed("k", "s_k"), frames[2].withColumnRenamed("m", "t_m")
    near = "BETWEEN {0} - INTERVAL 4 SECONDS AND {0} + INTERVAL 4 SECONDS"
    pairs = frames[0].join(s, F.expr(f"k = s_k AND seen {near.format('at')}"))
    triples = pairs.join(t, F.expr(f"m = t_m AND done {near.format('seen')}"))
    folder = tmp_path_factory.mktemp("native")
    writer = triples.select(*CHAIN_COLUMNS).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    finish(writer.trigger(availableNow=True).start(str(folder / "out")))
    return spark.read.parquet(str(folder / "out"))


STRATEGIES = ("auto", sk.TriJoin(), sk.TriJoin(packing=False), sk.Tree(), sk.Tree(("t", "s", "r")))


@pytest.mark.quick(1)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_a_chain_equals_sparks_two_joins(
    spark: SparkSession, tmp_path: Path, streams: Streams, by_spark: DataFrame, strategy: Any
) -> None:
    joined = join3(spark, streams, strategy=strategy)
    assert joined.columns == CHAIN_COLUMNS
    out = run(joined, tmp_path)
    expected = multiset(by_spark.collect())
    assert expected.total() > 50
    found = spark.read.parquet(str(out))
    assert_same(multiset(found.collect()), expected)
    assert [f.dataType for f in found.schema] == [f.dataType for f in by_spark.schema]
    reports = history(tmp_path)
    assert sum(r.matches for r in reports) == expected.total()
    # In three batches "auto" cannot know yet whether it pays to keep any.
    assert [bool(r.intermediates) for r in reports] == [strategy != "auto"] * 3
    pairs = ["pairs"] if isinstance(strategy, sk.Tree) else []
    assert list(reports[0].phases_ms) == ["ingest", "plan", *pairs, "join and write"]


CYCLE = (sk.band("r.x", "s.x", 0.5), sk.band("t.x", "s.x", 1), sk.equal("r.k", "t.m"))
CYCLE_WITHIN = {"rs": ("-1 second", "6 seconds"), "st": "3 seconds",
                "rt": ("-2 seconds", "5 seconds")}  # fmt: skip
CYCLE_WHERE = " AND ".join(
    ["abs(r.x - s.x) <= 0.5", "abs(s.x - t.x) <= 1", "r.k = t.m",
     bound(-1, 6, "r.at", "s.seen"), bound(-3, 3, "s.seen", "t.done"),
     bound(-2, 5, "r.at", "t.done")]
)  # fmt: skip


@pytest.mark.parametrize("strategy", ["auto", sk.TriJoin()], ids=repr)
def test_a_cycle_with_bands_equals_duckdb(
    spark: SparkSession, streams: Streams, strategy: Any
) -> None:
    """Through a view in memory, with bounds of its own for each pair, and steps behind."""
    joined = join3(spark, streams, on=CYCLE, within=CYCLE_WITHIN, strategy=strategy, where="c > 2")
    assert joined.columns[4:6] == ["k_s", "m_s"]
    shaped = joined.where("a <> b").select("a", F.col("b").alias("second"), "c", "x_t")
    assert shaped.columns == ["a", "second", "c", "x_t"]
    name = f"triples_{type(strategy).__name__}"
    finish(shaped.writeStream.format("memory").queryName(name).trigger(availableNow=True).start())
    tables = [stream.tables for stream in streams]
    expected = oracle(tables, f"{CYCLE_WHERE} AND c > 2 AND a <> b", "r.a, s.b, t.c, t.x")
    assert expected.total() > 20
    assert_same(multiset(spark.table(name).collect()), expected)


@pytest.mark.quick(1)
@pytest.mark.parametrize("first", ["nothing", "one row"])
def test_foreach_batch_may_read_what_it_likes(
    spark: SparkSession, tmp_path: Path, streams: Streams, first: str
) -> None:
    """Nothing, one row, or everything twice: packs are kept all the same, and later batches find
    all their triples."""
    taken: dict[int, Rows] = {}

    def take(rows: DataFrame, batch_id: int) -> None:
        if batch_id == 0 and first == "one row":
            assert len(rows.limit(1).collect()) == 1
        elif batch_id > 0:
            taken[batch_id] = multiset(rows.collect())
            assert taken[batch_id] == multiset(rows.collect())

    writer = join3(spark, streams, strategy=sk.TriJoin()).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.trigger(availableNow=True).start())
    tables = [stream.tables for stream in streams]
    matches = []
    for number in range(3):
        expected = chain_oracle(tables, f"greatest(r.batch, s.batch, t.batch) = {number}")
        matches.append(expected.total())
        if number:
            assert_same(taken[number], expected)
    assert [r.matches for r in history(tmp_path)] == matches


@pytest.mark.slow
@pytest.mark.usefixtures("early_compaction")
@pytest.mark.parametrize("strategy", [sk.TriJoin(), sk.Tree()], ids=repr)
def test_restarts_with_other_instances(spark: SparkSession, tmp_path: Path, strategy: Any) -> None:
    tables = some_batches(4)
    streams = streams_of(tmp_path, tables, 2)
    for instances in (4, 1):
        if instances == 1:
            for stream, more in zip(streams, tables, strict=True):
                stream.add(*more[2:])
        out = run(join3(spark, streams, strategy=strategy, instances=instances), tmp_path)
        assert len(history(tmp_path)[-1].instances) == instances
    assert_same(read_parquet(out), chain_oracle(tables))


# Rows that can be in no triple -----------------------------------------------------------------

BAND_CHAIN = (sk.equal("r.k", "s.k"), sk.band("s.x", "t.x", 0.5))


def test_rows_that_can_match_nothing_are_dropped_and_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    nan = float("nan")
    tables: TABLES = (
        [table("r", [(1, 0, nan, 10), (None, 0, 1.0, 10), (2, 0, 1.0, 11)]),
         table("r", [(1, 0, 1.0, 2), (1, 0, 1.0, 12), (None, 0, 1.0, 2)])],
        [table("s", [(1, None, 1.0, 11), (1, 0, nan, 11), (None, 0, nan, 11), (2, 0, 9.0, 10)]),
         table("s", [(1, 0, 1.5, 9.9), (1, 0, 1.5, 10)])],
        [table("t", [(None, None, 1.5, 10), (0, 0, nan, 10)]),
         table("t", [(0, 0, 1.5, 9), (0, 0, 1.25, 12), (0, 0, None, 12)])],
    )  # fmt: skip
    streams = streams_of(tmp_path, tables)
    joined = join3(spark, streams, on=BAND_CHAIN, late="0 seconds")
    out = run(joined.select("a", "b", "c"), tmp_path)
    # The watermark of the second batch is 10: t has come no further in the first.
    late = "(r.batch = 0 OR r.a <> 0) AND (s.batch = 0 OR s.b <> 0) AND (t.batch = 0 OR t.c <> 0)"
    expected = oracle(
        tables,
        f"r.k = s.k AND abs(s.x - t.x) <= 0.5 AND NOT isnan(s.x) AND NOT isnan(t.x) AND {late}",
        "r.a, s.b, t.c",
    )
    assert expected.total() == 8
    assert_same(read_parquet(out), expected)
    first, second = history(tmp_path)
    assert (first.rows_left, first.rows_right, first.rows_third) == (3, 4, 2)
    assert (first.null_keys, first.nan_bands, first.null_times, first.late) == (2, 2, 0, 0)
    assert (second.rows_left, second.rows_right, second.rows_third) == (3, 2, 3)
    assert (second.null_keys, second.nan_bands, second.null_times, second.late) == (2, 0, 0, 3)
    assert second.watermark_us == round(at(10).timestamp() * 1_000_000)


def test_rows_without_event_time(spark: SparkSession, tmp_path: Path) -> None:
    tables: TABLES = (
        [table("r", [(1, 0, 1.0, 0)])],
        [table("s", [(1, 0, 1.0, 0), (1, 0, 1.0, None)])],
        [table("t", [(1, 0, 1.0, 0)])],
    )
    streams = streams_of(tmp_path, tables)
    told = r"1 row of the input s without event time \(column 'seen' is null\)"
    with pytest.raises(StreamingQueryException, match=told):
        run(join3(spark, streams), tmp_path)
    out = run(join3(spark, streams, on_null_time="drop").select("a", "b", "c"), tmp_path)
    assert_same(read_parquet(out), multiset([(0, 0, 0)]))
    (report,) = history(tmp_path)
    assert (report.rows_right, report.null_times, report.matches) == (2, 1, 1)


# What a query tells ----------------------------------------------------------------------------


@pytest.mark.slow
def test_history(spark: SparkSession, tmp_path: Path) -> None:
    """One key has most rows of r and s; few rows of s find one of t."""
    tables: TABLES = ([], [], [])
    for number in range(6):
        times = [number * 10 + i / 20 for i in range(200)]
        tables[0].append(table("r", [(7 if i % 4 else i, 0, 0.0, t) for i, t in enumerate(times)]))
        hot = [(7 if i % 4 else -i, i, 0.0, t) for i, t in enumerate(times)]
        tables[1].append(table("s", hot))
        tables[2].append(table("t", [(0, 3, 0.0, t) for t in times[:10]]))
    streams = streams_of(tmp_path, tables)
    run(join3(spark, streams), tmp_path)
    reports = history(tmp_path)
    expected = [
        oracle(tables, f"{CHAIN_WHERE} AND greatest(r.batch, s.batch, t.batch) = {number}").total()
        for number in range(6)
    ]
    assert expected[0] > 0
    assert [r.matches for r in reports] == expected
    for report in reports:
        assert (report.rows_left, report.rows_right, report.rows_third) == (200, 200, 10)
        assert report.intermediates == 0
        loads = [load.rows for load in report.instances]
        assert sum(loads) == 410, "every row is sent to one instance"
        assert max(loads) - min(loads) <= 6, "the hot key's rows are dealt out"
        times_ms = [load.time_ms for load in report.instances]
        assert report.busiest_over_mean == pytest.approx(max(times_ms) * 3 / sum(times_ms))
    decision = next(d for r in reports for d in r.decisions)
    assert (decision.kind, decision.subject, decision.accepted) == ("route", "new rows of s", True)
    assert decision.target == "t, then r by its condition with s"
    assert "candidates per new row, the next best way has" in decision.reason
    assert reports[0].decisions == (), "against an empty state every way is cheap"
    heavy = reports[0].heavy_keys[0]
    assert heavy.value == "rs 7"
    assert reports.toDF(spark).select("rows_third").collect()[0][0] == 10


# Static inputs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["auto", sk.TriJoin(), sk.Tree(("s", "t", "r"))], ids=repr)
def test_static_inputs(spark: SparkSession, streams: Streams, strategy: Any) -> None:
    frames = [stream.read_static(spark) for stream in streams]
    joined = sk.join3(
        *frames, CHAIN, times=TIMES, within="4 seconds", where="x_r < 3", strategy=strategy,
        suffixes=("_r", "_mid", ""), instances=2,
    )  # fmt: skip
    names = {"x_s": "x_mid", "x_t": "x"}
    assert joined.columns == [names.get(c, c) for c in CHAIN_COLUMNS]
    expected = chain_oracle([stream.tables for stream in streams], "r.x < 3")
    found = joined.toDF()
    assert found.columns == joined.columns
    assert_same(multiset(found.collect()), expected)
    assert str(joined).splitlines()[0].startswith("r ── ")
