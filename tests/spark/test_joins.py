"""What is joined with what, on real streams, against DuckDB: every form of every argument."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from tests.chaos import Chaos
from tests.spark.support import (
    FileStream,
    Oracle,
    assert_same,
    bound,
    file_stream,
    keyed_join,
    keyed_oracle,
    keyed_pair,
    keyed_tables,
    mixed,
    read_parquet,
    run,
)
from tests.spark.wide import wide_tables


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> tuple[FileStream, FileStream]:
    folder = tmp_path_factory.mktemp("wide")
    left, right = wide_tables("left"), wide_tables("right")
    return file_stream(folder / "left", left), file_stream(folder / "right", right)


# `on`, the condition in DuckDB, and the columns that appear once
ON_FORMS: dict[str, tuple[object, str, str]] = {
    "name": ("s", "l.s = r.s", "s"),
    "names": (["s", "flag"], "l.s = r.s AND l.flag = r.flag", "s, flag"),
    "tuple": (("j", "n"), "l.j = r.n", ""),
    "pairs": ([("j", "n"), ("lid", "rid")], "l.j = r.n AND l.lid = r.rid", ""),
    "mixed types": (
        [("i", "n"), "s", "day", ("blob", "blob")],
        "l.i = r.n AND l.s = r.s AND l.day = r.day AND l.blob = r.blob",
        "s, day, blob",
    ),
    "integers of two widths": ("i", "l.i = r.i", "i"),
    "decimals of two scales": ("m", "l.m = r.m", "m"),
    "decimal and integer": (("m", "i"), "l.m = r.i", ""),
    "dates": ("day", "l.day = r.day", "day"),
    "binary": ("blob", "l.blob = r.blob", "blob"),
    "booleans": ("flag", "l.flag = r.flag", "flag"),
    "float and double": ("f", "l.f = r.f", "f"),
    "doubles": ("x", "l.x = r.x", "x"),
    "timestamps": ("ts", "l.ts = r.ts", "ts"),
    "timestamps without zone": (["ntz", ("j", "n")], "l.ntz = r.ntz AND l.j = r.n", "ntz"),
    "any case": ("S", "l.s = r.s", "s"),
    "band of integers": (sk.band("i", "n", 1), "abs(l.i - r.n) <= 1", ""),
    "band of width 0": (sk.band("i", "i", 0), "l.i = r.i", ""),
    "band of doubles": (sk.band("x", "x", 0.25), "abs(l.x - r.x) <= 0.25", ""),
    "band of decimals": (sk.band("m", "m", 0.15), "abs(l.m - r.m) <= 0.15", ""),
    "band of integer and double": (sk.band("i", "x", 0.5), "abs(l.i - r.x) <= 0.5", ""),
    "band of times": (
        sk.band("ts", "ts", "2 seconds"),
        "abs(epoch_us(l.ts) - epoch_us(r.ts)) <= 2000000",
        "",
    ),
    "band of dates": (sk.band("day", "day", "1 day"), "abs(l.day - r.day) <= 1", ""),
    "band and equality": (
        ["s", sk.band("i", "i", 2), ("j", "n")],
        "l.s = r.s AND abs(l.i - r.i) <= 2 AND l.j = r.n",
        "s",
    ),
    "two bands and equality": (
        [sk.band("x", "f", 0.25), "flag", sk.band("ntz", "ntz", timedelta(seconds=3))],
        "abs(l.x - r.f) <= 0.25 AND l.flag = r.flag"
        " AND abs(epoch_us(l.ntz) - epoch_us(r.ntz)) <= 3000000",
        "flag",
    ),
}


@pytest.mark.quick(4)
@pytest.mark.parametrize(("on", "condition", "once"), ON_FORMS.values(), ids=ON_FORMS.keys())
def test_on(
    spark: SparkSession,
    tmp_path: Path,
    wide: tuple[FileStream, FileStream],
    on: object,
    condition: str,
    once: str,
) -> None:
    left, right = wide
    joined = sk.join(
        left.read(spark),
        right.read(spark),
        on,
        left_time="at",
        right_time="seen",
        within="15 seconds",
        late="20 seconds",
    )
    select = f"l.*, r.* EXCLUDE ({once})" if once else "l.*, r.*"
    oracle = Oracle(left.tables, right.tables)
    expected = oracle.join(f"{condition} AND {bound(-15, 15)}", select)
    assert expected
    assert_same(read_parquet(run(joined, tmp_path)), expected)


WITHIN_FORMS: dict[str, tuple[object, tuple[float, float]]] = {
    "text": ("1 second 500 milliseconds", (-1.5, 1.5)),
    "timedelta": (timedelta(seconds=3), (-3, 3)),
    "nothing": ("0 seconds", (0, 0)),
    "asymmetric": (("-1 second", "10 seconds"), (-1, 10)),
    "right later": (("2 seconds", "5 seconds"), (2, 5)),
    "right earlier": ((timedelta(seconds=-5), "-2 seconds"), (-5, -2)),
    "across batches": ("25 seconds", (-25, 25)),
}


@pytest.mark.quick(2)
@pytest.mark.parametrize(("within", "bounds"), WITHIN_FORMS.values(), ids=WITHIN_FORMS.keys())
def test_within(
    spark: SparkSession, tmp_path: Path, within: object, bounds: tuple[float, float]
) -> None:
    left, right = keyed_pair(tmp_path, batches=4, rows=50, keys=2)
    joined = keyed_join(left.read(spark), right.read(spark), within=within)
    oracle = Oracle(left.tables, right.tables)
    expected = oracle.join(f"l.k = r.k AND {bound(*bounds)}", "l.*, r.* EXCLUDE (k)")
    assert expected
    assert_same(read_parquet(run(joined, tmp_path)), expected)


@pytest.mark.quick(1)
@pytest.mark.parametrize("timed", [True, False])
def test_within_unbounded(spark: SparkSession, tmp_path: Path, timed: bool) -> None:
    left, right = keyed_pair(tmp_path, batches=3, rows=20)
    times = {"left_time": "at", "right_time": "seen"} if timed else {}
    joined = sk.join(left.read(spark), right.read(spark), "k", within=sk.UNBOUNDED, **times)
    expected = Oracle(left.tables, right.tables).join("l.k = r.k", "l.*, r.* EXCLUDE (k)")
    assert_same(read_parquet(run(joined, tmp_path)), expected)
    assert sk.history(str(tmp_path / "checkpoint"))[-1].late == 0


LATE_FORMS: dict[str, tuple[object, tuple[float, float]]] = {
    "default": (None, (0, 0)),
    "both": ("2 seconds", (2, 2)),
    "per side": (("1 second", timedelta(seconds=8)), (1, 8)),
    "other side": (("8 seconds", "0 seconds"), (8, 0)),
}


@pytest.mark.quick(2)
@pytest.mark.parametrize(("late", "late_s"), LATE_FORMS.values(), ids=LATE_FORMS.keys())
def test_late(
    spark: SparkSession, tmp_path: Path, late: object, late_s: tuple[float, float]
) -> None:
    """Batches overlap in time by more than is allowed; what is dropped is counted."""
    left = [[(k, t * 0.6) for k, t in mixed(b, 40, 4, 1)] for b in range(4)]
    right = [[(k, t * 0.7) for k, t in mixed(b, 40, 4, 2)] for b in range(4)]
    right[1] = [(k, t - 5) for k, t in right[1]]  # now one side lags behind, now the other
    left[2] += [(1, 0.5), (2, 13.0)]
    right[3] += [(1, 1.0), (2, 12.0), (3, 17.5)]
    a = file_stream(tmp_path / "left", keyed_tables("left", left))
    b = file_stream(tmp_path / "right", keyed_tables("right", right))
    joined = keyed_join(a.read(spark), b.read(spark), late=late)

    oracle = Oracle(a.tables, b.tables, late_s)
    expected = oracle.join(f"l.k = r.k AND {bound(-4, 4)}", "l.*, r.* EXCLUDE (k)")
    assert oracle.late() > 0
    assert_same(read_parquet(run(joined, tmp_path)), expected)
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert sum(r.late for r in reports) == oracle.late()
    assert sum(r.matches for r in reports) == expected.total()


@pytest.mark.quick(1)
@pytest.mark.parametrize("as_column", [False, True])
def test_where_and_suffixes(spark: SparkSession, tmp_path: Path, as_column: bool) -> None:
    left, right = keyed_pair(tmp_path)
    where: str | Column = "a % 3 = 0 AND b_right > 5"
    if as_column:
        where = (F.col("a") % 3 == 0) & (F.col("b_right") > 5)
    joined = sk.join(
        left.read(spark).withColumn("b", F.lit("left")),
        right.read(spark).withColumnRenamed("seen", "at"),
        "k",
        left_time="at",
        right_time="at",
        within="4 seconds",
        late="10 seconds",
        where=where,
        suffixes=("_left", "_right"),
    )
    assert joined.columns == ["k", "at_left", "a", "b_left", "at_right", "b_right"]
    out = run(joined, tmp_path)
    expected = Oracle(left.tables, right.tables).join(
        f"l.k = r.k AND {bound(-4, 4)} AND l.a % 3 = 0 AND r.b > 5", "l.*, 'left', r.* EXCLUDE (k)"
    )
    assert expected
    assert_same(read_parquet(out), expected)


def test_columns_of_the_result_are_those_in_the_files(
    spark: SparkSession, tmp_path: Path, wide: tuple[FileStream, FileStream]
) -> None:
    left, right = wide
    joined = sk.join(
        left.read(spark),
        right.read(spark),
        ["s", ("i", "n")],
        left_time="at",
        right_time="seen",
        within="1 second",
    )
    assert joined.columns == [
        "lid", "at", "i", "j", "s", "m", "day", "blob", "flag", "f", "x", "ts", "ntz",
        "rid", "seen", "i_right", "n", "m_right", "day_right", "blob_right", "flag_right",
        "f_right", "x_right", "ts_right", "ntz_right",
    ]  # fmt: skip
    assert joined.schema["m"].dataType.simpleString() == "decimal(10,2)"
    assert joined.schema["m_right"].dataType.simpleString() == "decimal(14,4)"
    out = run(joined, tmp_path)
    assert spark.read.parquet(str(out)).schema == joined.schema


def test_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path, batches=2)
    joined = sk.join(
        left.read(spark).toDF("der Schlüssel", "um.wann", "a`b"),
        right.read(spark).toDF("key.1", "at", "$ %"),
        [("der Schlüssel", "key.1")],
        left_time="um.wann",
        right_time="at",
        within="4 seconds",
        late="10 seconds",
    )
    out = run(joined, tmp_path)
    assert spark.read.parquet(str(out)).columns == [
        "der Schlüssel", "um.wann", "a`b", "key.1", "at", "$ %",
    ]  # fmt: skip
    expected = Oracle(left.tables, right.tables).join(f"l.k = r.k AND {bound(-4, 4)}")
    assert_same(read_parquet(out), expected)


STRATEGIES: dict[str, dict[str, Any]] = {
    "auto": {},
    "hash": {"balance": sk.Hash(), "instances": 5, "slots": 3},
    "one": {"balance": sk.Hash(), "instances": 1, "slots": 1},
    "contrand": {"balance": sk.ContRand(groups=2), "instances": 5, "slots": 64},
    "contrand of few slots": {"balance": sk.ContRand(groups=4), "instances": 3, "slots": 2},
    "broadcast": {"balance": sk.Broadcast(), "instances": 3, "slots": 7},
    "eager auto": {"balance": sk.Auto(floor_ms=0, noise=0, patience=1), "instances": 4},
    "eager fastjoin": {
        "balance": sk.FastJoin(theta=1.01, load_min=0, patience=1),
        "instances": 4,
        "slots": 16,
    },
    "eager lsstream": {"balance": sk.LSStream(alpha=0.01, patience=1), "instances": 4},
    "fastjoin as published": {
        "balance": sk.FastJoin(theta=1.01, load_min=0, paper=True, keys_watched="all"),
        "instances": 4,
    },
    "lsstream as published": {"balance": sk.LSStream(alpha=0.01, paper=True), "instances": 4},
    "fastjoin without a threshold": {"balance": sk.FastJoin(theta="auto", load_min=0)},
    "lsstream without a threshold": {"balance": sk.LSStream(alpha="auto"), "instances": 4},
    "only watching": {"balance": sk.NoBalancing(), "instances": 3},
    "pinned": {"balance": sk.Auto(pin={1: 2}), "instances": 3},
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("more", STRATEGIES.values(), ids=STRATEGIES.keys())
def test_balance(spark: SparkSession, tmp_path: Path, more: dict[str, Any]) -> None:
    left, right = keyed_pair(tmp_path, keys=3)
    joined = keyed_join(left.read(spark), right.read(spark), **more)
    assert_same(read_parquet(run(joined, tmp_path)), keyed_oracle(left, right))


# Random streams --------------------------------------------------------------------------------

BATCH = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 80).map(lambda t: t / 4)), max_size=15)
STREAM = st.lists(BATCH, min_size=2, max_size=3)
BOUNDS = st.tuples(st.integers(-5, 5), st.integers(-5, 5)).map(lambda pair: tuple(sorted(pair)))
BALANCES = st.sampled_from(
    [sk.Hash(), sk.ContRand(groups=2), sk.Broadcast(), Chaos(), Chaos(seed=1)]
)


@pytest.mark.slow
@settings(
    max_examples=8,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking would take hours
    suppress_health_check=list(HealthCheck),
)
@given(
    left=STREAM,
    right=STREAM,
    banded=st.booleans(),
    bounds=BOUNDS,
    late=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    balance=BALANCES,
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 9)),
)
def test_random_streams(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    left: list[list[tuple[int, float]]],
    right: list[list[tuple[int, float]]],
    banded: bool,
    bounds: tuple[int, int],
    late: tuple[int, int],
    balance: sk.Hash | sk.ContRand | sk.Broadcast | Chaos,
    sizes: tuple[int, int],
) -> None:
    folder = tmp_path_factory.mktemp("random")
    a = file_stream(folder / "left", keyed_tables("left", left))
    b = file_stream(folder / "right", keyed_tables("right", right))
    joined = sk.join(
        a.read(spark),
        b.read(spark),
        sk.band("k", "k", 1) if banded else "k",
        left_time="at",
        right_time="seen",
        within=tuple(f"{s} seconds" for s in bounds),
        late=tuple(f"{s} seconds" for s in late),
        balance=balance,
        instances=sizes[0],
        slots=sizes[1],
    )
    oracle = Oracle(a.tables, b.tables, late)
    near = "abs(l.k - r.k) <= 1" if banded else "l.k = r.k"
    select = "l.*, r.*" if banded else "l.*, r.* EXCLUDE (k)"
    expected = oracle.join(f"{near} AND {bound(*bounds)}", select)
    assert_same(read_parquet(run(joined, folder)), expected)
    assert sum(r.late for r in sk.history(str(folder / "checkpoint"))) == oracle.late()
