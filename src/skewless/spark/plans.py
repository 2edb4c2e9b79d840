"""Reading what Spark makes of a query: small words for what several parts ask of it.

Plans and expressions are in the JVM, and py4j shows them as they are there. Spark Connect does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """No rows with some columns: something to try steps on."""
    nothing: list[Any] = []
    return session.createDataFrame(nothing, schema)


def reason(error: Exception) -> str:
    """The first line of what Spark says to something that it refuses."""
    return str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0].rstrip(";")


def quoted(name: str) -> str:
    """The name of a column, whatever letters it has, as SQL takes it.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def items(seq: Any) -> list[Any]:
    """What is in a sequence of Scala's."""
    return [seq.apply(i) for i in range(seq.length())]


def class_of(node: Any) -> str:
    """What kind of plan or expression it is."""
    return str(node.getClass().getSimpleName())


def id_of(attribute: Any) -> int:
    """By which Catalyst tells columns apart."""
    return int(attribute.exprId().id())


def conjuncts(condition: Any) -> Iterator[Any]:
    """The conditions that must all hold for one to hold, in their order."""
    if class_of(condition) != "And":
        yield condition
        return
    for child in items(condition.children()):
        yield from conjuncts(child)


def depends_on_now(frame: DataFrame) -> bool:
    """Whether something like `current_date()` is asked for. The optimizer makes a constant of it,
    which would stay what it is now while the query runs."""
    jvm: Any = frame.sparkSession._jvm
    now = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return bool(frame._jdf.queryExecution().analyzed().containsPattern(now))
