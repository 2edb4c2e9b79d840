"""`to_json` done on Arrow beside Spark's own: the same texts, or left to Spark."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from skewless.expressions.shape import shaped
from skewless.spark.plans import arrow_schema
from skewless.spark.shapes import shapes_of_steps

pytestmark = pytest.mark.spark

NASTY = [
    (True, 1, 2, 1.5, Decimal("1.5000"), "plain", "x", "2024-02-29", "2024-03-31 01:30:00.123456"),
    (None, None, None, None, None, None, None, None, None),
    (False, -(2**31), 2**63 - 1, math.nan, Decimal("0.0001"), "", "\u0000\u001f", "0001-01-01",
     "1900-01-01 00:00:00"),
    (True, 0, -(2**63), math.inf, Decimal("-0.0001"), 'q"\\/\b\t\n\f\r', "ü€😀", "9999-12-31",
     "2024-10-27 02:30:00"),
    (None, 7, None, -0.0, Decimal("1234567890123456.7890"), "null", None, "1970-01-01",
     "2040-07-01 12:00:00.000001"),
    (None, 7, 10, 1e21, None, "{}", "\u2028", None, "1582-10-10 00:00:00"),
]  # fmt: skip


@pytest.fixture(
    params=[
        pytest.param("UTC", marks=pytest.mark.slow),
        "Europe/Berlin",
        pytest.param("Asia/Kathmandu", marks=pytest.mark.slow),
    ]
)
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


def frame(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    raw = "b boolean, i int, l long, d double, n decimal(20,4), t string, a string"
    made = spark.createDataFrame(rows, f"{raw}, day string, m string")
    casts = ["cast(day as date) day", "cast(m as timestamp) m", "cast(m as timestamp_ntz) c"]
    return made.selectExpr("b", "i", "l", "d", "n", "t", 'a `a"\\\\ b`', *casts)


def on_arrow(rows: DataFrame, *columns: str) -> list[Any] | None:
    """What our translation gives, None if there is none."""
    steps = (("selectExpr", columns),)
    shapes = shapes_of_steps(rows.sparkSession, rows.schema, steps)
    if shapes is None:
        return None
    table = rows.toArrow().cast(arrow_schema(rows.schema))
    made = [shaped(batch, shapes) for batch in table.combine_chunks().to_batches()]
    return pa.Table.from_batches(made).column("value").to_pylist()


@pytest.mark.parametrize(
    "column",
    [
        "to_json(struct(*)) value",
        "to_json(named_struct('x', i + 1, 'y', upper(t), 'z', 3)) value",
        "to_json(struct(i, t, m), map('ignoreNullFields', 'false')) value",
        "to_json(struct(d, n)) value",
    ],
)
def test_the_same_texts(spark: SparkSession, zone: str, column: str) -> None:
    rows = frame(spark, NASTY)
    expected = [row.value for row in rows.selectExpr(column).collect()]
    assert on_arrow(rows, column) == expected


@pytest.mark.parametrize(
    "column",
    [
        "to_json(struct(cast(d as float) f)) value",
        "to_json(struct(m), map('timestampFormat', 'yyyy')) value",
        "to_json(named_struct('s', struct(i))) value",
        "to_json(named_struct('s', array(i))) value",
        "to_json(s) value",
    ],
)
def test_what_is_left_to_spark(spark: SparkSession, column: str) -> None:
    rows = frame(spark, NASTY).selectExpr("*", "struct(i, t) s")
    assert on_arrow(rows, column) is None


def test_nulls_by_a_setting(spark: SparkSession) -> None:
    rows, column = frame(spark, NASTY), "to_json(struct(i, t)) value"
    spark.conf.set("spark.sql.jsonGenerator.ignoreNullFields", "false")
    try:
        expected = [row.value for row in rows.selectExpr(column).collect()]
        assert on_arrow(rows, column) == expected
        assert '{"i":null,"t":null}' in expected
    finally:
        spark.conf.unset("spark.sql.jsonGenerator.ignoreNullFields")


# Java before version 19 writes some doubles with one digit more, the least of all among them.
DOUBLES = st.sampled_from([0.1, 1e16, 1.0e-5, 123456.789, 1e300, -2.5]) | st.integers(
    -(2**53), 2**53
).map(float)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | DOUBLES,
            st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_any_rows(spark: SparkSession, rows: list[tuple[Any, ...]]) -> None:
    made = spark.createDataFrame(rows, "l long, d double, t string")
    column = "to_json(struct(*)) value"
    expected = [row.value for row in made.selectExpr(column).collect()]
    assert on_arrow(made, column) == expected
