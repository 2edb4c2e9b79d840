"""What a type checker says of programs that use skewless: nothing where they are right, and where
they are wrong, it finds the line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

RIGHT = """
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import skewless as sk


State = list[pa.Array]


class SumOfSquares(sk.Accumulator):
    state = {"total": pa.float64()}
    result = pa.float64()

    def init(self, groups: int) -> State:
        return [pa.array(np.zeros(groups))]

    def update(self, state: State, groups: pa.Array, values: pa.Array) -> State:
        return state

    def merge(self, state: State, groups: pa.Array, other: State) -> State:
        return state

    def finish(self, state: State) -> pa.Array:
        return state[0]


def two(a: DataFrame, b: DataFrame, c: DataFrame) -> sk.Result:
    names: list[str] = ["k1", "k2"]
    pairs: list[tuple[str, str]] = [("k1", "k2")]
    joined: sk.Joined = sk.join(a, b, names, time=["at", "seen"], within=timedelta(minutes=1))
    sk.join(a, b, pairs, left_time="at", right_time="seen", within=("-1 minute", timedelta(0)))
    sk.join(a, b, ("k1", "k2"), within=sk.UNBOUNDED, balance="auto", how="inner")
    sk.join(a, b, (a["x"] == b["y"]) & a["k"].eqNullSafe(b["k"]), time=(a["at"], "seen"),
            within=sk.UNBOUNDED)
    sk.join(a, b, [sk.equal("x", "y", null_safe=True), (a["k"], "k")], within=sk.UNBOUNDED)
    sk.join(a, b, [sk.band("x", "y", 2), "k"], time="at", within="1 minute", late=timedelta(1))
    sk.join(a, b, "k", time="at", within="1 minute", idle_after=(None, "1 hour"), max_ahead="1 day")
    sk.join(a, b, "k", time=("at", "seen"), within="1 hour", late=("1 minute", None),
            strategy=sk.LSStream(alpha="auto"), where=F.col("x") > 1, on_null_time="drop",
            instances=4)
    wanted = joined.where("k1 > 1").select(names)
    return sk.join(wanted, c, on="k1", time=("at", "t"), within="1 day")


def nearest(a: DataFrame, b: DataFrame) -> sk.AsofJoined:
    names: list[str] = ["k1", "k2"]
    sk.asof_join(a, b, [("k1", "k2")], left_time="at", right_time="seen", direction="forward")
    return sk.asof_join(a, b, names, time=("at", "seen"), direction="nearest", how="left",
                        tolerance=timedelta(seconds=1), late=("1 minute", None),
                        allow_exact_matches=False, strategy=sk.Auto(), where="x > 1")


def three(a: DataFrame, b: DataFrame, c: DataFrame) -> sk.Joined3:
    conditions = [sk.equal("r.k", "s.k"), sk.band("s.x", "t.x", 0.5)]
    times: Sequence[str] = ("at", "seen", "done")
    sk.join3(a, b, c, conditions, times=times, within=sk.UNBOUNDED, strategy=sk.Tree())
    sk.join3(a, b, c, conditions, time=times, late=["1 minute", None, timedelta(0)],
             within={"rs": "1 minute", "st": sk.UNBOUNDED, "rt": (timedelta(-1), "1 hour")})
    below = sk.deduplicate(a, ["k"], time="at", within=timedelta(hours=1), late="1 minute")
    return sk.join3(below, b, c, conditions, time="at", within=timedelta(1), strategy="auto")


def alike(a: DataFrame, b: DataFrame) -> sk.Similar:
    columns: list[str] = ["lat", "lon"]
    sk.similarity_join(a, on="v", threshold=1, time="at", window=timedelta(minutes=1))
    sk.similarity_join(a, b, on="v", threshold=0.5, within=sk.UNBOUNDED, on_bad="drop")
    sk.similarity_join(a, b, on=("v", "w"), metric=lambda x, y: x, threshold=1, within="1 s",
                       left_time="at", right_time="seen", strategy=sk.S3J())
    return sk.similarity_join(a, b, on=columns, metric="haversine", threshold=300,
                              time=("at", "seen"), within="1 minute", late="10 seconds")


def groups(a: DataFrame, b: DataFrame) -> sk.Aggregated:
    by: list[str] = ["k"]
    aggs: dict[str, object] = {"n": "count", "p95": ("quantile", "x", 0.95)}
    named: dict[str, str] = {"n": "count"}
    sk.aggregate(a, by, aggs, time="at", window=("10 minutes", timedelta(minutes=1)))
    sk.aggregate(a, [], named, strategy=sk.PKG())
    sk.aggregate(a, "k", [F.count("*").alias("n"), F.sum("x")])
    sk.aggregate(a, by, named, strategy=sk.PdStream(expected="auto", count_arriving=False))
    sk.aggregate(a, "k", {"squares": (SumOfSquares(), "x")}, grouping="auto")
    joined = sk.join(a, b, "k", time="at", within="1 minute")
    joined.groupBy(by, time="at", window=timedelta(minutes=1)).agg(aggs)
    joined.groupBy("k").agg(F.sum("x"), F.count("*")).select("k")
    joined.groupBy("k").count()
    condition: Column = joined["k"] > 1
    wanted = joined.filter(condition).withColumn("x", F.lit(1)).drop("y").selectExpr("k", "at")
    return wanted.groupBy("k", time="at", window="1 minute", strategy=sk.PKG()).agg(n="count")


