"""Calls that cannot work: refused before anything runs, naming argument, value and choices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.errors import ArgumentError, ColumnError, SkewlessError
from skewless.strategies import FAMILIES

LEFT = """
    k long, s string, at timestamp, ntz timestamp_ntz, day date, m decimal(38, 0), x double,
    flag boolean, point struct<x: int>, many array<int>, map map<string, int>
"""
RIGHT = """
    k long, s string, seen timestamp, ntz timestamp_ntz, day date, m decimal(38, 38), y double,
    flag boolean, point struct<x: int>, many array<int>, map map<string, int>
"""
GOOD: dict[str, Any] = {
    "on": "k",
    "left_time": "at",
    "right_time": "seen",
    "within": "10 seconds",
}


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return spark.createDataFrame([], LEFT), spark.createDataFrame([], RIGHT)


def refused(
    call: Callable[[], object],
    kind: type[ArgumentError],
    argument: str,
    received: object,
    *accepted: str,
) -> None:
    """The error is of the kind, and tells what is wrong, what was given and what would do."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert isinstance(caught.value, SkewlessError)
    assert caught.value.argument == argument
    told = str(caught.value)
    assert told.startswith(f"`{argument}` must be ")
    assert repr(received) in told
    for choice in accepted:
        assert choice in told


def test_the_good_arguments_are_good(frames: tuple[DataFrame, DataFrame]) -> None:
    assert sk.join(*frames, **GOOD).columns[:3] == ["k", "s", "at"]


FORMS = ('"k"', '["k1", "k2"]', "sk.band(", "sk.equal(", '== right["k"]')
COMPARE = ("types that Spark compares", "Spark says", "Cast one")
STRATEGIES = (FAMILIES["join"].choices(), "'auto'", "sk.Auto(", "sk.Hash(", "sk.Broadcast(")
BY_TIME = {"left_time": None, "right_time": None}  # and by `time` instead
UNITS = ("10 minutes", "microseconds", "weeks")

