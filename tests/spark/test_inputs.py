"""What can be joined: payloads of every kind, odd sources, static inputs, silent sides."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import ColumnError
from tests.spark.support import (
    PATIENCE_S,
    TIMESTAMP,
    Oracle,
    assert_same,
    at,
    bound,
    file_stream,
    keyed_join,
    keyed_oracle,
    keyed_pair,
    keyed_tables,
    mixed,
    multiset,
    read_parquet,
    run,
)

PAYLOAD = {
    "numbers": pa.list_(pa.int32()),
    "texts": pa.list_(pa.string()),
    "times": pa.list_(TIMESTAMP),
    "point": pa.struct([("x", pa.float64()), ("y", pa.struct([("z", pa.string())]))]),
    "by_name": pa.map_(pa.string(), pa.int64()),
    "by_number": pa.map_(pa.int32(), TIMESTAMP),
    "rows": pa.list_(pa.struct([("n", pa.int64()), ("m", pa.decimal128(12, 3))])),
    "nothing": pa.string(),
}


def payload(i: int) -> dict[str, Any]:
    """The columns of a row, with nulls and empty values at every depth."""
    if i % 7 == 3:
        return dict.fromkeys(PAYLOAD)
    return {
        "numbers": [i, None, -i][: i % 4],
        "texts": ["", "ä€", None, "x" * i][: i % 5],
        "times": [at(i), None][: i % 3],
        "point": {"x": i / 2, "y": None if i % 3 else {"z": str(i)}},
        "by_name": [(f"k{j}", j if j % 2 else None) for j in range(i % 4)],
        "by_number": [(j, at(j)) for j in range(i % 3)],
        "rows": [{"n": j, "m": Decimal(j) / 8} for j in range(i % 3)],
        "nothing": None,
    }


def payload_tables(side: str) -> list[pa.Table]:
    name = {"left": "at", "right": "seen"}[side]
    schema = pa.schema([("k", pa.string()), (name, TIMESTAMP), *PAYLOAD.items()])
    return [
        pa.Table.from_pylist(
            [{"k": f"k{i % 3}", name: at(b * 5 + i % 5), **payload(i + b)} for i in range(15)],
            schema,
        )
        for b in range(2)
    ]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own, to be configured."""
    yield spark.newSession()