def written(result: sk.Result) -> StreamingQuery:
    writer = result.writeStream.format("parquet").option("checkpointLocation", "c")
    return writer.outputMode("append").trigger(availableNow=True).start("out")


def read(result: sk.Result) -> list[str]:
    frame: DataFrame = result.dataframe()
    result.show()
    batches: list[sk.BatchReport] = sk.history("c")
    return [batch.verdict for batch in batches] + frame.columns + result.columns
"""

WRONG = """
from pyspark.sql import DataFrame

import skewless as sk

a: DataFrame
b: DataFrame
on = [sk.equal("r.k", "s.k"), sk.equal("s.k", "t.k")]

sk.join(a, b, on=3, within="1 minute")  # wrong
sk.join(a, b, "k", within="1 minute", how="outr")  # wrong
sk.join(a, b, "k", within="1 minute", balance="foo")  # wrong
sk.join(a, b, "k", within="1 minute", strategy="foo")  # wrong
sk.join(a, b, "k", within="1 minute", strategy=sk.PKG())  # wrong
sk.join(a, b, "k", within="1 minute", strategy=sk.Hash)  # wrong
sk.join(a, b, "k", within=5)  # wrong
sk.join(a, b, "k")  # wrong
sk.join(a, b, "k", within="1 minute", late=3)  # wrong
sk.join(a, b, "k", within="1 minute", time=3)  # wrong
sk.join(a, b, "k", within="1 minute", on_null_time="x")  # wrong
sk.join(a, 5, "k", within="1 minute")  # wrong
sk.join(a, b, "k", within="1 minute", lat="1 minute")  # wrong
sk.asof_join(a, b, sk.band("x", "y", 1), time="at", tolerance="1 s")  # wrong
sk.asof_join(a, b, "k", time="at", tolerance=5)  # wrong
sk.asof_join(a, b, "k", time="at", tolerance="1 s", direction="up")  # wrong
sk.asof_join(a, b, "k", time="at", tolerance="1 s", how="full")  # wrong
sk.join3(a, b, a, "k", within="1 minute")  # wrong
sk.join3(a, b, a, on, within=5)  # wrong
sk.join3(a, b, a, on, within={"rs": 5, "st": 6})  # wrong
sk.join3(a, b, a, on, within="1 minute", late=3)  # wrong
sk.join3(a, b, a, on, within="1 minute", strategy=sk.Hash())  # wrong
sk.similarity_join(a, b, on=3, threshold=1, within="1 minute")  # wrong
sk.similarity_join(a, b, on="v", threshold="1", within="1 minute")  # wrong
sk.similarity_join(a, b, on="v", threshold=1, within=5)  # wrong
sk.similarity_join(a, b, on="v", threshold=1, within="1 s", strategy="foo")  # wrong
sk.similarity_join(a, b, on="v", threshold=1, within="1 s", on_bad="x")  # wrong
sk.aggregate(a, 3, {"n": "count"})  # wrong
sk.aggregate(a, "k", ["count"])  # wrong
sk.aggregate(a, "k", {"n": "count"}, grouping="foo")  # wrong
joined.groupBy("k").agg("count")  # wrong
sk.aggregate(a, "k", {"n": "count"}, strategy=sk.Hash())  # wrong
sk.aggregate(a, "k", {"n": "count"}, strategy=sk.PdStream(expected="high"))  # wrong
sk.aggregate(a, "k", {"n": "count"}, window=5)  # wrong
sk.deduplicate(a, "k", time="at", within=5)  # wrong
sk.deduplicate(a, "k", time=3, within="1 minute")  # wrong
joined = sk.join(a, b, "k", within="1 minute")
joined.selct("k")  # wrong
joined.groupBy("k", windo="1 minute")  # wrong
joined.groupBy("k", on_null_time="x")  # wrong
joined.writeStream.foreachBatch(5)  # wrong
sk.nope  # wrong
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """What mypy says of both programs, by line; one run, as it is slow to begin."""
    folder = tmp_path_factory.mktemp("programs")
    programs = {"right": RIGHT, "wrong": WRONG}
    for name, source in programs.items():
        (folder / f"{name}.py").write_text(source.lstrip(), encoding="utf-8")
    files = [str(folder / f"{name}.py") for name in programs]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *files]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    errors: dict[str, dict[int, str]] = {name: {} for name in programs}
    for line in run.stdout.splitlines():
        matched = re.match(r"(.*)\.py:(\d+): error: (.*)", line)
        if matched is None:
            assert ": note: " in line, line
            continue
        path, number, message = matched.groups()
        errors.setdefault(Path(path).name, {})[int(number)] = message
    assert set(errors) == set(programs), "nothing to say of skewless itself"
    return errors


def test_right_programs_pass(found: dict[str, dict[int, str]]) -> None:
    assert found["right"] == {}


def test_wrong_lines_are_found(found: dict[str, dict[int, str]]) -> None:
    lines = WRONG.lstrip().splitlines()
    wrong = {number: line for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(wrong) > 30
    assert {n: line for n, line in wrong.items() if n not in found["wrong"]} == {}
    assert {n: error for n, error in found["wrong"].items() if n not in wrong} == {}
