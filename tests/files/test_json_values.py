"""JSON texts as columns: the same as Spark's `from_json`, whatever the texts."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.files import json_values
from skewless.files.json_exact import exact_row
from skewless.files.json_values import JsonColumns, is_known
from tests.files import json_cases as cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skewless.expressions.zones import Zone

EXAMPLES = int(os.environ.get("SKEWLESS_FUZZ_LINES", "3000"))
CORRUPT = "_corrupt_record"
INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {
        "a": pa.int32(),
        "b": pa.string(),
        "y": pa.int8(),
        "d": pa.float64(),
        "p": pa.decimal128(7, 2),
        "o": pa.bool_(),
        "t": INSTANT,
        "x": pa.date32(),
        "s": pa.struct({"x": pa.int32(), "y": pa.list_(pa.int32())}),
        "m": pa.map_(pa.string(), pa.int64()),
        "v": pa.list_(pa.struct({"a": pa.int32(), "b": pa.string()})),
        "w": pa.list_(pa.list_(pa.int32())),
    }
)
DOCUMENTED = '{"a":1,"b":"x","t":"2024-01-02T03:04:05Z","s":{"y":[1,2]},"m":{"k":3}}'


def plain(array: pa.Array) -> list[str]:
    """Values as text. Times are numbers: Spark knows such that Python does not; NaN is NaN."""
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    elif pa.types.is_string(array.type):
        array = array.view(pa.binary())
    return [repr(value) for value in array.to_pylist()]


def read(texts: list[bytes | None], schema: pa.Schema = SCHEMA) -> tuple[list[list[str]], Any]:
    columns, bad = JsonColumns(schema).read(pa.array(texts, pa.binary()))
    for field, column in zip(schema, columns, strict=True):
        assert column.type == field.type
        column.validate(full=True)
    return [plain(column) for column in columns], bad


def test_a_text_with_all_kinds_of_values() -> None:
    columns, bad = JsonColumns(SCHEMA).read(pa.array([DOCUMENTED, None, "", "nope"]), [0, 1, 8, 9])
    assert columns[0].to_pylist() == [1, None, None, None]
    assert columns[1].to_pylist() == ["x", None, None, None]
    assert columns[2].to_pylist() == [{"x": None, "y": [1, 2]}, None, None, None]
    assert columns[3].to_pylist() == [[("k", 3)], None, None, None]
    assert bad.tolist() == [False, False, False, True]


def test_the_text_of_bad_values() -> None:
    """Where it is asked for, and only of these."""
    schema = SCHEMA.append(pa.field(CORRUPT, pa.string()))
    texts = pa.array(['{"a":1}', '{"a":"x"}', None, "[]", ""])
    [number, text], bad = JsonColumns(schema, CORRUPT).read(texts, [0, len(schema) - 1])
    assert number.to_pylist() == [1, None, None, None, None]
    assert text.to_pylist() == [None, '{"a":"x"}', None, "[]", None]
    assert bad.tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("type", [pa.large_string(), pa.large_binary(), pa.binary(), pa.string()])
def test_slices_of_any_kind_of_text(type: pa.DataType) -> None:
    texts = pa.array(["{}", '{"a":1}', "x", None, '{"a":2}'], type).slice(1, 4)
    [column], bad = JsonColumns(SCHEMA).read(texts, [0])
    assert column.to_pylist() == [1, None, None, 2]
    assert bad.tolist() == [False, True, False, False]
    empty, bad = JsonColumns(SCHEMA).read(texts[:0])
    assert [len(column) for column in empty] == [0] * len(SCHEMA)
    assert not len(bad)


def test_texts_that_are_too_many_bytes_for_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [cases.some_text(random.Random(i)) for i in range(50)]
    whole = read(texts)
    monkeypatch.setattr(json_values, "DATA_MAX", 300)
    halves = read(texts)
    assert halves[0] == whole[0]
    assert halves[1].tolist() == whole[1].tolist()


def test_which_types_are_known() -> None:
    assert all(is_known(field.type) for field in SCHEMA)
    assert not is_known(pa.binary())
    assert not is_known(pa.list_(pa.binary()))
    assert not is_known(pa.map_(pa.int32(), pa.string()))


def one_by_one(texts: list[bytes | None]) -> tuple[list[list[str]], list[bool]]:
    """The same the slow way."""
    from skewless.expressions.zones import UTC

    kind = pa.struct(list(SCHEMA))
    rows = [None if text is None else exact_row(text, kind, UTC) for text in texts]
    found = [{} if row is None or row.values is None else row.values for row in rows]
    columns = [
        plain(pa.array([values.get(field.name) for values in found], field.type))
        for field in SCHEMA
    ]
    return columns, [row is not None and row.is_bad for row in rows]


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_many_at_once_are_what_each_is_by_itself(chosen: random.Random, count: int) -> None:
    """Loops over bytes and the slow way share no code."""
    texts: list[bytes | None] = [cases.some_text(chosen) for _ in range(count)] + [None]
    columns, bad = read(texts)
    expected, expected_bad = one_by_one(texts)
    assert columns == expected
    assert bad.tolist() == expected_bad
    at = chosen.randint(0, count)
    parts = [read(texts[:at]), read(texts[at:])]
    assert [a + b for a, b in zip(parts[0][0], parts[1][0], strict=True)] == columns


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="{}[]:,\"\\ab1.e-tn '", max_size=12), max_size=30))
def test_any_letters_at_all(texts: list[str]) -> None:
    raw: list[bytes | None] = [f'{{"a":{text}'.encode() for text in texts]
    columns, bad = read(raw)
    assert (columns, bad.tolist()) == one_by_one(raw)


# Against Spark ------------------------------------------------------------------------------------


def compare(
    spark: SparkSession, texts: list[bytes | None], zone: Zone | None = None, ddl: str = cases.DDL
) -> int:
    """How many texts are bad, all read here as by Spark."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    from skewless.expressions.zones import UTC
    from skewless.spark.plans import arrow_schema

    frame = spark.createDataFrame(pa.table({"value": pa.array(texts, pa.binary())})).coalesce(1)
    parsed = frame.select(F.from_json(F.col("value").cast("string"), ddl).alias("r"))
    expected = parsed.select("r.*").toArrow()
    columns = JsonColumns(arrow_schema(StructType.fromDDL(ddl)), CORRUPT, zone or UTC)
    found, bad = columns.read(pa.array(texts, pa.binary()))
    for field, column in zip(columns.schema, found, strict=True):
        theirs = expected.column(field.name).combine_chunks()
        for text, ours, other in zip(texts, plain(column), plain(theirs), strict=True):
            assert ours == other, (field.name, text)
    assert bad.tolist() == [
        text is not None for text in expected.column(CORRUPT).cast(pa.binary()).to_pylist()
    ]
    return int(bad.sum())


