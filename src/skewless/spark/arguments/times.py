"""Event times, bounds and delays as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pyspark.sql import Column

from skewless.arrays.types import FAR_US
from skewless.conditions import UNBOUNDED
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError
from skewless.spark.arguments.columns import Input

NULL_TIMES = ("error", "drop")
DURATION = "a duration such as '10 minutes' or a timedelta"
BOUND_FORMS = f"{DURATION}, (lower, upper) or sk.UNBOUNDED"


def parse_bounds(within: object, accepted: str = BOUND_FORMS) -> tuple[int, int]:
    """``"1 minute"``, either way, ``(lower, upper)``, or any times at all. `accepted` is said of
    anything else."""
    if within is UNBOUNDED:
        return -FAR_US, FAR_US
    if isinstance(within, str | timedelta):
        bound = parse_duration_us(within, "within")
        return -bound, bound
    if not isinstance(within, tuple | list) or len(within) != 2:
        raise ArgumentError("within", within, accepted)
    lower, upper = (parse_duration_us(w, "within", allow_negative=True) for w in within)
    if lower > upper:
        raise ArgumentError("within", within, "(lower, upper) with lower <= upper")
    return lower, upper


def parse_lates(late: object, inputs: Sequence[Input], *, unbounded: bool = False) -> list[int]:
    """One delay for all streams among the inputs, or one for each input. A result of another
    operator brings its watermark along: nothing in it is late, so it has no delay of its own.
    Unless they are given, nothing is late where times are `unbounded`."""
    default = FAR_US if unbounded else 0
    if late is None:
        return [default] * len(inputs)
    if isinstance(late, str | timedelta):
        if all(this.is_result for this in inputs):
            raise ArgumentError("late", late, f"left out: {_none_for(inputs[0])}")
        delay = parse_duration_us(late, "late")
        return [default if this.is_result else delay for this in inputs]
    if not isinstance(late, tuple | list) or len(late) != len(inputs) or len(inputs) == 1:
        names = ", ".join(this.argument for this in inputs)
        each = f", or one for each input: ({names})" if len(inputs) > 1 else ""
        raise ArgumentError("late", late, f"{DURATION}{each}")
    for this, one in zip(inputs, late, strict=True):
        if this.is_result and one is not None:
            raise ArgumentError("late", late, _none_for(this))
    return [default if one is None else parse_duration_us(one, "late") for one in late]


def _none_for(this: Input) -> str:
    return (
        f"None for `{this.argument}`, the result of another operator: it brings its watermark "
        "along, and nothing in it is late"
    )


def parse_times(
    inputs: Sequence[Input],
    time: object,
    older: Mapping[str, object],
    *,
    unbounded: bool = False,
) -> list[int | None]:
    """The numbers of the event-time columns, all of one type. They are named by `time`, one name
    for all inputs or one each, or by the `older` arguments. Only where times are `unbounded` there
    need be none."""
    names = _time_names(inputs, time, older)
    if unbounded and all(name is None for _, name in names):
        return [None] * len(inputs)
    for argument, name in names:
        if name is None:
            accepted = "the event-time column (only within=sk.UNBOUNDED can do without)"
            raise ArgumentError(argument, name, accepted)
    found = [
        this.time_index(name, argument)
        for this, (argument, name) in zip(inputs, names, strict=True)
    ]
    kinds = {str(this.type_of(i)) for this, i in zip(inputs, found, strict=True)}
    if len(kinds) > 1:
        described = [this.described(i) for this, i in zip(inputs, found, strict=True)]
        first, last = names[0][0], names[-1][0]
        same = "columns of one type" if first == last else f"of the same type as `{first}`"
        joined = (" and " if len(described) == 2 else ", ").join(described)
        raise ArgumentError(last, joined, f"{same}; cast one of them")
    return list(found)


def _time_names(
    inputs: Sequence[Input], time: object, older: Mapping[str, object]
) -> list[tuple[str, object]]:
    """Which argument names the event time of each input, and what it says."""
    given = [name for name, value in older.items() if value is not None]
    if time is not None and given:
        raise ArgumentError("time", time, f"left out where {', '.join(given)} says it, too")
    if given and len(older) == len(inputs):
        return list(older.items())
    argument, value = (given[0], older[given[0]]) if given else ("time", time)
    if value is None or isinstance(value, str | Column):
        return [(argument, value)] * len(inputs)
    if not isinstance(value, tuple | list) or len(value) != len(inputs):
        names = ", ".join(this.argument for this in inputs)
        accepted = f"an event-time column for all inputs, or one for each: {names}"
        raise ArgumentError(argument, value, accepted)
    return [(argument, name) for name in value]


def check_null_times(on_null_time: object) -> bool:
    """Whether rows without event time are dropped."""
    if on_null_time not in NULL_TIMES:
        raise ArgumentError("on_null_time", on_null_time, "'error' or 'drop'")
    return on_null_time == "drop"
