"""Keys are compared as Spark's own joins do it, and written as PySpark's users write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import skewless as sk
from skewless.errors import ArgumentError, ColumnError
from skewless.operators.two_way.operator import JoinOperator
from skewless.spark.arguments import columns
from tests.spark.support import (
    assert_same,
    file_stream,
    keyed_pair,
    keyed_tables,
    mixed,
    multiset,
    read_parquet,
    run,
)

ANSI = "spark.sql.ansi.enabled"
ZONE = "America/St_Johns"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own, to be configured."""
    made = spark.newSession()
    made.conf.set("spark.sql.session.timeZone", ZONE)
    return made


def operator_of(joined: sk.Result) -> JoinOperator:
    operator = joined.operator(1, None)
    assert isinstance(operator, JoinOperator)
    return operator


# Which types compare, and as what ----------------------------------------------------------------

TYPES = (
    "int", "string", "date", "struct<a: int, b: array<double>>", "double", "decimal(10,2)",
    "timestamp", "array<int>", "timestamp_ntz", "bigint", "smallint", "float", "boolean", "binary",
    "decimal(38,0)", "decimal(38,30)", "interval day to second", "interval hour",
    "struct<A: bigint, b: array<int>>", "array<date>", "array<timestamp>", "map<int, int>",
    "variant",
)  # fmt: skip


def analysed(session: SparkSession, left: str, right: str) -> list[str] | None:
    """The types that Spark compares two columns in, read off its plan; None where it refuses."""
    frame = session.createDataFrame([], StructType.fromDDL(f"a {left}, b {right}"))
    try:
        plan = frame.where("a = b")._jdf.queryExecution().analyzed().condition().toString()
    except AnalysisException:
        return None
    found = []
    for operand, own in zip(re.split(r" = ", plan[1:-1]), (left, right), strict=True):
        cast = re.fullmatch(r"cast\((.*) as (.*)\)", operand)
        kind = own if cast is None else cast[2]
        found.append(StructType.fromDDL(f"x {kind}")[0].dataType.simpleString().lower())
    return found


