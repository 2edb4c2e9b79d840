"""Translated expressions give what Spark gives, on nulls, NaN, extremes, and fail where it fails.

Spark is the oracle: it evaluates the same text over the same rows. See expression_oracle.py."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructType

from skewless.errors import ArgumentError
from skewless.expressions import Expression
from skewless.spark.catalyst import Untranslatable, translated
from skewless.spark.catalyst.nodes import Node
from skewless.spark.catalyst.translation import RULES, Translator
from skewless.spark.plans import arrow_schema
from skewless.spark.pushdown import needs

from .expression_cases import CASES, REFUSED_TYPES
from .expression_fuzz import random_expression
from .expression_oracle import PLAIN, Oracle, nasty_table, settings

MODES = {
    "legacy": {"spark.sql.ansi.enabled": "false"},
    "ansi": {"spark.sql.ansi.enabled": "true"},
    "ansi, New York": {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "America/New_York",
    },
    "legacy, Lord Howe": {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Australia/Lord_Howe",
    },
}
LOCAL = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
GENERATED = {"spark.sql.optimizer.excludedRules": f"{next(iter(PLAIN.values()))},{LOCAL}"}
BATCH = 100


@pytest.fixture(params=MODES.values(), ids=MODES.keys())
def oracle(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with settings(spark, PLAIN | request.param):
        yield Oracle(spark, nasty_table())


def differences(oracle: Oracle, sqls: list[str]) -> tuple[int, list[str]]:
    """How many expressions were compared, and what was not as in Spark."""
    count, found = 0, []
    for i in range(0, len(sqls), BATCH):
        translations = oracle.translated(sqls[i : i + BATCH])
        known = {q: e for q, e in translations.items() if isinstance(e, Expression)}
        count += len(known)
        found += list(oracle.differences(known)) if known else []
    return count, found


@pytest.mark.quick(1)
def test_some_cases_are_as_in_spark(oracle: Oracle) -> None:
    count, found = differences(oracle, CASES[::17])
    assert found == []
    assert count > len(CASES) // 17 * 0.9


@pytest.mark.slow
def test_cases_are_as_in_spark(oracle: Oracle) -> None:
    """All of them, and only what is known to have no translation is refused."""
    count, found = differences(oracle, CASES)
    assert found == []
    refused = {sql for sql, e in oracle.translated(CASES).items() if isinstance(e, Untranslatable)}
    assert refused == set(REFUSED_TYPES)
    assert count > 950


@pytest.mark.slow
def test_cases_are_as_in_generated_code(oracle: Oracle) -> None:
    with settings(oracle.session, GENERATED):
        assert differences(oracle, CASES)[1] == []


TWICE = {  # half past one, midnight, a quarter to two, in UTC
    "America/New_York": (1_604_208_600, 1_604_212_200),
    "America/Havana": (1_730_606_400, 1_730_610_000),
    "Australia/Lord_Howe": (1_712_414_700, 1_712_416_500),
}
MOVES = [
    *(f"at {sign} interval {n}" for sign in "+-" for n in ("1 day", "1 month", "3 days 2 hours")),
    *(f"date_trunc('{unit}', at)" for unit in ("minute", "hour", "day", "dd", "week", "month")),
]


@pytest.mark.parametrize("zone", TWICE)
def test_times_that_are_there_twice(spark: SparkSession, zone: str) -> None:
    """Clocks that come upon them keep the distance to UTC that they had."""
    near = [seconds + n * 1800 for seconds in TWICE[zone] for n in range(-4, 40)]
    apart = [0, 86_400, -86_400, 30 * 86_400, -30 * 86_400, 31 * 86_400]
    moments = [(seconds + by) * 1_000_000 for seconds in near for by in apart]
    times = pa.array(moments, pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"id": pa.array(range(len(times)), pa.int32()), "at": times})
    with settings(spark, PLAIN | {"spark.sql.session.timeZone": zone}):
        assert differences(Oracle(spark, table), MOVES) == (len(MOVES), [])


@pytest.mark.quick(1)
def test_some_random_expressions_are_as_in_spark(oracle: Oracle) -> None:
    random = Random(14)
    count, found = differences(oracle, [random_expression(random) for _ in range(50)])
    assert found == []
    assert count > 40


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_are_as_in_spark(oracle: Oracle, seed: int) -> None:
    random = Random(seed)
    depths = [2, 3, 3, 4]
    sqls = [random_expression(random, depth=random.choice(depths)) for _ in range(1000)]
    count, found = differences(oracle, sqls)
    assert found == []
    assert count > 850


@pytest.mark.slow
def test_every_rule_has_a_case(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that nobody compares with Spark is not known to be right."""
    seen: set[str] = set()
    translate = Translator._translated

    def watched(self: Translator, node: Node) -> Expression:
        seen.add(node.name)
        return translate(self, node)

    monkeypatch.setattr(Translator, "_translated", watched)
    Oracle(spark, nasty_table()).translated(CASES)
    # Made by the optimizer alone: the next test, and `test_to_json`.
    assert set(RULES) - seen == {"InSet", "Invoke"}


