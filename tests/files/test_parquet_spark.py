"""Parquet files of several writers, read here and by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless.errors import DataError
from skewless.files.reading import FileFormat
from tests.files.comparing import arrow_schema, assert_same, of_format, read_here, rows_of
from tests.files.making import DDL, NESTED, ddl, nested, table
from tests.spark.support import settings_of
from tests.versions import READS_SPLIT_STREAMS_IN_VECTORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Types are written as Spark writes them, which takes a session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
ALL = DDL | NESTED


def everything(rows: int, seed: int) -> pa.Table:
    made, more = table(rows, seed), nested(rows, seed + 1)
    for name in more.column_names:
        made = made.append_column(name, more[name])
    return made


def test_files_of_arrow(spark: SparkSession, tmp_path: Path) -> None:
    """Pages of both versions, with and without dictionaries, of all kinds of compression."""
    ways: list[dict[str, Any]] = [
        {"version": "1.0", "use_dictionary": False, "compression": "none"},
        {"version": "2.6", "data_page_version": "2.0", "compression": "zstd"},
        {"version": "2.4", "compression": "gzip", "store_decimal_as_integer": True},
        {"use_byte_stream_split": ["f32", "f64"], "use_dictionary": False},
        {"coerce_timestamps": "ms", "allow_truncated_timestamps": True, "compression": "lz4"},
    ]
    for seed, way in enumerate(ways):
        pq.write_table(everything(60, seed), tmp_path / f"{seed}.parquet", row_group_size=13, **way)
    in_vectors = str(READS_SPLIT_STREAMS_IN_VECTORS).lower()
    with settings_of(spark, {"spark.sql.parquet.enableVectorizedReader": in_vectors}):
        found = assert_same(spark, "parquet", tmp_path, ddl(ALL))
    assert len(found) == 300


def test_files_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    made = everything(80, 7)
    pq.write_table(made, tmp_path / "source.parquet")
    frame = spark.read.schema(ddl(ALL)).parquet(str(tmp_path / "source.parquet"))
    for kind in ("INT96", "TIMESTAMP_MILLIS", "TIMESTAMP_MICROS"):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        frame.coalesce(1).write.parquet(str(tmp_path / "spark" / kind))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    frame.coalesce(1).write.option("compression", "zstd").parquet(str(tmp_path / "spark" / "old"))
    spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
    for path in sorted((tmp_path / "spark").iterdir()):
        assert len(assert_same(spark, "parquet", path, ddl(ALL))) == 80


def test_files_of_duckdb_and_polars(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    source = str(tmp_path / "source.parquet")
    pq.write_table(everything(50, 3), source)
    duckdb.sql(f"COPY (FROM '{source}') TO '{folder}/duck.parquet' (FORMAT parquet)")
    found = assert_same(spark, "parquet", folder, ddl(ALL))
    assert len(found) == 50
    pl.from_arrow(table(50, 4)).write_parquet(folder / "duck.parquet")
    assert len(assert_same(spark, "parquet", folder, ddl(DDL))) == 50


WIDER = [
    (pa.int8(), [1, -128], "tinyint smallint int bigint double decimal(10,0) decimal(12,2)"),
    (pa.int16(), [1, -32768, 200], "tinyint smallint int bigint double decimal(10,0)"),
    (pa.int32(), [1, -(2**31), 300], "tinyint smallint int bigint double decimal(38,10)"),
    (pa.int64(), [1, -(2**63), 2**40], "bigint decimal(20,0) decimal(38,10)"),
    (pa.uint8(), [1, 255], "tinyint smallint int bigint double"),
    (pa.uint16(), [1, 65535], "tinyint smallint int bigint double"),
    (pa.uint32(), [1, 2**32 - 1], "bigint"),
    (pa.uint64(), [1, 2**64 - 1], "decimal(20,0)"),
    (pa.float32(), [0.1, float("nan")], "float double"),
    (pa.string(), ["a", ""], "string binary"),
    (pa.large_string(), ["a", ""], "string binary"),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b"], "string binary"),
    (pa.binary(), [b"a", b""], "string binary"),
    (pa.binary(3), [b"abc", b"\0\0\0"], "binary"),
    (pa.date32(), [0, -700_000, 20_000], "date timestamp_ntz"),
    (pa.timestamp("s"), [0, -5, 99], "timestamp timestamp_ntz"),
    (pa.timestamp("ms"), [1, -5, 10**12], "timestamp timestamp_ntz"),
    (pa.timestamp("us"), [1, -5, -(10**16)], "timestamp timestamp_ntz"),
    (pa.timestamp("ms", "Asia/Tokyo"), [1, -5], "timestamp timestamp_ntz"),
    (pa.timestamp("us", "UTC"), [1, -5], "timestamp timestamp_ntz"),
    (pa.decimal128(5, 2), [1, -2], "decimal(5,2) decimal(7,2) decimal(7,4) decimal(38,10)"),
    (pa.decimal128(20, 2), [1, -2], "decimal(20,2) decimal(22,4)"),
    (pa.null(), [None], "tinyint smallint int bigint double"),
    (pa.list_(pa.int32()), [[1, None], []], "array<int> array<bigint>"),
    (pa.large_list(pa.int32()), [[1, None], []], "array<int> array<double>"),
    (pa.list_(pa.int32(), 2), [[1, None], [3, 4]], "array<int>"),
    (
        pa.struct([("a", pa.int32()), ("B", pa.string())]),
        [{"a": 1, "B": "x"}, {"a": None, "B": None}],
        "struct<a:bigint,z:string> struct<b:string> struct<z:int> struct<b:string,a:int>",
    ),
    (pa.map_(pa.string(), pa.int32()), [[("k", 1)], []], "map<string,bigint> map<binary,int>"),
]


def test_types_that_spark_reads_as_others(spark: SparkSession, tmp_path: Path) -> None:
    columns, declared = {}, {}
    for type, values, names in WIDER:
        own = pa.array([*values, None, None, None][:4], type)
        for name in names.split():
            column = f"c{len(columns)}"
            columns[column], declared[column] = own, name
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert len(assert_same(spark, "parquet", tmp_path, ddl(declared))) == 4


def test_another_zone(spark: SparkSession, tmp_path: Path) -> None:
    """Times are as they are stored, whatever the zone of the session. Those in folders are not."""
    folder = tmp_path / "p=2024-03-10 02%3A30%3A00/q=2024-11-03 01%3A30%3A00/r=2024-01-01"
    folder.mkdir(parents=True)
    kinds = [pa.timestamp(unit, tz) for unit in ("ms", "us") for tz in (None, "UTC")]
    made = {
        f"{way}{i}": pa.array([0, -5, 10**12], kind) for way in "tn" for i, kind in enumerate(kinds)
    }
    pq.write_table(pa.table(made | {"n4": pa.array([1, 2, 3], pa.date32())}), folder / "a.parquet")
    declared = {name: "timestamp" if name[0] == "t" else "timestamp_ntz" for name in [*made, "n4"]}
    declared |= {"p": "timestamp", "q": "timestamp", "r": "timestamp_ntz"}
    zone = "America/New_York"
    form = of_format("parquet", tmp_path, ddl(declared), time_zone=zone)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        expected = spark.read.schema(ddl(declared)).parquet(str(tmp_path)).toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    found = read_here(form, tmp_path)
    assert rows_of(found) == rows_of(expected.select(found.column_names).cast(form.schema))


def test_times_in_96_bits(spark: SparkSession, tmp_path: Path) -> None:
    ns = pa.array([0, 1, 999, -1, -1001, 2**62, -(2**62), None], pa.timestamp("ns"))
    made = pa.table({"a": ns, "b": ns})
    pq.write_table(made, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert_same(spark, "parquet", tmp_path, "a timestamp, b timestamp_ntz")


UNFIT = [
    (pa.int64(), 1, "int double float string timestamp decimal(19,0) decimal(21,2) boolean"),
    (pa.int32(), 1, "float string boolean decimal(9,0) decimal(11,2) timestamp"),
    (pa.uint32(), 1, "int decimal(10,0) string"),
    (pa.uint64(), 1, "bigint decimal(22,2)"),
    (pa.float64(), 1.0, "float bigint string decimal(20,2)"),
    (pa.string(), "1", "int date timestamp boolean array<string>"),
    (pa.timestamp("ns"), 1, "timestamp timestamp_ntz"),
    (pa.timestamp("us"), 1, "date int string"),
    (pa.date32(), 1, "timestamp string"),
    (pa.decimal128(10, 2), 1, "decimal(9,2) decimal(10,3) decimal(10,1) double string"),
    (pa.list_(pa.int32()), [1], "array<string> int struct<a:int>"),
    (pa.struct([("a", pa.int64())]), {"a": 1}, "struct<a:int> map<string,int>"),
]


def unfit() -> list[tuple[pa.DataType, Any, str]]:
    return [(type, value, name) for type, value, names in UNFIT for name in names.split()]


def write_one(path: Path, type: pa.DataType, value: Any) -> None:
    pq.write_table(pa.table({"key": pa.array([1]), "col": pa.array([value], type)}), path)


@pytest.mark.parametrize(("type", "value", "declared"), unfit(), ids=str)
def test_unfit_types_are_named(
    tmp_path: Path, type: pa.DataType, value: Any, declared: str
) -> None:
    write_one(tmp_path / "a.parquet", type, value)
    form = of_format("parquet", tmp_path, f"key bigint, col {declared}")
    assert len(read_here(form, tmp_path, columns=[0])) == 1  # nobody asks for the other
    with pytest.raises(DataError, match=r"a\.parquet: column `col.*in the file and declared as"):
        read_here(form, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("type", "value", "declared"), unfit(), ids=str)
def test_spark_refuses_them_too(
    spark: SparkSession, tmp_path: Path, type: pa.DataType, value: Any, declared: str
) -> None:
    write_one(tmp_path / "a.parquet", type, value)
    with pytest.raises(Exception, match=r"FAILED_READ_FILE|SparkException"):
        spark.read.schema(f"key bigint, col {declared}").parquet(str(tmp_path)).toArrow()


def test_schemas_that_drift(spark: SparkSession, tmp_path: Path) -> None:
    """Columns that are missing, more, in another order, of another type, or written otherwise."""
    for i, made in enumerate(
        [
            {"a": pa.array([1, 2], pa.int32()), "b": pa.array(["x", None])},
            {"B": pa.array(["y"]), "a": pa.array([3], pa.int16()), "more": pa.array([1.0])},
            {"more": pa.array([1, 2, 3])},
            {"a.b": pa.array([1]), "a": pa.array([9], pa.int8())},
            {"a": pa.array([], pa.int32())},
        ]
    ):
        pq.write_table(pa.table(made), tmp_path / f"{i}.parquet")
    found = assert_same(
        spark, "parquet", tmp_path, "b string, a bigint, none array<int>, `a.b` bigint"
    )
    assert len(found) == 7
    assert found["a"].null_count == 3


def test_names_with_and_without_regard_to_case(spark: SparkSession, tmp_path: Path) -> None:
    made = pa.table({"a": pa.array([1]), "A": pa.array([2]), "b": pa.array([3])})
    pq.write_table(made, tmp_path / "a.parquet")
    form = of_format("parquet", tmp_path, "a bigint, B bigint")
    with pytest.raises(DataError, match="`a` is ambiguous, there are `a`, `A`"):
        read_here(form, tmp_path)
    exact = FileFormat("parquet", form.schema, base=str(tmp_path), case_sensitive=True)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        expected = spark.read.schema("a bigint, B bigint").parquet(str(tmp_path)).toArrow()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert rows_of(read_here(exact, tmp_path)) == rows_of(expected)


PARTITIONS = [
    ("s=a b/i=1/d=2024-01-31/t=2024-01-31 12%3A30%3A00/f=1.5", 2),
    ("s=ä%2F%25€/i=-7/d=__HIVE_DEFAULT_PARTITION__/t=2024-01-31/f=-1e3", 3),
    ("s=__HIVE_DEFAULT_PARTITION__/i=+12/d=1500-01-01/t=1969-12-31 23%3A59%3A59.5/f=.5", 1),
    ("s=%C3%A4%zz/i=2147483647/d=9999-12-31/t=__HIVE_DEFAULT_PARTITION__/f=7", 1),
]


def test_columns_in_the_names_of_folders(spark: SparkSession, tmp_path: Path) -> None:
    for at, (name, rows) in enumerate(PARTITIONS):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        made = {"x": pa.array(range(rows)), "i": pa.array([99] * rows), "y": pa.array(["z"] * rows)}
        pq.write_table(pa.table(made), folder / f"{at} b.parquet")
    declared = "f double, x bigint, s string, i int, d date, t timestamp"
    found = assert_same(spark, "parquet", tmp_path, declared)
    assert "ä/%€" in found["s"].to_pylist()
    other = "S string, I bigint, D string, T timestamp_ntz, y string, f float"
    assert_same(spark, "parquet", tmp_path, other)
    only = read_here(of_format("parquet", tmp_path, declared), tmp_path, columns=[3])
    assert sorted(only["i"].to_pylist()) == [-7, -7, -7, 1, 1, 12, 2147483647]
    with pytest.raises(DataError, match=r"the folder s=.* is not read as int64"):
        read_here(of_format("parquet", tmp_path, "s bigint"), tmp_path)
    with pytest.raises(DataError, match=r"not read as decimal128"):
        read_here(of_format("parquet", tmp_path, "i decimal(12,1)"), tmp_path)


def test_old_dates(spark: SparkSession, tmp_path: Path) -> None:
    old = {
        "d": pa.array([-200_000, -719_162, 5], pa.date32()),
        "t": pa.array([-(10**16), -(6 * 10**16), 5], pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(old), tmp_path / "arrow.parquet")
    assert_same(spark, "parquet", tmp_path, "d date, t timestamp")
    spark.read.parquet(str(tmp_path)).write.parquet(str(tmp_path / "new"))
    assert_same(spark, "parquet", tmp_path / "new", "d date, t timestamp")
    modes = [f"spark.sql.parquet.{kind}RebaseModeInWrite" for kind in ("datetime", "int96")]
    for mode in modes:
        spark.conf.set(mode, "LEGACY")
    spark.read.parquet(str(tmp_path / "new")).write.parquet(str(tmp_path / "old"))
    spark.range(1).selectExpr("date'2024-01-01' d", "timestamp'1950-01-01' t").write.parquet(
        str(tmp_path / "young")
    )
    for mode in modes:
        spark.conf.unset(mode)
    assert_same(spark, "parquet", tmp_path / "young", "d date, t timestamp")
    for column in ("d date", "t timestamp"):
        with pytest.raises(DataError, match="in another calendar"):
            read_here(of_format("parquet", tmp_path / "old", column), tmp_path / "old")
    refusing = of_format("parquet", tmp_path, "d date", options={"datetimeRebaseMode": "LEGACY"})
    with pytest.raises(DataError, match="in another calendar"):
        read_here(refusing, tmp_path / "arrow.parquet")


def test_corrupt_files(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(table(50, 1), tmp_path / "good.parquet", row_group_size=20)
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.parquet").write_bytes(b"no parquet at all")
    (tmp_path / "short.parquet").write_bytes(b"PAR1")
    (tmp_path / "empty.parquet").write_bytes(b"")
    skip = {"ignoreCorruptFiles": "true"}
    found = assert_same(spark, "parquet", tmp_path, "i64 bigint, s string", options=skip)
    assert len(found) == 50
    pq.write_table(pa.table({"i64": ["text"]}), tmp_path / "type.parquet")
    with pytest.raises(DataError, match="declared as"):  # Spark skips it, with all its rows
        read_here(of_format("parquet", tmp_path, "i64 bigint", options=skip), tmp_path)
    form = of_format("parquet", tmp_path, "i64 bigint, s string")
    for bad in ("cut", "text", "short", "type"):
        with pytest.raises(DataError, match=rf"{bad}\.parquet"):
            read_here(form, tmp_path / f"{bad}.parquet")
    assert len(read_here(form, tmp_path / "empty.parquet")) == 0


def test_declared_types_are_those_of_spark() -> None:
    assert arrow_schema(ddl(DDL)).types == table(3, 0).schema.types