# name: (changed arguments, kind of error, argument named, value told, choices told)
BAD: dict[str, tuple[dict[str, Any], type[ArgumentError], str, object, tuple[str, ...]]] = {
    "on: nothing": ({"on": []}, ArgumentError, "on", [], FORMS),
    "on: number": ({"on": 5}, ArgumentError, "on", 5, FORMS),
    "on: triple": ({"on": [("k", "k", "k")]}, ArgumentError, "on", [("k", "k", "k")], FORMS),
    "on: missing left": ({"on": "y"}, ColumnError, "on", "y", ("`left`", "k, s, at")),
    "on: missing right": ({"on": [("k", "x")]}, ColumnError, "on", "x", ("`right`", "k, s, seen")),
    "on: number and time": (
        {"on": [("k", "seen")]}, ColumnError, "on", "k (bigint) with seen (timestamp)", COMPARE,
    ),
    "on: struct and array": (
        {"on": [("point", "many")]}, ColumnError, "on",
        "point (struct<x:int>) with many (array<int>)", COMPARE,
    ),
    "on: null_safe": (
        {"on": sk.equal("k", "k", null_safe=1)}, ArgumentError, "null_safe", 1, ("True or False",),
    ),  # type: ignore[arg-type]
    "on: map": (
        {"on": "map"}, ColumnError, "on", "map (map<string,int>) with map (map<string,int>)",
        COMPARE,
    ),
    "band: missing": ({"on": sk.band("z", "y", 1)}, ColumnError, "on", "z", ("`left`", "k, s")),
    "band: no name": (
        {"on": sk.band(1, "y", 1)}, ArgumentError, "on", 1, ("the name of a column",),
    ),  # type: ignore[arg-type]
    "band: text": (
        {"on": sk.band("s", "s", 1)}, ColumnError, "on", "band of s (string) with s (string)",
        ("numeric", "timestamps", "dates"),
    ),
    "band: number and time": (
        {"on": sk.band("k", "seen", 1)}, ColumnError, "on",
        "band of k (bigint) with seen (timestamp)", ("numeric", "timestamps", "dates"),
    ),
    "band: booleans": (
        {"on": sk.band("flag", "flag", 1)}, ColumnError, "on",
        "band of flag (boolean) with flag (boolean)", ("numeric", "timestamps", "dates"),
    ),
    "width: negative": (
        {"on": sk.band("k", "k", -1)}, ArgumentError, "width", -1, ("finite", "not negative"),
    ),
    "width: NaN": (
        {"on": sk.band("x", "y", float("nan"))}, ArgumentError, "width", float("nan"), ("finite",),
    ),
    "width: infinite": (
        {"on": sk.band("x", "y", float("inf"))}, ArgumentError, "width", float("inf"), ("finite",),
    ),
    "width: text": (
        {"on": sk.band("k", "k", "5")}, ArgumentError, "width", "5", ("a number",),
    ),
    "width: truth": (
        {"on": sk.band("k", "k", True)}, ArgumentError, "width", True, ("a number",),
    ),
    "width: too large": (
        {"on": sk.band("k", "k", 10**30)}, ArgumentError, "width", 10**30, ("at most",),
    ),
    "width: number for times": (
        {"on": sk.band("at", "seen", 5)}, ArgumentError, "width", 5, ("10 minutes", "timedelta"),
    ),
    "width: negative time": (
        {"on": sk.band("at", "seen", "-5 seconds")}, ArgumentError, "width", "-5 seconds",
        ("not negative",),
    ),
    "width: hours for dates": (
        {"on": sk.band("day", "day", "1 hour")}, ArgumentError, "width", "1 hour", ("whole days",),
    ),
    "time: none": (
        {"left_time": None}, ArgumentError, "left_time", None, ("event-time", "sk.UNBOUNDED"),
    ),
    "time: only one": (
        {"right_time": None, "within": sk.UNBOUNDED}, ArgumentError, "right_time", None,
        ("event-time",),
    ),
    "time: missing": (
        {"right_time": "at"}, ColumnError, "right_time", "at", ("`right`", "k, s, seen"),
    ),
    "time: no name": (
        {"right_time": 7}, ArgumentError, "right_time", 7, ("the name of a column",),
    ),
    "time: number": (
        {"left_time": "k"}, ColumnError, "left_time", "k (bigint)", ("timestamp_ntz",),
    ),
    "time: date": (
        {"right_time": "day"}, ColumnError, "right_time", "day (date)", ("timestamp_ntz",),
    ),
    "time: of two kinds": (
        {"right_time": "ntz"}, ArgumentError, "right_time",
        "at (timestamp) and ntz (timestamp_ntz)", ("`left_time`", "cast"),
    ),
    "within: words": ({"within": "a while"}, ArgumentError, "within", "a while", UNITS),
    "within: empty": ({"within": ""}, ArgumentError, "within", "", UNITS),
    "within: months": ({"within": "1 month"}, ArgumentError, "within", "1 month", UNITS),
    "within: negative": (
        {"within": "-1 second"}, ArgumentError, "within", "-1 second", ("not negative",),
    ),
    "within: negative timedelta": (
        {"within": timedelta(seconds=-1)}, ArgumentError, "within", timedelta(seconds=-1),
        ("not negative",),
    ),
    "within: number": ({"within": 10}, ArgumentError, "within", 10, ("10 minutes", "timedelta")),
    "within: none": ({"within": None}, ArgumentError, "within", None, ("10 minutes", "timedelta")),
    "within: turned round": (
        {"within": ("1 second", "-1 second")}, ArgumentError, "within", ("1 second", "-1 second"),
        ("lower <= upper",),
    ),
    "within: three": (
        {"within": ("1 s", "2 s", "3 s")}, ArgumentError, "within", ("1 s", "2 s", "3 s"),
        ("(lower, upper)", "sk.UNBOUNDED"),
    ),
    "within: bad bound": (
        {"within": ("1 second", "x")}, ArgumentError, "within", "x", UNITS,
    ),
    "within: too long": (
        {"within": "90000000 days"}, ArgumentError, "within", "90000000 days", ("at most",),
    ),
    "late: words": ({"late": "soon"}, ArgumentError, "late", "soon", UNITS),
    "late: negative": (
        {"late": "-1 second"}, ArgumentError, "late", "-1 second", ("not negative",),
    ),
    "late: one side negative": (
        {"late": ("1 second", "-2 seconds")}, ArgumentError, "late", "-2 seconds",
        ("not negative",),
    ),
    "late: one of two": (
        {"late": ("1 second",)}, ArgumentError, "late", ("1 second",), ("(left, right)",),
    ),
    "late: number": ({"late": 3.5}, ArgumentError, "late", 3.5, ("10 minutes", "timedelta")),
    "how": ({"how": "cross"}, ArgumentError, "how", "cross", ("'inner'", "'left_outer'")),
    "strategy: name": ({"strategy": "hash"}, ArgumentError, "strategy", "hash", STRATEGIES),
    "strategy: nothing": ({"strategy": ""}, ArgumentError, "strategy", "", STRATEGIES),
    "strategy: class": ({"strategy": sk.Hash}, ArgumentError, "strategy", sk.Hash, STRATEGIES),
    "strategy: of groups": (
        {"strategy": sk.PKG()}, ArgumentError, "strategy", sk.PKG(), STRATEGIES,
    ),
    "balance: name": ({"balance": "hash"}, ArgumentError, "balance", "hash", STRATEGIES),
    "balance: nothing": ({"balance": ""}, ArgumentError, "balance", "", STRATEGIES),
    "balance: with strategy": (
        {"balance": sk.Hash(), "strategy": "auto"}, ArgumentError, "balance", sk.Hash(),
        ("left out", "`strategy`"),
    ),
    "time: with left_time": (
        {"time": "at"}, ArgumentError, "time", "at", ("left out", "left_time, right_time"),
    ),
    "time: three": (
        BY_TIME | {"time": ("at", "seen", "at")}, ArgumentError, "time", ("at", "seen", "at"),
        ("for all inputs", "one for each: left, right"),
    ),
    "time: one of two": (
        BY_TIME | {"time": ("at", None)}, ArgumentError, "time", None, ("event-time",),
    ),
    "time: neither": (BY_TIME, ArgumentError, "time", None, ("event-time", "sk.UNBOUNDED")),
    "time: not of both": (BY_TIME | {"time": "at"}, ColumnError, "time", "at", ("`right`",)),
    "time: two of two kinds": (
        BY_TIME | {"time": ["at", "ntz"]}, ArgumentError, "time",
        "at (timestamp) and ntz (timestamp_ntz)", ("columns of one type", "cast"),
    ),
    "instances: none": (
        {"instances": 0}, ArgumentError, "instances", 0, ("from 1 to 65536",),
    ),
    "instances: half": (
        {"instances": 1.5}, ArgumentError, "instances", 1.5, ("from 1 to 65536",),
    ),
    "instances: truth": (
        {"instances": True}, ArgumentError, "instances", True, ("from 1 to 65536",),
    ),
    "slots: negative": ({"slots": -4}, ArgumentError, "slots", -4, ("from 1 to 65536",)),
    "slots: text": ({"slots": "many"}, ArgumentError, "slots", "many", ("from 1 to 65536",)),
    "slots: too many": ({"slots": 1 << 20}, ArgumentError, "slots", 1 << 20, ("from 1 to 65536",)),
    "suffixes: one": ({"suffixes": ("_l",)}, ArgumentError, "suffixes", ("_l",), ("two strings",)),
    "suffixes: text": ({"suffixes": "_r"}, ArgumentError, "suffixes", "_r", ("two strings",)),
    "suffixes: numbers": (
        {"suffixes": (1, 2)}, ArgumentError, "suffixes", (1, 2), ("two strings",),
    ),
    "suffixes: alike": (
        {"suffixes": ("", "")}, ColumnError, "suffixes", ("", ""), ("twice", "'s'", "'day'"),
    ),
    "on_null_time": (
        {"on_null_time": "ignore"}, ArgumentError, "on_null_time", "ignore", ("'error'", "'drop'"),
    ),
    "where: syntax": ({"where": "k >"}, ArgumentError, "where", "k >", ("k, s, at",)),
    "where: unknown column": (
        {"where": "missing > 1"}, ArgumentError, "where", "missing > 1", ("k, s, at", "missing"),
    ),
    "where: no condition": ({"where": "k + 1"}, ArgumentError, "where", "k + 1", ("k, s, at",)),
    "where: number": ({"where": 5}, ArgumentError, "where", "5", ("k, s, at",)),
    "where: aggregate": (
        {"where": "count(*) > 1"}, ArgumentError, "where", "count(*) > 1", ("k, s, at",),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "kind", "argument", "received", "accepted"), BAD.values(), ids=BAD.keys()
)
def test_bad_argument(
    frames: tuple[DataFrame, DataFrame],
    changed: dict[str, Any],
    kind: type[ArgumentError],
    argument: str,
    received: object,
    accepted: tuple[str, ...],
) -> None:
    refused(lambda: sk.join(*frames, **(GOOD | changed)), kind, argument, received, *accepted)


