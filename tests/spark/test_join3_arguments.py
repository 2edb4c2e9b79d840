"""Calls of `sk.join3` that cannot work: refused before anything runs, naming argument, value and
choices."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from skewless.strategies import FAMILIES
from tests.spark.test_bad_arguments import COMPARE, UNITS, rate, refused

Frames = tuple[DataFrame, DataFrame, DataFrame]

R = "k long, s string, at timestamp, x double, point struct<x: int>, ntz timestamp_ntz"
S = "k long, s string, m long, seen timestamp, y double, day date"
T = "m long, s string, done timestamp, z double, flag boolean, many array<int>"
ON = (sk.equal("r.k", "s.k"), sk.equal("s.m", "t.m"))
GOOD: dict[str, Any] = {
    "on": ON,
    "times": ("at", "seen", "done"),
    "within": "10 seconds",
}


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> Frames:
    r, s, t = (spark.createDataFrame([], columns) for columns in (R, S, T))
    return r, s, t


def test_the_good_arguments_are_good(frames: Frames) -> None:
    columns = ["k", "s_r", "at", "x", "point", "ntz", "s_s", "m", "seen", "y", "day", "s_t"]
    assert sk.join3(*frames, **GOOD).columns[:12] == columns
    for good in (
        {"within": {"rs": "1 second", ("s", "t"): ("-1 second", "2 hours")}},
        {"within": timedelta(seconds=1), "late": ("1 second", timedelta(0), "2 minutes")},
        {"on": [sk.equal("r.K", "s.k"), sk.band("t.z", "s.y", 0)], "instances": 1},
        {"strategy": sk.Tree(["t", "s", "r"]), "suffixes": ["", "_s", "_t"]},
        {"strategy": None, "within": sk.UNBOUNDED, "late": None},
        {"times": None, "time": ["at", "seen", "done"], "strategy": "auto"},
        {"times": None, "within": sk.UNBOUNDED},
        {"times": None, "within": {"rs": sk.UNBOUNDED, "st": sk.UNBOUNDED}},
        {"within": {"rs": sk.UNBOUNDED, "st": "1 second"}},
    ):
        assert "done" in sk.join3(*frames, **(GOOD | good)).columns


def linked(*more: object) -> dict[str, Any]:
    """Conditions that are good but for one."""
    return {"on": [sk.equal("r.k", "s.k"), *more]}


FORM = ("conditions between two inputs each", 'sk.equal("r.k", "s.k")', 'sk.band("s.x", "t.x", 5)')
PREFIX = ("its input in front", '"r.k", "s.k" or "t.k"')
BANDS = ("two numeric columns", "two timestamps of one kind", "two dates")
STRATEGIES = (FAMILIES["join3"].choices(), "'auto'", "sk.TriJoin(", "sk.Tree(")
TIMES = ("an event-time column for all inputs", "one for each: r, s, t")
NAMES = ('three strings, such as ("_r", "_s", "_t")',)
EACH = ("one bound for each pair that has a condition: rs, st",)
ONE_OR_TWO = ("a duration", "(lower, upper)", "sk.UNBOUNDED", "one per pair")

# name: (changed arguments, kind of error, argument named, value told, choices told)
BAD: dict[str, tuple[dict[str, Any], type[ArgumentError], str, object, tuple[str, ...]]] = {
    "on: none": ({"on": None}, ArgumentError, "on", None, FORM),
    "on: nothing": ({"on": []}, ArgumentError, "on", [], FORM),
    "on: number": ({"on": 5}, ArgumentError, "on", 5, FORM),
    "on: name": ({"on": "k"}, ArgumentError, "on", "k", FORM),
    "on: names": (linked(("s.m", "t.m")), ArgumentError, "on", ("s.m", "t.m"), FORM),
    "equal: no input": (linked(sk.equal("m", "t.m")), ArgumentError, "on", "m", PREFIX),
    "equal: no column": (linked(sk.equal("s", "t.m")), ArgumentError, "on", "s", PREFIX),
    "equal: unknown input": (linked(sk.equal("s.m", "u.m")), ArgumentError, "on", "u.m", PREFIX),
    "equal: number": (linked(sk.equal(5, "t.m")), ArgumentError, "on", 5, PREFIX),  # type: ignore[arg-type]
    "equal: none": (linked(sk.equal("s.m", None)), ArgumentError, "on", None, PREFIX),  # type: ignore[arg-type]
    "equal: missing": (
        linked(sk.equal("s.m", "t.k")), ColumnError, "on", "k", ("`t`", "m, s, done, z"),
    ),
    "equal: empty name": (linked(sk.equal("s.", "t.m")), ColumnError, "on", "", ("`s`", "k, s, m")),
    "equal: number and time": (
        linked(sk.equal("t.done", "s.m")), ColumnError, "on", "m (bigint) with done (timestamp)",
        COMPARE,
    ),
    "equal: struct and array": (
        linked(sk.equal("r.point", "t.many")), ColumnError, "on",
        "point (struct<x:int>) with many (array<int>)", COMPARE,
    ),
    "equal: on one input": (
        linked(sk.equal("t.m", "t.m")), ArgumentError, "on", sk.equal("t.m", "t.m"),
        ("a condition between two inputs", "on t alone"),
    ),
    "band: on one input": (
        linked(sk.band("r.k", "r.x", 1)), ArgumentError, "on", sk.band("r.k", "r.x", 1),
        ("a condition between two inputs", "on r alone"),
    ),
    "band: number as name": (linked(sk.band("s.y", 7, 1)), ArgumentError, "on", 7, PREFIX),  # type: ignore[arg-type]
    "band: no input": (linked(sk.band("y", "t.z", 1)), ArgumentError, "on", "y", PREFIX),
    "band: missing": (linked(sk.band("s.y", "t.y", 1)), ColumnError, "on", "y", ("`t`", "m, s")),
    "band: text": (
        linked(sk.band("s.s", "t.s", 1)), ColumnError, "on",
        "band of s (string) with s (string)", BANDS,
    ),
    "band: number and truth": (
        linked(sk.band("s.y", "t.flag", 1)), ColumnError, "on",
        "band of y (double) with flag (boolean)", BANDS,
    ),
    "width: negative": (
        linked(sk.band("s.y", "t.z", -1)), ArgumentError, "width", -1, ("finite", "not negative"),
    ),
    "width: text": (
        linked(sk.band("s.y", "t.z", "1")), ArgumentError, "width", "1", ("a number",),
    ),
    "width: a number for times": (
        linked(sk.band("s.seen", "t.done", 5)), ArgumentError, "width", 5, ("10 minutes",),
    ),
    "times: none": (
        {"times": None}, ArgumentError, "time", None, ("event-time", "sk.UNBOUNDED"),
    ),
    "times: one": ({"times": "at"}, ColumnError, "times", "at", ("`s`", "k, s, m, seen")),
    "times: number": ({"times": 3}, ArgumentError, "times", 3, TIMES),
    "times: with time": (
        {"time": "at"}, ArgumentError, "time", "at", ("left out where times says it",),
    ),
    "time: two": (
        {"times": None, "time": ("at", "seen")}, ArgumentError, "time", ("at", "seen"), TIMES,
    ),
    "time: none, one pair bounded": (
        {"times": None, "within": {"rs": sk.UNBOUNDED, "st": "1 second"}}, ArgumentError, "time",
        None, ("event-time", "sk.UNBOUNDED"),
    ),
    "times: two": (
        {"times": ("at", "seen")}, ArgumentError, "times", ("at", "seen"), TIMES,
    ),
    "times: one is none": (
        {"times": ("at", None, "done")}, ArgumentError, "times", None, ("event-time",),
    ),
    "times: one is none, unbounded": (
        {"times": ("at", None, "done"), "within": sk.UNBOUNDED}, ArgumentError, "times", None,
        ("event-time",),
    ),
    "times: missing": (
        {"times": ("at", "at", "done")}, ColumnError, "times", "at", ("`s`", "k, s, m, seen"),
    ),
    "times: no name": (
        {"times": ("at", 5, "done")}, ArgumentError, "times", 5, ("the name of a column",),
    ),
    "times: date": (
        {"times": ("at", "day", "done")}, ColumnError, "times", "day (date)", ("timestamp_ntz",),
    ),
    "times: of two kinds": (
        {"times": ("ntz", "seen", "done")}, ArgumentError, "times",
        "ntz (timestamp_ntz), seen (timestamp), done (timestamp)", ("one type", "cast"),
    ),
    "within: none": (
        {"within": None}, ArgumentError, "within", None, ("10 minutes", "timedelta", *ONE_OR_TWO),
    ),
    "within: words": ({"within": "a while"}, ArgumentError, "within", "a while", UNITS),
    "within: number": ({"within": 5}, ArgumentError, "within", 5, ("10 minutes", "timedelta")),
    "within: negative": (
        {"within": "-1 second"}, ArgumentError, "within", "-1 second", ("not negative",),
    ),
    "within: half unbounded": (
        {"within": ("0 seconds", sk.UNBOUNDED)}, ArgumentError, "within", sk.UNBOUNDED,
        ("10 minutes",),
    ),
    "within: three": (
        {"within": ("1 s", "2 s", "3 s")}, ArgumentError, "within", ("1 s", "2 s", "3 s"),
        ONE_OR_TWO,
    ),
    "within: turned round": (
        {"within": ("2 seconds", "1 second")}, ArgumentError, "within",
        ("2 seconds", "1 second"), ("lower <= upper",),
    ),
    "within: a bad bound": ({"within": ("1 second", "x")}, ArgumentError, "within", "x", UNITS),
    "within: a pair is missing": (
        {"within": {"rs": "1 second"}}, ArgumentError, "within", {"rs": "1 second"}, EACH,
    ),
    "within: a pair without condition": (
        {"within": {"rs": "1 s", "st": "1 s", "rt": "1 s"}}, ArgumentError, "within",
        {"rs": "1 s", "st": "1 s", "rt": "1 s"}, EACH,
    ),
    "within: a pair turned round": (
        {"within": {"sr": "1 s", "st": "1 s"}}, ArgumentError, "within",
        {"sr": "1 s", "st": "1 s"}, EACH,
    ),
    "within: numbers as pairs": (
        {"within": {1: "1 s", (2, 3): "1 s"}}, ArgumentError, "within",
        {1: "1 s", (2, 3): "1 s"}, EACH,
    ),
    "within: nothing": ({"within": {}}, ArgumentError, "within", {}, EACH),
    "within: a bad bound of a pair": (
        {"within": {"rs": "1 hour", "st": "soon"}}, ArgumentError, "within", "soon", UNITS,
    ),
    "late: words": ({"late": "soon"}, ArgumentError, "late", "soon", UNITS),
    "late: negative": (
        {"late": "-1 second"}, ArgumentError, "late", "-1 second", ("not negative",),
    ),
    "late: two": (
        {"late": ("1 s", "2 s")}, ArgumentError, "late", ("1 s", "2 s"),
        ("one for each input: (r, s, t)",),
    ),
    "late: one of three": ({"late": ["1 day", 5, None]}, ArgumentError, "late", 5, ("10 minutes",)),
    "strategy: name": ({"strategy": "trijoin"}, ArgumentError, "strategy", "trijoin", STRATEGIES),
    "strategy: nothing": ({"strategy": ""}, ArgumentError, "strategy", "", STRATEGIES),
    "strategy: class": ({"strategy": sk.Tree}, ArgumentError, "strategy", sk.Tree, STRATEGIES),
    "strategy: of two inputs": (
        {"strategy": sk.Hash()}, ArgumentError, "strategy", sk.Hash(), STRATEGIES,
    ),
    "order: without condition": (
        {"strategy": sk.Tree(("r", "t", "s"))}, ArgumentError, "order", ("r", "t", "s"),
        ("two inputs that have a condition", "one of rs, st"),
    ),
    "instances: none": ({"instances": 0}, ArgumentError, "instances", 0, ("from 1 to 65536",)),
    "instances: half": ({"instances": 1.5}, ArgumentError, "instances", 1.5, ("1 to 65536",)),
    "instances: truth": ({"instances": True}, ArgumentError, "instances", True, ("1 to 65536",)),
    "suffixes: none": ({"suffixes": None}, ArgumentError, "suffixes", None, NAMES),
    "suffixes: two": ({"suffixes": ("", "_s")}, ArgumentError, "suffixes", ("", "_s"), NAMES),
    "suffixes: text": ({"suffixes": "rst"}, ArgumentError, "suffixes", "rst", NAMES),
    "suffixes: number": (
        {"suffixes": ("_r", 2, "_t")}, ArgumentError, "suffixes", ("_r", 2, "_t"), NAMES,
    ),
    "suffixes: alike": (
        {"suffixes": ("_x", "_X", "_y")}, ColumnError, "suffixes", ("_x", "_X", "_y"),
        ("no output column appears twice", "'s_X', 's_x'"),
    ),
    "on_null_time": (
        {"on_null_time": "ignore"}, ArgumentError, "on_null_time", "ignore", ("'error'", "'drop'"),
    ),
    "where: not SQL": ({"where": "k >"}, ArgumentError, "where", "k >", ("k, s_r, at",)),
    "where: missing": ({"where": "nope = 1"}, ArgumentError, "where", "nope = 1", ("k, s_r, at",)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "kind", "argument", "received", "accepted"), BAD.values(), ids=BAD.keys()
)
def test_bad_argument(
    frames: Frames,
    changed: dict[str, Any],
    kind: type[ArgumentError],
    argument: str,
    received: object,
    accepted: tuple[str, ...],
) -> None:
    refused(lambda: sk.join3(*frames, **(GOOD | changed)), kind, argument, received, *accepted)


STRATEGY_ERRORS: dict[str, tuple[Any, str, object, str]] = {
    "packing: number": (lambda: sk.TriJoin(packing=1), "packing", 1, "True or False"),
    "packing: none": (lambda: sk.TriJoin(packing=None), "packing", None, "True or False"),
    "order: two": (lambda: sk.Tree(("r", "s")), "order", ("r", "s"), '"r", "s" and "t"'),
    "order: twice": (
        lambda: sk.Tree(("r", "s", "s")), "order", ("r", "s", "s"), '"r", "s" and "t"',
    ),
    "subgroups: none": (lambda: sk.Tree(subgroups=0), "subgroups", 0, "at least 1"),
    "subgroups: yes": (lambda: sk.Tree(subgroups=True), "subgroups", True, "whole number"),
    "order: text": (lambda: sk.Tree("rst"), "order", "rst", '"r", "s" and "t"'),
    "order: numbers": (lambda: sk.Tree((0, 1, 2)), "order", (0, 1, 2), '"r", "s" and "t"'),
    "order: other names": (
        lambda: sk.Tree(("a", "b", "c")), "order", ("a", "b", "c"), '"r", "s" and "t"',
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "argument", "received", "accepted"),
    STRATEGY_ERRORS.values(),
    ids=STRATEGY_ERRORS.keys(),
)
def test_bad_strategy(call: Any, argument: str, received: object, accepted: str) -> None:
    refused(call, ArgumentError, argument, received, accepted)


def test_a_missing_link_is_drawn(frames: Frames) -> None:
    on = [sk.equal("s.k", "r.k"), sk.band("r.x", "s.y", 0.5)]
    told = ["r.k = s.k", "|r.x - s.y| <= 0.5"]
    picture = (
        "    r ── r.k = s.k and |r.x - s.y| <= 0.5 ── s\n"
        "    s    (no condition)    t\n"
        "    r    (no condition)    t\n"
    )
    wanted = GOOD | {"on": on}
    refused(
        lambda: sk.join3(*frames, **wanted),
        ArgumentError, "on", told, "as a chain (two pairs) or a cycle (three pairs)", picture,
    )  # fmt: skip


@pytest.mark.parametrize("thing", [None, "orders", [1, 2]])
@pytest.mark.parametrize("place", range(3), ids="rst".__getitem__)
def test_input_that_is_no_frame(frames: Frames, place: int, thing: Any) -> None:
    given = [*frames[:place], thing, *frames[place + 1 :]]
    kind, name = type(thing).__name__, "rst"[place]
    refused(lambda: sk.join3(*given, **GOOD), ArgumentError, name, kind, "Spark DataFrame")


def test_ambiguous_columns(frames: Frames) -> None:
    r, s, t = frames
    twice = t.select("m", "done", t.z.alias("M"))
    names = ["m", "done", "M"]
    refused(lambda: sk.join3(r, s, twice, **GOOD), ColumnError, "t", names, "'M', 'm'")


def test_collation(frames: Frames) -> None:
    r, s, t = frames
    blind = t.selectExpr("done", "s COLLATE UTF8_LCASE AS s")
    told = "s (string collate UTF8_LCASE)"
    wanted = GOOD | linked(sk.equal("s.s", "t.s"))
    refused(lambda: sk.join3(r, s, blind, **wanted), ColumnError, "on", told, "UTF8_BINARY")


STREAM: dict[str, Any] = {
    "on": (sk.equal("r.k", "s.k"), sk.equal("s.k", "t.k")),
    "times": ("at", "seen", "done"),
    "within": "10 seconds",
}


@pytest.fixture(scope="module")
def streams(spark: SparkSession) -> Frames:
    r, s, t = (rate(spark, time) for time in STREAM["times"])
    return r, s, t


@pytest.mark.parametrize("place", range(3), ids="rst".__getitem__)
def test_static_with_streaming(spark: SparkSession, streams: Frames, place: int) -> None:
    static = spark.createDataFrame([], streams[place].schema)
    given = [*streams[:place], static, *streams[place + 1 :]]
    told, name = "a static DataFrame", "rst"[place]
    refused(lambda: sk.join3(*given, **STREAM), ArgumentError, name, told, "streaming")


def test_wrong_way_to_the_result(frames: Frames, streams: Frames) -> None:
    static, streaming = sk.join3(*frames, **GOOD), sk.join3(*streams, **STREAM)
    told = "static inputs"
    refused(lambda: static.writeStream, ArgumentError, "writeStream", told, "dataframe()", "toDF()")
    for way, name in (
        (streaming.toDF, "toDF"),
        (streaming.dataframe, "dataframe"),
        (streaming.show, "show"),
    ):
        refused(way, ArgumentError, name, "streaming inputs", "writeStream")


def test_bad_steps_and_modes(streams: Frames) -> None:
    streaming = sk.join3(*streams, **STREAM)
    columns = "at, k, seen, done"
    refused(lambda: streaming.where("k >"), ArgumentError, "where", "k >", columns)
    refused(lambda: streaming.select("nope"), ArgumentError, "select", "nope", columns, "nope")
    writer = streaming.writeStream
    refused(lambda: writer.partitionBy("x"), ColumnError, "partitionBy", "x", columns)
    refused(
        lambda: writer.outputMode("complete"), ArgumentError, "outputMode", "complete",
        "'append'", "'update'",
    )  # fmt: skip
