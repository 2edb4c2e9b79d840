"""Reading what Spark makes of a query: small words for what several parts ask of it.

Plans and expressions are in the JVM, and py4j shows them as they are there. Spark Connect does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from skewless.spark.interpreter import is_remote

_UTC: dict[str, Any] = {"timezone": "UTC"}


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """No rows with some columns: something to try steps on."""
    nothing: list[Any] = []
    return session.createDataFrame(nothing, schema)


def unknown_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """Rows of which the optimizer knows nothing. Not from a list: of an empty one it knows that
    nothing comes out."""
    return session.createDataFrame(session.sparkContext.emptyRDD(), schema)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns as segments have them: times are in UTC, whatever the session's zone. Spark 4.1
    need not be told, and cannot be."""
    can_be_told = "timezone" in signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, **(_UTC if can_be_told else {}))


def time_zone_of(session: SparkSession) -> str:
    """That in which the session reads and writes times."""
    return session.conf.get("spark.sql.session.timeZone") or "UTC"


def jvm_time_zone(session: SparkSession) -> str:
    """That of the clocks of its machines, "" if it does not tell."""
    jvm: Any = None if is_remote(session) else session._jvm
    return str(jvm.java.util.TimeZone.getDefault().getID()) if jvm else ""


def reason(error: Exception) -> str:
    """The first line of what Spark says to something that it refuses."""
    return str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0].rstrip(";")


def quoted(name: str) -> str:
    """The name of a column, whatever letters it has, as SQL takes it.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def first_name(path: str) -> str:
    """The column that a path begins with, written as in SQL.

    >>> first_name("window.end"), first_name("`a.b`.c"), first_name("k")
    ('window', 'a.b', 'k')
    """
    found = re.match(r"`((?:[^`]|``)*)`", path)
    return found[1].replace("``", "`") if found else path.partition(".")[0]


def items(seq: Any) -> list[Any]:
    """What is in a sequence of Scala's."""
    return [seq.apply(i) for i in range(seq.length())]


def scala_map(scala: Any) -> dict[str, str]:
    """A map of Scala's."""
    found = {}
    entries = scala.iterator()
    while entries.hasNext():
        entry = entries.next()
        found[str(entry._1())] = str(entry._2())
    return found


def chain_of(plan: Any) -> list[Any] | None:
    """The nodes of a plan from its root to its leaf; None if it has several."""
    chain = [plan]
    while below := items(chain[-1].children()):
        if len(below) > 1:
            return None
        chain += below
    return chain


def is_leaf_of(leaf: Any, rows: DataFrame) -> bool:
    """Whether a plan's leaf is these rows, of which the optimizer knows nothing. Where no row can
    fulfil a filter, it leaves another leaf: a relation without rows, and no filter."""
    return class_of(leaf) == class_of(rows._jdf.queryExecution().optimizedPlan())


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
