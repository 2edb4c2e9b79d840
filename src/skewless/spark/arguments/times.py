"""Event times, bounds and delays as users write them."""

from __future__ import annotations

from collections.abc import Sequence

from skewless.arrays.types import FAR_US
from skewless.conditions import UNBOUNDED
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError
from skewless.spark.arguments.columns import Input

NULL_TIMES = ("error", "drop")


def parse_bounds(within: object, accepted: str) -> tuple[int, int]:
    """``"1 minute"``, either way, ``(lower, upper)``, or any times at all. `accepted` is said of
    other tuples."""
    if within is UNBOUNDED:
        return -FAR_US, FAR_US
    if isinstance(within, tuple | list):
        if len(within) != 2:
            raise ArgumentError("within", within, accepted)
        lower, upper = (parse_duration_us(w, "within", allow_negative=True) for w in within)
        if lower > upper:
            raise ArgumentError("within", within, "(lower, upper) with lower <= upper")
        return lower, upper
    bound = parse_duration_us(within, "within")
    return -bound, bound


def parse_lates(
    late: object, inputs: Sequence[Input], accepted: str, *, unbounded: bool = False
) -> list[int]:
    """One delay for all streams among the inputs, or one for each input. A result of another
    operator brings its watermark along: nothing in it is late, so it has no delay of its own."""
    default = FAR_US if unbounded else 0
    if isinstance(late, tuple | list):
        if len(late) != len(inputs):
            raise ArgumentError("late", late, accepted)
        for this, one in zip(inputs, late, strict=True):
            if this.is_result and one is not None:
                raise ArgumentError("late", late, _none_for(this))
        return [default if one is None else parse_duration_us(one, "late") for one in late]
    if late is None:
        return [default] * len(inputs)
    if all(this.is_result for this in inputs):
        raise ArgumentError("late", late, f"left out: {_none_for(inputs[0])}")
    delay = parse_duration_us(late, "late")
    return [0 if this.is_result else delay for this in inputs]


def _none_for(this: Input) -> str:
    return (
        f"None for `{this.argument}`, the result of another operator: it brings its watermark "
        "along, and nothing in it is late"
    )


def time_names(
    inputs: Sequence[Input], time: object, named: dict[str, object], several: str = "time"
) -> list[tuple[str, object]]:
    """Which argument names the event time of each input, and what it says: `time`, one column name
    for all inputs or one each, or the older arguments, one per input (`named`)."""
    given = {name: value for name, value in named.items() if value is not None}
    if time is None:
        return [(name, named.get(name)) for name in list(named)[: len(inputs)]]
    if given:
        raise ArgumentError(several, time, f"left out where {', '.join(given)} says it, too")
    if isinstance(time, str):
        return [(several, time)] * len(inputs)
    if not isinstance(time, tuple | list) or len(time) != len(inputs):
        names = ", ".join(this.argument for this in inputs)
        accepted = f"an event-time column for all inputs, or one for each: {names}"
        raise ArgumentError(several, time, accepted)
    return [(several, name) for name in time]


def resolve_times(inputs: Sequence[Input], names: Sequence[tuple[str, object]]) -> list[int]:
    """The numbers of the event-time columns, all of one type."""
    found = [
        this.time_index(name, argument)
        for this, (argument, name) in zip(inputs, names, strict=True)
    ]
    kinds = {str(this.type_of(i)) for this, i in zip(inputs, found, strict=True)}
    if len(kinds) > 1:
        described = " and ".join(this.described(i) for this, i in zip(inputs, found, strict=True))
        first, last = names[0][0], names[-1][0]
        same = "columns of one type" if first == last else f"of the same type as `{first}`"
        raise ArgumentError(last, described, f"{same}; cast one of them")
    return found


def check_null_times(on_null_time: object) -> bool:
    """Whether rows without event time are dropped."""
    if on_null_time not in NULL_TIMES:
        raise ArgumentError("on_null_time", on_null_time, "'error' or 'drop'")
    return on_null_time == "drop"
