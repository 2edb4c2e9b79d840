"""Calls of `sk.similarity_join` that cannot work: refused before anything runs, naming argument,
value and choices."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from skewless.strategies import FAMILIES
from tests.spark.test_bad_arguments import UNITS, rate, refused

Frames = tuple[DataFrame, DataFrame]

LEFT = "id long, v array<double>, tags array<long>, x double, y float, at timestamp, s string, \
ntz timestamp_ntz, words array<string>, point struct<x: int>, d decimal(9, 2)"
RIGHT = "id long, v array<float>, tags array<int>, x int, z double, seen timestamp, s string, \
day date, deep array<array<double>>, flag boolean"
GOOD: dict[str, Any] = {
    "on": "v",
    "threshold": 0.5,
    "left_time": "at",
    "right_time": "seen",
    "within": "10 seconds",
}
ALONE: dict[str, Any] = {"on": "v", "threshold": 0.5, "left_time": "at", "within": "10 seconds"}


def chebyshev(a: Any, b: Any) -> Any:
    return np.abs(a - b).max(axis=1)


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> Frames:
    return spark.createDataFrame([], LEFT), spark.createDataFrame([], RIGHT)


def test_the_good_arguments_are_good(frames: Frames) -> None:
    joined = sk.similarity_join(*frames, **GOOD)
    assert joined.columns[:4] == ["id_left", "v_left", "tags_left", "x_left"]
    assert joined.columns[-1] == "distance"
    for good in (
        {"on": ["X"], "metric": "manhattan", "threshold": 0},
        {"on": (["x", "y", "d"], ["x", "z", "id"]), "metric": chebyshev, "check_metric": True},
        {"on": (["x", "y"], ["x", "z"]), "metric": "haversine", "threshold": 20_015_000},
        {"on": "tags", "metric": "jaccard", "threshold": 1, "late": ("1 second", timedelta(0))},
        {"within": ("-1 second", "2 hours"), "instances": 1, "dimension": 3},
        {"within": None, "window": timedelta(minutes=1), "strategy": sk.S3J(partitions=5)},
        {"threshold": np.float64(0.25), "suffixes": ["_a", "_b"], "on_bad": "drop"},
        {"within": sk.UNBOUNDED, "late": None, "strategy": None},
        {"left_time": None, "right_time": None, "time": ["at", "seen"], "strategy": "auto"},
    ):
        assert sk.similarity_join(*frames, **(GOOD | good)).columns[-1] == "distance"
    assert sk.similarity_join(frames[0], **ALONE).columns[-2:] == ["d_right", "distance"]


FORM = ('an array column "v"', 'columns of numbers ["x", "y"]', "(left, right)")
NUMBERS = ("an array of numbers, or numeric columns", "euclidean")
INTEGERS = ("an array of integers", "Jaccard")
METRICS = ("'angular'", "'euclidean'", "'manhattan'", "'hamming'", "'jaccard'", "'haversine'",
           "a function of two matrices")  # fmt: skip
STRATEGIES = (FAMILIES["similarity_join"].choices(), "'auto'", "sk.S3J(", "sk.ClusterJoin(")
ON_COLUMNS = ("id, v, tags, x, y, at",)
TWO_NAMES = ('two strings, such as ("_left", "_right")',)

# name: (changed arguments, kind of error, argument named, value told, choices told)
BAD: dict[str, tuple[dict[str, Any], type[ArgumentError], str, object, tuple[str, ...]]] = {
    "on: none": ({"on": None}, ArgumentError, "on", None, FORM),
    "on: nothing": ({"on": []}, ArgumentError, "on", [], FORM),
    "on: number": ({"on": 5}, ArgumentError, "on", 5, FORM),
    "on: triple": ({"on": ("x", "x", "x")}, ArgumentError, "on", ("x", "x", "x"), FORM),
    "on: one of a pair is none": ({"on": ("v", None)}, ArgumentError, "on", ("v", None), FORM),
    "on: numbers": ({"on": [1, 2]}, ArgumentError, "on", 1, ("the name of a column",)),
    "on: missing": ({"on": "w"}, ColumnError, "on", "w", ("`left`", *ON_COLUMNS)),
    "on: missing right": ({"on": ["x", "y"]}, ColumnError, "on", "y", ("`right`", "id, v, tags")),
    "on: text": ({"on": "s"}, ColumnError, "on", "s (string)", NUMBERS),
    "on: array of text": (
        {"on": ("words", "v")}, ColumnError, "on", "words (array<string>)", NUMBERS,
    ),
    "on: array of arrays": (
        {"on": ("v", "deep")}, ColumnError, "on", "deep (array<array<double>>)", NUMBERS,
    ),
    "on: struct": ({"on": ("point", "v")}, ColumnError, "on", "point (struct<x:int>)", NUMBERS),
    "on: truth": ({"on": ("x", "flag")}, ColumnError, "on", "flag (boolean)", NUMBERS),
    "on: time": ({"on": ("at", "seen")}, ColumnError, "on", "at (timestamp)", NUMBERS),
    "on: array and number": (
        {"on": ["v", "x"]}, ColumnError, "on", "v (array<double>), x (double)", NUMBERS,
    ),
    "on: two and three": (
        {"on": (["x", "y"], ["x", "z", "id"])}, ArgumentError, "on",
        (["x", "y"], ["x", "z", "id"]), ("the same shape", "3 columns"),
    ),
    "on: fractions as sets": (
        {"on": "v", "metric": "jaccard"}, ColumnError, "on", "v (array<double>)", INTEGERS,
    ),
    "on: columns as sets": (
        {"on": ["id", "x"], "metric": "jaccard"}, ColumnError, "on", "id (bigint), x (double)",
        INTEGERS,
    ),
    "metric: name": ({"metric": "cosine"}, ArgumentError, "metric", "cosine", METRICS),
    "metric: none": ({"metric": None}, ArgumentError, "metric", None, METRICS),
    "metric: list": ({"metric": ["euclidean"]}, ArgumentError, "metric", ["euclidean"], METRICS),
    "threshold: none": ({"threshold": None}, ArgumentError, "threshold", None, ("from 0 on",)),
    "threshold: text": ({"threshold": "1"}, ArgumentError, "threshold", "1", ("from 0 on",)),
    "threshold: truth": ({"threshold": True}, ArgumentError, "threshold", True, ("from 0 on",)),
    "threshold: negative": (
        {"threshold": -0.1}, ArgumentError, "threshold", -0.1, ("from 0 on", "euclidean"),
    ),
    "threshold: NaN": (
        {"threshold": math.nan}, ArgumentError, "threshold", math.nan, ("from 0 on",),
    ),
    "threshold: infinite": (
        {"threshold": math.inf}, ArgumentError, "threshold", math.inf, ("from 0 on",),
    ),
    "threshold: beyond an angle": (
        {"threshold": 1.5, "metric": "angular"}, ArgumentError, "threshold", 1.5,
        ("from 0 to 1", "angular"),
    ),
    "threshold: beyond sets": (
        {"threshold": 2, "metric": "jaccard", "on": "tags"}, ArgumentError, "threshold", 2,
        ("from 0 to 1", "Jaccard"),
    ),
    "threshold: beyond all elements": (
        {"threshold": 3, "metric": "hamming"}, ArgumentError, "threshold", 3,
        ("from 0 to 1", "hamming"),
    ),
    "threshold: beyond the globe": (
        {"threshold": 3e7, "metric": "haversine"}, ArgumentError, "threshold", 3e7,
        ("from 0 to 2.00151e+07", "haversine"),
    ),
    "left_time: none": ({"left_time": None}, ArgumentError, "left_time", None, ("event-time",)),
    "left_time: missing": (
        {"left_time": "seen"}, ColumnError, "left_time", "seen", ("`left`", *ON_COLUMNS),
    ),
    "left_time: number": (
        {"left_time": 5}, ArgumentError, "left_time", 5, ("the name of a column",),
    ),
    "left_time: of no time": (
        {"left_time": "x"}, ColumnError, "left_time", "x (double)", ("timestamp_ntz",),
    ),
    "right_time: none": ({"right_time": None}, ArgumentError, "right_time", None, ("event-time",)),
    "right_time: date": (
        {"right_time": "day"}, ColumnError, "right_time", "day (date)", ("timestamp_ntz",),
    ),
    "right_time: of another kind": (
        {"left_time": "ntz"}, ArgumentError, "right_time",
        "ntz (timestamp_ntz) and seen (timestamp)", ("the same type", "cast"),
    ),
    "within: neither": (
        {"within": None}, ArgumentError, "within", {"within": None, "window": None},
        ("`window`", "not both"),
    ),
    "within: both": (
        {"window": "1 minute"}, ArgumentError, "within",
        {"within": "10 seconds", "window": "1 minute"}, ("`window`", "not both"),
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
    "within: unbounded, one time": (
        {"within": sk.UNBOUNDED, "right_time": None}, ArgumentError, "right_time", None,
        ("event-time",),
    ),
    "time: with left_time": (
        {"time": "at"}, ArgumentError, "time", "at", ("left out", "left_time, right_time"),
    ),
    "time: three": (
        {"left_time": None, "right_time": None, "time": ["at"] * 3}, ArgumentError, "time",
        ["at"] * 3, ("for all inputs", "one for each: left, right"),
    ),
    "time: none": (
        {"left_time": None, "right_time": None}, ArgumentError, "time", None,
        ("event-time", "sk.UNBOUNDED"),
    ),
    "within: three": (
        {"within": ("1 s", "2 s", "3 s")}, ArgumentError, "within", ("1 s", "2 s", "3 s"),
        ("a duration", "(lower, upper) or sk.UNBOUNDED"),
    ),
    "within: turned round": (
        {"within": ("2 seconds", "1 second")}, ArgumentError, "within",
        ("2 seconds", "1 second"), ("lower <= upper",),
    ),
    "within: a bad bound": ({"within": ("1 second", "x")}, ArgumentError, "within", "x", UNITS),
    "window: words": (
        {"within": None, "window": "soon"}, ArgumentError, "window", "soon", UNITS,
    ),
    "window: nothing": (
        {"within": None, "window": "0 seconds"}, ArgumentError, "window", "0 seconds",
        ("more than 0",),
    ),
    "window: pair": (
        {"within": None, "window": ("1 s", "2 s")}, ArgumentError, "window", ("1 s", "2 s"),
        ("10 minutes",),
    ),
    "late: words": ({"late": "soon"}, ArgumentError, "late", "soon", UNITS),
    "late: negative": (
        {"late": "-1 second"}, ArgumentError, "late", "-1 second", ("not negative",),
    ),
    "late: three": (
        {"late": ("1 s", "2 s", "3 s")}, ArgumentError, "late", ("1 s", "2 s", "3 s"),
        ("a duration", "one for each input: (left, right)"),
    ),
    "late: one of two": ({"late": ["1 day", 5]}, ArgumentError, "late", 5, ("10 minutes",)),
    "strategy: name": ({"strategy": "s3j"}, ArgumentError, "strategy", "s3j", STRATEGIES),
    "strategy: nothing": ({"strategy": ""}, ArgumentError, "strategy", "", STRATEGIES),
    "strategy: class": ({"strategy": sk.S3J}, ArgumentError, "strategy", sk.S3J, STRATEGIES),
    "strategy: of equality": (
        {"strategy": sk.Hash()}, ArgumentError, "strategy", sk.Hash(), STRATEGIES,
    ),
    "instances: none": ({"instances": 0}, ArgumentError, "instances", 0, ("from 1 to 65536",)),
    "instances: half": ({"instances": 1.5}, ArgumentError, "instances", 1.5, ("1 to 65536",)),
    "instances: truth": ({"instances": True}, ArgumentError, "instances", True, ("1 to 65536",)),
    "dimension: none": ({"dimension": 0}, ArgumentError, "dimension", 0, ("from 1 to 65536",)),
    "dimension: text": ({"dimension": "3"}, ArgumentError, "dimension", "3", ("1 to 65536",)),
    "check_metric": (
        {"check_metric": "yes"}, ArgumentError, "check_metric", "yes", ("True or False",),
    ),
    "suffixes: none": ({"suffixes": None}, ArgumentError, "suffixes", None, TWO_NAMES),
    "suffixes: three": (
        {"suffixes": ("", "_b", "_c")}, ArgumentError, "suffixes", ("", "_b", "_c"), TWO_NAMES,
    ),
    "suffixes: text": ({"suffixes": "ab"}, ArgumentError, "suffixes", "ab", TWO_NAMES),
    "suffixes: number": ({"suffixes": ("_l", 2)}, ArgumentError, "suffixes", ("_l", 2), TWO_NAMES),
    "suffixes: alike": (
        {"suffixes": ("_x", "_X")}, ColumnError, "suffixes", ("_x", "_X"),
        ("no output column appears twice", "'id_X', 'id_x'", "'s_X', 's_x'"),
    ),
    "on_bad": ({"on_bad": "ignore"}, ArgumentError, "on_bad", "ignore", ("'error'", "'drop'")),
    "on_null_time": (
        {"on_null_time": None}, ArgumentError, "on_null_time", None, ("'error'", "'drop'"),
    ),
    "where: not SQL": ({"where": "x_left >"}, ArgumentError, "where", "x_left >", ("id_left",)),
    "where: missing": ({"where": "nope = 1"}, ArgumentError, "where", "nope = 1", ("distance",)),
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
    wanted = GOOD | changed
    refused(lambda: sk.similarity_join(*frames, **wanted), kind, argument, received, *accepted)


def test_no_job_runs_before_arguments_are_refused(spark: SparkSession) -> None:
    """Inputs whose every row would be an error, and a table of the jobs that ran."""
    explosive = "raise_error('a job has run')"
    left = spark.range(9).selectExpr(
        f"array(id / {explosive}) AS v", "now() AS at", "now() AS ntz", "id AS x"
    )
    context = spark.sparkContext
    context.setJobGroup("refused arguments", "none should be here")
    try:
        for changed in ({"on": "at"}, {"threshold": -1}, {"where": "nope"}, {"late": 5}):
            with pytest.raises(ArgumentError):
                sk.similarity_join(left, **(ALONE | changed))
        tracker = context.statusTracker()
        assert len(tracker.getJobIdsForGroup("refused arguments")) == 0
        spark.range(3).collect()
        assert len(tracker.getJobIdsForGroup("refused arguments")) == 1, "it would be seen"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def test_a_missing_time_is_told_with_what_can_do_without(frames: Frames) -> None:
    with pytest.raises(ArgumentError) as error:
        sk.similarity_join(*frames, **(GOOD | {"right_time": None}))
    assert "sk.UNBOUNDED" in str(error.value)
    without = {"left_time": None, "right_time": None, "within": sk.UNBOUNDED}
    assert sk.similarity_join(*frames, **(GOOD | without)).columns[-1] == "distance"


# name: (changed arguments, argument named, value told, choices told)
BAD_ALONE: dict[str, tuple[dict[str, Any], str, object, tuple[str, ...]]] = {
    "right_time": ({"right_time": "at"}, "right_time", "at", ("left out", "no `right`")),
    "within: two": (
        {"within": ("-1 second", "1 second")}, "within", ("-1 second", "1 second"),
        ("one duration", "no sides"),
    ),
    "suffixes: alike": ({"suffixes": ("", "")}, "suffixes", ("", ""), ("appears twice",)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "argument", "received", "accepted"), BAD_ALONE.values(), ids=BAD_ALONE.keys()
)
def test_bad_argument_of_a_stream_with_itself(
    frames: Frames,
    changed: dict[str, Any],
    argument: str,
    received: object,
    accepted: tuple[str, ...],
) -> None:
    kind = ColumnError if argument == "suffixes" else ArgumentError
    wanted = ALONE | changed
    refused(lambda: sk.similarity_join(frames[0], **wanted), kind, argument, received, *accepted)


# Calls that could not work as they are meant: what is asked, the argument, of one stream, and what
# would happen if they were taken.
MEANINGLESS: dict[str, tuple[dict[str, Any], str, bool, str]] = {
    "array with one number": (
        {"on": ("v", "x")}, "on", False, "[1, 50, 50] is found alike to 1",
    ),
    "haversine of one column": (
        {"on": ["x"], "metric": "haversine"}, "on", False, "every row will be a bad one",
    ),
    "haversine of three columns": (
        {"on": (["x", "y", "id"], ["x", "z", "id"]), "metric": "haversine"}, "on", False,
        "every row will be a bad one",
    ),
    "haversine in three dimensions": (
        {"metric": "haversine", "dimension": 3}, "dimension", False, "every row will be a bad one",
    ),
    "dimension of columns": (
        {"on": (["x", "y"], ["x", "z"]), "dimension": 3}, "dimension", False,
        "it is ignored where columns are counted",
    ),
    "two names, one stream": (
        {"on": ("v", "words")}, "on", True, "the second name is ignored, even if there is no such",
    ),
    "two delays, one stream": (
        {"late": ("1 second", "2 seconds")}, "late", True, "the second delay is ignored",
    ),
    "threshold: too large for a double": (
        {"threshold": 10**400}, "threshold", False, "OverflowError",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "argument", "alone"),
    [pytest.param(*case[:3], id=name) for name, case in MEANINGLESS.items()],
)
def test_argument_that_could_not_mean_what_it_says(
    frames: Frames, changed: dict[str, Any], argument: str, alone: bool
) -> None:
    inputs, wanted = (frames[:1], ALONE) if alone else (frames, GOOD)
    with pytest.raises(ArgumentError) as error:
        sk.similarity_join(*inputs, **(wanted | changed))
    assert error.value.argument == argument


STRATEGY_ERRORS: dict[str, tuple[Any, str, object, str]] = {
    "space: none": (lambda: sk.S3J(partitions=0), "partitions", 0, "at least 1, or None"),
    "space: half": (lambda: sk.S3J(1.5), "partitions", 1.5, "a whole number"),
    "space: truth": (lambda: sk.S3J(True), "partitions", True, "a whole number"),
    "migration: negative": (lambda: sk.S3J(migration_cost=-1), "migration_cost", -1, "at least 0"),
    "migration: text": (lambda: sk.S3J(migration_cost="1"), "migration_cost", "1", "a number"),
    "space seed": (lambda: sk.S3J(seed=-1), "seed", -1, "a whole number of at least 0"),
    "tolerance: negative": (lambda: sk.S3J(tolerance=-1), "tolerance", -1, "at least 0"),
    "tolerance: NaN": (lambda: sk.S3J(tolerance=math.nan), "tolerance", math.nan, "at least 0"),
    "tolerance: infinite": (lambda: sk.S3J(tolerance=math.inf), "tolerance", math.inf, "a number"),
    "tolerance: text": (lambda: sk.S3J(tolerance="0.1"), "tolerance", "0.1", "a number"),
    "partitions: none": (lambda: sk.ClusterJoin(0), "partitions", 0, "at least 1"),
    "partitions: half": (lambda: sk.ClusterJoin(2.5), "partitions", 2.5, "a whole number"),
    "partitions: truth": (lambda: sk.ClusterJoin(True), "partitions", True, "a whole number"),
    "seed: negative": (lambda: sk.ClusterJoin(5, seed=-1), "seed", -1, "at least 0"),
    "seed: none": (lambda: sk.ClusterJoin(5, seed=None), "seed", None, "a whole number"),
}


@pytest.mark.parametrize(
    ("call", "argument", "received", "accepted"),
    STRATEGY_ERRORS.values(),
    ids=STRATEGY_ERRORS.keys(),
)
def test_bad_strategy(call: Any, argument: str, received: object, accepted: str) -> None:
    refused(call, ArgumentError, argument, received, accepted)


@pytest.mark.parametrize("thing", [None, "orders", [1, 2]])
def test_input_that_is_no_frame(frames: Frames, thing: Any) -> None:
    kind = type(thing).__name__
    refused(
        lambda: sk.similarity_join(thing, frames[1], **GOOD),
        ArgumentError, "left", kind, "Spark DataFrame",
    )  # fmt: skip
    if thing is not None:
        refused(
            lambda: sk.similarity_join(frames[0], thing, **GOOD),
            ArgumentError, "right", kind, "Spark DataFrame",
        )  # fmt: skip


def test_ambiguous_columns(frames: Frames) -> None:
    left, right = frames
    twice = left.select("v", "at", left.x.alias("V"))
    names = ["v", "at", "V"]
    refused(
        lambda: sk.similarity_join(twice, right, **GOOD), ColumnError, "left", names, "'V', 'v'"
    )


def test_a_column_that_is_named_as_the_distance(frames: Frames) -> None:
    left, right = frames
    far = left.select("v", "at", left.x.alias("Distance"))
    told = ("_left", "_right")
    refused(
        lambda: sk.similarity_join(far, right, **GOOD), ColumnError, "suffixes", told, "'distance'"
    )
    assert "Distance_left" in sk.similarity_join(far, **ALONE).columns


STREAM: dict[str, Any] = GOOD | {"on": ["k"]}


@pytest.fixture(scope="module")
def streams(spark: SparkSession) -> Frames:
    return rate(spark, "at"), rate(spark, "seen")


@pytest.mark.parametrize("name", ["left", "right"])
def test_static_with_streaming(spark: SparkSession, streams: Frames, name: str) -> None:
    given = dict(zip(("left", "right"), streams, strict=True))
    given[name] = spark.createDataFrame([], given[name].schema)
    told = "a static DataFrame"
    wanted = STREAM | given
    refused(lambda: sk.similarity_join(**wanted), ArgumentError, name, told, "streaming")


def test_wrong_way_to_the_result(frames: Frames, streams: Frames) -> None:
    static, streaming = sk.similarity_join(*frames, **GOOD), sk.similarity_join(*streams, **STREAM)
    told = "static inputs"
    refused(lambda: static.writeStream, ArgumentError, "writeStream", told, "dataframe()", "toDF()")
    for way, name in (
        (streaming.toDF, "toDF"),
        (streaming.dataframe, "dataframe"),
        (streaming.show, "show"),
    ):
        refused(way, ArgumentError, name, "streaming inputs", "writeStream")


def test_bad_steps_and_modes(streams: Frames) -> None:
    streaming = sk.similarity_join(*streams, **STREAM)
    columns = "at, k_left, seen, k_right, distance"
    refused(lambda: streaming.where("k >"), ArgumentError, "where", "k >", columns)
    refused(lambda: streaming.select("nope"), ArgumentError, "select", "nope", columns, "nope")
    writer = streaming.writeStream
    refused(lambda: writer.partitionBy("x"), ColumnError, "partitionBy", "x", columns)
    refused(
        lambda: writer.outputMode("complete"), ArgumentError, "outputMode", "complete",
        "'append' or 'update'", "never change",
    )  # fmt: skip
