"""ORC files beside those that Spark writes of the same rows."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from skewless.files.orc_writing import _julian_days
from skewless.files.parts import NotAsSparkError
from skewless.files.writing import FileWriting, unsupported
from skewless.state.files import Folder
from tests.files import making
from tests.files.test_writing import writing_of
from tests.files.test_writing_parquet import both, endings, files_in, frame, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC = {"jvm_time_zone": "UTC"}
WHOLE = "date_trunc('second', {})"  # what is before 1970 and has parts of a second is Spark's


def whole(df: DataFrame) -> DataFrame:
    inner = WHOLE.format("v")
    df = df.withColumn("ma", F.expr(f"transform_values(ma, (k, v) -> {inner})"))
    return df.withColumn("m", F.expr(f"if(m < '1970-01-01', {WHOLE.format('m')}, m)"))


def assert_same(spark: SparkSession, df: DataFrame, at: Path) -> tuple[str, str]:
    """Rows, types and nullability, as Spark reads them."""
    theirs, ours = both(spark, df, at, "orc", **UTC)
    expected, found = spark.read.orc(theirs), spark.read.orc(ours)
    assert found.schema.jsonValue() == expected.schema.jsonValue()
    assert shown(found) == shown(expected)
    assert endings(theirs) == endings(ours)
    return theirs, ours


@pytest.mark.spark
@pytest.mark.parametrize("moments", ["timestamp", "timestamp_ntz"])
def test_spark_reads_the_same(spark: SparkSession, tmp_path: Path, moments: str) -> None:
    df = frame(spark, moments)
    assert_same(spark, whole(df) if moments == "timestamp" else df, tmp_path)


@pytest.mark.spark
@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", range(4))
def test_generated_rows(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    made, more = making.table(2000, seed), making.nested(2000, seed)
    for name in more.column_names:
        made = made.append_column(name, more[name])
    df = spark.createDataFrame(made, making.ddl(making.DDL | making.NESTED))
    df = df.withColumn("t", F.expr(f"if(t < '1970-01-01', {WHOLE.format('t')}, t)"))
    times = "transform_values(x.v, (k, l) -> transform(l, u -> timestamp_seconds(unix_micros(u))))"
    deep = f"transform(deep, x -> if(x is null, null, struct(x.k as k, {times} as v)))"
    df = df.withColumn("deep", F.expr(deep))
    assert_same(spark, df, tmp_path)


@pytest.mark.spark
@pytest.mark.slow
def test_old_days_and_times(spark: SparkSession, tmp_path: Path) -> None:
    """Every week before the Gregorian calendar, the days that it left out, and around 1970."""
    days = "explode(sequence(date'0001-01-01', date'1600-01-01', interval 7 days)) d"
    gap = "explode(sequence(date'1582-10-01', date'1582-10-20', interval 1 day)) d"
    df = spark.sql(f"select {days}").union(spark.sql(f"select {gap}"))
    df = df.selectExpr("d", "timestamp_micros(unix_date(d) * 86400000000L + 49530000000) m")
    parts = [0, 1, 999, 1000, 500_000, 999_000, 999_001, 999_999]
    near = [(second * 1_000_000 + part,) for second in range(9) for part in parts]
    near += [(second * 1_000_000,) for second in range(-9, 0)]
    times = spark.createDataFrame(near, "m long").selectExpr(
        "date'1970-01-01'", "timestamp_micros(m)"
    )
    df = df.union(times).coalesce(1)
    theirs, ours = assert_same(spark, df, tmp_path)
    for met in ("d < date'1500-03-01'", "m < timestamp'1582-10-15'", "m < timestamp'1970-01-01'"):
        counts = [spark.read.orc(folder).where(met).count() for folder in (theirs, ours)]
        assert counts[0] == counts[1] > 0


@pytest.mark.spark
def test_others_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Arrow, as it reads Spark's files: the same types, notes and values."""
    df = whole(frame(spark)).where("m is null or year(m) between 1700 and 2200")
    theirs, ours = assert_same(spark, df, tmp_path)
    a, b = (po.ORCFile(files_in(folder)[0]) for folder in (theirs, ours))
    assert a.schema.remove_metadata().equals(b.schema, check_metadata=True)
    assert list(map(repr, a.read().to_pylist())) == list(map(repr, b.read().to_pylist()))


