"""CSV lines beside those that Spark writes of the same rows: the same bytes."""

from __future__ import annotations

import bz2
import gzip
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.files import csv_writing
from skewless.files.csv_writing import Letters
from skewless.files.parts import NotAsSparkError
from skewless.files.writing import unsupported
from skewless.state.files import Folder
from tests.files.test_writing import writing_of
from tests.files.test_writing_json import NOT_TEXT
from tests.files.test_writing_parquet import both, endings, files_in, frame, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Options = tuple[tuple[str, str], ...]
LETTERS = ["a", " ", '"', "\\", ",", "\n", "\r", "\t", "'", "#", ";", "|", "ü", "☃", "🙂", "\x00"]


def texts(count: int, seed: int) -> list[str | None]:
    """Short, so that letters meet at the ends and beside each other; one of twenty is null."""
    chance = random.Random(seed)
    made = ("".join(chance.choices(LETTERS, k=chance.randrange(6))) for _ in range(count))
    return [None if chance.random() < 0.05 else text for text in made]


def content(folder: str) -> bytes:
    unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress}
    [path] = files_in(folder)
    data = path.read_bytes()
    return unpack[path.suffix](data) if path.suffix in unpack else data


def assert_same(spark: SparkSession, df: DataFrame, at: Path, options: Options, **more: Any) -> str:
    theirs, ours = both(spark, df, at, "csv", options=options, **more)
    assert endings(theirs) == endings(ours)
    a, b = content(theirs), content(ours)
    assert b.split(b"\n") == a.split(b"\n")
    return ours


CHOICES: dict[str, Options] = {
    "usual": (),
    "header": (("header", "true"), ("compression", "gzip")),
    "all quoted": (("quoteAll", "TRUE"), ("nullValue", "\\N"), ("header", "true")),
    "quotes kept": (("escapeQuotes", "false"), ("codec", "bzip2")),
    "quotes kept in quotes": (("escapeQuotes", "false"), ("quoteAll", "true"), ("escape", '"')),
    "other letters": (("sep", ";"), ("quote", "'"), ("escape", "|"), ("emptyValue", "")),
    "doubled quotes": (("delimiter", "\\t"), ("escape", '"'), ("nullValue", "null")),
    "blanks kept": (
        ("ignoreLeadingWhiteSpace", "false"),
        ("ignoreTrailingWhiteSpace", "false"),
        ("emptyValue", "#e"),
    ),
    "blanks between": (("sep", " "), ("nullValue", "-")),
    "in place of none": (("nullValue", 'a"b'), ("emptyValue", ",x"), ("encoding", "utf-8")),
    "quoted in place of none": (("nullValue", '"n"'), ("emptyValue", " e "), ("quoteAll", "true")),
    "a blank in place of none": (("nullValue", " "), ("emptyValue", '"'), ("sep", "#")),
}


