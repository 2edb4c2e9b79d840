"""`idle_after` and `max_ahead` on Spark: a silent side, rows of another century, and what is
refused before any job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.errors import ArgumentError
from tests.spark.support import (
    at,
    file_stream,
    finish,
    keyed_join,
    keyed_tables,
    read_parquet,
    run,
)
from tests.spark.test_watermarks import COUNT, EDGES, NEAR, WITHIN

BROKEN_S = 1000 * 366 * 86_400.0
MINUTE_US = 60_000_000
TIME: dict[str, Any] = {"time": "at"}
OPERATORS: dict[str, Callable[..., Any]] = {
    "join": lambda df, **more: sk.join(df, df, "k", **WITHIN, **TIME, **more),
    "asof": lambda df, **more: sk.asof_join(df, df, "k", tolerance="1 second", **TIME, **more),
    "join3": lambda df, **more: sk.join3(df, df, df, EDGES, **WITHIN, **TIME, **more),
    "similarity": lambda df, **more: sk.similarity_join(df, df, **NEAR, **TIME, **more),
    "similarity alone": lambda df, **more: sk.similarity_join(df, **NEAR, **TIME, **more),
    "aggregate": lambda df, **more: sk.aggregate(df, "k", **COUNT, **TIME, **more),
    "deduplicate": lambda df, **more: sk.deduplicate(df, "k", **WITHIN, **TIME, **more),
}


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("stream")
    return file_stream(folder / "left", keyed_tables("left", [[(1, 1.0)]])).read(spark)


def rules_of(result: Any) -> list[tuple[int | None, int | None]]:
    """What is asked of each stream of a query, by its plan."""
    pipeline, _ = result.pipeline(1, None)
    found = [feed.rules for _, _, feed in pipeline.streams()]
    return [(rules.idle_after_us, rules.max_ahead_us) for rules in found]


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_every_operator_takes_them(plain: DataFrame, operator: Callable[..., Any]) -> None:
    assert set(rules_of(operator(plain))) == {(None, None)}
    assert set(rules_of(operator(plain, idle_after="1 minute"))) == {(MINUTE_US, None)}
    both = operator(plain, idle_after="1 minute", max_ahead="0 seconds").where("true")
    assert set(rules_of(both)) == {(MINUTE_US, 0)}
    for argument, value, told in (
        ("idle_after", "soon", "a duration such as '10 minutes'"),
        ("idle_after", 600, "a duration such as '10 minutes' or a timedelta"),
        ("idle_after", "0 seconds", "a duration of more than 0"),
        ("max_ahead", "-1 day", "a duration that is not negative"),
        ("max_ahead", ("1 day",) * 4, "a duration such as '10 minutes' or a timedelta"),
    ):
        with pytest.raises(ArgumentError, match=f"`{argument}` must be {told}.*received {value!r}"
                           .replace("(", r"\(").replace(")", r"\)")):  # fmt: skip
            operator(plain, **{argument: value})


def test_one_for_each_input(plain: DataFrame) -> None:
    joined = OPERATORS["join"](plain, idle_after=(None, "1 minute"), max_ahead=("1 ms", None))
    assert rules_of(joined) == [(None, 1000), (MINUTE_US, None)]
    three = OPERATORS["join3"](plain, idle_after=["1 minute", None, "2 minutes"])
    assert rules_of(three) == [(MINUTE_US, None), (None, None), (2 * MINUTE_US, None)]


def test_results_of_other_operators_have_none(plain: DataFrame) -> None:
    below = OPERATORS["deduplicate"](plain, idle_after="2 minutes")
    joined = sk.join(below, plain, "k", **WITHIN, **TIME, idle_after="1 minute", max_ahead="1 ms")
    assert rules_of(joined) == [(2 * MINUTE_US, None), (MINUTE_US, 1000)], "for its stream alone"
    for argument, why in (
        ("idle_after", "it is idle when all its streams are"),
        ("max_ahead", "its streams say how far ahead rows may be"),
    ):
        told = f"`{argument}` must be .*None for `.*`, the result of another operator: {why}"
        with pytest.raises(ArgumentError, match=told):
            sk.join(below, plain, "k", **WITHIN, **TIME, **{argument: ("1 ms", None)})
        with pytest.raises(ArgumentError, match=told):
            sk.deduplicate(below, "k", **WITHIN, **TIME, **{argument: "1 ms"})


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_static_inputs_have_none(
    spark: SparkSession, plain: DataFrame, operator: Callable[..., Any]
) -> None:
    static = spark.createDataFrame([], plain.schema)
    assert not operator(static).isStreaming
    for argument, why in (
        ("idle_after", "all its rows are there at once"),
        ("max_ahead", "its rows come at no time to compare with. Filter it beforehand"),
    ):
        told = f"`{argument}` must be left out for `.*`, a static DataFrame: {why}.*'1 day'"
        with pytest.raises(ArgumentError, match=told):
            operator(static, **{argument: "1 day"})


def test_only_inputs_that_are_given_one_are_refused(spark: SparkSession, plain: DataFrame) -> None:
    static = spark.createDataFrame([], plain.schema)
    for argument in ("idle_after", "max_ahead"):
        OPERATORS["join"](static, **{argument: (None, None)})
        with pytest.raises(ArgumentError, match="left out for `right`, a static DataFrame"):
            OPERATORS["join"](static, **{argument: (None, "1 day")})
        with pytest.raises(ArgumentError, match="left out for `t`, a static DataFrame"):
            OPERATORS["join3"](static, **{argument: [None, None, "1 day"]})
        below = OPERATORS["deduplicate"](static)
        with pytest.raises(ArgumentError, match="left out for `right`, a static DataFrame"):
            sk.join(below, static, "k", **WITHIN, **TIME, **{argument: "1 day"})


def test_they_need_an_event_time(plain: DataFrame) -> None:
    for argument in ("idle_after", "max_ahead"):
        given: dict[str, Any] = {argument: "1 minute"}
        with pytest.raises(ArgumentError, match=f"`{argument}` must be left out where there is no"):
            sk.join(plain, plain, "k", within=sk.UNBOUNDED, **given)
        with pytest.raises(ArgumentError, match=f"`{argument}` must be left out where there is no"):
            sk.aggregate(plain, "k", {"n": "count"}, **given)


LEFT = [[(1, 0.0), (2, BROKEN_S)], [(2, 60.0)], [(1, 120.0), (3, 121.0)]]
RIGHT = [[(1, 1.0), (1, BROKEN_S)]]
PAIR = (1, 0.0, 0, 1.0, 0)
ALONE = (2, 60.0, 2, None, None)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("rules", "expected", "dropped"),
    [
        # One row each, and all that comes later is late.
        ({}, [PAIR], {"late": 3}),
        # The right side says no more: rows without a partner come by the left side's time.
        ({"max_ahead": "1 day", "idle_after": "1 ms"}, [PAIR, ALONE], {"ahead": 2}),
        ({"max_ahead": "1 day", "idle_after": "1 day"}, [PAIR], {"ahead": 2}),
    ],
    ids=["neither", "both", "not idle yet"],
)
def test_a_silent_side_and_rows_of_another_century(
    rules: dict[str, str],
    expected: list[tuple[Any, ...]],
    dropped: dict[str, int],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    left = file_stream(tmp_path / "left", keyed_tables("left", LEFT)).read(spark)
    right = file_stream(tmp_path / "right", keyed_tables("right", RIGHT)).read(spark)
    out = run(keyed_join(left, right, how="left", **rules), tmp_path)
    found = sorted((row[0], row[1], *row[2:]) for row in read_parquet(out).elements())
    shown = [
        (k, at(a).replace(tzinfo=None), n, b and at(b).replace(tzinfo=None), m)
        for k, a, n, b, m in expected
    ]
    assert found == shown
    reports = sk.history(str(tmp_path / "checkpoint"))
    lost: dict[str, int] = {}
    for report in reports:
        for cause, count in report.dropped.items():
            lost[cause] = lost.get(cause, 0) + count
    assert lost == dropped
    assert reports[-1].idle == (("right",) if len(expected) > 1 else ())


@pytest.mark.slow
def test_a_result_of_a_silent_stream_holds_nothing_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    left = file_stream(tmp_path / "left", keyed_tables("left", LEFT)).read(spark)
    right = file_stream(tmp_path / "right", keyed_tables("right", RIGHT)).read(spark)
    for idle, expected in (({}, [(1, 0)]), ({"idle_after": "1 ms"}, [(1, 0), (2, 2)])):
        rules: dict[str, Any] = {"max_ahead": "1 day", **idle}
        first = sk.deduplicate(right, "k", time="seen", within="1 second", **rules)
        joined = keyed_join(left, first, how="left", late=("10 seconds", None), max_ahead="1 day")
        folder = tmp_path / str(len(expected))
        writer = joined.select("k", "a").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        finish(writer.trigger(availableNow=True).start(str(folder / "out")))
        assert sorted(read_parquet(folder / "out").elements()) == expected
