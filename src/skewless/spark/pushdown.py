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
    is_leaf_of,
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
    left: tuple[str, ...] = ()  # filters that only Spark can do, and why


@dataclass(frozen=True)
class Pushed:
    """What became of the steps behind an operator: columns that it no longer carries, the filter
    that is part of it, and what stays behind it, with the reason."""

    dropped: tuple[str, ...]
    filter: str | None
    left: tuple[str, ...]


NOT_TAKEN = "its rows are not pairs alone, so that a filter is no condition of it"


def pushed_down(
    result: Result, wanted: Sequence[str] | None = None, told: list[Pushed] | None = None
) -> Result:
    """The same result with as little work as the `wanted` columns of it take; None: all of them.
    What was done is `told`, operator by operator, those below first."""
    from skewless.spark.result import Result

    needs = _needs_of(result, wanted)
    lean = result if needs.condition is None else result.filtered(needs.condition)
    lean = lean.only(needs.columns)
    sources, taken = [], []
    for source, numbers in zip(lean.sources, lean.taken, strict=True):
        if isinstance(source, Result):
            names = [source.columns[i] for i in numbers]
            source = pushed_down(source, names, told)  # noqa: PLW2901
            numbers = tuple(source.columns.index(name) for name in names)  # noqa: PLW2901
        sources.append(source)
        taken.append(numbers)
    if told is not None:
        told.append(_told(result, lean, needs))
    steps = lean.steps
    if steps and len(lean.emitted) < len(result.emitted):
        steps = (_filled(result.emitted, lean.emitted), *steps)
    return replace(lean, sources=tuple(sources), taken=tuple(taken), steps=steps)


def _told(result: Result, lean: Result, needs: Needs) -> Pushed:
    names = set(lean.emitted.names)
    dropped = tuple(name for name in result.emitted.names if name not in names)
    if needs.condition is None:
        return Pushed(dropped, None, needs.left)
    # An operator that takes no filters gives itself back.
    asked = result.filtered(needs.condition)
    if asked is result:
        return Pushed(dropped, None, (*needs.left, f"{needs.condition.sql}: {NOT_TAKEN}"))
    return Pushed(dropped, needs.condition.sql, needs.left)


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
    everything = tuple(range(len(rows.columns)))
    if depends_on_now(shaped):
        # The optimizer leaves out what is not needed now, but may be needed one day.
        why = "what depends on the time of day is asked anew in every batch"
        return Needs(everything, left=(why,))
    plan = shaped._jdf.queryExecution().optimizedPlan()
    chain = chain_of(plan)
    if chain is None or not is_leaf_of(chain[-1], rows):
        return Needs(everything)
    *above, leaf = chain
    place = {id_of(attribute): i for i, attribute in enumerate(items(leaf.output()))}
    used = _ids(plan.output()) | {i for node in above for i in _ids(node.references().toSeq())}
    # Without any column nobody would know how many rows there are.
    columns = tuple(sorted(place[i] for i in used if i in place)) or (0,)
    conditions: list[Any] = []
    while above and class_of(above[-1]) == "Filter":
        conditions += conjuncts(above.pop().condition())
    condition, left = _condition(rows, conditions)
    return Needs(columns, condition, left)


def _condition(
    rows: DataFrame, conditions: Sequence[Any]
) -> tuple[Condition | None, tuple[str, ...]]:
    """As much of some conditions as can be asked here, and what is left, with the reason. One that
    may fail is asked only if all before it are: they may have ruled out the rows on which it
    does."""
    found: list[Condition] = []
    left: list[str] = []
    for number, condition in enumerate(conditions):
        try:
            one = of_tree(rows, condition)
        except Untranslatable as error:
            left.append(f"{condition.sql()}: {error.reason}")
            continue
        if len(found) == number or not one.root.can_fail:
            found.append(one)
        else:
            left.append(f"{one.sql}: it may fail on rows that another filter rules out")
    return (all_of(found) if found else None), tuple(left)


def _ids(attributes: Any) -> set[int]:
    return {id_of(attribute) for attribute in items(attributes)}