def is_wider(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether integers and decimals are compared without loss in either type."""
    if pt.is_integer(ours):
        return bool(pt.is_integer(theirs))
    return bool(pt.is_decimal(ours) and pt.is_decimal(theirs) and ours.scale == theirs.scale)


@pytest.mark.quick(2)
@pytest.mark.parametrize("left", TYPES)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_types_compare_as_in_spark(session: SparkSession, left: str, ansi: str) -> None:
    session.conf.set(ANSI, ansi)
    accepted = 0
    for right in TYPES:
        expected = analysed(session, left, right)
        a = session.createDataFrame([], StructType.fromDDL(f"a {left}"))
        b = session.createDataFrame([], StructType.fromDDL(f"b {right}"))
        if expected is None:
            with pytest.raises(ColumnError, match="Spark says"):
                sk.join(a, b, ("a", "b"), within=sk.UNBOUNDED)
            continue
        accepted += 1
        spec = operator_of(sk.join(a, b, ("a", "b"), within=sk.UNBOUNDED)).spec
        assert expected[0] == expected[1]
        theirs = columns.arrow_type(StructType.fromDDL(f"x {expected[0]}")[0].dataType)
        kinds = [side.keys[0].type for side in (spec.left, spec.right)]
        assert kinds[0] == kinds[1]
        assert str(kinds[0]).lower() == str(theirs).lower() or is_wider(kinds[0], theirs)
    assert accepted or left.startswith(("map", "variant"))


# What is equal ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Values of two types, written in SQL."""

    left: str
    left_values: str
    right: str
    right_values: str
    settings: tuple[tuple[str, str], ...] = ()


NUMBERS = "1, 0, -1, 9007199254740993, 9007199254740992, 9223372036854775807, null"
DOUBLES = "1, -0.0, 0.1, double('nan'), 9007199254740992, 9223372036854775807, 1e300, null, -1"
POINT = "struct<x: double, of: array<int>>"
POINTS = """named_struct('x', 1.0D, 'of', array(1, null)), named_struct('x', double('nan'), 'of',
    array()), named_struct('x', -0.0D, 'of', null), named_struct('x', 0.0D, 'of', null),
    named_struct('x', null, 'of', null), null"""
OTHER_POINT = "struct<X: float, of: array<bigint>>"
OTHER_POINTS = """named_struct('x', 1.0, 'of', array(1, null)), named_struct('x', 0, 'of',
    null), named_struct('x', null, 'of', null), named_struct('x', null, 'of', array()), null"""
DAYS = "date'2024-03-10', date'2024-03-11', date'1883-11-18', date'0001-01-01', null"
TIMES = """timestamp'2024-03-10 00:00:00', timestamp'2024-03-10 03:30:00',
    timestamp'1883-11-18 00:00:00', timestamp'0001-01-01 00:00:00', null"""
LEGACY = ((ANSI, "false"),)

PAIRS: dict[str, Pair] = {
    "string and int": Pair("string", "'1', ' 1 ', '-1', '+7', '0', null", "int", "1, -1, 7, 0, 2"),
    "structs of two types": Pair(POINT, POINTS, OTHER_POINT, OTHER_POINTS),
    "structs": Pair(POINT, POINTS, POINT, POINTS),
    "bigint and double": Pair("bigint", NUMBERS, "double", DOUBLES),
    "bigint and float, legacy": Pair("bigint", NUMBERS, "float", DOUBLES, LEGACY),
    "decimal and double": Pair(
        "decimal(30,10)", "1, 0, 0.1, 0.3, 9007199254740993, 1.5", "double", DOUBLES
    ),
    "decimals that do not fit": Pair(
        "decimal(38,0)", "1, 2, 0, 99999999999999999999999999999999999999",
        "decimal(38,10)", "1.4, 1.5, 2, 0.1, -0.1",
    ),
    "decimal and bigint": Pair("decimal(20,2)", "1, 1.5, -1, 0, null", "bigint", NUMBERS),
    "decimal and bigint that do not fit": Pair("decimal(38,25)", "1, 1.5, -1", "bigint", "1, -1"),
    "date and timestamp": Pair("date", DAYS, "timestamp", TIMES),
    "date and timestamp_ntz": Pair(
        "date", DAYS, "timestamp_ntz", "timestamp_ntz'2024-03-10 00:00:00'"
    ),
    "timestamp and timestamp_ntz": Pair(
        "timestamp", TIMES, "timestamp_ntz",
        "timestamp_ntz'2024-03-10 03:30:00', timestamp_ntz'2024-03-10 02:30:00', null",
    ),
    "string and timestamp": Pair(
        "string", "'2024-03-10', '2024-03-10 07:00:00Z', '1883-11-18'", "timestamp", TIMES
    ),
    "string and date": Pair("string", "'2024-03-10', ' 2024-3-10', null", "date", DAYS),
    "string and double": Pair("string", "'1.0', 'NaN', '-0', '1e300', '0.10'", "double", DOUBLES),
    "string and decimal": Pair("string", "'1.0', '1.50'", "decimal(10,2)", "1, 1.5"),
    "string and boolean": Pair("string", "'true', 'no', 'T', null", "boolean", "true, false"),
    "string and int, legacy": Pair(
        "string", "'1', 'x', '1.9', '', null, '99999999999'", "int", "1, 0, 2, null", LEGACY
    ),
    "string and binary, legacy": Pair("string", "'a', 'é'", "binary", "x'61', x'c3a9'", LEGACY),
    "arrays of two types": Pair(
        "array<date>", f"array({DAYS}), array(date'2024-03-10'), array()",
        "array<timestamp>", "array(timestamp'2024-03-10 00:00:00', null), array(), "
        "array(timestamp'2024-03-10 00:00:00')",
    ),
    "intervals": Pair(
        "interval day to second", "interval '1 00:00:00' day to second, interval '5' second",
        "interval hour", "interval '24' hour, interval '1' hour",
    ),
    "chars": Pair("string", "'a  ', 'a', 'b'", "char(3)", "'a', 'b  '"),
}  # fmt: skip


def frames_of(session: SparkSession, pair: Pair) -> tuple[DataFrame, DataFrame]:
    for key, value in pair.settings:
        session.conf.set(key, value)
    made = []
    for name, kind, values in (
        ("l", pair.left, pair.left_values),
        ("r", pair.right, pair.right_values),
    ):
        rows = session.sql(f"select posexplode(array({values})) as ({name}, k)")
        made.append(rows.select(name, F.col("k").cast(kind)))
    return made[0], made[1]


def assert_as_spark(
    frames: tuple[DataFrame, DataFrame], on: Any, condition: Column, how: str
) -> DataFrame:
    left, right = frames
    expected = multiset(left.join(right, condition, how).select("l", "r").collect())
    joined = sk.join(left, right, on, within=sk.UNBOUNDED, how=how, instances=1).dataframe()  # type: ignore[arg-type]
    joined = joined.persist()
    assert_same(multiset(joined.select("l", "r").collect()), expected)
    assert any(None not in row for row in expected)
    return joined


@pytest.mark.quick(2)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_keys_of_two_types(session: SparkSession, pair: Pair) -> None:
    """A full join: every row that does not match shows, too. The key is one column, of the type
    that it has in Spark."""
    left, right = frames_of(session, pair)
    condition = left["k"] == right["k"]
    try:
        using = left.join(right, "k", "full")
    except AnalysisException:  # they compare, but one column cannot hold both
        with pytest.raises(ColumnError, match="no type in common"):
            sk.join(left, right, "k", within=sk.UNBOUNDED, how="full")
        assert_as_spark((left, right), "k", condition, "inner")
        return
    joined = assert_as_spark((left, right), "k", condition, "full")
    assert joined.schema["k"].dataType == using.schema["k"].dataType
    as_text = [frame.select(F.col("k").cast("string"), "l", "r") for frame in (joined, using)]
    assert_same(*(multiset(frame.collect()) for frame in as_text))


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["full", "left", "left_anti", "left_semi", "inner"])
def test_null_equals_null(session: SparkSession, how: str) -> None:
    numbers = Pair("int", "1, 2, null, null, 3", "double", "1, null, 3, 4")
    left, right = frames_of(session, numbers)
    side = ["l"] if how in ("left_anti", "left_semi") else ["l", "r"]
    expected = left.join(right, left["k"].eqNullSafe(right["k"]), how).select(*side)
    on = sk.equal("k", "k", null_safe=True)
    found = sk.join(left, right, on, within=sk.UNBOUNDED, how=how).dataframe().select(*side)  # type: ignore[arg-type]
    assert_same(multiset(found.collect()), multiset(expected.collect()))