@pytest.mark.spark
@pytest.mark.quick(1)
@pytest.mark.parametrize("every", [11, 1])
def test_every_value_in_every_field_is_read_as_by_spark(spark: SparkSession, every: int) -> None:
    """Everybody compares one of so many."""
    texts = cases.every_value()[::every]
    assert len(texts) / 2 < compare(spark, texts) < len(texts)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/St_Johns", "+05:30"])
def test_any_mixture_is_read_as_by_spark(spark: SparkSession, name: str) -> None:
    from skewless.spark.catalyst.zones import zone_of

    chosen = random.Random(zlib_of(name))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        texts: list[bytes | None] = [cases.some_text(chosen) for _ in range(EXAMPLES)]
        bad = compare(spark, texts + cases.every_value(), zone_of(spark, name))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert EXAMPLES / 4 < bad < EXAMPLES + len(cases.every_value())


def zlib_of(name: str) -> int:
    import zlib

    return zlib.crc32(name.encode()) + int(os.environ.get("SKEWLESS_SEED", "0"))


@pytest.mark.spark
@pytest.mark.slow
def test_numbers_where_strings_are_asked_for(spark: SparkSession) -> None:
    """Whole numbers and short fractions; Java 17 writes some others with a digit more."""
    chosen = np.random.default_rng(3)
    values = [
        f"{n / 10 ** (i % 6)!r}" for i, n in enumerate(chosen.integers(-(10**9), 10**9, 2000))
    ]
    texts: list[bytes | None] = [f'{{"b":{value},"v":[{value}]}}'.encode() for value in values]
    compare(spark, texts, ddl=f"b string, v array<string>, {CORRUPT} string")