DAYS = [f"'1970-01-{day:02}'" for day in range(1, 13)]
OPTIMIZED = [
    f"n in ({', '.join(map(str, range(12)))})",
    f"n not in ({', '.join(map(str, range(12)))}) or n in (1, null)",
    f"k in ({', '.join(map(repr, 'abcdefghijklm'))}, 'test')",
    f"p in ({', '.join(map(str, range(12)))}, 1.5)",
    f"d in ({', '.join(DAYS)})",
    f"at in ({', '.join(f'timestamp{day}' for day in DAYS)})",
    "k like 'a%' and N between 1 and 3",
    "nullif(n, 2) > 1 or k like '%b'",
    "not (x > 1 and n2 <= 3)",
    "cast(n as bigint) = 3 or cast(sh as int) > 100000",
]


@pytest.mark.quick(1)
@pytest.mark.parametrize("condition", OPTIMIZED)
def test_optimized_conditions_are_as_in_spark(spark: SparkSession, condition: str) -> None:
    oracle = Oracle(spark, nasty_table())
    found = needs(spark, oracle.schema, (("where", (condition,)),)).condition
    assert found is not None
    kept = oracle.table.filter(found.matching(oracle.columns, oracle.table.num_rows))
    ids = {row.id for row in oracle.rows.where(condition).select("id").collect()}
    assert set(kept["id"].to_pylist()) == ids


SCHEMA = (
    StructType()
    .add("price", "double")
    .add("price_right", "double")
    .add("kind", "string")
    .add("n", "integer")
    .add("at", "timestamp")
    .add("d", "date")
    .add("xs", ArrayType(IntegerType()))
    .add("st", StructType().add("a", "integer").add("b", "string"))
    .add("lower", StringType("UTF8_LCASE"))
    .add("a.b", "integer")
)
ROWS: list[tuple[Any, ...]] = [
    (1.0, 1.04, "a", 1, None, None, [1], {"a": 1, "b": "x"}, "A", 1),
    (1.0, 1.04, "test", 0, None, None, None, None, "a", 2),
    (1.0, None, "a", None, None, None, [], {"a": None, "b": "y"}, None, None),
    (float("nan"), 1.0, "b", 7, None, None, [2], {"a": 3, "b": None}, "b", 3),
]