@pytest.mark.slow
def test_null_equals_null_among_three(session: SparkSession) -> None:
    rows = [(1, 1), (2, None), (3, 3)]
    r, s, t = (session.createDataFrame(rows, f"{n} int, {n}_k int") for n in "rst")
    on = [sk.equal("r.r_k", "s.s_k", null_safe=True), sk.equal("s.s_k", "t.t_k", null_safe=True)]
    found = sk.join3(r, s, t, on, within=sk.UNBOUNDED).dataframe().select("r", "s", "t").collect()
    assert_same(multiset(found), multiset((i, i, i) for i in (1, 2, 3)))
    on[1] = sk.equal("s.s_k", "t.t_k")
    found = sk.join3(r, s, t, on, within=sk.UNBOUNDED).dataframe().select("r", "s", "t").collect()
    assert_same(multiset(found), multiset((i, i, i) for i in (1, 3)))


@pytest.mark.slow
def test_three_inputs_with_keys_of_other_types(session: SparkSession) -> None:
    r = session.createDataFrame([(1, "1"), (2, "2")], "r int, r_k string")
    s = session.createDataFrame([(1, 1, 1.5), (2, 2, 2.0)], "s int, s_k int, s_x double")
    t = session.createDataFrame([(1, "1.5"), (2, "2.0")], "t int, t_x string")
    on = [sk.equal("r.r_k", "s.s_k"), sk.equal("s.s_x", "t.t_x")]
    joined = sk.join3(r, s, t, on, within=sk.UNBOUNDED)
    assert joined.columns == ["r", "r_k", "s", "s_k", "s_x", "t", "t_x"]
    found = joined.dataframe().select("r", "s", "t").collect()
    assert_same(multiset(found), multiset([(1, 1, 1), (2, 2, 2)]))