def test_groups() -> None:
    for groups in (0, -1, 1.5, True, "two"):
        refused(
            lambda groups=groups: sk.ContRand(groups=groups),
            ArgumentError,
            "groups",
            groups,
            "at least 1",
        )


def test_ambiguous_columns(frames: tuple[DataFrame, DataFrame]) -> None:
    left, right = frames
    twice = left.select("k", "at", "s", left.s)
    told = ["k", "at", "s", "s"]
    refused(lambda: sk.join(twice, right, **GOOD), ColumnError, "left", told, "twice", "['s']")
    mixed_case = right.withColumnRenamed("flag", "K")
    refused(
        lambda: sk.join(left, mixed_case, **GOOD),
        ColumnError,
        "right",
        mixed_case.columns,
        "['K', 'k']",
    )


def test_suffixed_name_that_exists_already(frames: tuple[DataFrame, DataFrame]) -> None:
    left, right = frames
    taken = left.withColumnRenamed("x", "s_right")
    refused(
        lambda: sk.join(taken, right, **GOOD),
        ColumnError,
        "suffixes",
        ("", "_right"),
        "twice",
        "'s_right'",
    )


def test_collation(spark: SparkSession, frames: tuple[DataFrame, DataFrame]) -> None:
    left, right = frames
    blind = left.selectExpr("k", "at", "s COLLATE UTF8_LCASE AS s")
    told = "s (string collate UTF8_LCASE)"
    arguments = GOOD | {"on": "s"}
    refused(lambda: sk.join(blind, right, **arguments), ColumnError, "on", told, "UTF8_BINARY")
    refused(
        lambda: sk.join(
            right.withColumnRenamed("seen", "at"), blind.toDF("k", "seen", "s"), **arguments
        ),
        ColumnError,
        "on",
        told,
        "UTF8_BINARY",
    )


