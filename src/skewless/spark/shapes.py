"""What Spark's plans do to rows, where Arrow can do the same: then rows need not pass the JVM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from skewless.expressions import Condition, Expression, Shape
from skewless.expressions.logic import all_of
from skewless.expressions.tree import Column
from skewless.spark.catalyst import Untranslatable
from skewless.spark.catalyst.nodes import Node
from skewless.spark.catalyst.translation import Translator, arrow_of
from skewless.spark.interpreter import is_remote
from skewless.spark.plans import (
    chain_of,
    class_of,
    conjuncts,
    depends_on_now,
    id_of,
    is_leaf_of,
    items,
    unknown_frame,
)
from skewless.spark.steps import Steps, with_steps

# What gives the rows that it gets. A watermark is Spark's own; ours is another.
PASSING = frozenset({"SubqueryAlias", "EventTimeWatermark"})


def shapes_of_steps(session: SparkSession, rows: StructType, steps: Steps) -> list[Shape] | None:
    """What steps do to rows with these columns; None if only Spark can do it."""
    if not steps:
        return []
    if is_remote(session):
        return None  # Spark Connect does not show its plans
    unknown = unknown_frame(session, rows)
    frame = with_steps(unknown, steps)
    if depends_on_now(frame):
        return None  # the optimizer has made a constant of it, which must not stay
    found = shapes_above_leaf(session, frame._jdf.queryExecution().optimizedPlan())
    return None if found is None or not is_leaf_of(found[0], unknown) else found[1]


def shapes_of_frame(frame: DataFrame) -> tuple[Any, list[Shape]] | None:
    """The source that a DataFrame reads, and what is done to its rows; None if it is more than a
    source and what Arrow can do."""
    if depends_on_now(frame):
        return None
    return shapes_above_leaf(frame.sparkSession, frame._jdf.queryExecution().analyzed())


def shapes_above_leaf(session: SparkSession, plan: Any) -> tuple[Any, list[Shape]] | None:
    """The leaf of a plan, and the shapes that its other nodes are, the lowest first."""
    chain = chain_of(plan)
    if chain is None:
        return None
    try:
        return chain[-1], shapes_of_nodes(session, chain[:-1])
    except Untranslatable:
        return None


def shapes_of_nodes(session: SparkSession, nodes: Sequence[Any]) -> list[Shape]:
    """What nodes of a plan do, which stand from the uppermost on; the lowest shape is first."""
    return [_shape(session, node) for node in reversed(nodes) if class_of(node) not in PASSING]


def _shape(session: SparkSession, node: Any) -> Shape:
    [below] = items(node.children())
    columns = _fields(below)
    ids = [id_of(attribute) for attribute in items(below.output())]
    translator = Translator(session, columns, ids)
    if class_of(node) == "Filter":
        # One part after the other: Spark asks no further where one of them is null.
        parts = [
            Condition(str(part.sql()), translator.translate(Node.of(part)))
            for part in conjuncts(node.condition())
        ]
        return Shape.keeping(arrow_of(columns), all_of(parts))
    if class_of(node) != "Project":
        raise Untranslatable(f"{class_of(node)} is more than a projection or a filter")
    schema = arrow_of(_fields(node))
    made = [_column(one, translator, ids) for one in items(node.projectList())]
    for field, column in zip(schema, made, strict=True):
        if field.type != column.type:
            raise Untranslatable(f"{field.name} would be {column.type} instead of {field.type}")
    return Shape(schema, tuple(made))


def _column(named: Any, translator: Translator, ids: Sequence[int]) -> Expression:
    """A column that is only moved or renamed may be of any type."""
    value = named.child() if class_of(named) == "Alias" else named
    if class_of(value) == "AttributeReference" and id_of(value) in ids:
        number = ids.index(id_of(value))
        return Column(arrow_of([translator.fields[number]]).field(0).type, number)
    return translator.translate(Node.of(value))


def _fields(plan: Any) -> list[StructField]:
    return list(StructType.fromJson(json.loads(plan.schema().json())).fields)