@pytest.mark.slow
def test_a_result_whose_key_is_cast(session: SparkSession) -> None:
    """Spark casts rows of another operator, too, on their way up."""
    a = session.createDataFrame([(1, "5"), (2, "6")], "a int, k string")
    b = session.createDataFrame([(1, 5), (2, 6)], "b int, k int")
    below = sk.join(a, b, "k", within=sk.UNBOUNDED).withColumnRenamed("k", "key")
    c = session.createDataFrame([(1, 5.0), (2, 7.0)], "c int, key double")
    for how, expected in (
        ("inner", [(5.0, 1, 1)]),
        ("full", [(5.0, 1, 1), (6.0, 2, None), (7.0, None, 2)]),
    ):
        above = sk.join(below, c, "key", within=sk.UNBOUNDED, how=how)  # type: ignore[arg-type]
        found = above.dataframe().select(F.col("key").cast("double"), "b", "c").collect()
        assert_same(multiset(found), multiset(expected))


@pytest.mark.slow
def test_the_nearest_row_of_a_key_that_is_cast(session: SparkSession) -> None:
    left = session.createDataFrame([("1", 5), (None, 5), ("2", 5)], "k string, l int")
    right = session.createDataFrame([(1, 1), (1, 3), (None, 4)], "k int, r int")
    frames = [
        frame.withColumn("t", F.timestamp_seconds(number))
        for frame, number in ((left, "l"), (right, "r"))
    ]
    for null_safe, nearest in ((False, None), (True, 4)):
        on = sk.equal("k", "k", null_safe=null_safe)
        joined = sk.asof_join(*frames, on, time="t", how="left").dataframe().select("k", "r")
        expected = [("1", 3), (None, nearest), ("2", None)]
        assert_same(multiset(joined.collect()), multiset(expected))


def test_a_cast_takes_nobody_s_name(session: SparkSession) -> None:
    left = session.createDataFrame([], "k string, `CAST(k as bigint)` string")
    right = session.createDataFrame([], "k int, j bigint")
    joined = sk.join(left, right, ["k", ("k", "j")], within=sk.UNBOUNDED)
    assert joined.columns == ["k", "CAST(k as bigint)", "j"]
    side = operator_of(joined).spec.left
    assert side.schema.names == ["k", "CAST(k as bigint)", "cast(k as bigint)'"]
    assert [key.index for key in side.keys] == [2, 2]


def test_what_cannot_be_cast_stops_the_query(session: SparkSession) -> None:
    left, right = frames_of(session, Pair("string", "'1', 'one'", "int", "1, 2"))
    with pytest.raises(Exception, match=r"CAST_INVALID_INPUT.*'one'"):
        sk.join(left, right, "k", within=sk.UNBOUNDED).dataframe().collect()


@pytest.fixture
def streams(session: SparkSession, tmp_path: Path) -> Iterator[tuple[DataFrame, DataFrame]]:
    left, right = keyed_pair(tmp_path, batches=2, rows=30, keys=5)
    key = F.when(F.col("k") > 0, F.struct(F.col("k").cast("string"), F.window("t", "5 seconds")))
    yield (
        left.read(session).withColumn("t", F.col("at")).withColumn("key", key),
        right.read(session).withColumn("t", F.col("seen")).withColumn("key", key),
    )


