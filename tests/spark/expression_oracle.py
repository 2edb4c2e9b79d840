"""A table of nasty values, and the values of expressions on it: Spark's beside ours, row by row,
failures included."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from skewless.errors import ConditionError
from skewless.expressions import Expression, evaluate
from skewless.spark.catalyst.nodes import Node
from skewless.spark.catalyst.translation import Translator, Untranslatable

FAILURES = (PySparkException, Py4JJavaError)  # generated code throws some of Java's own

FAILS = "fails"
INT, LONG = (1 << 31) - 1, (1 << 63) - 1
DAY = 86_400_000_000
INF, NAN = math.inf, math.nan
NASTY: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.int8(), [None, 0, 1, -1, 127, -128, 10]),
    "sh": (pa.int16(), [0, None, 1, -1, 32767, -32768, 7, 100]),
    "n": (pa.int32(), [None, 0, 1, -1, INT, -INT - 1, 2, 3, 65536, -7, 18262]),
    "n2": (pa.int32(), [3, 0, None, -1, 1, INT, -INT - 1, 5, 2]),
    "m": (pa.int64(), [0, 1, None, -1, LONG, -LONG - 1, 1 << 53, (1 << 53) + 1, 86400, -5,
        INT + 1]),
    "m2": (pa.int64(), [None, 7, -1, 0, 1, -LONG - 1, LONG, 3]),
    "f": (pa.float32(), [None, 0.0, -0.0, 1.5, NAN, INF, -INF, 3.4e38, 1e-45, -2.5, 16777217.0]),
    "x": (pa.float64(), [0.0, None, -0.0, 1.5, NAN, INF, -INF, 1e308, 5e-324, -2.5, 9.3e18, 0.1]),
    "y": (pa.float64(), [NAN, 0.0, 1.5, None, -1.0, INF, -0.0, 0.05, 2147483647.5, 128.0, -INF]),
    "p": (pa.decimal128(10, 2), [None, "0.00", "1.50", "-1.50", "99999999.99", "-0.01", "2.00",
        "0.05"]),
    "q": (pa.decimal128(20, 5), ["0.00000", "1.50000", None, "-99999999999999.99999", "0.00001",
        "-3.00000"]),
    "r": (pa.decimal128(38, 10), ["0.0000000000", None,
        "9999999999999999999999999999.9999999999", "0.0000000001",
                                  "-12345678901234567890.5000000000", "1.5000000000",
                                      "9007199254740993.0000000000"]),
    "k": (pa.string(), [None, "", "test", "a", "ab", "b", "äöü", "a%b_c", " a ", "\U0001f600x",
        "ß", "TEST", "a\nb", "e\u0301"]),
    "k2": (pa.string(), ["a", "test", None, "", "B", "b", "\U0001f600", "\uffff", "zz",
        "ä", "ΑΣ", "ΣΑΣ", "İı", "ﬁ", "ǅ", "Σ"]),
    "s": (pa.string(), [None, "1", " 12 ", "+5", "-0", "007", "1.5", "abc", "", "2147483648",
        "-9223372036854775808", ".", "1.",
                        ".5", "9223372036854775808", "true", "NO", "1e5", "NaN", "-inf",
                            "Infinity", "1d", "+", "1e400", "1e-400",
                        "\t3\n", "99999999999999999999999", "- 1", "0x10", "inf", "+NaN", "nan",
                            "1_000", "\u00a01", "123456789012345678e-10"]),
    "v": (pa.binary(), [None, b"", b"\x00", b"\xff", b"ab", b"\x7f"]),
    "t": (pa.bool_(), [True, False, None]),
    "u": (pa.bool_(), [None, True, True, False, False]),
    "d": (pa.date32(), [None, 0, -1, 18262, 18321, 19723, -719162, 2932896, -141428, 11016,
        19782]),
    "d2": (pa.date32(), [18262, None, 0, 18263, 59, -25567]),
    "at": (pa.timestamp("us", "UTC"), [None, 0, -1, 1_583_046_000_000_000,
        1_604_212_200_000_000, 1_604_215_800_000_000, -2_717_640_000_000_000,
                                       1_711_850_400_000_000, 4_102_444_799_999_999,
                                           -62_135_596_800_000_000, 253_402_300_799_999_999,
                                               951_782_400_123_456]),
    "at2": (pa.timestamp("us", "UTC"), [1_583_650_800_000_000, 0, None, 1_583_046_300_000_000,
        1_604_212_200_000_001, -5_000_000]),
    "nt": (pa.timestamp("us"), [0, None, 1_583_636_400_000_000, 1_604_192_400_000_000, -1,
        17 * DAY + 3_661_000_001]),
}  # fmt: skip
ROWS = 131


def nasty_table() -> pa.Table:
    """Every value of each column, and ever other ones side by side: no two lists go at one pace."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(ROWS), pa.int32())}
    for pace, (name, (type, values)) in enumerate(NASTY.items()):
        cycle = [values[(i + i // len(values) * pace) % len(values)] for i in range(ROWS)]
        if pa.types.is_decimal(type):
            cycle = [None if value is None else Decimal(value) for value in cycle]
        is_time = pa.types.is_date(type) or pa.types.is_timestamp(type)
        whole = pa.int32() if pa.types.is_date(type) else pa.int64()
        columns[name] = pa.array(cycle, whole).cast(type) if is_time else pa.array(cycle, type)
    fields = [columns["n"], columns["k"]]
    mask = pa.array([i % 5 == 0 for i in range(ROWS)])
    columns["st"] = pa.StructArray.from_arrays(fields, ["a", "b"], mask=mask)
    return pa.table(columns)


# Spark is to evaluate what is written, and not what it makes of it.
PLAIN = {
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{name}"
        for name in (
            "ConstantFolding", "BooleanSimplification", "NullPropagation", "SimplifyConditionals",
            "SimplifyBinaryComparison", "OptimizeIn", "LikeSimplification", "SimplifyCasts",
            "PushFoldableIntoBranches", "ReplaceNullWithFalseInPredicate", "FoldablePropagation",
            "ConstantPropagation", "UnwrapCastInBinaryComparison", "ReorderAssociativeOperator",
            "NullDownPropagation", "CombineConcats", "SimplifyCaseConversionExpressions",
        )
    ),
    "spark.sql.subexpressionElimination.enabled": "false",
}  # fmt: skip


@contextmanager
def settings(session: SparkSession, values: dict[str, str]) -> Iterator[None]:
    before = {key: session.conf.get(key, None) for key in values}
    for key, value in values.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)


class Oracle:
    """Spark and the translation, on the same rows."""

    def __init__(self, session: SparkSession, table: pa.Table) -> None:
        self.session, self.table = session, table
        self.schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        self.rows: DataFrame = session.createDataFrame(table, self.schema)
        self.columns = {i: c.combine_chunks() for i, c in enumerate(table.columns)}

    def translated(self, sqls: Sequence[str]) -> dict[str, Expression | Untranslatable]:
        """The translations of all that Spark accepts, analysed at one go where that is possible."""
        try:
            rows = self.rows.selectExpr(*(f"({sql}) as c{i}" for i, sql in enumerate(sqls)))
        except PySparkException:
            if len(sqls) == 1:
                return {}
            half = len(sqls) // 2
            return self.translated(sqls[:half]) | self.translated(sqls[half:])
        columns = rows._jdf.queryExecution().analyzed().projectList()
        return {sql: self._translation(columns.apply(i).child()) for i, sql in enumerate(sqls)}

    def _translation(self, expression: Any) -> Expression | Untranslatable:
        try:
            return Translator.of(self.rows).translate(Node.of(expression))
        except Untranslatable as reason:
            return reason

    def ours(self, expression: Expression) -> list[Any]:
        """The value in each row, or that it fails there."""
        try:
            return comparable(evaluate(expression, self.columns, self.table.num_rows))
        except ConditionError:
            return [self._alone(expression, i) for i in range(self.table.num_rows)]

    def _alone(self, expression: Expression, i: int) -> Any:
        columns = {number: column.slice(i, 1) for number, column in self.columns.items()}
        try:
            return comparable(evaluate(expression, columns, 1))[0]
        except ConditionError:
            return FAILS

    def sparks(self, sqls: Sequence[str], failing: Sequence[list[int]]) -> list[list[Any]]:
        """Spark's values, but for rows that are known to fail."""
        columns = [
            f"case when id in ({', '.join(map(str, rows))}) then null else ({sql}) end as c{i}"
            if rows
            else f"({sql}) as c{i}"
            for i, (sql, rows) in enumerate(zip(sqls, failing, strict=True))
        ]
        found = self.rows.selectExpr(*columns).toArrow()
        return [comparable(column.combine_chunks()) for column in found.columns]

    def spark_fails(self, sql: str, row: int) -> bool:
        one = self.session.createDataFrame(self.table.slice(row, 1), self.schema)
        try:
            one.selectExpr(f"({sql}) as c").toArrow()
        except FAILURES:
            return True
        return False

    def differences(self, expressions: dict[str, Expression]) -> Iterator[str]:
        """What is not as in Spark."""
        sqls = list(expressions)
        ours = [self.ours(expression) for expression in expressions.values()]
        failing = [[i for i, v in enumerate(values) if v is FAILS] for values in ours]
        yield from self._compared(sqls, ours, failing)
        for sql, rows in zip(sqls, failing, strict=True):
            if rows and not self.spark_fails(sql, rows[len(rows) // 2]):
                yield f"{sql}: fails for us in row {rows[len(rows) // 2]}, but not in Spark"

    def _compared(
        self, sqls: Sequence[str], ours: list[list[Any]], failing: list[list[int]]
    ) -> Iterator[str]:
        try:
            theirs = self.sparks(sqls, failing)
        except FAILURES as error:
            if len(sqls) == 1:
                yield f"{sqls[0]}: fails in Spark alone: {str(error)[:200]}"
                return
            half = len(sqls) // 2
            yield from self._compared(sqls[:half], ours[:half], failing[:half])
            yield from self._compared(sqls[half:], ours[half:], failing[half:])
            return
        for sql, our, their in zip(sqls, ours, theirs, strict=True):
            for i, (a, b) in enumerate(zip(our, their, strict=True)):
                if a is not FAILS and a != b:
                    yield f"{sql}: row {i} is {a!r}, in Spark {b!r}"
                    break


def comparable(array: pa.Array) -> list[Any]:
    """Values that are equal if they are the same: all NaN are, zeros of two signs are not."""
    if pa.types.is_floating(array.type):
        form = "<d" if array.type == pa.float64() else "<f"
        return [_bits(v, form) for v in array.to_pylist()]
    if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        return list(array.cast(pa.int64()).to_pylist())
    if pa.types.is_date(array.type):
        return list(array.cast(pa.int32()).to_pylist())
    return list(array.to_pylist())


def _bits(value: float | None, form: str) -> Any:
    if value is None:
        return None
    return "NaN" if math.isnan(value) else struct.pack(form, value)


__all__ = ["FAILS", "PLAIN", "Oracle", "Untranslatable", "nasty_table", "settings"]
