"""The way from a condition as users write it to a tree over Arrow columns.

Spark's own parser and analyser resolve names and make every cast explicit. What has no translation
that is faithful to the letter is refused: an approximation would give other rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import CharType, DataType, StringType, StructField, StructType, VarcharType

from skewless.errors import ArgumentError
from skewless.expressions import Condition, Expression
from skewless.expressions.tree import Column, Constant, constant, folded
from skewless.expressions.zones import UTC, Zone
from skewless.spark.interpreter import is_remote
from skewless.spark.origins import BY_NAME, is_missing
from skewless.spark.plans import arrow_schema, class_of, empty_frame, id_of, items, reason

from .nodes import Node
from .zones import zone_of

NOW = ("Current", "Now", "LocalTimestamp", "Cur")  # what differs from one batch to the next
CODE = ("UDF", "UserDefined", "Invoke", "Subquery", "Exists", "Lambda")


VARIABLE = {"AttributeReference", "CommonExpressionRef"}


def is_code(name: str) -> bool:
    return any(word in name for word in CODE)


class Untranslatable(Exception):  # noqa: N818  (says what a condition is)
    """A condition that only Spark can evaluate, and why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"one that can be done on Arrow to the letter ({reason}). `where` behind an inner join "
            "runs it in Spark"
        )


class Translator:
    """Translates the nodes of one condition."""

    def __init__(
        self, session: SparkSession, fields: Sequence[StructField], ids: Sequence[int]
    ) -> None:
        """For expressions over some columns, which Catalyst tells apart by their ids."""
        self.session, self.fields = session, fields
        self.definitions: dict[str, Expression] = {}
        self._numbers = {id: number for number, id in enumerate(ids)}

    @staticmethod
    def of(rows: DataFrame) -> Translator:
        """For expressions over the columns of a DataFrame."""
        return Translator(rows.sparkSession, rows.schema.fields, ids_of(rows))

    def translate(self, node: Node) -> Expression:
        failure = ""
        if not node.names & VARIABLE:
            try:
                return self._constant(node)
            except LookupError as error:
                failure = str(error)
        try:
            return self._translated(node)
        except Untranslatable:
            if failure:
                raise Untranslatable(f"`{node.sql}` fails on every row: {failure}") from None
            raise

    def _translated(self, node: Node) -> Expression:
        rule = RULES.get(node.name)
        if rule is not None:
            return folded(rule(self, node))
        instead = node.replacement
        if instead is not None:
            return self.translate(instead)
        raise Untranslatable(self._why_not(node))

    def arguments(self, node: Node) -> tuple[Expression, ...]:
        return tuple(self.translate(child) for child in node.children)

    def zone_for(self, node: Node, type: pa.DataType) -> Zone:
        """The zone in which a node reads timestamps; those without one are read as they are."""
        if type == pa.timestamp("us"):
            return UTC
        return zone_of(self.session, node.fields["timeZoneId"])

    def column(self, node: Node) -> Expression:
        number = self._numbers.get(node.fields["exprId"]["id"])
        if number is None:
            raise Untranslatable(f"`{node.fields['name']}` is computed by a plan of its own")
        field = self.fields[number]
        refuse_collation(field.dataType, field.name)
        return Column(arrow_of([field]).field(0).type, number)

    def _constant(self, node: Node) -> Constant:
        """A part without columns, evaluated by Spark. Raises LookupError if it has no value."""
        type = node.type
        if type is None or any(name.startswith(NOW) or is_code(name) for name in node.names):
            raise LookupError
        return constant(node.value(), type)

    def _why_not(self, node: Node) -> str:
        if node.name.startswith(NOW):
            return f"`{node.sql}` depends on when it is evaluated"
        if not node.jvm.deterministic():
            return f"`{node.sql}` is not deterministic"
        if is_code(node.name):
            return f"`{node.sql}` ({node.name}) is code or a query of its own"
        return f"the function {node.name} in `{node.sql}` is not among those known here"


