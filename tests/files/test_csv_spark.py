"""CSV files, read here and by Spark."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from skewless.errors import ArgumentError, DataError
from skewless.files import lines
from skewless.spark.catalyst.zones import zone_of
from tests.files.comparing import assert_same, of_format, read_here, rows_of
from tests.files.making import DDL, ddl, table
from tests.spark.support import settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Types are written as Spark writes them, which takes a session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
FLAT = {name: type for name, type in DDL.items() if name != "b"}

_NUMBERS = (
    "1|-1|+1| 1|1 |01|1.0|1e3||-0|127|128|-128|-129|2147483648|-2147483649|9223372036854775807|"
    '9223372036854775808|-9223372036854775808|-9223372036854775809|99999999999999999999|abc|"5"|""|'
    "+|-|+-1|--1|000000000000000000000000001|1.5|-1.5e3|1E5|NaN|nan|Inf|-Inf|Infinity|-Infinity|inf|"
    "1f|1d|1D|1.5F| 1.5 |1e400|-1e400|1e-400|.5|5.|NAN|+Inf|+Infinity|-NaN|4.9e-324|1e|\t1|1.005|"
    '1.015|-1.005|999.99|999.994|999.995|-999.995|1000|1e2|"1,000"|0.001|1E-3|1E-400|1E400|'
    "16777217|3.4e39|1e-46|0.1|1.7976931348623157e308|true|TRUE|False|t|yes| true|e|.|+.|1e+|-.5e-1"
)
_TIMES = (
    "2024-01-02T03:04:05.678Z|2024-01-02T03:04:05.678901Z|2024-01-02T03:04:05Z|2024-01-02 03:04:05|"
    "2024-01-02T03:04:05|2024-01-02|2024-01-02T03:04:05.6|2024-01-02T03:04:05.1234567|"
    "2024-01-02T03:04:05.123456789Z|0001-01-01 00:00:00|9999-12-31 23:59:59.999999|2024-02-30|"
    "2023-02-29|2000-02-29|1900-02-29|2024-13-01|2024-00-01|2024-01-00|2024-04-31|"
    "2024-01-02 24:00:00|2024-01-02T03:04:60|2024-01-02T03:60:00|abc||1582-10-10 00:00:00|"
    '1969-12-31 23:59:59.999999|"2024-01-02 03:04:05"'
)
_TEXTS = (
    'a||""|" "| a |"a\\"b"|a"b|"a,b"|a\\|null|\\N|\'a\'|"\\\\"|\\\\|ä€😀|"ä,€"|"a\\b"| "a"|\ta|"#"|'
    '"a\\\\\\"b,"|"\\""'
)
NUMBERS, TIMES, TEXTS = (every.split("|") for every in (_NUMBERS, _TIMES, _TEXTS))


def written(path: Path, columns: list[list[str]], end: str = "\n") -> Path:
    rows = max(map(len, columns))
    text = "".join(
        ",".join(column[i % len(column)] for column in columns) + end for i in range(rows)
    )
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path.parent


def test_values_of_all_types(spark: SparkSession, tmp_path: Path) -> None:
    types = (
        "tinyint smallint int bigint float double decimal(5,2) decimal(38,10) decimal(2,2) "
        "decimal(9,0) boolean string"
    )
    folder = written(tmp_path / "n" / "a.csv", [NUMBERS] * len(types.split()))
    declared = ", ".join(f"c{i} {type}" for i, type in enumerate(types.split()))
    assert len(assert_same(spark, "csv", folder, declared)) == len(NUMBERS)
    types = "timestamp timestamp_ntz date string boolean"
    folder = written(tmp_path / "t" / "a.csv", [TIMES] * 4 + [TEXTS])
    declared = ", ".join(f"c{i} {type}" for i, type in enumerate(types.split()))
    assert len(assert_same(spark, "csv", folder, declared)) == len(TIMES)
    folder = written(tmp_path / "s" / "a.csv", [TEXTS] * 2, end="\r\n")
    assert len(assert_same(spark, "csv", folder, "a string, b string, c string")) == len(TEXTS)


LINES = '1,a\n2\n3,b,c\n\n4,\n,\n   \n""\nx,y\n7,z\r8,"q"\r\n#9,c\n5,x'


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"header": "true"},
        {"comment": "#"},
        {"mode": "dropmalformed", "header": "true", "inferSchema": "true"},
        {"sep": ";"},
        {"nullValue": "b", "quote": "'", "delimiter": ","},
        {"escape": '"', "nullValue": "x", "nanValue": "a"},
    ],
    ids=str,
)
def test_lines_that_are_too_short_or_too_long(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    (tmp_path / "a.csv").write_text("\ufeff" + LINES, newline="", encoding="utf-8")
    declared = "i int, s string"
    assert_same(spark, "csv", tmp_path, declared, options=options, tasks=1)
    if "mode" not in options:  # else it matters to Spark which columns are asked for
        frame = spark.read.schema(declared).options(**options).csv(str(tmp_path))
        form = of_format("csv", tmp_path, declared, options=options)
        for column in range(2):
            found = read_here(form, tmp_path, tasks=1, columns=[column])
            assert rows_of(found) == rows_of(frame.select(*found.column_names).toArrow())
        assert len(read_here(form, tmp_path, tasks=1, columns=[])) == frame.count()


def test_escapes_by_quotes(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('1,"a""b"\n2,"a"", b"\n3,""""\n4,""\n5,"\\"\n6,\\\n')
    options = {"escape": '"', "nullValue": "NULL"}
    found = assert_same(spark, "csv", tmp_path, "i int, s string", options=options)
    assert 'a", b' in found["s"].to_pylist()