@pytest.mark.spark
@pytest.mark.quick(1)
@pytest.mark.parametrize("codec", ["none", "uncompressed", "snappy", "zlib", "ZSTD", "lz4"])
def test_codecs_are_sparks(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    theirs, ours = both(
        spark, spark.range(9), tmp_path, "orc", options=(("Compression", codec),), **UTC
    )
    assert endings(theirs) == endings(ours)
    found = [po.ORCFile(files_in(folder)[0]).compression for folder in (theirs, ours)]
    assert found[0] == found[1]
    assert spark.read.orc(ours).count() == 9


@pytest.mark.spark
def test_the_codec_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    theirs, ours = both(spark, spark.range(9), tmp_path / "usual", "orc", **UTC)
    assert endings(theirs) == endings(ours)
    spark.conf.set("spark.sql.orc.compression.codec", "zlib")
    try:
        theirs, ours = both(spark, spark.range(9), tmp_path / "set", "orc", **UTC)
    finally:
        spark.conf.unset("spark.sql.orc.compression.codec")
    assert endings(theirs) == endings(ours) == {".zlib.orc"}


@pytest.mark.spark
def test_folders_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    df = whole(frame(spark)).where("t is null or t != '\\0\\u0001'")
    theirs, ours = both(spark, df, tmp_path, "orc", partition_by=("t", "da", "d9"), **UTC)
    names = [{str(p.parent.relative_to(f)) for p in files_in(f)} for f in (theirs, ours)]
    assert names[0] == names[1]
    expected, found = spark.read.orc(theirs), spark.read.orc(ours)
    assert found.schema.jsonValue() == expected.schema.jsonValue()
    assert shown(found) == shown(expected)


# Without Spark ------------------------------------------------------------------------------------


def julian(date: dt.date) -> int:
    """Days since 1970 of the date that the Julian calendar calls so, by the formula for Julian day
    numbers."""
    year, month = date.year, date.month
    number = 367 * year - 7 * (year + 5001 + int((month - 9) / 7)) // 4 + 275 * month // 9
    return number + date.day + 1_729_777 - 2_440_588


@given(st.lists(st.dates(dt.date(1, 1, 1), dt.date(1700, 1, 1))))
def test_julian_days(dates: list[dt.date]) -> None:
    first = dt.date(1582, 10, 15)
    epoch = dt.date(1970, 1, 1)
    expected = [
        (day - epoch).days if day >= first else min(julian(day), (first - epoch).days)
        for day in dates
    ]
    days = np.array([(day - epoch).days for day in dates], np.int32)
    assert _julian_days(days).tolist() == expected


def test_parts_of_old_seconds_are_left_to_spark(tmp_path: Path) -> None:
    """Wherever they are; nulls are no reason."""
    inner = pa.struct([("t", pa.list_(pa.timestamp("us", "UTC")))])
    schema = pa.schema([("s", inner)])
    spark_schema = from_arrow_schema(schema).json()
    writing = FileWriting("orc", schema, spark_schema, "4.3.0", jvm_time_zone="UTC")
    good = pa.record_batch({"s": pa.array([{"t": [0, None, -1_000_000, 1]}, None], inner)})
    [file] = writing.write([good], Folder(str(tmp_path)), "s", "p")
    assert file.rows == 2
    bad = pa.record_batch({"s": pa.array([None, {"t": [5, -1]}], inner)})
    with pytest.raises(NotAsSparkError, match="times before 1970"):
        writing.write([good, bad], Folder(str(tmp_path)), "t", "p")
    assert not any((tmp_path / "t").iterdir())


def test_files_are_full(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("text", pa.string())])
    batch = pa.record_batch({"k": range(5), "text": ["a", None, "b", "", "c"]}, schema)
    writing = writing_of(schema, "orc", options=(("maxRecordsPerFile", "2"),))
    files = writing.write([batch[:0], batch], Folder(str(tmp_path)), "s", "p")
    assert [file.name for file in files] == [f"p-c00{i}.zstd.orc" for i in range(3)]
    tables = [po.read_table(tmp_path / "s" / file.name) for file in files]
    assert [table.num_rows for table in tables] == [file.rows for file in files] == [2, 2, 1]
    assert pa.concat_tables(tables).to_pylist() == batch.to_pylist()


MOMENTS = pa.schema([("t", pa.timestamp("us", "UTC"))])
PLAIN = pa.schema([("v", pa.int64()), ("d", pa.date32())])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options": (("compression", "brotli"),)}, "the compression 'brotli'"),
        ({"options": (("orc.stripe.size", "1"),)}, "the option 'orc.stripe.size'"),
        ({"settings": (("spark.sql.orc.impl", "hive"),)}, "the setting spark.sql.orc.impl 'hive'"),
        ({"settings": (("spark.hadoop.orc.encrypt", "k:v"),)},
         "the setting spark.hadoop.orc.encrypt"),
        ({"schema": MOMENTS, "jvm_time_zone": "Europe/Berlin"},
         "times of machines whose clocks go by Europe/Berlin"),
        ({"schema": MOMENTS}, "times of machines whose clocks go by an unknown zone"),
    ],
)  # fmt: skip
def test_left_to_spark(changes: dict[str, Any], reason: str) -> None:
    assert unsupported(writing_of(**{"schema": PLAIN, "format": "orc", **changes})) == reason
    assert unsupported(writing_of(PLAIN, "orc")) is None
    assert unsupported(writing_of(MOMENTS, "orc", jvm_time_zone="Etc/UTC")) is None
