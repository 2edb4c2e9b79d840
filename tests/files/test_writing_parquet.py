"""Parquet files beside those that Spark writes of the same rows."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from skewless.files.writing import SETTINGS, FileWriting, unsupported
from skewless.state.files import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

MOMENTS = [
    "2024-03-31 01:30:00.123456",
    "1969-12-31 23:59:59.999999",
    "1900-01-01 00:00:00.000001",
    "1899-12-31 12:00:00",
    "1582-10-15 00:00:00",
    "1582-10-04 11:22:33.5",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
    None,
]
DATES = [text and text[:10] for text in MOMENTS]
TEXTS = ["", "a", 'q"u,o\\te', "ünï ☃ 🙂", " pad ", "new\nline\r\t", "null", "\x00\x01", None]
DOUBLES = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7e308, 0.1, None]


def frame(spark: SparkSession, moments: str = "timestamp") -> DataFrame:
    """Every type, with nulls and extremes, in nine rows."""
    rows = [
        (
            i,
            [127, -128, None][i % 3],
            [32767, -32768, None][i % 3],
            [2**31 - 1, -(2**31), None][i % 3],
            [2**63 - 1, -(2**63), None][i % 3],
            [True, False, None][i % 3],
            DOUBLES[i] if DOUBLES[i] is None or abs(DOUBLES[i]) != 1.7e308 else 3.4e38,
            DOUBLES[i],
            TEXTS[i],
            [b"", b"\xff\x00", None][i % 3],
            DATES[i] and dt.date.fromisoformat(DATES[i]),
            MOMENTS[i],
            [Decimal("9999999.99"), Decimal("-0.01"), None][i % 3],
            [Decimal("9e14"), Decimal("-999.999"), None][i % 3],
            [Decimal("9" * 28 + ".0123456789"), Decimal("0"), None][i % 3],
            [[1, None], [], None][i % 3],
            [{"k": MOMENTS[i]}, {}, None][i % 3],
            [([("x", 1.5), None], DATES[i]), (None, None), None][i % 3],
            dt.timedelta(days=i - 4, microseconds=7) if i else None,
        )
        for i in range(9)
    ]
    columns = (
        "id long not null, b byte, s short, i int, l long, bo boolean, f float, d double, "
        "t string, bi binary, da date, m string, d9 decimal(9,2), d18 decimal(18,3), "
        "d38 decimal(38,10), a array<int>, ma map<string, string>, "
        "n struct<x: array<struct<t: string, d: double>>, da: string>, iv interval day to second"
    )
    made = spark.createDataFrame(rows, columns)
    return made.selectExpr(
        *(f"`{name}`" for name in made.columns if name not in ("m", "ma", "n")),
        f"cast(m as {moments}) m",
        f"transform_values(ma, (k, v) -> cast(v as {moments})) ma",
        "struct(n.x, cast(n.da as date) da) n",
        "id as `odd name.x`",
    )


def writing_of(spark: SparkSession, df: DataFrame, format: str, **more: Any) -> FileWriting:
    from skewless.spark.plans import arrow_schema

    settings = ((name, spark.conf.get(name, None)) for name in SETTINGS)
    return FileWriting(
        format,
        arrow_schema(df.schema),
        df.schema.json(),
        spark.version,
        settings=tuple((name, value) for name, value in settings if value is not None),
        **more,
    )


def both(spark: SparkSession, df: DataFrame, at: Path, format: str, **more: Any) -> tuple[str, str]:
    """Folders that Spark and this package wrote."""
    theirs, ours = f"{at}/theirs", f"{at}/ours"
    writer = df.coalesce(1).write.format(format).options(**dict(more.get("options", ())))
    writer.partitionBy(*more.get("partition_by", ())).save(theirs)
    writing = writing_of(spark, df, format, **more)
    assert unsupported(writing) is None
    table = df.toArrow()
    writing.write(table.to_batches(4), Folder(str(at)), "ours", "part-00000-x")
    return theirs, ours


def files_in(folder: str) -> list[Path]:
    return sorted(path for path in Path(folder).rglob("part-*") if path.suffix != ".crc")


def endings(folder: str) -> set[str]:
    return {"".join(path.suffixes).replace(".c000", "") for path in files_in(folder)}


def shown(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.toArrow().to_pylist()))


def test_spark_reads_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Rows, types and nullability, and the types in the files of all kinds of timestamps."""
    for number, (kind, moments) in enumerate(
        [("INT96", "timestamp"), ("TIMESTAMP_MICROS", "timestamp"), ("INT96", "timestamp_ntz")]
    ):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        try:
            df = frame(spark, moments)
            theirs, ours = both(spark, df, tmp_path / str(number), "parquet")
        finally:
            spark.conf.unset("spark.sql.parquet.outputTimestampType")
        expected, found = spark.read.parquet(theirs), spark.read.parquet(ours)
        assert found.schema.jsonValue() == expected.schema.jsonValue()
        assert shown(found) == shown(expected)
        [a], [b] = files_in(theirs), files_in(ours)
        assert endings(theirs) == endings(ours)
        _assert_same_footer(pq.read_metadata(a), pq.read_metadata(b))