def test_files_of_spark_in_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All types, in many blocks; compressed ones are read whole. Folders are columns, too."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(lines, "PEEK_BYTES", 7)
    made = spark.createDataFrame(table(200, 5).select(list(FLAT)))
    for way in ("none", "gzip", "bzip2"):
        path = tmp_path / "files" / f"way={way}"
        made.coalesce(1).write.option("header", "true").option("compression", way).csv(str(path))
    declared = f"{ddl(FLAT)}, way string"
    for tasks in (1, 7):
        found = assert_same(
            spark, "csv", tmp_path / "files", declared, options={"header": "true"}, tasks=tasks
        )
        assert len(found) == 600
    form = of_format("csv", tmp_path / "files", declared, options={"header": "true"})
    some = read_here(form, tmp_path / "files", tasks=5, columns=[len(FLAT), 3])
    assert some.column_names == ["way", "i32"]
    assert some["i32"].null_count == found["i32"].null_count


def test_every_line_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for seed in range(30):
        monkeypatch.setattr(lines, "BLOCK_BYTES", int(rng.integers(1, 60)))
        monkeypatch.setattr(lines, "PEEK_BYTES", int(rng.integers(1, 9)))
        count = int(rng.integers(0, 40))
        text = "".join(f"{i},{'x' * int(rng.integers(0, 20))}\n" for i in range(count))
        path = tmp_path / str(seed) / "a.csv"
        path.parent.mkdir()
        path.write_text(text.rstrip("\n") if seed % 2 else text)
        found = read_here(of_format("csv", path.parent, "i int"), path, tasks=1 + seed % 8)
        assert sorted(found["i"].to_pylist()) == list(range(count))


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ('1,"a', "i int, s string"),
        ('1,"a"b', "i int, s string"),
        ('1,"a" ', "i int, s string"),
        ('1,"a""b"', "i int, s string"),
        ("１,a", "i int, s string"),
        ("0x1p3,a", "d double, s string"),
    ],
)
def test_what_only_spark_can_read(tmp_path: Path, text: str, declared: str) -> None:
    (tmp_path / "a.csv").write_text(f"5,b\n{text}\n", encoding="utf-8")
    skip = {"ignoreCorruptFiles": "true"}
    with pytest.raises(DataError, match=r"a\.csv: .*`spark.readStream` reads such files"):
        read_here(of_format("csv", tmp_path, declared, options=skip), tmp_path)