def written(condition: object) -> str:
    """The name of a case: that of a Column must not change from one process to the next."""
    return "a Column" if callable(condition) else str(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "abs(price - price_right) < 0.05 and kind <> 'test'",
        lambda: F.abs(F.col("price") - F.col("price_right")) < 0.05,
        "st.a > 0 or `a.b` = 2",
        "N >= 0 and Kind in ('a', 'b')",
        "n <> 0 and 7 / n > 1",
        "xs is not null",
        "true",
        "cast(null as boolean)",
    ],
    ids=written,
)
def test_conditions_keep_the_rows_that_where_keeps(
    spark: SparkSession, condition: str | Callable[[], Column]
) -> None:
    condition = condition if isinstance(condition, str) else condition()
    names = SCHEMA.names
    table = pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in ROWS],
        arrow_schema(SCHEMA),
    )
    rows = spark.createDataFrame(table, SCHEMA)
    found = translated(spark, SCHEMA, condition)
    columns = {i: table.column(i).combine_chunks() for i in found.columns()}
    kept = table.filter(found.matching(columns, len(ROWS)))
    assert str(kept.to_pylist()) == str(rows.where(condition).toArrow().to_pylist())
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("rand() > 0.5", "not deterministic"),
        ("uuid() = kind", "not deterministic"),
        ("current_date() > d", "depends on when"),
        ("at < now()", "depends on when"),
        ("kind = current_user()", "depends on when"),
        ("n = (select 1)", "a query of its own"),
        ("n in (select 1)", "a query of its own"),
        (lambda: F.udf(lambda n: True, "boolean")("n"), "is code"),
        ("exists(xs, x -> x > 1)", "is code"),
        ("lower = 'a'", "collation UTF8_LCASE"),
        ("kind collate unicode = 'a'", "Collate"),
        ("cast(kind as string collate unicode) = 'a'", "the type in"),
        ("size(xs) = 1", "the function Size"),
        ("xs = xs", "comparing list"),
        ("st = st", "comparing struct"),
        ("round(price, 1) = 1", "Round of double"),
        ("cast(price as string) = 'a'", "from floating to string"),
        ("cast(price as decimal(10, 2)) = 1", "from floating to decimal"),
        ("cast(kind as date) = d", "from string to date"),
        ("kind like lower", "the column `lower`"),
        ("kind like concat(kind, '%')", "not a constant"),
        (r"kind like '\\a'", "no wildcard"),
        ("kind rlike '(?i)a'", "Java may understand"),
        (r"kind rlike '\\d+'", "Java may understand"),
        ("kind rlike 'a$'", "Java may understand"),
        ("kind rlike 'a.b'", "Java may understand"),
        ("d > 'never'", "fails on every row"),
        ("try_divide(1 / n, n) > 0", "can fail"),
        ("window(at, '1 minute').start > at", "a plan of its own"),
    ],
    ids=written,
)
def test_what_cannot_be_translated_is_refused(
    spark: SparkSession, condition: str | Callable[[], Column], reason: str
) -> None:
    condition = condition if isinstance(condition, str) else condition()
    with pytest.raises(Untranslatable) as refused:
        translated(spark, SCHEMA, condition)
    assert reason in refused.value.reason
    assert "`where` behind an inner join runs it in Spark" in str(refused.value)


def test_years_that_python_does_not_have(spark: SparkSession) -> None:
    """Conditions go to every task, with their constants."""
    days = ", ".join(f"date'+{year}-01-01'" for year in range(12_345, 12_350))
    found = translated(spark, SCHEMA, f"d in ({days}) or at < timestamp'+12345-01-01'")
    assert pickle.loads(pickle.dumps(found)) == found


def test_functions_that_are_written_in_sql_are_refused(spark: SparkSession) -> None:
    """Spark makes a plan of several steps of them."""
    session = spark.newSession()
    session.sql("CREATE TEMPORARY FUNCTION doubled(x INT) RETURNS INT RETURN x * 2")
    with pytest.raises(Untranslatable, match="in one step"):
        translated(session, SCHEMA, "doubled(n) > 2")


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("nothing = 1", "UNRESOLVED_COLUMN"),
        ("n + 1", "is not a boolean"),
        ("n =", "PARSE_SYNTAX_ERROR"),
        ("sum(n) > 1", "INVALID_WHERE_CONDITION"),
        (5, "Column or str"),
    ],
)
def test_what_spark_refuses_is_a_bad_argument(
    spark: SparkSession, condition: Any, reason: str
) -> None:
    with pytest.raises(
        ArgumentError, match="`condition` must be a condition over the columns"
    ) as e:
        translated(spark, SCHEMA, condition)
    assert reason in str(e.value)


def test_connect_shows_no_trees() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(Untranslatable, match="Spark Connect"):
        translated(remote, SCHEMA, "n = 1")
