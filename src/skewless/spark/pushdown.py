"""What is done to a result decides what the operators below it need to do: columns that nobody
looks at are not carried, and a filter behind a join is part of it.

Spark's optimizer is asked: it moves filters and drops columns as it would in a query of its own.
What it puts right above the operator's rows is what the operator can do itself. The steps stay what
they are; they then have less to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.expressions import Condition
from skewless.expressions.logic import all_of
from skewless.spark.catalyst import Untranslatable, of_tree
from skewless.spark.interpreter import is_remote
from skewless.spark.plans import (
    chain_of,
    class_of,
    conjuncts,
    depends_on_now,
    id_of,
    items,
    quoted,
    unknown_frame,
)
from skewless.spark.steps import Step, Steps, with_steps

if TYPE_CHECKING:
    from skewless.spark.result import Result


@dataclass(frozen=True)
class Needs:
    """What the steps behind an operator need of its rows: some columns, by number, of the rows
    that fulfil a condition."""

    columns: tuple[int, ...]
    condition: Condition | None = None


def pushed_down(result: Result, wanted: Sequence[str] | None = None) -> Result:
    """The same result with as little work as the `wanted` columns of it take; None: all of them."""
    from skewless.spark.result import Result

    needs = _needs_of(result, wanted)
    lean = result if needs.condition is None else result.filtered(needs.condition)
    lean = lean.only(needs.columns)
    sources, taken = [], []
    for source, numbers in zip(lean.sources, lean.taken, strict=True):
        if isinstance(source, Result):
            names = [source.columns[i] for i in numbers]
            source = pushed_down(source, names)  # noqa: PLW2901
            numbers = tuple(source.columns.index(name) for name in names)  # noqa: PLW2901
        sources.append(source)
        taken.append(numbers)
    steps = lean.steps
    if steps and len(lean.emitted) < len(result.emitted):
        steps = (_filled(result.emitted, lean.emitted), *steps)
    return replace(lean, sources=tuple(sources), taken=tuple(taken), steps=steps)


def _needs_of(result: Result, wanted: Sequence[str] | None) -> Needs:
    every = tuple(range(len(result.emitted)))
    session = result.sparkSession
    if not result.steps:
        names = result.emitted.names
        return Needs(every if wanted is None else tuple(names.index(name) for name in wanted))
    if is_remote(session):
        return Needs(every)  # Spark Connect does not show its plans
    return needs(session, result.emitted, result.steps, wanted)


def _filled(before: StructType, now: StructType) -> Step:
    """Columns that nobody needs are there as nulls for the steps, which may still name them: Spark
    finds out once more that they are not needed."""
    there = set(now.names)
    columns = [
        F.col(quoted(field.name))
        if field.name in there
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in before.fields
    ]
    return ("select", tuple(columns))


def needs(
    session: SparkSession, emitted: StructType, steps: Steps, wanted: Sequence[str] | None = None
) -> Needs:
    """What steps need of rows with these columns to give the wanted ones."""
    nothing = unknown_frame(session, emitted)
    shaped = with_steps(nothing, steps)
    if wanted is not None:
        shaped = shaped.select(*(F.col(quoted(name)) for name in wanted))
    return _read(shaped, nothing)


def _read(shaped: DataFrame, rows: DataFrame) -> Needs:
    plan = shaped._jdf.queryExecution().optimizedPlan()
    chain = chain_of(plan)
    if chain is None:
        return Needs(tuple(range(len(rows.columns))))
    *above, leaf = chain
    place = {id_of(attribute): i for i, attribute in enumerate(items(leaf.output()))}
    used = _ids(plan.output()) | {i for node in above for i in _ids(node.references().toSeq())}
    # Without any column nobody would know how many rows there are.
    columns = tuple(sorted(place[i] for i in used if i in place)) or (0,)
    if depends_on_now(shaped):
        return Needs(columns)
    conditions: list[Any] = []
    while above and class_of(above[-1]) == "Filter":
        conditions += conjuncts(above.pop().condition())
    return Needs(columns, _condition(rows, conditions))


def _condition(rows: DataFrame, conditions: Sequence[Any]) -> Condition | None:
    """As much of some conditions as can be asked here. One that may fail is asked only if all
    before it are: they may have ruled out the rows on which it does."""
    found: list[Condition] = []
    for number, condition in enumerate(conditions):
        try:
            one = of_tree(rows, condition)
        except Untranslatable:
            continue
        if len(found) == number or not one.root.can_fail:
            found.append(one)
    return all_of(found) if found else None


def _ids(attributes: Any) -> set[int]:
    return {id_of(attribute) for attribute in items(attributes)}