def test_column_that_arrow_cannot_hold(frames: tuple[DataFrame, DataFrame]) -> None:
    left, right = frames
    odd = left.selectExpr("k", "at", "make_ym_interval(1, 2) AS months")
    refused(
        lambda: sk.join(odd, right, **GOOD),
        ColumnError,
        "left",
        "months (interval year to month)",
        "Arrow",
        "YearMonthIntervalType",
    )


@pytest.mark.parametrize("thing", [None, "orders", [1, 2]])
def test_input_that_is_no_frame(frames: tuple[DataFrame, DataFrame], thing: Any) -> None:
    kind = type(thing).__name__
    left, right = frames
    refused(lambda: sk.join(thing, right, **GOOD), ArgumentError, "left", kind, "Spark DataFrame")
    refused(lambda: sk.join(left, thing, **GOOD), ArgumentError, "right", kind, "Spark DataFrame")


# Streams and writers ---------------------------------------------------------------------------


def rate(spark: SparkSession, time: str) -> DataFrame:
    return spark.readStream.format("rate").load().toDF(time, "k")


@pytest.fixture(scope="module")
def streaming(spark: SparkSession) -> sk.Joined:
    return sk.join(rate(spark, "at"), rate(spark, "seen"), **GOOD)


def test_static_with_streaming(spark: SparkSession, frames: tuple[DataFrame, DataFrame]) -> None:
    left, right = frames
    told = "a static DataFrame"
    streams = rate(spark, "at"), rate(spark, "seen")
    refused(lambda: sk.join(streams[0], right, **GOOD), ArgumentError, "right", told, "streaming")
    refused(lambda: sk.join(left, streams[1], **GOOD), ArgumentError, "left", told, "streaming")


def test_wrong_way_to_the_result(streaming: sk.Joined, frames: tuple[DataFrame, DataFrame]) -> None:
    static = sk.join(*frames, **GOOD)
    told = "static inputs"
    refused(lambda: static.writeStream, ArgumentError, "writeStream", told, "dataframe()", "toDF()")
    for way, name in (
        (streaming.toDF, "toDF"),
        (streaming.dataframe, "dataframe"),
        (streaming.show, "show"),
    ):
        refused(way, ArgumentError, name, "streaming inputs", "writeStream")


@pytest.mark.parametrize("mode", ["complete", "upsert", None])
def test_output_mode(streaming: sk.Joined, mode: Any) -> None:
    writer = streaming.writeStream
    choices = ("'append'", "'update'")
    refused(lambda: writer.outputMode(mode), ArgumentError, "outputMode", mode, *choices)


@pytest.mark.parametrize(
    "trigger",
    [
        {},
        {"continuous": "1 second"},
        {"realTime": "5 minutes"},
        {"availableNow": True, "once": True},
    ],
    ids=str,
)
def test_trigger(streaming: sk.Joined, trigger: dict[str, Any]) -> None:
    refused(
        lambda: streaming.writeStream.trigger(**trigger),
        ArgumentError,
        "trigger",
        trigger,
        "processingTime",
        "availableNow",
        "once",
    )


def test_a_format_that_is_not_installed(streaming: sk.Joined, tmp_path: Path) -> None:
    writer = streaming.writeStream.format("nosuch").option("checkpointLocation", str(tmp_path))
    with pytest.raises(ArgumentError, match="a data source that is installed") as error:
        writer.start()
    assert (error.value.argument, error.value.received) == ("format", "nosuch")


