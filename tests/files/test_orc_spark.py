"""ORC files of several writers, read here and by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from skewless.errors import DataError
from tests.files.comparing import assert_same, of_format, read_here
from tests.files.making import DDL, NESTED, ddl, nested, table
from tests.versions import READS_ORC_INSTANTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Types are written as Spark writes them, which takes a session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
FLAT = {name: type for name, type in DDL.items() if name != "n"}
MAX_NS = 2**63 - 1


def everything(rows: int, seed: int) -> pa.Table:
    """Times that ORC's libraries agree on."""
    made, more = table(rows, seed).drop(["n"]), nested(rows, seed + 1)
    for name in more.column_names:
        made = made.append_column(name, more[name])
    for name in ("t", "d"):
        at, own = made.schema.get_field_index(name), made[name]
        number = pa.int64() if name == "t" else pa.int32()
        most = MAX_NS // 1000 if name == "t" else 2_000_000
        kept = pc.bit_wise_and(
            own.cast(number), pa.scalar(2**62 - 1 if name == "t" else 2**20 - 1, number)
        )
        kept = pc.min_element_wise(kept, pa.scalar(most, number), skip_nulls=False)
        made = made.set_column(at, name, kept.cast(own.type))
    return made.drop(["deep"])


ALL = FLAT | {name: type for name, type in NESTED.items() if name != "deep"}


@pytest.mark.skipif(not READS_ORC_INSTANTS, reason="Spark does not read Arrow's files there")
def test_files_of_arrow_and_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Of many stripes, and of one."""
    for seed, compression in enumerate(["uncompressed", "zstd", "snappy", "zlib"]):
        name = tmp_path / "arrow" / f"{seed}.orc"
        name.parent.mkdir(exist_ok=True)
        made = everything(300, seed)
        po.write_table(made, name, stripe_size=4096, batch_size=64, compression=compression)
    assert po.ORCFile(tmp_path / "arrow" / "0.orc").nstripes > 2
    found = assert_same(spark, "orc", tmp_path / "arrow", ddl(ALL), jvm_time_zone="UTC")
    assert len(found) == 1200
    pq.write_table(table(50, 4).select(["n", "i8"]), tmp_path / "n.parquet")
    frame = spark.read.schema(ddl(ALL)).orc(str(tmp_path / "arrow"))
    frame.coalesce(1).write.orc(str(tmp_path / "spark"))
    spark.read.parquet(str(tmp_path / "n.parquet")).coalesce(1).write.orc(str(tmp_path / "n"))
    assert_same(spark, "orc", tmp_path / "spark", ddl(ALL), jvm_time_zone="UTC")
    assert_same(spark, "orc", tmp_path / "n", "i8 tinyint, n timestamp_ntz")


WIDER = [
    (pa.int8(), [1, -128], "tinyint smallint int bigint double decimal(3,0) decimal(10,2)"),
    (pa.int16(), [1, -32768], "smallint int bigint double decimal(5,0)"),
    (pa.int32(), [1, -(2**31)], "int bigint double decimal(10,0)"),
    (pa.int64(), [1, -(2**63), 2**60 + 1], "bigint double decimal(19,0) decimal(38,10)"),
    (pa.float32(), [0.1, float("nan")], "float double"),
    (pa.string(), ["a", ""], "string binary"),
    (pa.binary(), [b"a", b""], "binary"),
    (pa.decimal128(5, 2), [1, -2], "decimal(5,2) decimal(7,2) decimal(7,4) decimal(38,10)"),
    (pa.list_(pa.int32()), [[1, None], []], "array<int> array<bigint>"),
    (
        pa.struct([("a", pa.int32()), ("B", pa.string())]),
        [{"a": 1, "B": "x"}, {"a": None, "B": None}],
        "struct<a:bigint,z:string> struct<b:string> struct<z:int> struct<b:string,a:int>",
    ),
    (pa.map_(pa.string(), pa.int32()), [[("k", 1)], []], "map<string,bigint>"),
]
if READS_ORC_INSTANTS:
    WIDER.append((pa.timestamp("ns", "UTC"), [1999, 10**18], "timestamp"))


def test_types_that_are_read_as_others(spark: SparkSession, tmp_path: Path) -> None:
    columns, declared = {}, {"none": "date"}
    for type, values, names in WIDER:
        own = pa.array([*values, None, None, None][:4], type)
        for name in names.split():
            column = f"c{len(columns)}"
            columns[column], declared[column] = own, name
    po.write_table(pa.table(columns), tmp_path / "a.orc")
    assert len(assert_same(spark, "orc", tmp_path, ddl(declared))) == 4


REFUSED = [
    (pa.int64(), 1, "int string timestamp decimal(18,0)", "declared as"),
    (pa.string(), "1", "int", "declared as"),
    (pa.timestamp("ns"), 1, "timestamp_ntz string", "declared as"),
    (pa.timestamp("ns"), 1, "timestamp", "by that of its machines"),
    (pa.timestamp("ns", "UTC"), -1, "timestamp", "before 1970"),
    (pa.date32(), -200_000, "date", "before 1582"),
]


@pytest.mark.parametrize(("type", "value", "names", "why"), REFUSED, ids=str)
def test_what_is_refused(
    tmp_path: Path, type: pa.DataType, value: Any, names: str, why: str
) -> None:
    po.write_table(pa.table({"k": [1], "c": pa.array([value], type)}), tmp_path / "a.orc")
    for declared in names.split():
        skip = {"ignoreCorruptFiles": "true"}
        form = of_format("orc", tmp_path, f"k bigint, c {declared}", options=skip)
        assert len(read_here(form, tmp_path, columns=[0])) == 1
        with pytest.raises(DataError, match=rf"a\.orc: column `c.*{why}"):
            read_here(form, tmp_path)


def test_times_that_are_too_far(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "far"
    spark.sql("select timestamp'9999-12-31 23:59:59' t, 1 k").coalesce(1).write.orc(str(path))
    skip = {"ignoreCorruptFiles": "true"}
    form = of_format("orc", path, "t timestamp, k int", options=skip, jvm_time_zone="UTC")
    with pytest.raises(DataError, match="out of range"):
        read_here(form, path)
    assert read_here(form, path, columns=[1])["k"].to_pylist() == [1]


def test_files_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    po.write_table(pa.table({"a": [1, 2], "A": [3, 4]}), tmp_path / "two.orc")
    with pytest.raises(DataError, match="`a` is ambiguous"):
        read_here(of_format("orc", tmp_path, "a bigint"), tmp_path)
    po.write_table(pa.table({"_col0": [1, 2], "_col1": [3, 4]}), tmp_path / "two.orc")
    with pytest.raises(DataError, match="columns have no names"):
        read_here(of_format("orc", tmp_path, "a bigint"), tmp_path)
    folder = tmp_path / "k=5"
    folder.mkdir()
    po.write_table(pa.table({"a": [1, 2]}), folder / "good.orc")
    (tmp_path / "two.orc").write_bytes((folder / "good.orc").read_bytes()[:50])
    skip = {"ignoreCorruptFiles": "true"}
    assert len(assert_same(spark, "orc", tmp_path, "a bigint, k int", options=skip)) == 2
    with pytest.raises(DataError, match=r"two\.orc cannot be read as orc"):
        read_here(of_format("orc", tmp_path, "a bigint"), tmp_path)
