"""Columns of every type that are merely carried along, under every type of join and asof, as
Spark's own join has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.operators.join_type import JOIN_TYPES
from tests.spark.support import finish, settings_of

# Sessions hand times over in their zone, and texts with large offsets if they are told to: then
# columns arrive in other types than those that are stored.
SETTINGS = {
    "spark.sql.timeType.enabled": "true",
    "spark.sql.geospatial.enabled": "true",  # PySpark 4.1 has it off
    "spark.sql.session.timeZone": "America/St_Johns",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}
TYPES = {
    "bigint": "a",
    "tinyint": "cast(a as tinyint)",
    "float": "cast(a / 3 as float)",
    "boolean": "a % 2 = 0",
    "string": "cast(a as string)",
    "char": "cast(a as char(10))",
    "varchar": "cast(a as varchar(10))",
    "collated": "cast(a as string) collate UNICODE_CI",
    "binary": "cast(cast(a as string) as binary)",
    "variant": "parse_json(to_json(struct(a, k)))",
    "interval": "make_dt_interval(a, 0, 0, a)",
    "timestamp": "timestamp'2024-01-01 00:00:00Z' + make_dt_interval(a)",
    "timestamp_ntz": "timestamp_ntz'2024-01-01 00:00:00' + make_dt_interval(a)",
    "date": "date'2024-01-01' + cast(a as int)",
    "time": "make_time(1, 2, a)",
    "decimal": "cast(a as decimal(38, 18)) / 3",
    "whole decimal": "cast(a as decimal(38, 0)) * 9999999999999999999999999999BD",
    "void": "null",
    "geometry": "st_geomfromwkb(x'0101000000000000000000F03F0000000000000040')",
}
HOLDERS = {
    "{}": "{}",
    "{}, sometimes": "if(a % 3 = 0, null, {})",
    "array of {}": "array({}, null)",
    "arrays, sometimes, of {}": "if(a % 3 = 0, null, slice(array({}), 1, cast(a % 2 as int)))",
    "map to {}": "map(a, {}, a + 1, null)",
    "structs, sometimes, of {}": "if(a % 3 = 0, null, named_struct('x', {0}, 'y', array({0})))",
    "{}, deep": "array(map('q', named_struct('z', array({}))), null)",
}
PAYLOADS = {
    name.format(kind): holder.format(value)
    for kind, value in TYPES.items()
    for name, holder in HOLDERS.items()
}
NEAR = "k = k2 and abs(unix_micros(at) - unix_micros(seen)) <= 6000000"


def loaded(rows: DataFrame, prefix: str = "") -> DataFrame:
    """Rows with the columns k, at and a, and every payload."""
    made = (f"{value} as `{prefix}{name}`" for name, value in PAYLOADS.items())
    return rows.selectExpr("*", *made)


def numbers(spark: SparkSession) -> DataFrame:
    """Some rows have no key."""
    return spark.range(14).selectExpr(
        "if(id % 7 = 6, null, id % 5) as k",
        "timestamp'2024-03-01 00:00:00Z' + make_dt_interval(0, 0, 0, id * 2) as at",
        "id as a",
    )


def sides(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Some rows have no partner."""
    left, right = loaded(rows.where("a % 4 <> 1")), loaded(rows.where("a % 3 <> 0"), "its ")
    return left, right.withColumnsRenamed({"k": "k2", "at": "seen", "a": "b"})


def as_text(rows: Iterable[Row], names: list[str]) -> Mapping[str, Counter[str]]:
    """By column, its values with the numbers of the rows that they are in: as PySpark shows them,
    since some cannot be compared."""
    listed = list(rows)
    ids = [i for i, name in enumerate(names) if name in ("a", "b")]
    return {
        name: Counter(str(([row[i] for i in ids], row[place])) for row in listed)
        for place, name in enumerate(names)
    }


def assert_as_spark(found: list[Row], expected: DataFrame) -> None:
    names = expected.columns
    shown, wanted = as_text(found, names), as_text(expected.collect(), names)
    assert len(found) > 1
    assert [name for name in names if shown[name] != wanted[name]] == []


def by_spark(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    if how.startswith("right_"):
        return right.join(left, F.expr(NEAR), how.replace("right_", "left_"))
    return left.join(right, F.expr(NEAR), how)


def asof_by_spark(left: DataFrame, right: DataFrame, how: str, direction: str) -> DataFrame:
    """Of all partners, the nearest; the times are all different."""
    after = {"backward": "seen <= at", "forward": "seen >= at", "nearest": "true"}[direction]
    nearest = "row_number() over (partition by a order by abs(at - seen)) as n"
    pairs = left.join(right, F.expr(f"{NEAR} and {after}"))
    chosen = pairs.selectExpr("a as asking", "b as best", nearest).where("n = 1")
    joined = left.join(chosen, F.expr("a = asking"), how).join(right, F.expr("b = best"), how)
    return joined.drop("asking", "best", "n")


def asked(left: DataFrame, right: DataFrame, **more: Any) -> dict[str, Any]:
    return {"left": left, "right": right, "on": [("k", "k2")], "late": "1 minute",
            "left_time": "at", "right_time": "seen", **more}  # fmt: skip


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", sorted(JOIN_TYPES))
def test_joins(spark: SparkSession, how: Any) -> None:
    session = spark.newSession()
    with settings_of(session, SETTINGS):
        left, right = sides(numbers(session))
        result = sk.join(**asked(left, right, within="6 seconds", how=how))
        assert_as_spark(result.toDF().collect(), by_spark(left, right, how))


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["nearest", "backward", "forward"])
@pytest.mark.parametrize("how", ["left", "inner"])
def test_asof_joins(spark: SparkSession, direction: Any, how: Any) -> None:
    session = spark.newSession()
    with settings_of(session, SETTINGS):
        left, right = sides(numbers(session))
        more = {"tolerance": "6 seconds", "direction": direction, "how": how}
        result = sk.asof_join(**asked(left, right, **more))
        assert_as_spark(result.toDF().collect(), asof_by_spark(left, right, how, direction))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "left_semi", "left_anti"])
def test_streams(spark: SparkSession, tmp_path: Path, how: Any) -> None:
    """Rows that are stored, and leave from there with a later batch."""
    session = spark.newSession()
    with settings_of(session, SETTINGS):
        rows = numbers(session)
        closing = rows.limit(1).selectExpr(
            "cast(null as bigint) k", "at + interval 1 day at", "14L a"
        )
        for batch in (rows.where("a < 7"), rows.where("a >= 7"), closing):
            batch.coalesce(1).write.mode("append").parquet(str(tmp_path / "rows"))
        reader = session.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1)
        stream = reader.parquet(str(tmp_path / "rows"))
        result = sk.join(**asked(*sides(stream), within="6 seconds", how=how))
        found: list[Row] = []
        writer = result.writeStream.foreachBatch(lambda rows, _: found.extend(rows.collect()))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        finish(writer.trigger(availableNow=True).start())
        assert len(sk.history(str(tmp_path / "checkpoint"))) == 3
        assert_as_spark(found, by_spark(*sides(rows), how))
