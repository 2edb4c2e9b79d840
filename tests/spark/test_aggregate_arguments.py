"""Calls of `sk.aggregate` that cannot work: refused before anything runs, naming argument, value
and choices."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from skewless.strategies import FAMILIES
from tests.spark.test_bad_arguments import UNITS, rate, refused

COLUMNS = """
    k long, s string, at timestamp, ntz timestamp_ntz, day date, x double, flag boolean,
    point struct<x: int>, many array<int>, map map<string, int>
"""
GOOD: dict[str, Any] = {
    "by": "k",
    "aggs": {"n": "count"},
    "time": "at",
    "window": "1 minute",
    "late": "10 seconds",
}


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], COLUMNS)


def test_the_good_arguments_are_good(frame: DataFrame) -> None:
    assert sk.aggregate(frame, **GOOD).columns == ["window", "k", "n"]
    assert sk.aggregate(frame, [], {"n": "count"}).columns == ["n"]


KEYS = ("boolean, integer", "timestamp", "use the fields of a struct")
FORMS = (
    '{"name": aggregate}',
    '("sum", "column")',
    "sk.Accumulator",
    "count, sum, min",
    "quantile",
)
STRATEGIES = (FAMILIES["aggregate"].choices(), "sk.BatchAware(", "sk.PKG(", "sk.KeyGrouping(")
SLIDING = ("(size, slide) with 0 < slide <= size",)

# name: (changed arguments, kind of error, argument named, value told, choices told)
BAD: dict[str, tuple[dict[str, Any], type[ArgumentError], str, object, tuple[str, ...]]] = {
    "by: none": ({"by": None}, ArgumentError, "by", None, ('"k"', '["k1", "k2"]', "[]")),
    "by: number": ({"by": 5}, ArgumentError, "by", 5, ('"k"', '["k1", "k2"]', "[]")),
    "by: a number in it": ({"by": ["k", 5]}, ArgumentError, "by", 5, ("the name of a column",)),
    "by: missing": ({"by": "nope"}, ColumnError, "by", "nope", ("`df`", "k, s, at")),
    "by: twice": ({"by": ["k", "K"]}, ArgumentError, "by", ["k", "K"], ("once", "in it: k")),
    "by: struct": ({"by": "point"}, ColumnError, "by", "point (struct<x:int>)", KEYS),
    "by: array": ({"by": ["many"]}, ColumnError, "by", "many (array<int>)", KEYS),
    "by: map": ({"by": "map"}, ColumnError, "by", "map (map<string,int>)", KEYS),
    "aggs: none": ({"aggs": None}, ArgumentError, "aggs", None, FORMS),
    "aggs: nothing": ({"aggs": {}}, ArgumentError, "aggs", {}, FORMS),
    "aggs: a list": ({"aggs": ["count"]}, ArgumentError, "aggs", ["count"], FORMS),
    "aggs: text": ({"aggs": "count"}, ArgumentError, "aggs", "count", FORMS),
    "aggs: a number as name": (
        {"aggs": {5: "count"}}, ArgumentError, "aggs", {5: "count"}, ("names of columns", "5 is"),
    ),
    "aggs: an empty name": (
        {"aggs": {"": "count"}}, ArgumentError, "aggs", {"": "count"}, ("names of columns", "''"),
    ),
    "agg: unknown": ({"aggs": {"a": "median"}}, ArgumentError, 'aggs["a"]', "median", FORMS),
    "agg: none": ({"aggs": {"a": None}}, ArgumentError, 'aggs["a"]', None, FORMS),
    "agg: number": ({"aggs": {"a": 7}}, ArgumentError, 'aggs["a"]', 7, FORMS),
    "agg: empty": ({"aggs": {"a": ()}}, ArgumentError, 'aggs["a"]', (), FORMS),
    "agg: a list as name": (
        {"aggs": {"a": (["sum"], "x")}}, ArgumentError, 'aggs["a"]', (["sum"], "x"), FORMS,
    ),
    "agg: a class": (
        {"aggs": {"a": (sk.Quantile, "x")}}, ArgumentError, 'aggs["a"]', (sk.Quantile, "x"), FORMS,
    ),
    "agg: sum of nothing": (
        {"aggs": {"a": "sum"}}, ArgumentError, 'aggs["a"]', "sum", ('("sum", "column")',),
    ),
    "agg: sum of two": (
        {"aggs": {"a": ("sum", "x", "k")}}, ArgumentError, 'aggs["a"]', ("sum", "x", "k"),
        ('("sum", "column")',),
    ),
    "agg: count of two": (
        {"aggs": {"a": ("count", "x", "k")}}, ArgumentError, 'aggs["a"]', ("count", "x", "k"),
        ('("count", "column")',),
    ),
    "agg: missing column": (
        {"aggs": {"a": ("sum", "nope")}}, ColumnError, 'aggs["a"]', "nope", ("`df`", "k, s, at"),
    ),
    "agg: no name of a column": (
        {"aggs": {"a": ("sum", 5)}}, ArgumentError, 'aggs["a"]', 5, ("the name of a column",),
    ),
    "agg: sum of text": (
        {"aggs": {"a": ("sum", "s")}}, ColumnError, 'aggs["a"]', "s (string)", ("numeric",),
    ),
    "agg: mean of truth": (
        {"aggs": {"a": ("mean", "flag")}}, ColumnError, 'aggs["a"]', "flag (boolean)",
        ("numeric",),
    ),
    "agg: stddev of times": (
        {"aggs": {"a": ("stddev", "at")}}, ColumnError, 'aggs["a"]', "at (timestamp)",
        ("numeric",),
    ),
    "agg: least of structs": (
        {"aggs": {"a": ("min", "point")}}, ColumnError, 'aggs["a"]', "point (struct<x:int>)",
        ("numbers, strings",),
    ),
    "agg: distinct arrays": (
        {"aggs": {"a": ("approx_distinct", "many")}}, ColumnError, 'aggs["a"]',
        "many (array<int>)", ("boolean, integer",),
    ),
    "quantile: no share": (
        {"aggs": {"a": ("quantile", "x")}}, ArgumentError, 'aggs["a"]', ("quantile", "x"),
        ('("quantile", "column", 0.95)',),
    ),
    "quantile: share and column turned round": (
        {"aggs": {"a": ("quantile", 0.5, "x")}}, ArgumentError, "q", "x", ("between 0 and 1",),
    ),
    "quantile: too large": (
        {"aggs": {"a": ("quantile", "x", 95)}}, ArgumentError, "q", 95, ("between 0 and 1",),
    ),
    "quantile: of text": (
        {"aggs": {"a": ("quantile", "s", 0.5)}}, ColumnError, 'aggs["a"]', "s (string)",
        ("numeric",),
    ),
    "names: as a key": (
        {"aggs": {"K": "count"}}, ArgumentError, "aggs", ["window", "k", "K"], ("twice", "'K'"),
    ),
    "names: as the window": (
        {"aggs": {"Window": "count"}}, ArgumentError, "aggs", ["window", "k", "Window"],
        ("twice", "'Window'"),
    ),
    "names: alike": (
        {"aggs": {"n": "count", "N": "count"}}, ArgumentError, "aggs", ["window", "k", "n", "N"],
        ("twice", "'N'", "'n'"),
    ),
    "time: none": ({"time": None}, ArgumentError, "time", None, ("event-time", "`window`")),
    "time: missing": ({"time": "nope"}, ColumnError, "time", "nope", ("`df`", "k, s, at")),
    "time: no name": ({"time": 7}, ArgumentError, "time", 7, ("the name of a column",)),
    "time: number": ({"time": "k"}, ColumnError, "time", "k (bigint)", ("timestamp_ntz",)),
    "time: date": ({"time": "day"}, ColumnError, "time", "day (date)", ("timestamp_ntz",)),
    "time: without window": (
        {"window": None, "late": None}, ArgumentError, "time", "at", ("left out", "`window`"),
    ),
    "late: without window": (
        {"window": None, "time": None}, ArgumentError, "late", "10 seconds",
        ("left out", "`window`"),
    ),
    "window: words": ({"window": "a while"}, ArgumentError, "window", "a while", UNITS),
    "window: months": ({"window": "1 month"}, ArgumentError, "window", "1 month", UNITS),
    "window: number": ({"window": 60}, ArgumentError, "window", 60, ("10 minutes", "timedelta")),
    "window: no time": ({"window": "0 seconds"}, ArgumentError, "window", "0 seconds", SLIDING),
    "window: negative": (
        {"window": timedelta(seconds=-1)}, ArgumentError, "window", timedelta(seconds=-1),
        ("not negative",),
    ),
    "window: leaves rows out": (
        {"window": ("1 minute", "2 minutes")}, ArgumentError, "window",
        ("1 minute", "2 minutes"), SLIDING,
    ),
    "window: stands still": (
        {"window": ("1 minute", "0 seconds")}, ArgumentError, "window",
        ("1 minute", "0 seconds"), SLIDING,
    ),
    "window: three": (
        {"window": ("1 s", "2 s", "3 s")}, ArgumentError, "window", ("1 s", "2 s", "3 s"),
        ("10 minutes",),
    ),
    "window: a bad slide": ({"window": ("1 hour", "x")}, ArgumentError, "window", "x", UNITS),
    "window: too many": (
        {"window": ("1 day", "1 second")}, ArgumentError, "window", ("1 day", "1 second"),
        ("at most 1000 windows",),
    ),
    "window: too long": (
        {"window": "90000000 days"}, ArgumentError, "window", "90000000 days", ("at most",),
    ),
    "late: words": ({"late": "soon"}, ArgumentError, "late", "soon", UNITS),
    "late: number": ({"late": 3.5}, ArgumentError, "late", 3.5, ("10 minutes", "timedelta")),
    "late: negative": (
        {"late": "-1 second"}, ArgumentError, "late", "-1 second", ("not negative",),
    ),
    "strategy: name": ({"strategy": "pkg"}, ArgumentError, "strategy", "pkg", STRATEGIES),
    "strategy: of a join": (
        {"strategy": sk.Hash()}, ArgumentError, "strategy", sk.Hash(), STRATEGIES,
    ),
    "grouping: name": ({"grouping": "pkg"}, ArgumentError, "grouping", "pkg", STRATEGIES),
    "grouping: class": ({"grouping": sk.PKG}, ArgumentError, "grouping", sk.PKG, STRATEGIES),
    "grouping: of a join": (
        {"grouping": sk.Hash()}, ArgumentError, "grouping", sk.Hash(), STRATEGIES,
    ),
    "grouping: with strategy": (
        {"grouping": sk.PKG(), "strategy": sk.PKG()}, ArgumentError, "grouping", sk.PKG(),
        ("left out", "`strategy`"),
    ),
    "instances: none": ({"instances": 0}, ArgumentError, "instances", 0, ("from 1 to 65536",)),
    "instances: half": ({"instances": 1.5}, ArgumentError, "instances", 1.5, ("1 to 65536",)),
    "instances: truth": ({"instances": True}, ArgumentError, "instances", True, ("1 to 65536",)),
    "instances: too many": (
        {"instances": 1 << 20}, ArgumentError, "instances", 1 << 20, ("1 to 65536",),
    ),
    "on_null_time": (
        {"on_null_time": "ignore"}, ArgumentError, "on_null_time", "ignore", ("'error'", "'drop'"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "kind", "argument", "received", "accepted"), BAD.values(), ids=BAD.keys()
)
def test_bad_argument(
    frame: DataFrame,
    changed: dict[str, Any],
    kind: type[ArgumentError],
    argument: str,
    received: object,
    accepted: tuple[str, ...],
) -> None:
    refused(lambda: sk.aggregate(frame, **(GOOD | changed)), kind, argument, received, *accepted)


@pytest.mark.parametrize("thing", [None, "orders", [1, 2]])
def test_input_that_is_no_frame(thing: Any) -> None:
    kind = type(thing).__name__
    refused(lambda: sk.aggregate(thing, **GOOD), ArgumentError, "df", kind, "Spark DataFrame")


def test_ambiguous_columns(frame: DataFrame) -> None:
    twice = frame.select("k", "at", frame.s.alias("K"))
    refused(lambda: sk.aggregate(twice, **GOOD), ColumnError, "df", ["k", "at", "K"], "'K', 'k'")


def test_collation(frame: DataFrame) -> None:
    blind = frame.selectExpr("at", "s COLLATE UTF8_LCASE AS k")
    told = "k (string collate UTF8_LCASE)"
    refused(lambda: sk.aggregate(blind, **GOOD), ColumnError, "by", told, "UTF8_BINARY")


@pytest.mark.parametrize("name", ["min", "max", "approx_distinct"])
def test_aggregates_that_would_ignore_a_collation(frame: DataFrame, name: str) -> None:
    """Spark compares such texts without regard to case; an answer by bytes would be another."""
    blind = frame.selectExpr("k", "at", "s COLLATE UTF8_LCASE AS s")
    wanted = GOOD | {"aggs": {"a": (name, "s")}}
    told = "s (string collate UTF8_LCASE)"
    refused(lambda: sk.aggregate(blind, **wanted), ColumnError, 'aggs["a"]', told, "UTF8_BINARY")
    counted = sk.aggregate(blind, **(GOOD | {"aggs": {"a": ("count", "s")}}))
    assert counted.columns == ["window", "k", "a"]


# Writing ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def streaming(spark: SparkSession) -> sk.Aggregated:
    return sk.aggregate(rate(spark, "at"), **GOOD)


def test_wrong_way_to_the_result(streaming: sk.Aggregated, frame: DataFrame) -> None:
    static = sk.aggregate(frame, **GOOD)
    told = "static inputs"
    refused(lambda: static.writeStream, ArgumentError, "writeStream", told, "dataframe()", "toDF()")
    for way, name in (
        (streaming.toDF, "toDF"),
        (streaming.dataframe, "dataframe"),
        (streaming.show, "show"),
    ):
        refused(way, ArgumentError, name, "streaming inputs", "writeStream")


@pytest.mark.parametrize("mode", ["complete", "upsert", None, 5])
def test_output_mode(streaming: sk.Aggregated, mode: Any) -> None:
    writer = streaming.writeStream
    choices = ("'append'", "'update'", "window closes")
    refused(lambda: writer.outputMode(mode), ArgumentError, "outputMode", mode, *choices)


def test_modes_that_are_known(streaming: sk.Aggregated) -> None:
    for mode in ("append", "update", "Append", "UPDATE"):
        streaming.writeStream.outputMode(mode)


def test_append_needs_windows(spark: SparkSession, tmp_path: Path) -> None:
    endless = sk.aggregate(rate(spark, "at"), "k", {"n": "count"})
    writer = endless.writeStream.outputMode("append").format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    refused(
        lambda: writer.start(str(tmp_path / "out")),
        ArgumentError,
        "outputMode",
        "append",
        "'update'",
        "`window`",
    )
    assert list(tmp_path.iterdir()) == []


def test_bad_steps(streaming: sk.Aggregated) -> None:
    columns = "window, k, n"
    refused(lambda: streaming.where("n >"), ArgumentError, "where", "n >", columns)
    refused(lambda: streaming.select("nope"), ArgumentError, "select", "nope", columns, "nope")
    refused(lambda: streaming.selectExpr("k +"), ArgumentError, "selectExpr", "k +", columns)
    writer = streaming.writeStream
    refused(lambda: writer.partitionBy("x"), ColumnError, "partitionBy", "x", columns)