def test_bytes_and_zones_that_only_spark_can_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"1,\xff\xfe\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read_here(of_format("csv", tmp_path, "i int, s string"), tmp_path)
    assert len(read_here(of_format("csv", tmp_path, "i int, s string"), tmp_path, columns=[0])) == 1
    (tmp_path / "a.csv").write_text("2024-01-02 03:04:05\n")
    with pytest.raises(DataError, match="of no form that is known here"):
        form = of_format("csv", tmp_path, "t timestamp", time_zone="Europe/Berlin")
        read_here(form, tmp_path)


_ODD_TIMES = (
    "2024-1-2|2024-01-02 03:04|2024-01-02T03:04:05+01:00|2024-01-02T03:04:05 America/New_York|2024|"
    "2024-01| 2024-01-02 03:04:05 |2024-03-31 02:30:00|2024-10-27 02:30:00|1800-01-01 00:00:00|"
    "2024-01-02 3:4:5|+12024-01-02|-0044-03-15|2024-01-02 03:04:05GMT+02:00|2024-01-02T|19000|-5|"
    "12024-01-02 00:00:00|2024-01-02 03:04:05.|2024-01-02x|2024-01-02 03:04:05 PST|1/2/2024"
)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "-03:30"])
def test_times_of_any_form_and_zone(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    """Times that name no zone are of the session's, which hardly ever is UTC."""
    times = [*TIMES, *_ODD_TIMES.split("|")]
    written(tmp_path / "a.csv", [times] * 3)
    declared = "t timestamp, n timestamp_ntz, d date"
    with settings_of(spark, {"spark.sql.session.timeZone": zone}):
        known = {"time_zone": zone, "zone": zone_of(spark, zone)}
        assert len(assert_same(spark, "csv", tmp_path, declared, **known)) == len(times)
        dropped = assert_same(spark, "csv", tmp_path, declared, options={"mode": "DROPMALFORMED"},
                              **known)  # fmt: skip
        assert 0 < len(dropped) < len(times)


def test_failing_fast(spark: SparkSession, tmp_path: Path) -> None:
    good, declared, options = "1,a\n2,b\n", "i int, s string", {"mode": "FAILFAST"}
    (tmp_path / "a.csv").write_text(good)
    assert_same(spark, "csv", tmp_path, declared, options=options)
    for bad in ("3", "3,c,d", "x,c"):
        (tmp_path / "a.csv").write_text(f"{good}{bad}\n")
        with pytest.raises(DataError, match=r"malformed lines: 1; the mode is FAILFAST"):
            read_here(of_format("csv", tmp_path, declared, options=options), tmp_path)


def test_corrupt_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1,a\n" * 9999)[:40])
    with pytest.raises(DataError, match=r"a\.csv\.gz cannot be read as csv"):
        read_here(of_format("csv", tmp_path, "i int, s string"), tmp_path)
    (tmp_path / "a.csv.gz").unlink()
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress(b"1,a\n2,b") + bz2.compress(b"\n3,c"))
    assert len(read_here(of_format("csv", tmp_path, "i int, s string"), tmp_path)) == 3


@pytest.mark.parametrize(
    ("options", "declared", "named"),
    [
        ({"multiLine": "true"}, "i int", "multiLine"),
        ({"lineSep": "x"}, "i int", "lineSep"),
        ({"dateFormat": "dd"}, "i int", "dateformat"),
        ({"sep": "||"}, "i int", "sep"),
        ({"sep": '"'}, "i int", "sep"),
        ({"quote": ""}, "i int", "quote"),
        ({"encoding": "latin1"}, "i int", "encoding"),
        ({"mode": "lazy"}, "i int", "mode"),
        ({"enforceSchema": "false"}, "i int", "enforceSchema"),
        ({"header": "maybe"}, "i int", "header"),
        ({"nullValue": '"'}, "i int", "nullValue"),
        ({"nanValue": "-1"}, "i int", "nanValue"),
        ({}, "a array<int>", "a"),
        ({}, "b binary", "b"),
        ({}, "i int, _corrupt_record string", "column"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, options: dict[str, str], declared: str, named: str
) -> None:
    with pytest.raises(ArgumentError, match=rf"(?i){named}"):
        of_format("csv", tmp_path, declared, options=options)
