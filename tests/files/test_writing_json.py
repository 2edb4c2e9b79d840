"""JSON lines beside those that Spark writes of the same rows: the same bytes."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.files.doubles import double_texts
from skewless.files.writing import unsupported
from skewless.state.files import Folder
from tests.files.test_writing import writing_of
from tests.files.test_writing_parquet import both, endings, files_in, frame, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_TEXT = ("f", "bi", "d38", "a", "iv", "ma", "n")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("zone", "options"),
    [
        ("UTC", (("compression", "gzip"),)),
        ("Europe/Berlin", (("ignoreNullFields", "false"), ("compression", "bzip2"))),
    ],
)
def test_lines_are_sparks(
    spark: SparkSession, tmp_path: Path, zone: str, options: tuple[tuple[str, str], ...]
) -> None:
    from skewless.spark.catalyst.zones import zone_of

    # Java writes the least double, 5e-324, as 4.9E-324.
    df = frame(spark).drop(*NOT_TEXT).selectExpr("*", "cast(m as timestamp_ntz) c")
    df = df.selectExpr("*", 't as `a"\\\\b`', "m + interval 9000 years late").where(
        "d > 1e-300 is not false or d <= 0"
    )
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        theirs, ours = both(spark, df, tmp_path, "json", options=options, zone=zone_of(spark, zone))
        expected, found = spark.read.json(theirs), spark.read.json(ours)
        assert found.schema == expected.schema
        assert shown(found) == shown(expected)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert endings(theirs) == endings(ours)
    assert _lines(files_in(ours)[0]) == _lines(files_in(theirs)[0])


def _lines(path: Path) -> list[str]:
    import bz2

    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else bz2.decompress(data)
    return data.decode().split("\n")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.floats(allow_subnormal=True) | st.none() | st.integers(-(10**18), 10**18).map(float)
    )
)
def test_doubles_read_back_equal(values: list[float | None]) -> None:
    array = pa.array(values, pa.float64())
    found = double_texts(array).to_pylist()
    for value, text in zip(values, found, strict=True):
        if value is None:
            assert text is None
        elif math.isnan(value):
            assert text == "NaN"
        else:
            read = float(text.replace("Infinity", "inf"))
            assert (read, math.copysign(1, read)) == (value, math.copysign(1, value))


def test_doubles_look_as_javas() -> None:
    shown = {
        0.0: "0.0", 1.0: "1.0", 0.1: "0.1", 0.001: "0.001", 0.00099: "9.9E-4", 1e-5: "1.0E-5",
        9999999.0: "9999999.0", 1e7: "1.0E7", 1234567.5: "1234567.5", 123456789.5: "1.234567895E8",
        -1e21: "-1.0E21", 1.5e300: "1.5E300", 100.0: "100.0", 2.5e-8: "2.5E-8",
        math.inf: "Infinity", -math.inf: "-Infinity",
    }  # fmt: skip
    assert double_texts(pa.array(shown)).to_pylist() == list(shown.values())


def test_rows_without_values_are_empty_objects(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string()), ("d", pa.float64())])
    batch = pa.record_batch({"k": ["a", None, "\u2028\x1f"], "d": [math.nan, None, 2.0]}, schema)
    [file] = writing_of(schema, "json").write([batch[:0], batch], Folder(str(tmp_path)), "s", "p")
    assert file.name == "p-c000.json"
    assert (tmp_path / "s" / file.name).read_text().split("\n") == [
        '{"k":"a","d":"NaN"}', "{}", '{"k":"\u2028\\u001F","d":2.0}', ""
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options": (("timestampFormat", "yyyy"),)}, "the option 'timestampFormat'"),
        ({"options": (("compression", "snappy"),)}, "the compression 'snappy'"),
        (
            {"settings": (("spark.sql.legacy.timeParserPolicy", "legacy"),)},
            "the setting spark.sql.legacy.timeParserPolicy 'legacy'",
        ),
        (
            {"settings": (("mapreduce.output.fileoutputformat.compress", "true"),)},
            "the setting mapreduce.output.fileoutputformat.compress",
        ),
        (
            {"schema": pa.schema([("t", pa.timestamp("us", "UTC"))])},
            "the column 't' of type timestamp as text",
        ),
        (
            {"schema": pa.schema([("d", pa.decimal128(20, 9))])},
            "the column 'd' of type decimal(20,9) as text",
        ),
    ],
)
def test_left_to_spark(changes: dict[str, Any], reason: str) -> None:
    schema = pa.schema([("v", pa.int64())])
    assert unsupported(writing_of(**{"schema": schema, "format": "json", **changes})) == reason
    assert unsupported(writing_of(schema, "json")) is None