def _assert_same_footer(theirs: pq.FileMetaData, ours: pq.FileMetaData) -> None:
    import json

    assert set(ours.metadata) == set(theirs.metadata)
    for name, value in theirs.metadata.items():
        if b"row.metadata" in name:
            assert json.loads(ours.metadata[name]) == json.loads(value)
        else:
            assert ours.metadata[name] == value
    for i in range(len(theirs.schema)):
        a, b = theirs.schema.column(i), ours.schema.column(i)
        assert (a.path, a.physical_type, a.length, a.max_definition_level) == (
            b.path, b.physical_type, b.length, b.max_definition_level
        )  # fmt: skip
        assert str(a.logical_type) == str(b.logical_type)
        codecs = {m.row_group(0).column(i).compression for m in (theirs, ours)}
        assert len(codecs) == 1


def test_others_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Arrow and DuckDB, as they read Spark's files."""
    duckdb = pytest.importorskip("duckdb")
    theirs, ours = both(spark, frame(spark).drop("iv"), tmp_path, "parquet")
    a, b = (pq.read_table(path) for path in (theirs, ours))
    assert a.schema.equals(b.schema)
    assert list(map(repr, a.to_pylist())) == list(map(repr, b.to_pylist()))
    a, b = (duckdb.read_parquet(f"{path}/*.parquet").fetchall() for path in (theirs, ours))
    assert list(map(repr, a)) == list(map(repr, b))


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4_raw", "ZSTD"])
def test_codecs_are_sparks(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    options = (("Compression", codec),)
    theirs, ours = both(spark, spark.range(9), tmp_path, "parquet", options=options)
    assert endings(theirs) == endings(ours)
    found = [pq.read_metadata(files_in(f)[0]).row_group(0).column(0) for f in (theirs, ours)]
    assert found[0].compression == found[1].compression
    assert spark.read.parquet(ours).count() == 9


def test_folders_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    odd = [chr(i) for i in range(1, 129)] + ["", None, "ü☃", "a b", ".", "__HIVE"]
    df = frame(spark).where("t is null or t != '\\0\\u0001'")
    for keys in (["t", "b", "d9"], ["da", "bo", "m", "odd name.x"]):
        at = tmp_path / keys[0]
        _assert_same_folders(spark, df, at, tuple(keys))
    texts = spark.createDataFrame(list(zip(odd, range(999), strict=False)), "`k/: x` string, v int")
    _assert_same_folders(spark, texts, tmp_path, ("k/: x",))


def _assert_same_folders(
    spark: SparkSession, df: DataFrame, at: Path, keys: tuple[str, ...]
) -> None:
    theirs, ours = both(spark, df, at, "parquet", partition_by=keys)
    names = [{str(p.parent.relative_to(f)) for p in files_in(f)} for f in (theirs, ours)]
    assert names[0] == names[1]
    expected, found = spark.read.parquet(theirs), spark.read.parquet(ours)
    assert found.schema.jsonValue() == expected.schema.jsonValue()
    assert shown(found) == shown(expected)