@pytest.mark.spark
@pytest.mark.quick(2)
@pytest.mark.parametrize("options", CHOICES.values(), ids=CHOICES.keys())
def test_lines_are_sparks(spark: SparkSession, tmp_path: Path, options: Options) -> None:
    rows = list(zip(texts(3000, 1), range(3000), texts(3000, 2), strict=True))
    df = spark.createDataFrame(rows, "t string, n int, u string")
    assert_same(spark, df, tmp_path / "three", options)
    assert_same(spark, df.select("u"), tmp_path / "one", options)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("zone", "options"),
    [("UTC", ()), ("Europe/Berlin", (("sep", ":"), ("header", "true"), ("quote", "-")))],
)
def test_types_are_sparks(spark: SparkSession, tmp_path: Path, zone: str, options: Options) -> None:
    from skewless.spark.catalyst.zones import zone_of

    # Java writes the least double, 5e-324, as 4.9E-324.
    df = frame(spark).drop(*NOT_TEXT).selectExpr("*", "cast(m as timestamp_ntz) c")
    df = df.selectExpr("*", "m + interval 9000 years late").where(
        "d > 1e-300 is not false or d <= 0"
    )
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert_same(spark, df, tmp_path, options, zone=zone_of(spark, zone))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.spark
def test_all_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Spark and DuckDB read what was written."""
    duckdb = pytest.importorskip("duckdb")
    # Without what Spark itself reads as something else, or cuts into two lines.
    kept = [t for t in texts(3000, 3) if t and t == t.strip("\x00\t \r\n") and "\r" not in t]
    rows = [(text, i) for i, text in enumerate(kept) if "\x00" not in text]
    df = spark.createDataFrame(rows, "t string, n int")
    options = (("escape", '"'), ("header", "true"))
    ours = assert_same(spark, df, tmp_path, options)
    read = spark.read.options(**dict(options), multiLine=True).schema(df.schema).csv(ours)
    assert shown(read) == shown(df)
    found = duckdb.read_csv(
        f"{ours}/*.csv", header=True, quotechar='"', escapechar='"', dtype={"t": "VARCHAR"}
    )
    assert found.fetchall() == rows


@pytest.mark.spark
def test_folders_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    odd = ["a/b", "c:d %", "e#f?=g", "", None, "ü☃"]
    rows = [(key, i) for i, key in enumerate(odd * 3)]
    df = spark.createDataFrame(rows, "`k/: x` string, v int")
    theirs, ours = both(
        spark, df, tmp_path, "csv", partition_by=("k/: x",), options=(("header", "true"),)
    )
    a, b = (
        {str(path.parent.relative_to(folder)): path.read_bytes() for path in files_in(folder)}
        for folder in (theirs, ours)
    )
    assert {k: sorted(v.split()) for k, v in a.items()} == {
        k: sorted(v.split()) for k, v in b.items()
    }


# Without Spark ------------------------------------------------------------------------------------


def plain_cell(text: str | None, letters: Letters, is_first: bool) -> str:
    """What Spark's library does to one value, told letter by letter."""
    blank = "".join(map(chr, range(33)))
    stands_in = text is None or text == "" or (letters.trim and not text.strip(blank))
    element = letters.null if text is None else letters.empty if stands_in else text
    begun = element.lstrip(blank) if letters.trim else element
    quoted = letters.quote_all
    if begun and (begun[0] == letters.quote or (is_first and element[0] == "#")):
        quoted = True
    if quoted and stands_in and len(element) > 1 and element[0] == element[-1] == letters.quote:
        return element
    quoted = quoted or any(letter in letters.quotes for letter in begun)
    if quoted:
        special = {letters.quote, letters.escape}
        begun = "".join(letters.escape + x if x in special else x for x in begun)
    ended = begun.rstrip(blank) if letters.trim else begun
    return f"{letters.quote}{ended}{letters.quote}" if quoted else ended


@settings(max_examples=300, deadline=None)
@given(
    values=st.lists(st.none() | st.text(st.sampled_from(LETTERS), max_size=6), max_size=12),
    separator=st.sampled_from(",;\t "),
    quote=st.sampled_from("\"'"),
    escape=st.sampled_from("\\\"'|"),
    escape_quotes=st.booleans(),
    quote_all=st.booleans(),
    trim=st.booleans(),
    null=st.sampled_from(["", "N", "a,b", '""', " ", "#"]),
    empty=st.sampled_from(["", '""', "E", '"', " x "]),
    skipped=st.integers(0, 3),
)
def test_cells(values: list[str | None], separator: str, quote: str, escape: str,
               escape_quotes: bool, quote_all: bool, trim: bool, null: str, empty: str,
               skipped: int) -> None:  # fmt: skip
    quotes = f"{separator}\r\n{quote if escape_quotes else ''}"
    letters = Letters(separator, quote, escape, quotes, quote_all, trim, null, empty)
    array = pa.array([*["x"] * skipped, *values], pa.string()).slice(skipped)
    for is_first in (True, False):
        expected = [plain_cell(text, letters, is_first) for text in values]
        assert letters.cells(array, is_first).to_pylist() == expected