@pytest.mark.slow
def test_streams_with_a_key_that_holds_a_window(
    session: SparkSession, streams: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    """A struct of a text and a window, null for some rows, which then equal one another."""
    left, right = streams
    on = left["key"].eqNullSafe(right["key"])
    joined = sk.join(
        left, right, on, time=(left["at"], right["seen"]), within="4 seconds", late="10 seconds"
    )
    found = read_parquet(run(joined.select("a", "b"), tmp_path))
    static = [
        file_stream(tmp_path / f"static {side}", keyed_tables(side, [
            row for batch in range(2) for row in [mixed(batch, 30, 5, salt)]
        ])).read_static(session)
        for side, salt in (("left", 1), ("right", 2))
    ]  # fmt: skip
    group = "floor(unix_micros({0}) / 5000000)"
    same = f"(l.k = r.k and {group.format('at')} = {group.format('seen')} or l.k = 0 and r.k = 0)"
    near = "abs(unix_micros(seen) - unix_micros(at)) <= 4000000"
    near = f"{same} and {near}"
    expected = static[0].alias("l").join(static[1].alias("r"), F.expr(near)).select("a", "b")
    assert expected.count() > 50
    assert_same(found, multiset(expected.collect()))


# How it is written ------------------------------------------------------------------------------

LEFT = "k int, a string, x double, at timestamp, `odd name.` int"
RIGHT = "k bigint, b string, y double, seen timestamp, `odd name.` int"
On = Callable[[DataFrame, DataFrame], Any]

SPELLINGS: dict[str, tuple[On, Any]] = {
    "one equality": (lambda p, q: p.a == q.b, ("a", "b")),
    "the other way round": (lambda p, q: q.b == p.a, ("a", "b")),
    "in a list": (lambda p, q: [p.k == q.k, p["a"] == q["b"]], ["k", ("a", "b")]),
    "joined by &": (lambda p, q: (p.k == q.k) & (p.a == q.b), ["k", ("a", "b")]),
    "null-safe": (lambda p, q: p.a.eqNullSafe(q.b), sk.equal("a", "b", null_safe=True)),
    "sk.equal": (lambda p, q: [sk.equal(p["a"], q["b"])], ("a", "b")),
    "SQL": (lambda p, q: F.expr("a = b and x <=> y"),
            [("a", "b"), sk.equal("x", "y", null_safe=True)]),
    "pairs of Columns": (lambda p, q: [(p["a"], q["b"]), ("x", q.y)], [("a", "b"), ("x", "y")]),
    "a band of Columns": (lambda p, q: [sk.band(p.x, q.y, 5), "k"], [sk.band("x", "y", 5), "k"]),
    "types that are cast": (lambda p, q: p.a == q.y, ("a", "y")),
    "the cast that Spark makes": (lambda p, q: p.a.cast("bigint") == q.k, ("a", "k")),
    "aliases": (lambda p, q: F.col("p.k") == F.col("q.k"), "k"),
    "an odd name": (lambda p, q: p["`odd name.`"] == q["`odd name.`"], "odd name."),
}  # fmt: skip


@pytest.mark.parametrize(("on", "plain"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_columns_in_on(session: SparkSession, on: On, plain: Any) -> None:
    left = session.createDataFrame([], LEFT).alias("p")
    right = session.createDataFrame([], RIGHT).alias("q")
    times = {"time": (left["at"], right["seen"])}
    joined = sk.join(left, right, on(left, right), **times, within="1 minute")  # type: ignore[arg-type]
    expected = sk.join(left, right, plain, time=("at", "seen"), within="1 minute")
    assert operator_of(joined).spec == operator_of(expected).spec
    assert joined.schema == expected.schema


def test_columns_of_results_and_of_one_frame_twice(session: SparkSession) -> None:
    left = session.createDataFrame([], LEFT)
    right = session.createDataFrame([], RIGHT)
    both = sk.join(left, right, "k", time=("at", "seen"), within="1 minute")
    third = session.createDataFrame([], "c int, then timestamp")
    above = sk.join(both, third, both["a"] == third["c"], time=("at", "then"), within="1 minute")
    assert above.columns == [*both.columns, "c", "then"]
    filtered = left.where("x > 0")
    twice = sk.join(left, filtered, left.a == filtered.a, time=left["at"], within="1 minute")
    assert twice.columns[:4] == ["k", "a", "x", "at"]


BAD: dict[str, tuple[On, tuple[str, ...]]] = {
    "a time range": (lambda p, q: (p.k == q.k) & (p.at >= q.seen), ("`within`", "(at >= seen)")),
    "a distance": (lambda p, q: F.abs(p.x - q.y) <= 3, ("sk.band", "<= ")),
    "or": (lambda p, q: (p.k == q.k) | (p.a == q.b), ("`condition`", "OR")),
    "a literal": (lambda p, q: (p.k == q.k) & (p.a == "x"), ("`condition`", "computed")),
    "computed": (lambda p, q: F.lower(p.a) == q.b, ("withColumn", "lower(a)")),
    "another cast": (lambda p, q: p.a.cast("double") == q.b, ("withColumn",)),
    "try_cast": (lambda p, q: p.a.try_cast("bigint") == q.k, ("withColumn",)),
    "one input": (lambda p, q: p.k == p.x, ("of one input",)),
    "ambiguous": (lambda p, q: F.col("k") == F.col("k"), ("AMBIGUOUS",)),
    "no condition": (lambda p, q: p.k, ("left[",)),
    "types that do not compare": (lambda p, q: p.at == q.k, ("Spark says",)),
}  # fmt: skip


@pytest.mark.parametrize(("on", "told"), BAD.values(), ids=BAD.keys())
def test_columns_that_are_no_keys(session: SparkSession, on: On, told: tuple[str, ...]) -> None:
    left, right = session.createDataFrame([], LEFT), session.createDataFrame([], RIGHT)
    with pytest.raises(ArgumentError) as error:
        sk.join(left, right, on(left, right), time=("at", "seen"), within="1 minute")
    assert error.value.argument == "on"
    for part in told:
        assert part in str(error.value)


def test_a_column_of_another_frame(session: SparkSession) -> None:
    left, right = session.createDataFrame([], LEFT), session.createDataFrame([], RIGHT)
    with pytest.raises(ColumnError, match="`left`: k, a, x, at") as error:
        sk.join(left, right, "k", time=(right["seen"], left["at"]), within="1 minute")
    assert error.value.argument == "time"
    with pytest.raises(ColumnError, match="withColumn"):
        sk.join(left, right, [(F.upper(left["a"]), "b")], within=sk.UNBOUNDED)


def test_columns_elsewhere(session: SparkSession) -> None:
    frame = session.createDataFrame([], LEFT)
    counted = sk.aggregate(frame, frame["k"], {"n": "count"}, time=frame["at"], window="1 minute")
    assert counted.columns == ["window", "k", "n"]
    once = sk.deduplicate(frame, by=[frame["a"]], time=frame["at"], within="1 minute")
    assert once.columns == frame.columns


def test_without_a_view_of_the_plan(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under Spark Connect: names and types of one family do, the rest says why it does not."""
    monkeypatch.setattr(columns, "is_remote", lambda _: True)
    left, right = session.createDataFrame([], LEFT), session.createDataFrame([], RIGHT)
    given = {"time": ("at", "seen"), "within": "1 minute"}
    assert sk.join(left, right, "k", **given).columns[0] == "k"  # type: ignore[arg-type]
    for on in (left.k == right.k, [(left.k, right.k)], ("a", "k")):
        with pytest.raises(ArgumentError, match="Spark Connect") as error:
            sk.join(left, right, on, **given)  # type: ignore[arg-type]
        assert error.value.argument == "on"
