"""One vocabulary: all operators understand `strategy`, `time`, `late` and `sk.UNBOUNDED`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from tests.spark.support import TIMESTAMP, at, file_stream, multiset, read_parquet, run

SCHEMA = "k long, at timestamp, n long, v array<double>"
CHAIN = [sk.equal("r.k", "s.k"), sk.equal("s.n", "t.n")]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA)


def join(frame: DataFrame, **more: Any) -> sk.Result:
    return sk.join(frame, frame, "k", **({"within": "1 minute"} | more))


def asof_join(frame: DataFrame, **more: Any) -> sk.Result:
    return sk.asof_join(frame, frame, "k", **({"tolerance": "1 minute"} | more))


def join3(frame: DataFrame, **more: Any) -> sk.Result:
    return sk.join3(frame, frame, frame, CHAIN, **({"within": "1 minute"} | more))


def similarity_join(frame: DataFrame, **more: Any) -> sk.Result:
    given = {"on": "v", "threshold": 1.0, "within": "1 minute"} | more
    return sk.similarity_join(frame, frame, **given)


def alone(frame: DataFrame, **more: Any) -> sk.Result:
    return sk.similarity_join(frame, **({"on": "v", "threshold": 1.0, "within": "1 minute"} | more))


def aggregate(frame: DataFrame, **more: Any) -> sk.Result:
    return sk.aggregate(frame, "k", {"c": "count"}, window="1 minute", **more)


def deduplicate(frame: DataFrame, **more: Any) -> sk.Result:
    return sk.deduplicate(frame, "k", **({"within": "1 minute"} | more))


Call = Callable[..., sk.Result]

TIMES: dict[str, tuple[Call, list[dict[str, Any]]]] = {
    "join": (
        join,
        [{"time": ("at", "at")}, {"time": ["at", "at"]}, {"left_time": "at", "right_time": "at"}],
    ),
    "asof_join": (
        asof_join,
        [{"time": ("at", "at")}, {"left_time": "at", "right_time": "at"}],
    ),
    "join3": (join3, [{"time": ("at",) * 3}, {"times": "at"}, {"times": ["at"] * 3}]),
    "similarity_join": (
        similarity_join,
        [{"time": ("at", "at")}, {"left_time": "at", "right_time": "at"}],
    ),
    "similarity_join of one": (alone, [{"time": ["at"]}, {"left_time": "at"}]),
    "aggregate": (aggregate, []),
    "deduplicate": (deduplicate, []),
}


@pytest.mark.parametrize(("call", "others"), TIMES.values(), ids=TIMES.keys())
def test_time(frame: DataFrame, call: Call, others: list[dict[str, Any]]) -> None:
    operator = call(frame, time="at").operator(2, None)
    assert [i.time_name for i in operator.inputs] == ["at"] * len(operator.inputs)
    for other in others:
        assert call(frame, **other).operator(2, None) == operator


STRATEGIES: dict[str, tuple[Call, str | None, Any]] = {
    "join": (join, "balance", sk.Hash()),
    "asof_join": (asof_join, "balance", sk.ContRand(2)),
    "join3": (join3, None, sk.TriJoin()),
    "similarity_join": (similarity_join, None, sk.BruteForce()),
    "aggregate": (aggregate, "grouping", sk.PKG()),
}


@pytest.mark.parametrize(("call", "older", "some"), STRATEGIES.values(), ids=STRATEGIES.keys())
def test_strategy(frame: DataFrame, call: Call, older: str | None, some: Any) -> None:
    automatic = call(frame, time="at").operator(2, None)
    assert call(frame, time="at", strategy="auto").operator(2, None) == automatic
    assert call(frame, time="at", strategy=None).operator(2, None) == automatic
    chosen: Any = call(frame, time="at", strategy=some).operator(2, None)
    assert some in vars(chosen).values()
    assert chosen != automatic
    if older is not None:
        assert call(frame, time="at", **{older: some}).operator(2, None) == chosen
        assert call(frame, time="at", **{older: "auto"}).operator(2, None) == automatic
        assert call(frame, time="at", **{older: None}).operator(2, None) == automatic


ALL_LATE: dict[str, tuple[Call, Any]] = {
    "join": (join, ("2 minutes", "2 minutes")),
    "asof_join": (asof_join, ["2 minutes", "2 minutes"]),
    "join3": (join3, ["2 minutes"] * 3),
    "similarity_join": (similarity_join, ("2 minutes", timedelta(minutes=2))),
    "similarity_join of one": (alone, "2 minutes"),
    "aggregate": (aggregate, "120 seconds"),
    "deduplicate": (deduplicate, "120 seconds"),
}


@pytest.mark.parametrize(("call", "each"), ALL_LATE.values(), ids=ALL_LATE.keys())
def test_late(frame: DataFrame, call: Call, each: Any) -> None:
    operator = call(frame, time="at", late=timedelta(minutes=2)).operator(2, None)
    assert {i.late_us for i in operator.inputs} == {120_000_000}
    assert call(frame, time="at", late=each).operator(2, None) == operator
    assert {i.late_us for i in call(frame, time="at").operator(2, None).inputs} == {0}


# Any times ---------------------------------------------------------------------------------------

# Event times of three batches, in seconds: each batch is far behind the one before.
BATCHES = ([9_000, 9_010], [5_000, 5_001], [10, 20_000])


def table(times: list[int], first: int, named: str) -> pa.Table:
    numbers = [first + i for i in range(len(times))]
    columns = {
        "k": pa.array([n % 2 for n in numbers]),
        "m": pa.array([n % 3 for n in numbers]),
        f"at_{named}": pa.array([at(t) for t in times], TIMESTAMP),
        named: pa.array(numbers),
        f"v_{named}": pa.array([[float(n % 2), 0.0] for n in numbers]),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def streams(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], list[DataFrame]]:
    folder = tmp_path_factory.mktemp("any times")
    made = [
        file_stream(folder / name, [table(list(b), 2 * i, name) for i, b in enumerate(BATCHES)])
        for name in "abc"
    ]
    return lambda: [stream.read(spark) for stream in made]


def numbers_of(found: sk.Result, folder: Path, names: str) -> Any:
    """What a query finds, by the numbers of the rows; and how many rows it dropped."""
    rows = read_parquet(run(found.select(*names), folder))  # type: ignore[arg-type]
    dropped = [dict(report.dropped) for report in sk.history(str(folder / "checkpoint"))]
    return rows, dropped


PAIRS = multiset((a, b) for a in range(6) for b in range(6) if a % 2 == b % 2)
TRIPLES = multiset(
    (a, b, c) for a in range(6) for b in range(6) for c in range(6)
    if a % 2 == b % 2 and b % 3 == c % 3
)  # fmt: skip
RST = [sk.equal("r.k", "s.k"), sk.equal("s.m", "t.m")]


@pytest.mark.parametrize("times", [None, ("at_a", "at_b")], ids=["without time", "with time"])
def test_join_of_any_times(
    streams: Callable[[], list[DataFrame]], tmp_path: Path, times: Any
) -> None:
    a, b, _ = streams()
    joined = sk.join(a, b, "k", time=times, within=sk.UNBOUNDED)
    assert numbers_of(joined, tmp_path, "ab") == (PAIRS, [{}] * 3)


@pytest.mark.parametrize("times", [None, ("at_a", "at_b")], ids=["without time", "with time"])
def test_similarity_join_of_any_times(
    streams: Callable[[], list[DataFrame]], tmp_path: Path, times: Any
) -> None:
    a, b, _ = streams()
    alike = sk.similarity_join(
        a, b, on=("v_a", "v_b"), threshold=0.5, time=times, within=sk.UNBOUNDED
    )
    assert numbers_of(alike, tmp_path, "ab") == (PAIRS, [{}] * 3)


def test_similarity_join_of_one_stream_and_any_times(
    streams: Callable[[], list[DataFrame]], tmp_path: Path
) -> None:
    alike = sk.similarity_join(streams()[0], on="v_a", threshold=0.5, within=sk.UNBOUNDED)
    found = read_parquet(run(alike.select("a_left", "a_right"), tmp_path))  # type: ignore[arg-type]
    once = {(min(pair), max(pair)) for pair in found}
    assert once == {(a, b) for a in range(6) for b in range(a + 1, 6) if a % 2 == b % 2}
    assert sum(found.values()) == len(once)


JOIN3: dict[str, dict[str, Any]] = {
    "without time": {"within": sk.UNBOUNDED},
    "with time": {"within": sk.UNBOUNDED, "time": ("at_a", "at_b", "at_c")},
    "per pair": {"within": {"rs": sk.UNBOUNDED, "st": sk.UNBOUNDED}},
    "one pair": {
        "within": {"rs": sk.UNBOUNDED, "st": "7 hours"},
        "time": ("at_a", "at_b", "at_c"),
    },
    "trijoin": {"within": sk.UNBOUNDED, "strategy": sk.TriJoin()},
    "tree": {"within": sk.UNBOUNDED, "strategy": sk.Tree()},
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("given", JOIN3.values(), ids=JOIN3.keys())
def test_join3_of_any_times(
    streams: Callable[[], list[DataFrame]], tmp_path: Path, given: dict[str, Any]
) -> None:
    found = sk.join3(*streams(), RST, **given)
    assert numbers_of(found, tmp_path, "abc") == (TRIPLES, [{}] * 3)


def test_two_bounded_pairs_bound_a_cycle(frame: DataFrame) -> None:
    frames = [frame.withColumnRenamed("k", f"k{i}") for i in range(3)]
    on = [sk.equal("r.k0", "s.k1"), sk.equal("s.k1", "t.k2"), sk.equal("r.k0", "t.k2")]
    within = {"rs": "1 minute", "st": "1 minute", "rt": sk.UNBOUNDED}
    bounded = sk.join3(*frames, on, time="at", within=within).operator(2, None)
    assert {i.late_us for i in bounded.inputs} == {0}
    open_ended = sk.join3(*frames, on, time="at", within=within | {"rs": sk.UNBOUNDED}).operator(
        2, None
    )
    assert min(i.late_us for i in open_ended.inputs) > 10**17


@pytest.mark.slow
def test_a_delay_holds_where_it_is_given(
    streams: Callable[[], list[DataFrame]], tmp_path: Path
) -> None:
    """Rows that are late by what the user says are dropped even where nothing expires."""
    a, b, _ = streams()
    times = {"time": ("at_a", "at_b"), "within": sk.UNBOUNDED, "late": "1 minute"}
    joined = sk.join(a, b, "k", **times)
    alike = sk.similarity_join(a, b, on=("v_a", "v_b"), threshold=0.5, **times)
    for name, found in (("join", joined), ("similarity", alike)):
        _, dropped = numbers_of(found, tmp_path / name, "ab")
        assert dropped == [{}, {"late": 4}, {"late": 2}], name