@pytest.mark.parametrize("key", ["skewless.keepcommit", "Skewless.Slots"])
def test_unknown_option(streaming: sk.Joined, key: str) -> None:
    choices = (
        "skewless.keepCommits",
        "skewless.keepHistory",
        "skewless.hideKeys",
        "skewless.existing",
    )
    refused(lambda: streaming.writeStream.option(key, 1), ArgumentError, "option", key, *choices)
    refused(
        lambda: streaming.writeStream.options(**{key: 1}), ArgumentError, "option", key, *choices
    )


@pytest.mark.parametrize("value", [1, 0, -3, "few", None])
def test_bad_option(streaming: sk.Joined, tmp_path: Path, value: Any) -> None:
    writer = streaming.writeStream.format("parquet").option("skewless.keepCommits", value)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    refused(
        lambda: writer.start(str(tmp_path / "out")),
        ArgumentError,
        "skewless.keepCommits",
        value,
        "at least 2",
    )
    assert list(tmp_path.iterdir()) == []


def test_bad_flag(streaming: sk.Joined, tmp_path: Path) -> None:
    writer = streaming.writeStream.format("parquet").option("skewless.hideKeys", "perhaps")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    refused(
        lambda: writer.start(str(tmp_path / "out")),
        ArgumentError,
        "skewless.hideKeys",
        "perhaps",
        "true or false",
    )
    assert list(tmp_path.iterdir()) == []


def test_output_among_the_files_of_the_checkpoint(
    spark: SparkSession, streaming: sk.Joined, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    for path in (checkpoint, checkpoint / "skewless" / "segments", checkpoint / "offsets"):
        writer = streaming.writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(checkpoint))
        accepted = ("apart from the files of the checkpoint", str(checkpoint / "out"))
        refused(partial(writer.start, str(path)), ArgumentError, "path", str(path), *accepted)
        texts, letters = rate(spark, "at").selectExpr("string(k) value"), sk.DeadLetters(str(path))
        parsed = sk.from_json(texts, "value", "id long, at timestamp", on_bad=letters)
        seen = sk.deduplicate(parsed, "id", time="at", within="1 minute").writeStream
        seen = seen.foreachBatch(lambda rows, batch_id: None)
        seen = seen.option("checkpointLocation", str(checkpoint))
        refused(seen.start, ArgumentError, "path", str(path), *accepted)
    assert list(tmp_path.iterdir()) == []


def test_bad_settings(streaming: sk.Joined) -> None:
    writer = streaming.writeStream
    for name in ("", "  ", None, 5):
        refused(
            lambda name=name: writer.queryName(name), ArgumentError, "queryName", name, "not empty"
        )
    refused(lambda: writer.partitionBy("k", "nope"), ColumnError, "partitionBy", "nope", "k, seen")
    refused(lambda: writer.foreachBatch(5), ArgumentError, "foreachBatch", 5, "function")  # type: ignore[arg-type]


def test_no_checkpoint_location(streaming: sk.Joined, tmp_path: Path) -> None:
    choices = (
        '.option("checkpointLocation"',
        "queryName",
        "spark.sql.streaming.checkpointLocation",
    )
    for writer in (
        streaming.writeStream.format("parquet").option("path", str(tmp_path / "out")),
        streaming.writeStream.foreachBatch(lambda rows, batch_id: None),
        streaming.writeStream.format("json").queryName("named"),
    ):
        refused(writer.start, ArgumentError, "checkpointLocation", None, *choices)
    assert list(tmp_path.iterdir()) == []


def test_session_location_needs_a_name(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    joined = sk.join(rate(session, "at"), rate(session, "seen"), **GOOD)
    writer = joined.writeStream.format("parquet")
    refused(
        lambda: writer.start(str(tmp_path / "out")),
        ArgumentError,
        "checkpointLocation",
        str(tmp_path),
        "queryName",
    )


def test_sinks_that_miss_something(streaming: sk.Joined, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    writer = streaming.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    refused(writer.start, ArgumentError, "path", None, "output folder")
    writer = streaming.writeStream.format("memory")
    refused(writer.start, ArgumentError, "queryName", None, "memory")
    assert list(tmp_path.iterdir()) == []


def test_bad_select(streaming: sk.Joined) -> None:
    refused(
        lambda: streaming.select("k", "nope"),
        ArgumentError,
        "select",
        "k, nope",
        "at, k, seen",
        "nope",
    )
    refused(lambda: streaming.selectExpr("k +"), ArgumentError, "selectExpr", "k +", "at, k, seen")