Rule = Callable[[Translator, Node], Expression]
RULES: dict[str, Rule] = {}  # filled by rules.py, casts.py and to_json.py


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers how nodes of some classes are translated."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def arrow_of(fields: Sequence[StructField]) -> pa.Schema:
    """Columns as Arrow has them; of some types only Spark has."""
    try:
        return arrow_schema(StructType(list(fields)))
    except PySparkException as error:
        raise Untranslatable(reason(error)) from error


def refuse_collation(kind: DataType, name: str) -> None:
    if isinstance(kind, CharType | VarcharType):
        raise Untranslatable(f"the column `{name}` is of the type {kind.simpleString()}")
    if isinstance(kind, StringType) and getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        raise Untranslatable(f"the column `{name}` has the collation {kind.collation}")
    if isinstance(kind, StructType):
        for field in kind.fields:
            refuse_collation(field.dataType, f"{name}.{field.name}")


def translated(
    session: SparkSession, schema: StructType, condition: str | SparkColumn
) -> Condition:
    """A condition over columns that are numbered as in the schema.

    Raises ArgumentError if Spark does not accept it, Untranslatable if only Spark can evaluate it.
    """
    if is_remote(session):
        raise Untranslatable("Spark Connect does not show the tree of a condition")
    rows = empty_frame(session, schema)
    root = analysed(rows, condition)
    return Condition(str(root.jvm.sql()), Translator.of(rows).translate(root))


def translated_on(
    left: DataFrame, right: DataFrame, condition: str | SparkColumn, names: Sequence[str]
) -> Condition:
    """The same of a condition as Spark's own join takes it, over the columns of two inputs, which
    are numbered one input after the other. `names` tell them apart where Spark writes the same."""
    try:
        on = F.expr(condition) if isinstance(condition, str) else condition
        plan: Any = left.join(right, on)._jdf.queryExecution().analyzed()
    except (PySparkException, Py4JError, TypeError) as error:
        raise ArgumentError("condition", str(condition), reason(error)) from error
    root = condition_of(plan, "Join")
    sides = ((left, plan.left()), (right, plan.right()))
    fields = [field for frame, _ in sides for field in frame.schema.fields]
    ids = [id_of(c) for frame, of in sides for c in items(of.output())[: len(frame.columns)]]
    found = Translator(left.sparkSession, fields, ids).translate(root)
    # Spark writes the names of the inputs, which may be the same: checkpoints go by this text.
    written = ", ".join(names[number] for number in _numbers(found))
    return Condition(f"{root.jvm.sql()} of {written}", found)


def _numbers(expression: Expression) -> Iterator[int]:
    """The columns in an expression as they are written there."""
    if isinstance(expression, Column):
        yield expression.number
    for part in expression.parts:
        yield from _numbers(part)


def analysed(rows: DataFrame, condition: str | SparkColumn) -> Node:
    try:
        kept = rows.where(condition)
    except (PySparkException, TypeError) as error:
        why = BY_NAME if is_missing(error) else reason(error)
        accepted = f"a condition over the columns {', '.join(rows.columns)} ({why})"
        raise ArgumentError("condition", str(condition), accepted) from error
    return condition_of(kept._jdf.queryExecution().analyzed(), "Filter")


def condition_of(plan: Any, kind: str) -> Node:
    """That of a filter or a join."""
    if class_of(plan) != kind:  # of a function that is defined in SQL Spark makes several steps
        raise Untranslatable("Spark does not evaluate it in one step")
    condition = plan.condition()
    return Node.of(condition if kind == "Filter" else condition.get())


def ids_of(rows: DataFrame) -> list[int]:
    """How Catalyst tells columns apart: names may be written in other cases, or be there twice."""
    written = rows._jdf.queryExecution().analyzed().output().toString()
    columns = ", ".join(rf"{re.escape(name)}#(\d+)\w*(?:-T\w+)?" for name in rows.columns)
    found = re.fullmatch(rf"\w+\({columns}\)", written, re.DOTALL)
    assert found is not None, written
    return [int(id) for id in found.groups()]


def of_tree(rows: DataFrame, condition: Any) -> Condition:
    """A condition that a plan over some rows has, which Spark has analysed already."""
    return Condition(str(condition.sql()), Translator.of(rows).translate(Node.of(condition)))
