"""Columns of the inputs, as PySpark users name them behind a join: ``joined.where(left["a"] > 1)``.

Catalyst tells columns apart by ids, and ``left["a"]`` stands for that of the input. Rows whose
columns have these ids are taken for what Spark's own join would give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from skewless.operators.naming import Named
from skewless.spark.interpreter import is_remote
from skewless.spark.plans import items

Ids = Mapping[str, Any]  # names of a result's columns, Catalyst's ids of the inputs' columns

MISSING = "MISSING_ATTRIBUTES"
BY_NAME = 'name the columns of the result, as F.col("…") or result["…"]'


def is_missing(error: BaseException | None) -> bool:
    """Whether Spark refuses something as it is about columns of other DataFrames."""
    return f"[{MISSING}" in str(error)


def are_columns(arguments: Sequence[Any]) -> bool:
    return any(isinstance(argument, Column) for argument in arguments)


def ids_of_inputs(sources: Sequence[Any], named: Sequence[Named]) -> Ids:
    """By which the columns of a result are known that are those of a DataFrame. Where two inputs
    are one DataFrame, nobody can say which is meant; nor where a column stands for several."""
    frames = {
        number: items(source._jdf.queryExecution().analyzed().output())
        for number, source in enumerate(sources)
        if isinstance(source, DataFrame) and not is_remote(source.sparkSession)
    }
    found = {
        column.name: frames[column.input][column.index].exprId()
        for column in named
        if column.input in frames and column.other is None
    }
    known = Counter(int(id.id()) for id in found.values())
    return {name: id for name, id in found.items() if known[int(id.id())] == 1}


def identified(rows: DataFrame, ids: Ids) -> DataFrame:
    """The same rows under the ids of the inputs' columns."""
    session: Any = rows.sparkSession
    sql = session._jvm.org.apache.spark.sql
    plan = rows._jdf.queryExecution().analyzed()
    sequence, none = session._jvm.PythonUtils.toSeq, session._jvm.scala.Option.empty()
    columns = [
        sql.catalyst.expressions.Alias(
            column, column.name(), ids[column.name()], sequence([]), none, sequence([])
        )
        if column.name() in ids
        else column
        for column in items(plan.output())
    ]
    project = sql.catalyst.plans.logical.Project(sequence(columns), plan)
    return DataFrame(sql.classic.Dataset.ofRows(session._jsparkSession, project), session)
