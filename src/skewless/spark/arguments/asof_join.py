"""`sk.asof_join`: from arguments to an asof join that can be started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from skewless.arrays.types import FAR_US, SIDES
from skewless.conditions import Band
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError
from skewless.operators.asof.operator import AsofOperator
from skewless.operators.asof.spec import DIRECTIONS, AsofSpec, Direction
from skewless.operators.join_type import JOIN_TYPES, JoinType, join_type
from skewless.operators.naming import merged_keys, named_columns
from skewless.operators.pair import OutputColumn
from skewless.placement.strategy import PlacementStrategy
from skewless.spark.arguments import columns
from skewless.spark.arguments.clock_rules import parse_clock_rules
from skewless.spark.arguments.join import SUFFIXES, join_sides, parse_strategy, placed
from skewless.spark.arguments.kinds import (
    Auto,
    Condition,
    Duration,
    EqualOn,
    ErrorOrDrop,
    Late,
    Name,
    Source,
    Time,
)
from skewless.spark.arguments.naming import struct_of
from skewless.spark.arguments.times import check_null_times, parse_lates, parse_times
from skewless.spark.result import RowsResult, sizes

How = Literal["inner", "left", "left_outer", "leftouter"]
TYPES = ("inner", "left")


def asof_join(
    left: Source,
    right: Source,
    on: EqualOn,
    *,
    time: Time | None = None,
    left_time: Name | None = None,
    right_time: Name | None = None,
    direction: Direction = "backward",
    tolerance: Duration | None = None,
    allow_exact_matches: bool = True,
    late: Late | None = None,
    idle_after: Late | None = None,
    max_ahead: Late | None = None,
    how: How = "inner",
    where: Condition | None = None,
    strategy: PlacementStrategy | Auto | None = None,
    balance: PlacementStrategy | Auto | None = None,
    instances: int | Auto = "auto",
    slots: int | None = None,
    suffixes: tuple[str, str] = SUFFIXES,
    on_null_time: ErrorOrDrop = "error",
) -> AsofJoined:
    """Each left row with the one right row of equal keys that is nearest in time, once it is
    certain which one that is.

    A left row comes in the batch whose watermark says that no nearer partner can come: "backward"
    when the watermark has passed its time, "forward" and "nearest" when it has passed its time and
    the tolerance. Of two right rows that are equally near, the earlier is taken; of several with
    one key and time the greatest, compared column by column from the left, nulls being least and
    NaN greatest. So the result does not depend on the order in which rows came.

    Parameters
    ----------
    left, right
        Two streaming DataFrames from any source, or two static ones; or results of other operators,
        which are then part of the same query.
    on
        Columns that are equal, as in `sk.join`: ``"k"``, ``["k1", "k2"]``, ``[("left_k",
        "right_k")]`` or ``left["a"] == right["b"]``. A null equals nothing, but with
        ``sk.equal("left_k", "right_k", null_safe=True)``.
    time
        The event-time column: one name for both inputs, or ``("traded_at", "quoted_at")``. Where it
        is left out, that of the input's ``withWatermark``.
    left_time, right_time
        The same, one by one.
    direction
        ``"backward"``: the latest right row at or before the left one; ``"forward"``: the earliest
        at or after it; ``"nearest"``: whichever is nearer.
    tolerance
        ``"10 seconds"``: how far apart in time both may be. Streams need one: without it nothing
        could be forgotten. A longer one keeps more state and, but for "backward", waits longer.
    allow_exact_matches
        False: right rows of the very same time are no partners.
    late
        How far a row may lie behind the latest of its side, ``"1 minute"`` or one per side. Longer
        waits for more stragglers. Later rows are dropped and counted. Default: the delay of the
        input's ``withWatermark``, or else "0 seconds". In a result nothing is late; it has none.
    how
        ``"inner"``, or ``"left"`` with left rows that have no partner.
    idle_after, max_ahead, where, strategy, balance, instances, slots, suffixes, on_null_time
        As for `sk.join`.

    >>> priced = sk.asof_join(trades, quotes, on="symbol", time=("traded_at", "quoted_at"),
    ...                       tolerance="10 seconds", late="1 second")      # doctest: +SKIP
    """
    drop_null_times = check_null_times(on_null_time)
    inputs = columns.inputs_of(left=left, right=right)
    tolerance_us = _parse_tolerance(tolerance, is_stream=bool(left.isStreaming))
    exact = _parse_exact(allow_exact_matches, tolerance, tolerance_us)
    conditions = _parse_on(on, inputs)
    merged = merged_keys([(0, 1, condition) for condition in conditions])
    named = named_columns(inputs, suffixes, SUFFIXES, merged)
    older = {"left_time": left_time, "right_time": right_time}
    times = parse_times(inputs, time, older, why="the nearest row is nearest in time")
    rules = parse_clock_rules(idle_after, max_ahead, inputs, times)
    left_side, right_side = join_sides(inputs, conditions, times, parse_lates(late, inputs, times))
    output = tuple(OutputColumn(SIDES[c.input], c.index, c.name) for c in named)
    spec = AsofSpec.of(
        left_side, right_side, _parse_direction(direction), tolerance_us, output,
        exact=exact, how=_parse_how(how), drop_null_times=drop_null_times,
    )  # fmt: skip
    given = sizes(instances=instances, slots=slots)
    chosen = parse_strategy(strategy, balance, spec, given["instances"])

    def place(spec: AsofSpec, cores: int) -> AsofOperator:
        return AsofOperator(spec, chosen, *placed(chosen, given, cores))

    taken = tuple(this.every_column for this in inputs)
    emitted = struct_of(inputs, named)
    sources = tuple(this.source for this in inputs)
    found = AsofJoined(sources, taken, emitted, spec=spec, place=place, rules=rules, named=named)
    return found if where is None else found.where(where)


@dataclass(frozen=True, eq=False, repr=False)
class AsofJoined(RowsResult[AsofSpec]):
    """An asof join that is described but not running: write it with `writeStream`, or, when the
    inputs are static, take the result with `dataframe`."""


def _parse_direction(direction: object) -> Direction:
    for known in DIRECTIONS:
        if direction == known:
            return known
    raise ArgumentError("direction", direction, f"one of: {', '.join(map(repr, DIRECTIONS))}")


def _parse_how(how: object) -> JoinType:
    found = join_type(how) if isinstance(how, str) else None
    if found is None or found.name not in TYPES:
        accepted = (
            "'inner' or 'left': every left row has one partner at most, right rows any number"
        )
        raise ArgumentError("how", how, accepted)
    return JOIN_TYPES[found.name]


def _parse_tolerance(tolerance: object, *, is_stream: bool) -> int:
    if tolerance is None and is_stream:
        accepted = (
            "a duration such as '10 seconds' for streams: without one no right row could be "
            "forgotten, and no left row without a partner could be certain to have none"
        )
        raise ArgumentError("tolerance", tolerance, accepted)
    return FAR_US if tolerance is None else parse_duration_us(tolerance, "tolerance")


def _parse_exact(allow_exact_matches: object, tolerance: object, tolerance_us: int) -> bool:
    if not isinstance(allow_exact_matches, bool):
        raise ArgumentError("allow_exact_matches", allow_exact_matches, "True or False")
    if not allow_exact_matches and not tolerance_us:
        accepted = "more than 0 where allow_exact_matches=False: nothing is nearer than that"
        raise ArgumentError("tolerance", tolerance, accepted)
    return allow_exact_matches


def _parse_on(on: object, inputs: Sequence[columns.Input]) -> list[columns.Condition]:
    conditions = columns.parse_on(on, *inputs)
    if any(isinstance(condition, Band) for condition in conditions):
        raise ArgumentError("on", on, 'equal columns: "k", ["k1", "k2"] or [("left_k", "right_k")]')
    return conditions