SETTINGS = {
    "plain": {},
    "time zone": {"spark.sql.session.timeZone": "America/St_Johns"},
    "large strings": {"spark.sql.execution.arrow.useLargeVarTypes": "true"},
    "small batches": {"spark.sql.execution.arrow.maxRecordsPerBatch": "7"},
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_payload(session: SparkSession, tmp_path: Path, settings: dict[str, str]) -> None:
    for key, value in settings.items():
        session.conf.set(key, value)
    left = file_stream(tmp_path / "left", payload_tables("left"))
    right = file_stream(tmp_path / "right", payload_tables("right"))
    joined = sk.join(
        left.read(session),
        right.read(session),
        "k",
        left_time="at",
        right_time="seen",
        within="3 seconds",
        late="10 seconds",
    )
    out = run(joined, tmp_path)
    oracle = Oracle(left.tables, right.tables)
    expected = oracle.join(f"l.k = r.k AND {bound(-3, 3)}", "l.*, r.* EXCLUDE (k)")
    assert expected.total() > 100
    assert_same(read_parquet(out), expected)
    assert session.read.parquet(str(out)).schema == joined.schema


@pytest.mark.slow
def test_state_outlives_a_change_of_time_zone(spark: SparkSession, tmp_path: Path) -> None:
    left = file_stream(tmp_path / "left", payload_tables("left"))
    right = file_stream(tmp_path / "right", payload_tables("right")[:1])
    for zone in ("Asia/Kolkata", "America/St_Johns"):
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        joined = sk.join(
            left.read(session),
            right.read(session),
            "k",
            left_time="at",
            right_time="seen",
            within="3 seconds",
            late="20 seconds",
        )
        out = run(joined, tmp_path)
        right.add(*payload_tables("right")[len(right.tables) :])
    oracle = Oracle(left.tables, right.tables)
    assert_same(
        read_parquet(out), oracle.join(f"l.k = r.k AND {bound(-3, 3)}", "l.*, r.* EXCLUDE (k)")
    )


@pytest.mark.slow
def test_keys_and_times_without_zone(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    left, right = keyed_pair(tmp_path, batches=2)

    def without_zone(frame: DataFrame, name: str) -> DataFrame:
        return frame.withColumn(name, F.col(name).cast("timestamp_ntz"))

    joined = keyed_join(
        without_zone(left.read(session), "at"), without_zone(right.read(session), "seen")
    )
    assert joined.schema["at"].dataType.simpleString() == "timestamp_ntz"
    expected = keyed_oracle(left, right)
    numbers = multiset((row[2], row[4]) for row in read_parquet(run(joined, tmp_path)).elements())
    assert_same(numbers, multiset((row[2], row[4]) for row in expected.elements()))


def test_keys_that_only_spark_makes(spark: SparkSession, tmp_path: Path) -> None:
    """Types that no parquet file of the oracle holds: intervals and times of day."""
    session = spark.newSession()
    session.conf.set("spark.sql.timeType.enabled", "true")
    left, right = keyed_pair(tmp_path, batches=2)
    for make in ("make_dt_interval(0, 0, 0, k)", "make_time(1, 2, k)"):
        a = left.read_static(session).withColumn("k", F.expr(make))
        b = right.read_static(session).withColumn("k", F.expr(make))
        numbers = keyed_join(a, b).toDF().select("a", "b").collect()
        expected = multiset((row[2], row[4]) for row in keyed_oracle(left, right).elements())
        assert_same(multiset(numbers), expected)


PASSENGERS = {
    "variant": "parse_json(to_json(struct(a, k)))",
    "day-time interval": "make_dt_interval(0, 0, 0, a)",
    "time of day": "make_time(1, 2, a % 60)",
    "timestamp without zone": "array(to_timestamp_ntz('2024-01-01 00:00:00'))",
    "char": "cast(a as char(10))",
    "void": "null",
    "binary in a map": "map(a, cast(cast(a as string) as binary))",
    "variant in an array": "array(parse_json(to_json(struct(a, k))), null)",
    "collated text": "cast(a as string) collate UTF8_LCASE",
    "decimal of 38 digits": "cast(a as decimal(38, 18)) / 3",
    "geometry": "st_geomfromwkb(x'0101000000000000000000F03F0000000000000040')",
    "odd names": "named_struct('a b', a, 'c.d', array(map(a, named_struct('', k))))",
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("expression", PASSENGERS.values(), ids=PASSENGERS.keys())
def test_passengers_that_only_spark_makes(
    spark: SparkSession, tmp_path: Path, expression: str
) -> None:
    """A column that is merely carried along arrives unchanged."""
    session = spark.newSession()
    session.conf.set("spark.sql.timeType.enabled", "true")
    left, right = keyed_pair(tmp_path, batches=1, rows=20)
    carrying = left.read_static(session).withColumn("load", F.expr(expression))
    wanted = {row["a"]: str(row["load"]) for row in carrying.collect()}
    found = keyed_join(carrying, right.read_static(session)).toDF().collect()
    assert found
    assert all(str(row["load"]) == wanted[row["a"]] for row in found)


LOADS = ["named_struct('n', 1, 'm', array(a))", "array(named_struct('n', 1))", "map('a', a)"]


@pytest.mark.parametrize("load", LOADS)
def test_few_rows_with_columns_that_hold_others(
    spark: SparkSession, tmp_path: Path, load: str
) -> None:
    """They are handed to PySpark at once: none at all, and nulls in place of structs whose fields
    cannot be null."""
    left, right = (stream.read_static(spark) for stream in keyed_pair(tmp_path, 1, 20, 9))
    left, right = left.withColumn("p", F.expr(load)), right.withColumn("q", F.expr("array(b)"))
    assert keyed_join(left, right.where("k < 0")).toDF().collect() == []
    shown = ["a", "b", "to_json(struct(p, q)) as load"]
    found = keyed_join(left, right.where("k > 2"), how="full").toDF().selectExpr(*shown)
    near = F.expr(f"l.k = r.k AND r.k > 2 AND {bound_of_spark(4)}")
    expected = left.alias("l").join(right.where("k > 2").alias("r"), near, "full")
    rows = multiset(expected.selectExpr(*shown).collect())
    assert any(None in row for row in rows)
    assert_same(multiset(found.collect()), rows)


def bound_of_spark(seconds: int) -> str:
    return f"abs(unix_micros(at) - unix_micros(seen)) <= {seconds * 1_000_000}"


@pytest.mark.parametrize(
    ("expression", "kind"),
    [("make_ym_interval(1, k)", "interval year to month"), ("make_interval(1, k)", "interval")],
)
def test_what_arrow_cannot_hold_is_refused(
    spark: SparkSession, tmp_path: Path, expression: str, kind: str
) -> None:
    left, right = keyed_pair(tmp_path, batches=1, rows=2)
    carrying = left.read_static(spark).withColumn("load", F.expr(expression))
    with pytest.raises(ColumnError, match=rf"`left`.*load \({kind}\)"):
        keyed_join(carrying, right.read_static(spark))


def test_static_inputs(spark: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path)
    joined = keyed_join(
        left.read_static(spark), right.read_static(spark), where="a > 3", late="0 seconds"
    )
    assert not joined.isStreaming
    result = joined.toDF(str(tmp_path / "work"))
    assert result.schema == joined.schema
    oracle = Oracle(left.tables, right.tables)
    expected = oracle.join(f"l.k = r.k AND {bound(-4, 4)} AND l.a > 3", "l.*, r.* EXCLUDE (k)")
    again = joined.toDF(str(tmp_path / "work"))
    for frame in (result, again, result):
        assert_same(multiset(r.values() for r in frame.toArrow().to_pylist()), expected)


def test_static_inputs_without_rows(spark: SparkSession) -> None:
    nothing = spark.createDataFrame([], "k long, at timestamp")
    one = spark.createDataFrame([(1, at(0))], "k long, seen timestamp")
    assert keyed_join(nothing, one).toDF().collect() == []
    assert keyed_join(nothing, nothing.withColumnRenamed("at", "seen")).toDF().collect() == []


@pytest.mark.parametrize("streaming", [True, False])
def test_self_join(spark: SparkSession, tmp_path: Path, streaming: bool) -> None:
    tables = keyed_tables("left", [mixed(b, 30, 4, 1) for b in range(3)])
    source = file_stream(tmp_path / "source", tables)
    frame = source.read(spark) if streaming else source.read_static(spark)
    joined = sk.join(
        frame,
        frame,
        "k",
        left_time="at",
        right_time="at",
        within=("0 seconds", "4 seconds"),
        late="10 seconds",
        where="a <> a_right",
    )
    assert joined.columns == ["k", "at", "a", "at_right", "a_right"]
    if streaming:
        found = read_parquet(run(joined, tmp_path))
    else:
        found = multiset(tuple(row) for row in joined.toDF().collect())
        found = multiset((k, _utc(t), a, _utc(u), b) for k, t, a, u, b in found.elements())
    condition = f"l.k = r.k AND {bound(0, 4, 'l.at', 'r.at')} AND l.a <> r.a"
    assert_same(found, Oracle(tables, tables).join(condition, "l.*, r.* EXCLUDE (k)"))


def _utc(local: Any) -> Any:
    """Python shows a collected timestamp in the time zone of the process."""
    return at(0).fromtimestamp(local.timestamp(), tz=at(0).tzinfo).replace(tzinfo=None)


def test_silent_side_and_empty_batches(spark: SparkSession, tmp_path: Path) -> None:
    """While one side is silent nothing expires; rows without partners harm nobody."""
    left = [mixed(b, 20, 4, 1) if b not in (2, 5) else [] for b in range(9)]
    right: list[list[tuple[int, float]]] = [[] for _ in range(7)]
    right += [mixed(0, 30, 4, 2), mixed(8, 30, 4, 2)]
    a = file_stream(tmp_path / "left", keyed_tables("left", left))
    b = file_stream(tmp_path / "right", keyed_tables("right", right))
    joined = keyed_join(a.read(spark), b.read(spark), late=("0 seconds", "80 seconds"))
    oracle = Oracle(a.tables, b.tables, (0, 80))
    expected = oracle.join(f"l.k = r.k AND {bound(-4, 4)}", "l.*, r.* EXCLUDE (k)")
    assert any(row[1] < at(10).replace(tzinfo=None) for row in expected)
    assert_same(read_parquet(run(joined, tmp_path)), expected)
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert [r.rows_left for r in reports] == [len(rows) for rows in left]
    assert reports[2].rows_left == reports[2].rows_right == 0
    assert reports[6].watermark_us is None


def test_no_rows_at_all(spark: SparkSession, tmp_path: Path) -> None:
    left = file_stream(tmp_path / "left", keyed_tables("left", [[]]))
    right = file_stream(tmp_path / "right", keyed_tables("right", [[]]))
    joined = keyed_join(left.read(spark), right.read(spark))
    out = run(joined, tmp_path)
    assert spark.read.parquet(str(out)).count() == 0
    (report,) = sk.history(str(tmp_path / "checkpoint"))
    assert (report.rows_left, report.matches, report.state_rows) == (0, 0, 0)


def test_rate_source(spark: SparkSession, tmp_path: Path) -> None:
    """A source without end, stopped at any batch: the output is that of the committed batches."""
    rows, advance_ms = 20, 5000
    source = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=rows, advanceMillisPerBatch=advance_ms, numPartitions=3)
        .option("startTimestamp", 1_700_000_000_000)
        .load()
        .withColumn("k", F.col("value") % 5)
    )
    joined = sk.join(
        source,
        source.withColumnRenamed("value", "other"),
        "k",
        left_time="timestamp",
        right_time="timestamp",
        within=("-6 seconds", "0 seconds"),
    )
    writer = joined.writeStream.format("parquet").trigger(processingTime="0 seconds")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start(str(tmp_path / "out"))
    deadline = time.monotonic() + PATIENCE_S
    while len(sk.history(str(tmp_path / "checkpoint"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    query.stop()
    done = 3
    found = read_parquet(tmp_path / "out")
    pairs = {(row[1], row[4]) for row in found}
    assert len(pairs) == found.total()
    early = {(a, b) for a, b in pairs if a < done * rows and b < done * rows}
    assert early == {
        (a, b)
        for a in range(done * rows)
        for b in range(done * rows)
        if a % 5 == b % 5 and 0 <= a // rows - b // rows <= 1
    }


def test_inputs_with_state_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """Duplicates are dropped by Spark before the join, and two streams make one input."""
    left, right = keyed_pair(tmp_path, batches=3)
    more = file_stream(tmp_path / "more", left.tables)
    twice = left.read(spark).unionByName(more.read(spark)).withWatermark("at", "1 minute")
    joined = keyed_join(
        twice.dropDuplicates(["a", "at"]), right.read(spark), late=timedelta(minutes=1)
    )
    assert_same(read_parquet(run(joined, tmp_path)), keyed_oracle(left, right))


@pytest.mark.slow
def test_inputs_made_by_python(spark: SparkSession, tmp_path: Path) -> None:
    """Python before the join, too: workers are chained."""
    left, right = keyed_pair(tmp_path, batches=2)
    plus_one = F.udf(lambda number: number + 1, "long")
    joined = keyed_join(
        left.read(spark).withColumn("k", plus_one("k")),
        right.read(spark).withColumn("k", plus_one("k")).where("b >= 0"),
    ).selectExpr("k - 1 AS k", "at", "a", "seen", "b")
    assert_same(read_parquet(run(joined, tmp_path)), keyed_oracle(left, right))


@pytest.mark.quick(2)
def test_a_column_that_only_spark_has_is_dropped_before(session: SparkSession) -> None:
    """As the error at the call advises; what Spark does with it before is Spark's own affair."""
    years = session.sql("SELECT 1L k, timestamp'2024-03-01' at, interval '2' year yi")
    with pytest.raises(ColumnError, match="drop it or cast it"):
        sk.join(years, years, "k", time="at", within="1 minute")
    for plain in (years.drop("yi"), years.withColumn("yi", F.col("yi").cast("string"))):
        joined = sk.join(plain, years.drop("yi"), "k", time="at", within="1 minute")
        shown = joined.withColumn("two", F.expr("interval '2' year")).where("two > interval 1 year")
        assert len(shown.drop("two").dataframe().collect()) == 1
