"""The columns of a result, in Spark's types."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructField, StructType

from skewless.operators.naming import Named
from skewless.spark.arguments.columns import Input


def struct_of(inputs: Sequence[Input], named: Sequence[Named]) -> StructType:
    """The columns in Spark's types."""
    return StructType(
        [StructField(c.name, c.type or inputs[c.input].fields[c.index].dataType) for c in named]
    )
