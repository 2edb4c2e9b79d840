"""What the JVM makes of letters in upper and lower case."""

from __future__ import annotations

from functools import cache
from typing import Any

from pyspark.sql import SparkSession

from skewless.expressions.letters import Table

# All letters that have a case lie in the first two planes.
LETTERS = [chr(i) for i in range(0x20000) if not 0xD800 <= i < 0xE000 and chr(i) != "\n"]
ICU = "spark.sql.icu.caseMappings.enabled"


def table_of(session: SparkSession, function: str) -> Table:
    """The letters that the expression `Upper` or `Lower` changes."""
    return _table(session, function, str(session.conf.get(ICU, "true")))


@cache
def _table(session: SparkSession, function: str, icu: str) -> Table:
    jvm: Any = session._jvm
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    literal = getattr(getattr(expressions, "Literal$"), "MODULE$")
    text = literal.apply("\n".join(LETTERS))
    made = str(getattr(expressions, function)(text).eval(None).toString()).split("\n")
    return tuple((a, b) for a, b in zip(LETTERS, made, strict=True) if a != b)
