"""What Spark's analyser makes of columns and conditions: which columns they mean, and what is cast
to what before two are compared. So keys are compared as in Spark's own joins, whatever its
settings say.

The analysed plan is in the JVM; Spark Connect does not show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, StructField, StructType, _parse_datatype_json_string

from skewless.spark.plans import class_of, conjuncts, empty_frame, id_of, items, reason

EQUAL = {"EqualTo": False, "EqualNullSafe": True}
OF_DOUBLES = {"VarianceSamp", "StddevSamp"}
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "decimal")
DEFAULT_RSD = 0.05  # of Spark's approx_count_distinct


class NotUnderstoodError(Exception):
    """The analyser refuses something, or it is not of the kind that is asked for. Says why."""


@dataclass(frozen=True)
class Operand:
    """A column as it is compared: its side (0 or 1) and number, and what it is cast to first, step
    by step."""

    side: int
    index: int
    casts: tuple[DataType, ...] = ()


@dataclass(frozen=True)
class Equality:
    """A column of the left side that equals one of the right."""

    left: Operand
    right: Operand
    null_safe: bool


@dataclass(frozen=True)
class AggregateOf:
    """An aggregate function of some columns, by its class in Spark, and the name it gets."""

    name: str
    function: str
    columns: tuple[int, ...]


def casts_of(
    session: SparkSession, left: DataType, right: DataType
) -> tuple[tuple[DataType, ...], tuple[DataType, ...]]:
    """What values of two types are cast to before they are compared."""
    a = empty_frame(session, StructType([StructField("a", left)]))
    b = empty_frame(session, StructType([StructField("b", right)]))
    (found,) = equalities(a, b, a["a"] == b["b"])
    return found.left.casts, found.right.casts


def equalities(left: DataFrame, right: DataFrame, condition: Column) -> list[Equality]:
    """The equalities that a condition of a join is made of."""
    plan = _analysed(lambda: left.join(right, condition))
    numbers = {
        id_of(attribute): (side, index)
        for side, child in enumerate((plan.left(), plan.right()))
        for index, attribute in enumerate(items(child.output()))
    }
    return [_equality(part, numbers) for part in conjuncts(plan.condition().get())]


def column_index(frame: DataFrame, column: Column) -> int:
    """The number of the column that an expression means."""
    plan = _analysed(lambda: frame.select(column))
    (found,) = items(plan.expressions()) if plan.expressions().length() == 1 else (None,)
    # Not those of the plan below: of a window Spark makes a column there, before all others.
    ids = [id_of(attribute) for attribute in items(_analysed(lambda: frame).output())]
    if found is None or class_of(found) != "AttributeReference":
        raise NotUnderstoodError("it is computed: add it with withColumn first")
    if id_of(found) not in ids:
        raise NotUnderstoodError("windows are for `time` and `window` of sk.aggregate or groupBy")
    return ids.index(id_of(found))


def aggregate_of(frame: DataFrame, column: Column) -> AggregateOf:
    """What an aggregate of PySpark's computes; of what, if that is columns as they are."""
    [found] = items(_analysed(lambda: frame.agg(column)).aggregateExpressions())
    name = str(found.name())
    inner = found.child() if class_of(found) == "Alias" else found
    if class_of(inner) != "AggregateExpression":
        raise NotUnderstoodError("it is more than one aggregate: compute the rest behind it")
    if inner.isDistinct() or inner.filter().isDefined():
        raise NotUnderstoodError("without DISTINCT and FILTER; there is approx_count_distinct")
    function = inner.aggregateFunction()
    kind = class_of(function)
    children = items(function.children())
    if kind in OF_DOUBLES:
        children = [_without_widening(child) for child in children]
    if kind == "Count" and all(child.foldable() and not child.nullable() for child in children):
        return AggregateOf(name, kind, ())
    if kind == "HyperLogLogPlusPlus" and function.relativeSD() != DEFAULT_RSD:
        raise NotUnderstoodError("with another accuracy it is sk.ApproxDistinct(…)")
    ids = [id_of(attribute) for attribute in items(_analysed(lambda: frame).output())]
    own = [class_of(child) == "AttributeReference" and id_of(child) in ids for child in children]
    if own != [True]:
        raise NotUnderstoodError("of one column; what is computed is added with withColumn first")
    return AggregateOf(name, kind, (ids.index(id_of(children[0])),))


def _without_widening(expression: Any) -> Any:
    """What Spark makes doubles of: our accumulators do so themselves."""
    widened = class_of(expression) == "Cast" and expression.dataType().simpleString() == "double"
    is_number = widened and expression.child().dataType().simpleString().startswith(NUMBERS)
    return expression.child() if is_number else expression


def _analysed(make: Any) -> Any:
    try:
        return make()._jdf.queryExecution().analyzed()
    except PySparkException as error:
        raise NotUnderstoodError(f"Spark says: {reason(error)}") from error
    except Py4JError as error:  # windows in a join's condition
        raise NotUnderstoodError("Spark fails at it: add columns with withColumn first") from error


def _equality(expression: Any, numbers: dict[int, tuple[int, int]]) -> Equality:
    null_safe = EQUAL.get(class_of(expression))
    if null_safe is None:
        raise NotUnderstoodError(f"not an equality: {expression.sql()}")
    operands = [_operand(child, numbers) for child in items(expression.children())]
    a, b = sorted(operands, key=lambda operand: operand.side)
    if (a.side, b.side) != (0, 1):
        raise NotUnderstoodError(f"both sides are of one input: {expression.sql()}")
    return Equality(a, b, null_safe)


def _operand(expression: Any, numbers: dict[int, tuple[int, int]]) -> Operand:
    casts: list[DataType] = []
    below = expression
    while class_of(below) == "Cast" and below.evalMode().toString() != "TRY":
        casts.insert(0, _parse_datatype_json_string(below.dataType().json()))
        below = below.child()
    if class_of(below) != "AttributeReference":
        raise NotUnderstoodError(
            f"not a column but computed: {expression.sql()}. Add it with withColumn first"
        )
    return Operand(*numbers[id_of(below)], tuple(casts))
