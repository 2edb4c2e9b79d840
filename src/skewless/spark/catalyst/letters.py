"""What the JVM makes of letters in upper and lower case."""

from __future__ import annotations

from functools import cache

from pyspark.sql import SparkSession

from skewless.expressions.letters import Table

# All letters that have a case lie in the first two planes.
LETTERS = [chr(i) for i in range(0x20000) if not 0xD800 <= i < 0xE000 and chr(i) != "\n"]
ICU = "spark.sql.icu.caseMappings.enabled"


def table_of(session: SparkSession, function: str) -> Table:
    """The letters that `upper` or `lower` change."""
    return _table(session, function, str(session.conf.get(ICU, "")))


@cache
def _table(session: SparkSession, function: str, icu: str) -> Table:
    text = "\n".join(LETTERS)
    row = session.sql(f"SELECT {function}(:text) AS made", args={"text": text}).head()
    assert row is not None
    made = row.made.split("\n")
    return tuple((a, b) for a, b in zip(LETTERS, made, strict=True) if a != b)