def test_lines_without_anything_are_not_written(tmp_path: Path) -> None:
    """As Spark does it: a single column that is null leaves no line."""
    schema = pa.schema([("k", pa.string())])
    batch = pa.record_batch({"k": ["a", None, "", "b"]}, schema)
    [file] = writing_of(schema, "csv", options=(("header", "true"),)).write(
        [batch[:0], batch], Folder(str(tmp_path)), "s", "p"
    )
    assert (file.name, file.rows) == ("p-c000.csv", 4)
    assert (tmp_path / "s" / file.name).read_text() == 'k\na\n""\nb\n'


def test_texts_that_grow_too_long_are_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes are doubled: what has fitted into an array may not fit any more."""
    monkeypatch.setattr(csv_writing, "DATA_MAX", 9)
    letters = Letters(",", '"', "\\", ',"', False, True, "", '""')
    assert letters.cells(pa.array(["x" * 9]), True).to_pylist() == ["x" * 9]
    with pytest.raises(NotAsSparkError, match="2 GiB"):
        letters.cells(pa.array(['"' * 4]), True)


def test_every_file_has_a_header(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("d", pa.float64())])
    batch = pa.record_batch({"k": [1, 2, 3], "d": [0.5, None, 1e9]}, schema)
    options = (("header", "true"), ("maxRecordsPerFile", "2"))
    files = writing_of(schema, "csv", options=options).write(
        [batch], Folder(str(tmp_path)), "s", "p"
    )
    assert [(tmp_path / "s" / file.name).read_text() for file in files] == [
        "k,d\n1,0.5\n2,\n", "k,d\n3,1.0E9\n"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dateFormat": "dd.MM.yyyy"}, "the option 'dateFormat'"),
        ({"timestampFormat": "yyyy"}, "the option 'timestampFormat'"),
        ({"lineSep": "\r\n"}, "the option 'lineSep'"),
        ({"comment": "#"}, "the option 'comment'"),
        ({"encoding": "UTF-16"}, "the encoding 'UTF-16'"),
        ({"sep": "||"}, "sep '||'"),
        ({"sep": '"'}, "sep '\"'"),
        ({"sep": "→"}, "sep '→'"),
        ({"quote": ""}, "quote ''"),
        ({"escape": "\x00"}, "escape '\\x00'"),
        ({"header": "yes"}, "header 'yes'"),
        ({"ignoreLeadingWhiteSpace": "false"}, "blanks that are cut off at one end alone"),
        ({"compression": "snappy"}, "the compression 'snappy'"),
    ],
)
def test_left_to_spark(options: dict[str, str], reason: str) -> None:
    schema = pa.schema([("v", pa.int64())])
    assert unsupported(writing_of(schema, "csv", options=tuple(options.items()))) == reason
    assert unsupported(writing_of(schema, "csv")) is None


@pytest.mark.parametrize("name", [" a", "a ", "'a'", '"a'])
def test_odd_headers_are_left_to_spark(name: str) -> None:
    schema = pa.schema([(name, pa.int64())])
    options = (("header", "true"),)
    reason = f"a header with the name of the column {name!r}"
    assert unsupported(writing_of(schema, "csv", options=options)) == reason
    assert unsupported(writing_of(schema, "csv")) is None


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (("spark.sql.legacy.timeParserPolicy", "legacy"),
         "the setting spark.sql.legacy.timeParserPolicy 'legacy'"),
        (("spark.sql.legacy.nullValueWrittenAsQuotedEmptyStringCsv", "true"),
         "the setting spark.sql.legacy.nullValueWrittenAsQuotedEmptyStringCsv"),
    ],
)  # fmt: skip
def test_settings_left_to_spark(setting: tuple[str, str], reason: str) -> None:
    schema = pa.schema([("v", pa.int64())])
    assert unsupported(writing_of(schema, "csv", settings=(setting,))) == reason


def test_types_left_to_spark() -> None:
    schema = pa.schema([("d", pa.decimal128(20, 9))])
    reason = "the column 'd' of type decimal(20,9) as text"
    assert unsupported(writing_of(schema, "csv")) == reason
