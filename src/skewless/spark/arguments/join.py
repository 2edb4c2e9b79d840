"""`sk.join`: from arguments to a join that can be started."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from pyspark.sql import Column

from skewless import expressions
from skewless.arrays.keys import hash_of_value
from skewless.arrays.types import FAR_US, SIDES, SideSpec
from skewless.errors import ArgumentError
from skewless.operators.join_type import INNER, JOIN_TYPES, JoinType, join_type
from skewless.operators.naming import Named, merged_keys, named_columns
from skewless.operators.pair import JoinSpec, OutputColumn
from skewless.operators.pair_condition import PairCondition
from skewless.operators.two_way.operator import JoinOperator
from skewless.placement.strategy import PlacementStrategy
from skewless.spark.arguments import columns
from skewless.spark.arguments.clock_rules import parse_clock_rules
from skewless.spark.arguments.kinds import (
    Auto,
    Condition,
    ErrorOrDrop,
    HalfOpen,
    Late,
    Name,
    On,
    Source,
    Time,
)
from skewless.spark.arguments.naming import struct_of
from skewless.spark.arguments.times import (
    ANY_TIMES,
    HALF_OPEN_FORMS,
    check_null_times,
    parse_bounds,
    parse_lates,
    parse_times,
)
from skewless.spark.catalyst import Untranslatable, translated, translated_on
from skewless.spark.result import RowsResult, sizes
from skewless.strategies import choose_strategy

How = Literal[
    "inner",
    "left", "left_outer", "leftouter",
    "right", "right_outer", "rightouter",
    "full", "full_outer", "fullouter", "outer",
    "left_semi", "leftsemi", "semi", "right_semi",
    "left_anti", "leftanti", "anti", "right_anti",
]  # fmt: skip
SLOTS_PER_INSTANCE = 16
SLOTS_MIN, SLOTS_MAX = 64, 65_536
SUFFIXES = ("", "_right")


def join(
    left: Source,
    right: Source,
    on: On,
    *,
    time: Time | None = None,
    left_time: Name | None = None,
    right_time: Name | None = None,
    within: HalfOpen,
    late: Late | None = None,
    idle_after: Late | None = None,
    max_ahead: Late | None = None,
    how: How = "inner",
    condition: Condition | None = None,
    where: Condition | None = None,
    strategy: PlacementStrategy | Auto | None = None,
    balance: PlacementStrategy | Auto | None = None,
    instances: int | Auto = "auto",
    slots: int | None = None,
    suffixes: tuple[str, str] = SUFFIXES,
    on_null_time: ErrorOrDrop = "error",
) -> Joined:
    """Join two streams (or two static DataFrames) on equal or near keys within a time bound.

    Parameters
    ----------
    left, right
        Two streaming DataFrames from any source, or two static ones; or results of other operators,
        which are then part of the same query.
    on
        ``"k"``, ``["k1", "k2"]``, ``[("left_k", "right_k")]``, ``sk.band("lx", "rx", width)``, or a
        list of these. ``sk.equal("left_k", "right_k", null_safe=True)``: a null equals a null. As
        in PySpark, ``(left["a"] == right["b"]) & left["c"].eqNullSafe(right["d"])`` and
        ``left["a"]`` for a name. Keys are compared as Spark compares them: an int with a double, a
        date with a timestamp, a string with a number, structs and arrays. What cannot be cast stops
        the query, or is null, as Spark's settings (ANSI) say.
    time
        The event-time column: one name for both inputs, or ``("ordered_at", "seen_at")``. Where it
        is left out, that of the input's ``withWatermark``. ``within=sk.UNBOUNDED`` needs none.
    left_time, right_time
        The same, one by one.
    within
        ``"10 minutes"``: the times differ by at most that. ``("-1 minute", "10 minutes")``:
        ``left_time - 1 minute <= right_time <= left_time + 10 minutes``. A longer bound keeps more
        state. ``("5 seconds", sk.UNBOUNDED)``, ``(sk.UNBOUNDED, "5 seconds")``: open on one end;
        left rows are then kept for ever, or right ones. ``sk.UNBOUNDED``: any times; all are.
    late
        How far a row may lie behind the latest of its side, ``"1 minute"`` or one per side. Longer
        waits for more stragglers and keeps more state. Later rows are dropped and counted. Default:
        the delay of the input's ``withWatermark``, which nothing else may contradict, or else
        "0 seconds"; and for UNBOUNDED joins: no row is late. In a result nothing is late; it has
        none.
    idle_after
        ``"10 minutes"``: a stream that has had no rows for so long, by the clock, no longer holds
        the watermark back, until it has rows again; those behind the watermark are then late. One
        duration, or one per side. If all streams are idle, time stands still. Default: None, it
        waits for ever.
    max_ahead
        ``"1 day"``: rows further ahead of the clock than that are put aside and counted, so that
        one broken timestamp does not make all rows late that come after it. One duration, or one
        per side. Default: None, any time is taken.
    how
        ``"inner"``; ``"left"``, ``"right"`` and ``"full"`` (or ``"left_outer"`` …) with rows that
        have no partner, once it is certain that none can come: when the watermark has passed the
        bound. ``"left_semi"`` and ``"right_semi"``: rows that have a partner, once, at their first;
        ``"left_anti"`` and ``"right_anti"``: those that have none. A row without a key has no
        partner; a late one is dropped. Outer and anti joins of streams need a bound: an upper one
        for left rows, a lower one for right rows.
    condition
        What else must hold for two rows to match, as SQL or a Column over the names that columns
        have in the result of an inner join: ``"abs(price - price_right) < 0.05"``; or, as Spark's
        own join takes it, over those of the inputs, ``left["price"] < right["price"]``, and with
        aliases ``"o.price < t.price"``. It is evaluated before rows leave Python, and means what it
        means in Spark; what cannot be taken over to the letter is refused. In outer, semi and anti
        joins it decides about who has a partner.
    where
        A filter over the result's columns, in SQL or a Column.
    strategy
        Who works on which rows; the result is the same. ``"auto"`` or ``sk.Auto(...)`` moves work
        from busy to idle instances and splits hot keys; so do ``sk.FastJoin(...)`` and
        ``sk.LSStream(...)``. Fixed: ``sk.Hash()``, ``sk.ContRand(groups)``, ``sk.Broadcast()``.
    balance
        Another name of `strategy`.
    instances, slots
        How many tasks work on a batch, and into how many ranges the keys are divided. ``"auto"``
        are as many instances as a batch needs, and as the executors have cores at the time: a few
        thousand rows get one, and a cluster that grows is used. Slots by default: 16 per core but
        at least 64, and more when there are more cores.
    suffixes
        Added to the names of columns that both sides have.
    on_null_time
        ``"error"`` stops the query at a row without event time, ``"drop"`` drops and counts it.

    >>> joined = sk.join(orders, tracks, on="cell", time=("ordered_at", "seen_at"),
    ...                  within="10 minutes")                              # doctest: +SKIP
    """
    drop_null_times = check_null_times(on_null_time)
    inputs = columns.inputs_of(left=left, right=right)
    bounds = parse_bounds(within, HALF_OPEN_FORMS, half_open=True)
    joined = _parse_how(how, bounds, is_stream=bool(left.isStreaming))
    conditions = columns.parse_on(on, *inputs)
    named = _named(inputs, conditions, suffixes, joined)
    pairs = None if condition is None else _pair_condition(condition, inputs, conditions, suffixes)
    unbounded, older = bounds == ANY_TIMES, {"left_time": left_time, "right_time": right_time}
    times = parse_times(inputs, time, older, unbounded=unbounded)
    lates = parse_lates(late, inputs, times, unbounded=unbounded)
    rules = parse_clock_rules(idle_after, max_ahead, inputs, times)
    left_side, right_side = join_sides(inputs, conditions, times, lates)
    output = tuple(map(_output_column, named))
    spec = JoinSpec(left_side, right_side, *bounds, output, drop_null_times, joined, pairs)
    given = sizes(instances=instances, slots=slots)
    chosen = parse_strategy(strategy, balance, spec, given["instances"])

    def place(spec: JoinSpec, cores: int) -> JoinOperator:
        return JoinOperator(spec, chosen, *placed(chosen, given, cores))

    taken = tuple(this.every_column for this in inputs)
    sources = tuple(this.source for this in inputs)
    emitted = struct_of(inputs, named)
    matches = Joined(sources, taken, emitted, spec=spec, place=place, rules=rules, named=named)
    return matches if where is None else matches.where(where)


def _pair_condition(
    condition: Condition,
    inputs: Sequence[columns.Input],
    on: Sequence[columns.Condition],
    suffixes: tuple[str, str],
) -> PairCondition:
    """A condition over the columns that an inner join has."""
    named = _named(inputs, on, suffixes, INNER)
    session = inputs[0].source.sparkSession
    try:
        found = translated(session, struct_of(inputs, named), condition)
        return PairCondition(found, tuple((SIDES[c.input], c.index) for c in named))
    except Untranslatable as error:
        raise ArgumentError("condition", condition, str(error)) from error
    except ArgumentError:
        written = isinstance(condition, str | Column)
        pairs = _condition_of_inputs(condition, inputs, named) if written else None
        if pairs is None:
            raise
        return pairs


def _condition_of_inputs(
    condition: Condition, inputs: Sequence[columns.Input], named: Sequence[Named]
) -> PairCondition | None:
    """A condition as Spark's own join takes it, ``left["a"] < right["a"]`` or, over aliases of the
    inputs, ``l.a < r.a``; None if it is none."""
    shown = {(c.input, c.index): c.name for c in named}
    names = {
        (x, i): shown.get((x, i), f"{this.argument} {field.name}")
        for x, this in enumerate(inputs)
        for i, field in enumerate(this.fields)
    }
    left, right = (this.frame for this in inputs)
    try:
        found = translated_on(left, right, condition, [*names.values()])
    except Untranslatable as error:
        raise ArgumentError("condition", condition, str(error)) from error
    except ArgumentError:
        return None
    return PairCondition(found, tuple((SIDES[x], i) for x, i in names))


def _parse_how(how: object, bounds: tuple[int, int], *, is_stream: bool) -> JoinType:
    found = join_type(how) if isinstance(how, str) else None
    if found is None:
        accepted = f"one of: {', '.join(map(repr, JOIN_TYPES))}; or 'left_outer' and its like"
        raise ArgumentError("how", how, accepted)
    ends = {"left": ("upper", bounds[1]), "right": ("lower", bounds[0])}
    for side in found.unmatched if is_stream else ():
        end, bound_us = ends[side]
        if abs(bound_us) >= FAR_US:
            accepted = (
                f"'inner' or a semi join where `within` has no {end} bound: as long as a partner "
                f"may come at any time, no row of a stream is certain to have none. Rows of "
                f"`{side}` need a bound, (lower, upper), with {end} not sk.UNBOUNDED"
            )
            raise ArgumentError("how", how, accepted)
    return found


def _named(
    inputs: Sequence[columns.Input],
    conditions: Sequence[columns.Condition],
    suffixes: tuple[str, str],
    how: JoinType,
) -> tuple[Named, ...]:
    """The columns of the result. Keys that are equal under one name are one column: that of a side
    that is always there; in a full join, of whichever is."""
    merged = merged_keys([(0, 1, condition) for condition in conditions])
    if len(how.shown) == 1:
        (side,) = (SIDES.index(side) for side in how.shown)
        return tuple(Named(side, i, name) for i, name in enumerate(inputs[side].names))
    found = named_columns(inputs, suffixes, SUFFIXES, merged)
    if not how.unmatched or how.unmatched == ("left",):
        return found
    return tuple(_of_right(c, inputs, merged, how) for c in found)


def _of_right(
    column: Named,
    inputs: Sequence[columns.Input],
    merged: Collection[tuple[int, str]],
    how: JoinType,
) -> Named:
    if column.input == 1 or (1, column.name.lower()) not in merged:
        return column
    left, right = inputs
    index = right.index(column.name, "on")
    if how.is_always_there("right"):
        return Named(1, index, column.name)
    of_left, of_right, kind = columns.merged(left, column.index, right, index)
    return Named(0, of_left, column.name, of_right, kind)


def _output_column(column: Named) -> OutputColumn:
    kind = None if column.type is None else columns.arrow_type(column.type)
    return OutputColumn(SIDES[column.input], column.index, column.name, column.other, kind)


@dataclass(frozen=True, eq=False, repr=False)
class Joined(RowsResult[JoinSpec]):
    """A join that is described but not running: write it with `writeStream`, or, when the inputs
    are static, take the result with `dataframe`."""

    def filtered(self, condition: expressions.Condition) -> Self:
        # Of other joins' rows some have no partner: for them a filter is no condition.
        if self.spec.how != INNER:
            return self
        return replace(self, spec=self.spec.where(condition))


def join_sides(
    inputs: Sequence[columns.Input],
    conditions: Sequence[columns.Condition],
    times: Sequence[int | None],
    lates: Sequence[int],
) -> list[SideSpec]:
    """Both sides of a join, with the columns that are compared."""
    left, right = inputs
    left_keys, right_keys, left_bands, right_bands = columns.resolve_keys(left, right, conditions)
    compared = ((left_keys, left_bands), (right_keys, right_bands))
    return [
        columns.side_spec(this, *of, time, late_us)
        for this, of, time, late_us in zip(inputs, compared, times, lates, strict=True)
    ]


def placed(
    strategy: PlacementStrategy, given: Mapping[str, int | None], cores: int
) -> tuple[int, int, bool, int]:
    """Instances, and slots; whether the instances follow the work; how many slots each is to have,
    if it is not said how many there are."""
    instances = given["instances"] or cores
    each = strategy.slots_wanted or SLOTS_PER_INSTANCE
    slots = given["slots"] or min(max(SLOTS_MIN, each * instances), SLOTS_MAX)
    return instances, slots, given["instances"] is None, 0 if given["slots"] else each


def parse_strategy(
    strategy: object, balance: object, spec: JoinSpec, instances: int | None
) -> PlacementStrategy:
    """Who works on which rows of a join; keys that are to stay somewhere must be its keys."""
    chosen: PlacementStrategy = choose_strategy("join", strategy, balance=balance)
    for value, instance in chosen.pinned:
        try:
            hash_of_value(value, spec.left)
        except (ValueError, TypeError, ArithmeticError) as error:
            names = [spec.left.schema.field(k.index).name for k in spec.left.keys]
            accepted = f"values of the key columns ({', '.join(names)}), without bands ({error})"
            raise ArgumentError("pin", {value: instance}, accepted) from error
        if instances is not None and instance >= instances:
            accepted = f"{{key: instance}}, instances from 0 to {instances - 1}"
            raise ArgumentError("pin", {value: instance}, accepted)
    return chosen
